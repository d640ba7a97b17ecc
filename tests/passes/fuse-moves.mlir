// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo.chan.program(kolo-fuse-moves),canonicalize,cse)' | FileCheck %s

// Waits first, then one pass over memory, then signals; what is waited for later stays where it is.
// CHECK-LABEL: kolo.chan.program @twoShot
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.fuse [[OUT:%.*]]{{\[}}[[ME:%.*]]] size
// CHECK-NEXT: kolo.chan.copy
// CHECK: scf.for
// CHECK: kolo.chan.reduce
// CHECK: scf.for
// CHECK: kolo.chan.put
// CHECK-NOT: kolo.chan.reduce
// CHECK: kolo.chan.signal 1
// CHECK: kolo.chan.wait 1
kolo.chan.program @twoShot #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 0 from %peer
    kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 1 to %peer
  }
  kolo.chan.flush
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 1 from %peer
  }
  kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>
}

// A source that is different for every peer is nothing in common.
// CHECK-LABEL: kolo.chan.program @allToAll
// CHECK-NOT: kolo.chan.fuse
kolo.chan.program @allToAll #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.signal 0 to %peer
  kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.wait 0 from %peer
  kolo.chan.put %in[%peer] size [%c1] -> %out[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.signal 1 to %peer
  kolo.chan.flush
  kolo.chan.wait 1 from %peer
}

// In a call in place, the copy would overwrite what the put has still to read.
// CHECK-LABEL: kolo.chan.program @inPlace
// CHECK-NOT: kolo.chan.fuse
kolo.chan.program @inPlace #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 in_place direct {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.signal 0 to %peer
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.wait 0 from %peer
  kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %peer : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.signal 1 to %peer
  kolo.chan.flush
  kolo.chan.wait 1 from %peer
}

// What arrives is combined elsewhere: that is no copy of it.
// CHECK-LABEL: kolo.chan.program @combinedElsewhere
// CHECK-NOT: kolo.chan.fuse
kolo.chan.program @combinedElsewhere #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid(%c1) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%c1) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%c1) blocks 0 : !kolo.buffer<1>
  kolo.chan.copy %in[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
  kolo.chan.get %in[%c0] size [%c1] -> %work[%c0] size [%c1] from %peer : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.reduce %work[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
  kolo.chan.signal 1 to %peer
  kolo.chan.wait 1 from %peer
}

// A slice of several chunks is fused chunk by chunk; what is not ranged stays, and so does what is moved to another place.
// CHECK-LABEL: kolo.chan.program @ranged
// CHECK-DAG: [[ME:%.*]] = kolo.chan.coord 0
// CHECK-DAG: [[N:%.*]] = kolo.dim_size 0
// CHECK-DAG: [[OUT:%.*]] = kolo.buffer output
// CHECK: kolo.chan.wait 0
// CHECK: scf.for [[I:%.*]] = {{%.*}} to [[N]]
// CHECK-NEXT: kolo.chan.fuse [[OUT]]{{\[}}[[ME]], [[I]]] size
// CHECK-NEXT: kolo.chan.copy {{%.*}}{{\[}}[[ME]], [[I]]] size{{.*}} -> [[OUT]]{{\[}}[[ME]], [[I]]] size
// CHECK: scf.for
// CHECK: kolo.chan.reduce {{%.*}}{{\[}}[[ME]], [[I]]] size{{.*}} -> [[OUT]]{{\[}}[[ME]], [[I]]] size
// CHECK: scf.for
// CHECK: kolo.chan.put [[OUT]]{{\[}}[[ME]], [[I]]] size{{.*}} -> [[OUT]]{{\[}}[[ME]], [[I]]] size
// CHECK: kolo.chan.signal 1
kolo.chan.program @ranged #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid(%n, %n) blocks 0 : !kolo.buffer<2>
  %out = kolo.buffer output "out" grid(%n, %n) blocks 0 : !kolo.buffer<2>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  kolo.chan.copy %in[%me, %c0] size [%c1, %n] -> %out[%me, %c0] size [%c1, %n] : !kolo.buffer<2> -> !kolo.buffer<2>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 0 from %peer
    kolo.chan.reduce %in[%me, %c0] size [%c1, %n] -> %out[%me, %c0] size [%c1, %n] from %peer : !kolo.buffer<2> -> !kolo.buffer<2>
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %out[%me, %c0] size [%c1, %n] -> %out[%me, %c0] size [%c1, %n] to %peer : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.chan.signal 1 to %peer
  }
  kolo.chan.flush
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 1 from %peer
  }
  kolo.chan.divide %out[%c0, %c0] size [%n, %n] : !kolo.buffer<2>
}

// With codecs: what arrived is decoded and summed, the sum encoded once, and its bytes sent to all. The copy that begins the
// sum waits until then.
// CHECK-LABEL: kolo.chan.program @coded
// CHECK-NOT: kolo.chan.copy
// CHECK-DAG: [[SUM:%.*]] = kolo.buffer scratch "sum"
// CHECK-DAG: [[PACKED:%.*]] = kolo.buffer scratch "packed"
// CHECK-DAG: [[SLOTS:%.*]] = kolo.buffer scratch "slots"
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.fuse [[SUM]]{{\[}}
// CHECK-NEXT: kolo.chan.copy {{.*}} -> [[SUM]]
// CHECK: scf.for
// CHECK: kolo.chan.reduce [[SLOTS]]{{.*}} -> [[SUM]]
// CHECK: kolo.chan.copy [[SUM]]{{.*}} -> [[PACKED]]
// CHECK: scf.for
// CHECK: kolo.chan.put [[PACKED]]{{.*}} -> [[PACKED]]
// CHECK-NOT: kolo.chan.copy
// CHECK: kolo.chan.signal 1
// CHECK: kolo.chan.wait 1
// CHECK-NOT: kolo.chan.fuse
// CHECK: kolo.chan.copy [[PACKED]]
kolo.chan.program @coded #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  kolo.chan.enter
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid(%n) blocks 0 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  kolo.chan.copy %in[%me] size [%c1] -> %sum[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %above = arith.addi %me, %k : index
    %peer = arith.remui %above, %n : index
    kolo.chan.put %in[%peer] size [%c1] -> %slots[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %peer
  }
  scf.for %k = %c1 to %n step %c1 {
    %above = arith.addi %me, %k : index
    %peer = arith.remui %above, %n : index
    kolo.chan.wait 0 from %peer
    kolo.chan.reduce %slots[%peer] size [%c1] -> %sum[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  kolo.chan.copy %sum[%me] size [%c1] -> %packed[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %above = arith.addi %me, %k : index
    %peer = arith.remui %above, %n : index
    kolo.chan.put %packed[%me] size [%c1] -> %packed[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 1 to %peer
  }
  scf.for %k = %c1 to %n step %c1 {
    %above = arith.addi %me, %k : index
    %peer = arith.remui %above, %n : index
    kolo.chan.wait 1 from %peer
  }
  kolo.chan.copy %packed[%c0] size [%n] -> %out[%c0] size [%n] : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>
}

// A ring that encodes a sum for every hop: what was added in one iteration is sent in the next, so the loop is rotated.
// What arrives last becomes the output in the same pass.
// CHECK-LABEL: kolo.chan.program @codedRing
// CHECK-DAG: [[SUM:%.*]] = kolo.buffer scratch "sum"
// CHECK-DAG: [[SLOTS:%.*]] = kolo.buffer scratch "slots"
// CHECK: scf.for
// CHECK: kolo.chan.put [[SUM]]{{.*}} -> [[SLOTS]]
// CHECK: kolo.chan.signal 0
// CHECK: scf.for
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.fuse [[SUM]]
// CHECK-NEXT: kolo.chan.reduce [[SLOTS]]{{.*}} -> [[SUM]]
// CHECK: kolo.chan.put [[SUM]]{{.*}} -> [[SLOTS]]
// CHECK: kolo.chan.signal 0
// CHECK: scf.for
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.fuse [[SUM]]
// CHECK: kolo.chan.reduce [[SLOTS]]{{.*}} -> [[SUM]]
// CHECK: kolo.chan.copy [[SUM]]{{.*}} -> {{.*}}[]
kolo.chan.program @codedRing #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[1], [2], [3]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  kolo.chan.enter
  %n = kolo.dim_size 0
  %steps = arith.subi %n, %c1 : index
  %me = kolo.chan.coord 0
  %above = arith.addi %me, %c1 : index
  %next = arith.remui %above, %n : index
  %below = arith.addi %me, %steps : index
  %previous = arith.remui %below, %n : index
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid(%n) blocks 1 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" as #kolo.codec<bf16> grid(%steps) blocks 1 cut %c1 : !kolo.buffer<1>
  kolo.chan.copy %in[%c0] size [%n] -> %sum[%c0] size [%n] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %steps step %c1 {
    %one = arith.addi %s, %c1 : index
    %sent = arith.subi %me, %one : index
    kolo.chan.put %sum[%sent] size [%c1] -> %slots[%s] size [%c1] to %next : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %previous
    %two = arith.addi %s, %c2 : index
    %added = arith.subi %me, %two : index
    kolo.chan.reduce %slots[%s] size [%c1] -> %sum[%added] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  kolo.chan.copy %sum[%me] size [%c1] -> %out[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
  kolo.chan.divide %out[] size [] : !kolo.buffer<0>
}

// The same, then around the ring: what arrives last is added, encoded and sent on in one pass.
// CHECK-LABEL: kolo.chan.program @codedRingAllReduce
// CHECK-DAG: [[ME:%.*]] = kolo.chan.coord 0
// CHECK-DAG: [[SUM:%.*]] = kolo.buffer scratch "sum"
// CHECK-DAG: [[PACKED:%.*]] = kolo.buffer scratch "packed"
// CHECK-DAG: [[SLOTS:%.*]] = kolo.buffer scratch "slots"
// CHECK: kolo.chan.put [[SUM]]{{.*}} -> [[SLOTS]]
// CHECK: kolo.chan.fuse [[SUM]]
// CHECK-NEXT: kolo.chan.reduce [[SLOTS]]{{.*}} -> [[SUM]]
// CHECK: kolo.chan.put [[SUM]]{{.*}} -> [[SLOTS]]
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.fuse [[SUM]]{{\[}}[[ME]]]
// CHECK-NEXT: scf.for
// CHECK-NEXT: kolo.chan.reduce [[SLOTS]]{{.*}} -> [[SUM]]{{\[}}[[ME]]]
// CHECK-NEXT: }
// CHECK-NEXT: kolo.chan.copy [[SUM]]{{\[}}[[ME]]]{{.*}} -> [[PACKED]]{{\[}}[[ME]]]
// CHECK-NEXT: scf.for
// CHECK-NEXT: kolo.chan.put [[PACKED]]{{\[}}[[ME]]]{{.*}} -> [[PACKED]]{{\[}}[[ME]]]
// CHECK: kolo.chan.signal 1
// CHECK: scf.for
// CHECK: kolo.chan.wait 1
// CHECK: kolo.chan.put [[PACKED]]
// CHECK: kolo.chan.signal 1
// CHECK: kolo.chan.wait 1
// CHECK: kolo.chan.copy [[PACKED]]
kolo.chan.program @codedRingAllReduce #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[1], [2], [3]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  kolo.chan.enter
  %n = kolo.dim_size 0
  %steps = arith.subi %n, %c1 : index
  %me = kolo.chan.coord 0
  %above = arith.addi %me, %c1 : index
  %next = arith.remui %above, %n : index
  %below = arith.addi %me, %steps : index
  %previous = arith.remui %below, %n : index
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid(%n) blocks 0 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" as #kolo.codec<i8 per 256 scale f32 fit> grid(%steps) blocks 1 cut %n : !kolo.buffer<1>
  kolo.chan.copy %in[%c0] size [%n] -> %sum[%c0] size [%n] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %steps step %c1 {
    %one = arith.addi %s, %c1 : index
    %sent = arith.subi %me, %one : index
    kolo.chan.put %sum[%sent] size [%c1] -> %slots[%s] size [%c1] to %next : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %previous
    %two = arith.addi %s, %c2 : index
    %added = arith.subi %me, %two : index
    kolo.chan.reduce %slots[%s] size [%c1] -> %sum[%added] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  kolo.chan.copy %sum[%me] size [%c1] -> %packed[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %steps step %c1 {
    %sent = arith.subi %me, %s : index
    kolo.chan.put %packed[%sent] size [%c1] -> %packed[%sent] size [%c1] to %next : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 1 to %next
    kolo.chan.wait 1 from %previous
  }
  kolo.chan.copy %packed[%c0] size [%n] -> %out[%c0] size [%n] : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>
}
