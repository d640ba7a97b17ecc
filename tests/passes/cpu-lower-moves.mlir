// RUN: kolo-opt %s --kolo-cpu-lower-moves --canonicalize --cse | FileCheck %s
// RUN: kolo-opt %s --kolo-cpu-lower-moves --canonicalize --cse | FileCheck %s --check-prefix=LINES
// RUN: kolo-opt %s --kolo-cpu-lower-moves --canonicalize --cse | FileCheck %s --check-prefix=CODEC

// A program becomes a function of an invocation, and one that sizes its scratch memory from a shape. A put becomes loops
// over contiguous ranges of bytes with one call in the middle, for ranges that are not empty; a wait is a call whose result
// is not looked at yet; a flush is a call of the runtime.

// CHECK: llvm.mlir.global internal constant @table.moves.0(dense<[1, 0]> : tensor<2xi64>)
// CHECK-NOT: kolo.chan
// CHECK-LABEL: llvm.func internal @scratchBytes.moves(%{{.*}}: !llvm.ptr) -> i64
// CHECK: llvm.return
// CHECK-LABEL: llvm.func internal @run.moves(%{{.*}}: !llvm.ptr) -> i32
// CHECK-NOT: kolo.chan
// CHECK: llvm.mlir.addressof @table.moves.0
// CHECK: scf.if
// CHECK: llvm.call @kolo.copy(
// CHECK: scf.if
// CHECK: llvm.call @kolo.put([[INVOCATION:%[a-z0-9]+]], {{.*}}) : (!llvm.ptr, i64, i64, i64, !llvm.ptr, i64, i64) -> ()
// CHECK: llvm.call {{%.*}}({{.*}}) : !llvm.ptr, (!llvm.ptr, i64, i32) -> ()
// CHECK: llvm.call {{%.*}}([[INVOCATION]]) : !llvm.ptr, (!llvm.ptr) -> ()
// CHECK: [[STATUS:%[0-9]+]] = llvm.call @kolo.wait([[INVOCATION]], {{.*}}) : (!llvm.ptr, i64, i32, i32) -> i32
// CHECK-NOT: cmpi ne, [[STATUS]]
// CHECK: llvm.call @kolo.reduce([[INVOCATION]],
// CHECK: llvm.call @kolo.reduceFrom([[INVOCATION]],
// CHECK: llvm.call @kolo.get([[INVOCATION]],
// CHECK: llvm.call @kolo.divide([[INVOCATION]],
// CHECK: llvm.return {{%.*}} : i32

// Chunks that lie in slots do not follow each other: one call per chunk, in a loop, even where there are no parts. The other
// buffer, here the source of two puts and the destination of a reduction, says how long they are.
// CHECK-LABEL: llvm.func internal @scratchBytes.slots(%{{.*}}: !llvm.ptr) -> i64
// CHECK: arith.divui
// CHECK: llvm.return
// CHECK-LABEL: llvm.func internal @run.slots(%{{.*}}: !llvm.ptr) -> i32
// CHECK: scf.for
// CHECK: llvm.call @kolo.put(
// CHECK: scf.while
// CHECK: scf.for
// CHECK: llvm.call @kolo.put(
// CHECK: scf.for
// CHECK: llvm.call @kolo.reduce(
kolo.chan.program @moves #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %peer = kolo.lookup %me in [1, 0]
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n, %n) blocks 1 : !kolo.buffer<2>
  kolo.chan.copy %in[%c0] size [%n] -> %out[%c0] size [%n] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.put %in[%me] size [%n] -> %work[%me, %c0] size [%c1, %n] to %peer part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<2>
  kolo.chan.signal 0 to %peer
  kolo.chan.flush
  kolo.chan.wait 0 from %peer
  kolo.chan.reduce %work[%peer, %c0] size [%c1, %n] -> %out[%c0] size [%n] part %lane of %lanes
    : !kolo.buffer<2> -> !kolo.buffer<1>
  kolo.chan.reduce %in[%c0] size [%n] -> %out[%c0] size [%n] from %peer part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.get %in[%c0] size [%n] -> %out[%c0] size [%n] from %peer part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.divide %out[%c0] size [%n] part %lane of %lanes : !kolo.buffer<1>
}

kolo.chan.program @slots #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c0 = arith.constant 0 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  kolo.chan.put %in[%c0] size [%n] -> %slots[%c0] size [%n] to %me : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.put %in[%me] size [%n] -> %slots[%c0] size [%n] to %me part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.reduce %slots[%c0] size [%n] -> %out[%c0] size [%n] : !kolo.buffer<1> -> !kolo.buffer<1>
}

// What is fused becomes two lists of addresses and one call, after the bytes to and from peers are counted; where a source's
// address is missing, or the lists are too long, the moves come one by one after all. Puts without an address come after the
// call: they send the result.
// CHECK-LABEL: llvm.func internal @run.fused(%{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.icmp "eq"
// CHECK: llvm.icmp "eq"
// CHECK: scf.if
// CHECK: llvm.call @kolo.copy(
// CHECK: llvm.call @kolo.reduceFrom(
// CHECK: llvm.call @kolo.put(
// CHECK: } else {
// CHECK: llvm.call @kolo.count(%{{.*}}, %c0_i64
// CHECK: llvm.call @kolo.count(%{{.*}}, %c1_i64
// CHECK-NOT: llvm.call @kolo
// CHECK: llvm.call {{%.*}}({{.*}}) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr, i64, i64, i64) -> ()
// CHECK-NOT: llvm.call @kolo
// CHECK: scf.if
// CHECK: scf.if
// CHECK: llvm.call @kolo.put(
// CHECK-NOT: llvm.call
// CHECK-LABEL: llvm.func internal @run.spread(%{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @kolo.put(
// CHECK: } else {
// CHECK: llvm.call @kolo.multicast(
// CHECK: llvm.call @kolo.put(
kolo.chan.program @fused #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

kolo.chan.program @spread #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.fuse %in[] size [] part %lane of %lanes : !kolo.buffer<0> {
    kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
    scf.for %peer = %c1 to %n step %c1 {
      kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %peer part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
    }
  }
}

// A sum that is divided goes to a function of its own if the call wants an average: it has one argument more.
// CHECK-LABEL: llvm.func internal @run.average(%{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @kolo.reduceFrom(
// CHECK: llvm.call @kolo.divide(
// CHECK: llvm.call @kolo.put(
// CHECK: } else {
// CHECK: [[DIVIDES:%.*]] = llvm.icmp "ne"
// CHECK: scf.if [[DIVIDES]] {
// CHECK: llvm.call {{%.*}}({{.*}}) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr, i64, i64, i64, i64) -> ()
// CHECK: } else {
// CHECK: llvm.call {{%.*}}({{.*}}) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr, i64, i64, i64) -> ()
kolo.chan.program @average #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.divide %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1>
    kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// With codecs, an address in a list has its codec beside it. Puts of encoded bytes without an address come after the call.
// CHECK-LABEL: llvm.func internal @run.codedSum(%{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @kolo.convert(
// CHECK: llvm.call @kolo.convert(
// CHECK: llvm.call @kolo.put(
// CHECK: } else {
// CHECK: llvm.call @kolo.convertFused(
// CHECK-NOT: llvm.call
// CHECK: scf.if
// CHECK: llvm.call @kolo.put(
// CHECK-NOT: llvm.call
// CHECK: llvm.return
kolo.chan.program @codedSum #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %peer = arith.xori %me, %c1 : index
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid(%n) blocks 0 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  kolo.chan.fuse %sum[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.reduce %slots[%peer] size [%c1] -> %sum[%me] size [%c1] part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.copy %sum[%me] size [%c1] -> %packed[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.put %packed[%me] size [%c1] -> %packed[%me] size [%c1] to %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// A sum that a peer reads is stored, although on this rank only the fuse reads it: it overwrites, and it keeps.
// CHECK-LABEL: llvm.func internal @run.codedRing(%{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @kolo.convertFused({{.*}}, [[ONE:%[a-z0-9_]+]], [[ONE]])
kolo.chan.program @codedRing #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid(%n) blocks 0 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %sum[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %sum[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.reduce %sum[%me] size [%c1] -> %sum[%me] size [%c1] from %peer part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.copy %sum[%me] size [%c1] -> %packed[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// What is published is written by a function of its own, before the ranks meet.
// CHECK-LABEL: llvm.func internal @publishedBytes.publishing(%{{.*}}: !llvm.ptr) -> i64
// CHECK-LABEL: llvm.func internal @publish.publishing(%{{.*}}: !llvm.ptr)
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %{{.*}}[256]
// CHECK: %[[BITS:.*]] = llvm.load %[[FIELD]]
// CHECK: %[[AROUND_CACHES:.*]] = arith.andi %[[BITS]], %c1_i64
// CHECK: llvm.call @kolo.copy(%{{.*}}, %{{.*}}, %{{.*}}, %[[AROUND_CACHES]])
// CHECK-NOT: llvm.call @kolo
// CHECK: llvm.return
// CHECK-LABEL: llvm.func internal @run.publishing(%{{.*}}: !llvm.ptr) -> i32
// CHECK-NOT: llvm.call @kolo.copy(
// CHECK: llvm.call @kolo.get(
// CHECK-NOT: llvm.call
// CHECK: llvm.return
kolo.chan.program @publishing #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %me = kolo.chan.coord 0
  %c1 = arith.constant 1 : index
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %published[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.enter
  kolo.chan.get %published[] size [] -> %out[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
}

// So is what the others combine: the runtime knows which stores are the faster ones.
// CHECK-LABEL: llvm.func internal @publish.combining(%{{.*}}: !llvm.ptr)
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %{{.*}}[256]
// CHECK: %[[BITS:.*]] = llvm.load %[[FIELD]]
// CHECK: %[[BY_RUNTIME:.*]] = arith.andi %[[BITS]], %c1_i64
// CHECK: llvm.call @kolo.copy(%{{.*}}, %{{.*}}, %{{.*}}, %[[BY_RUNTIME]])
kolo.chan.program @combining #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %me = kolo.chan.coord 0
  %c1 = arith.constant 1 : index
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %published[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.enter
  kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.reduce %published[] size [] -> %out[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
}

// What is waited for is the word after a line's data; what is combined comes in whole lines.
// LINES-LABEL: llvm.func internal @kolo.receiveLines(
// LINES: scf.if
// LINES: %[[WORD:.*]] = llvm.getelementptr %arg2[120]
// LINES: llvm.call @kolo.awaitPacket(%arg0, %[[WORD]], %arg4)
// LINES: scf.while
// LINES: llvm.call @kolo.readLines(
// LINES: %[[LINE:.*]] = llvm.getelementptr %arg2[%{{.*}}]
// LINES: %[[WORD:.*]] = llvm.getelementptr %[[LINE]][120]
// LINES: llvm.call @kolo.awaitPacket(%arg0, %[[WORD]], %arg4)
// LINES-LABEL: llvm.func internal @kolo.receiveReduceLines(
// LINES: %[[REST:.*]] = arith.remui %[[TILE:.*]], %c120_i64
// LINES: arith.subi %[[TILE]], %[[REST]]

// Two lines for every 15 units of 16 bytes of data, rounded down, and one for every part of every chunk.
// LINES-LABEL: llvm.func internal @packetBytes.lines(%{{.*}}: !llvm.ptr) -> i64
// LINES: %[[TWICE:.*]] = arith.muli %{{.*}}, %c2
// LINES: %[[FILLED:.*]] = arith.divui %[[TWICE]], %c15
// LINES: %[[LINES:.*]] = arith.addi %[[FILLED]], %{{.*}}
// LINES: arith.muli %[[LINES]], %c128
// LINES-LABEL: llvm.func internal @run.lines(%{{.*}}: !llvm.ptr) -> i32
// LINES: llvm.call @kolo.sendLines(
// LINES: llvm.call @kolo.receiveReduceLines(
// LINES: llvm.call @kolo.receiveLines(
kolo.chan.program @lines #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %me = kolo.chan.coord 0
  %n = kolo.dim_size 0
  %c1 = arith.constant 1 : index
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid(%n) blocks 1 ll128 : !kolo.buffer<1>
  kolo.chan.put %in[] size [] -> %packets[%me] size [%c1] to %peer : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.reduce %packets[%peer] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
  kolo.chan.copy %packets[%peer] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
}

// Between unlike codecs a move is a conversion by their descriptions, to and
// from, which the last argument may combine; between equal ones the encoded bytes move. Of 1024
// elements, i8 per 256 has 1024 bytes of codes and 16 of scales.
// CODEC-LABEL: llvm.func internal @scratchBytes.coded(%{{.*}}: !llvm.ptr) -> i64
// CODEC: arith.divui %{{.*}}, %c1024
// CODEC: arith.muli %{{.*}}, %c1040
// CODEC-LABEL: llvm.func internal @run.coded(%{{.*}}: !llvm.ptr) -> i32
// CODEC: [[PLAIN:%.*]] = llvm.mlir.zero
// CODEC: [[CODED:%.*]] = llvm.mlir.addressof @"kolo.codec.i8 per 256 scale f32 fit"
// CODEC: llvm.call @kolo.convert({{.*}}, [[CODED]], [[PLAIN]], %c0_i64)
// CODEC: llvm.call @kolo.put(
// CODEC: llvm.call @kolo.convert({{.*}}, [[PLAIN]], [[CODED]], %c1_i64)
// CODEC: llvm.call @kolo.count(
// CODEC: llvm.call @kolo.convertGet({{.*}}, [[PLAIN]], [[CODED]], %c0_i64)
kolo.chan.program @coded #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %me = kolo.chan.coord 0
  %n = kolo.dim_size 0
  %c1 = arith.constant 1 : index
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.copy %in[] size [] -> %packed[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.put %packed[%me] size [%c1] -> %packed[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.reduce %packed[%peer] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
  kolo.chan.get %packed[%peer] size [%c1] -> %out[] size [] from %peer : !kolo.buffer<1> -> !kolo.buffer<0>
}

// Scratch memory has a bit of its own.
// CHECK-LABEL: llvm.func internal @run.scratched(%{{.*}}: !llvm.ptr) -> i32
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %{{.*}}[256]
// CHECK: %[[BITS:.*]] = llvm.load %[[FIELD]]
// CHECK: %[[TO_SCRATCH:.*]] = arith.andi %[[BITS]], %c2_i64
// CHECK: llvm.call @kolo.put({{.*}}, %[[TO_SCRATCH]])
kolo.chan.program @scratched #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %me = kolo.chan.coord 0
  %c1 = arith.constant 1 : index
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %stage = kolo.buffer scratch "stage" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %stage[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
}
