// RUN: kolo-opt %s --kolo-gpu-lower-programs="types=f32,bf16 reductions=sum,average" --canonicalize --cse | FileCheck %s \
// RUN:   --implicit-check-not=kolo.chan --implicit-check-not=noalias --implicit-check-not=readonly --implicit-check-not=invariant
// RUN: kolo-opt %s --kolo-gpu-lower-programs="types=f16 reductions=max native-accumulation" | FileCheck %s --check-prefix=NATIVE \
// RUN:   --implicit-check-not=arith.extf
// RUN: not kolo-opt %s --kolo-gpu-lower-programs=types=f31 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not kolo-opt %s --kolo-gpu-lower-programs=list-entries=1 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: kolo-opt %s --kolo-gpu-lower-programs="types=f32 reductions=sum" --canonicalize --cse | FileCheck %s --check-prefix=LINES

// UNKNOWN: 'f31' is no type or reduction
// SHORT: a list has at least 2 and at most 128 entries, not 1
// NATIVE: arith.cmpf ogt, {{.*}} : vector<8xf16>

// Primitives are for the targets to define.
// CHECK: llvm.mlir.global internal constant @table.moves.0(dense<[1, 0]> : tensor<2xi64>) {addr_space = 1
// CHECK: llvm.func @kolo.barrier() attributes {convergent

// A block copies 16 bytes per thread, eight loads before the first store.
// CHECK-LABEL: llvm.func internal @kolo.copy(
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// It combines four vectors per thread, eight loads before the first use; bf16 as f32. What there is no code for is a trap.
// CHECK-LABEL: llvm.func internal @kolo.reduce(
// CHECK: scf.index_switch
// CHECK: scf.for
// CHECK-NOT: {{arith.addf|llvm.store}}
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: arith.addf {{.*}} : vector<4xf32>
// CHECK: arith.extf {{.*}} : vector<8xbf16> to vector<8xf32>
// CHECK: default
// CHECK-NEXT: llvm.intr.trap

// One loop over the destinations stores what was loaded once. Its callers have the barriers.
// CHECK-LABEL: llvm.func internal @kolo.multicast(
// CHECK-NOT: llvm.call @kolo.barrier()
// CHECK: llvm.call @kolo.list() : () -> !llvm.ptr<3>
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> !llvm.ptr<1>
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NEXT: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> !llvm.ptr<1>
// CHECK-COUNT-8: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.call @kolo.barrier()

// Two sources at a time, then the last if it is left over; sums stay in registers until all are in them.
// CHECK-LABEL: llvm.func internal @kolo.combine(
// CHECK: scf.index_switch
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: scf.for {{.*}} step %c2 iter_args
// CHECK-NOT: {{arith.addf|llvm.store}}
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-8: arith.addf {{.*}} : vector<4xf32>
// CHECK: scf.yield
// CHECK: scf.for {{.*}} step %c1 iter_args
// CHECK-COUNT-4: arith.addf {{.*}} : vector<4xf32>
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.call @kolo.barrier()

// One thread signals, after all have published and come to a barrier.
// CHECK-LABEL: llvm.func internal @kolo.signal.one(
// CHECK-NOT: llvm.call @kolo.barrier
// CHECK: llvm.call @kolo.raise(
// CHECK-LABEL: llvm.func internal @kolo.signal(
// CHECK: llvm.call @kolo.publish()
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK: scf.if
// CHECK: llvm.call @kolo.signal.one(

// A thread polls, with pauses, an end to its patience, and an eye on the abort flag.
// CHECK-LABEL: llvm.func internal @kolo.wait.one(
// CHECK: llvm.call @kolo.peek([[CELL:%[0-9]+]])
// CHECK: scf.while
// CHECK: llvm.call @kolo.pause(
// CHECK: scf.if
// CHECK: llvm.call @kolo.clock()
// CHECK: arith.cmpi uge
// CHECK: llvm.call @kolo.peek(
// CHECK: llvm.call @kolo.peek([[CELL]])
// CHECK: llvm.call @kolo.acquire()

// Giving up is noted for the host.
// CHECK-LABEL: llvm.func internal @kolo.wait.note(
// CHECK: llvm.call @kolo.raise(

// Where one thread does it for the block, all learn how it ended.
// CHECK-LABEL: llvm.func internal @kolo.wait.blocked(
// CHECK: scf.if
// CHECK: llvm.call @kolo.wait.one(
// CHECK: llvm.call @kolo.wait.note(
// CHECK: llvm.call @kolo.share(

// Where many threads do it, those that gave up write the record in turn.
// CHECK-LABEL: llvm.func internal @kolo.wait.end.blocked(
// CHECK: llvm.call @kolo.any(
// CHECK: scf.for
// CHECK: llvm.call @kolo.barrier()
// CHECK: scf.if
// CHECK: llvm.call @kolo.wait.note(

// Every move is a function of its own: loops over contiguous ranges with a call in the middle. What reads what threads wrote
// waits for them: by a barrier, unless a signal or a wait had one.
// CHECK-LABEL: llvm.func internal @run.moves(%arg0: !llvm.ptr<1>) -> i32
// CHECK: llvm.mlir.addressof @table.moves.0 : !llvm.ptr<1>
// CHECK: llvm.call @move.moves.0(
// CHECK: llvm.call @kolo.barrier()
// CHECK: llvm.call @move.moves.1(
// CHECK-NOT: llvm.call @kolo.barrier
// CHECK: llvm.call @kolo.signal(%arg0,
// CHECK-NOT: llvm.call @kolo.barrier
// CHECK: llvm.call @kolo.wait(%arg0,
// CHECK-NOT: llvm.call @kolo.barrier
// CHECK: llvm.call @move.moves.2(
// CHECK: llvm.call @kolo.barrier()
// CHECK: llvm.call @move.moves.3(
// CHECK: llvm.call @kolo.barrier()
// CHECK: llvm.call @move.moves.4(
// CHECK: llvm.call @kolo.barrier()
// CHECK: scf.if
// CHECK: llvm.call @move.moves.5(
// CHECK: llvm.return

// CHECK-LABEL: llvm.func internal @move.moves.0(
// CHECK: scf.for
// CHECK: scf.if
// CHECK: llvm.call @kolo.copy(
// CHECK-LABEL: llvm.func internal @move.moves.1(
// CHECK: llvm.call @kolo.copy(
// CHECK-LABEL: llvm.func internal @move.moves.2(
// CHECK: llvm.call @kolo.reduce(
// CHECK-LABEL: llvm.func internal @move.moves.3(
// CHECK: llvm.call @kolo.reduce(
// CHECK-LABEL: llvm.func internal @move.moves.4(
// CHECK: llvm.call @kolo.copy(
// CHECK-LABEL: llvm.func internal @move.moves.5(
// CHECK: llvm.call @kolo.divide(

// The kernel picks its invocation.
// CHECK-LABEL: llvm.func @moves(%arg0: !llvm.ptr<1>)
// CHECK: llvm.call @kolo.entry()
// CHECK: llvm.call @run.moves(
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

// A fuse is one function: it gathers addresses, in the memory of the block, and works off lists that are full.
// CHECK-LABEL: llvm.func internal @run.fuses(%arg0: !llvm.ptr<1>) -> i32
// CHECK: llvm.call @move.fuses.0(
// CHECK-NOT: llvm.call @move.fuses.1(
// CHECK: llvm.call @kolo.signal(

// CHECK-LABEL: llvm.func internal @move.fuses.0(
// CHECK: scf.if
// CHECK: scf.for {{.*}} iter_args
// CHECK: [[FULL:%.*]] = arith.cmpi eq, {{.*}}, %c128
// CHECK: scf.if [[FULL]]
// CHECK: llvm.call @kolo.combine(
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : !llvm.ptr<1>, !llvm.ptr<3>
// CHECK: scf.yield
// CHECK: scf.for {{.*}} iter_args
// CHECK: scf.if
// CHECK: llvm.call @kolo.multicast(
// CHECK: llvm.call @kolo.combine(
// CHECK: scf.yield
// CHECK: llvm.call @kolo.multicast(
// CHECK: llvm.call @kolo.combine(
// CHECK: llvm.return
kolo.chan.program @fuses #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    scf.for %k = %c1 to %n step %c1 {
      %up = arith.addi %me, %k : index
      %peer = arith.remui %up, %n : index
      kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer part %lane of %lanes
        : !kolo.buffer<1> -> !kolo.buffer<1>
    }
    scf.for %k = %c1 to %n step %c1 {
      %up = arith.addi %me, %k : index
      %peer = arith.remui %up, %n : index
      kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer part %lane of %lanes
        : !kolo.buffer<1> -> !kolo.buffer<1>
    }
  }
  kolo.chan.signal 0 to %c0
}

// If the call wants an average, what is in the list is worked off before the division, and divided in the common chunk.
// CHECK-LABEL: llvm.func internal @move.averages.0(
// CHECK: scf.for {{.*}} iter_args
// CHECK: [[AVERAGE:%.*]] = arith.cmpi eq, {{.*}}, %c4_i64
// CHECK: scf.if [[AVERAGE]]
// CHECK: llvm.call @kolo.combine(
// CHECK: llvm.call @kolo.divide(
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK: scf.for {{.*}} iter_args
kolo.chan.program @averages #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    scf.for %k = %c1 to %n step %c1 {
      %up = arith.addi %me, %k : index
      %peer = arith.remui %up, %n : index
      kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer part %lane of %lanes
        : !kolo.buffer<1> -> !kolo.buffer<1>
    }
    kolo.chan.divide %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1>
    scf.for %k = %c1 to %n step %c1 {
      %up = arith.addi %me, %k : index
      %peer = arith.remui %up, %n : index
      kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer part %lane of %lanes
        : !kolo.buffer<1> -> !kolo.buffer<1>
    }
  }
  kolo.chan.signal 0 to %c0
}

// A group of eight threads stores a line, the number of the call in the last one's upper half; what is empty, or not aligned, comes
// a line at a time.
// LINES-LABEL: llvm.func internal @kolo.sendLines(
// LINES: %[[WORD:.*]] = arith.shli %arg3, %c32_i64
// LINES: scf.for
// LINES-COUNT-4: llvm.call @kolo.storeLine(
// LINES: scf.for
// LINES: llvm.call @kolo.storeLine(
// LINES-NOT: llvm.call @kolo.storeLine(
// LINES: scf.for
// LINES: llvm.call @kolo.storeLine(
// LINES-NOT: llvm.call @kolo.storeLine(
// LINES: llvm.return

// It loads four together; all of it learn from the last one whether they are there, and whether to give up.
// LINES-LABEL: llvm.func internal @kolo.receiveLines.blocked(
// LINES: scf.while
// LINES-COUNT-4: llvm.call @kolo.loadLine(
// LINES-COUNT-4: llvm.call @kolo.fromLast(
// LINES: llvm.call @kolo.pause(
// LINES: %[[WHY:.*]]:2 = scf.if
// LINES: llvm.call @kolo.fromLast(%[[WHY]]#0)
// LINES: scf.while
// LINES: scf.while
// LINES: llvm.call @kolo.any(

// LINES-LABEL: llvm.func internal @kolo.receiveReduceLines.blocked(
// LINES: vector.bitcast %{{.*}} : vector<1xi64> to vector<2xf32>
// LINES: arith.addf %{{.*}} : vector<2xf32>

// LINES-LABEL: llvm.func internal @run.lines(%arg0: !llvm.ptr<1>) -> i32
// LINES: llvm.call @move.lines.0(
// LINES: llvm.call @receive.lines.1(
// LINES-LABEL: llvm.func internal @move.lines.0(
// LINES: llvm.call @kolo.sendLines(
// LINES-LABEL: llvm.func internal @receive.lines.1(
// LINES: llvm.call @kolo.receiveReduceLines(
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
}

// A loop that only signals, or only waits, does so by all threads: each for peers of its own, between barriers.
// CHECK-LABEL: llvm.func internal @run.together(
// CHECK: llvm.call @kolo.publish()
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK: scf.for
// CHECK-NOT: llvm.call @kolo.barrier()
// CHECK: llvm.call @kolo.signal.one(
// CHECK: {by_thread}
// CHECK: scf.for {{.*}} iter_args
// CHECK: llvm.call @kolo.wait.one(
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.wait.end(
// CHECK: llvm.return
kolo.chan.program @together #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 0 from %peer
  }
}

// So does a loop that only sends packets, or only receives them: threads list what goes where, then all peers are served
// at once. A barrier stands between the two. The next loop has another list, so that it waits for nothing else.
// CHECK-LABEL: llvm.func internal @run.packets(
// CHECK: llvm.call @move.packets.0(
// CHECK-NOT: llvm.call @kolo.barrier()
// CHECK: llvm.call @receive.packets.1(
// CHECK: scf.if
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK-LABEL: llvm.func internal @move.packets.0(
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-3: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.any(
// CHECK: llvm.call @kolo.sendAll(
// CHECK: scf.if
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK-LABEL: llvm.func internal @receive.packets.1(
// CHECK: llvm.getelementptr {{.*}}[1024] : (!llvm.ptr<3>)
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.any(
// CHECK: llvm.call @kolo.receiveReduceAll(
kolo.chan.program @packets #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer packets "slots" grid(%n) blocks 1 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %in[] size [] -> %slots[%me] size [%c1] to %peer part %lane of %lanes
      : !kolo.buffer<0> -> !kolo.buffer<1>
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.reduce %slots[%peer] size [%c1] -> %out[] size [] part %lane of %lanes
      : !kolo.buffer<1> -> !kolo.buffer<0>
  }
}

// What is sent right behind a loop that receives is listed with it, before the same barrier.
// CHECK-LABEL: llvm.func internal @run.forwarded(
// CHECK: llvm.call @receive.forwarded.0(
// CHECK-NOT: llvm.call @move.forwarded
// CHECK-LABEL: llvm.func internal @receive.forwarded.0(
// CHECK: {by_thread}
// CHECK: llvm.getelementptr {{.*}}[1024] : (!llvm.ptr<3>)
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.any(
// CHECK-NOT: llvm.call @kolo.any(
// CHECK: llvm.call @kolo.receiveReduceAll(
// CHECK: llvm.call @kolo.sendAll(
// CHECK: scf.if
// CHECK-NEXT: llvm.call @kolo.barrier()
kolo.chan.program @forwarded #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer packets "slots" grid(%n) blocks 1 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.reduce %slots[%peer] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %out[] size [] -> %slots[%me] size [%c1] to %peer : !kolo.buffer<0> -> !kolo.buffer<1>
  }
}

// Lines likewise.
// CHECK-LABEL: llvm.func internal @move.manyLines.0(
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.any(
// CHECK: llvm.call @kolo.sendAllLines(
// CHECK-LABEL: llvm.func internal @receive.manyLines.1(
// CHECK: {by_thread}
// CHECK: llvm.call @kolo.any(
// CHECK: llvm.call @kolo.receiveReduceAllLines(
kolo.chan.program @manyLines #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer packets "slots" grid(%n) blocks 1 ll128 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %in[] size [] -> %slots[%me] size [%c1] to %peer : !kolo.buffer<0> -> !kolo.buffer<1>
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.reduce %slots[%peer] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
  }
}
