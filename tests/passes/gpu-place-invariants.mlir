// RUN: kolo-opt %s --kolo-gpu-lower-programs --canonicalize --cse --kolo-gpu-place-invariants --cse | FileCheck %s
// RUN: kolo-opt %s --kolo-gpu-lower-programs --canonicalize --cse --kolo-gpu-place-invariants --cse \
// RUN:   --kolo-gpu-lower-divisions | FileCheck %s --check-prefix=DIVISIONS

// Of what the call alone decides, groups of 64 threads compute a value each, and keep it in the block's memory. Where
// the program has no barrier before it needs them, one follows.
// CHECK-LABEL: llvm.func internal @run.keeps(
// CHECK: llvm.call @kolo.thread()
// CHECK: llvm.call @kolo.threads()
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i64, !llvm.ptr<3>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i64, !llvm.ptr<3>
// CHECK: llvm.call @kolo.barrier()

// A rank that changes from iteration to iteration is divided by the mesh with the reciprocal that the invocation has.
// CHECK: scf.for
// CHECK: llvm.getelementptr %arg0[%c280_i64]
// CHECK: arith.muli {{.*}} : i128
// CHECK: arith.shrui {{.*}} : i128
// CHECK: llvm.call @kolo.signal.one(

// A divisor of which the invocation has none: its reciprocal is a kept value.
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> i64
// CHECK: arith.muli {{.*}} : i128
// CHECK: llvm.call @kolo.signal.one(

// A move loads what is kept, and divides no more.
// CHECK-LABEL: llvm.func internal @move.keeps.0(
// CHECK-NOT: arith.divui
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> i64
// CHECK: llvm.call @kolo.copy(

// Divisions are left in the prologue alone.
// DIVISIONS-LABEL: llvm.func internal @run.keeps(
// DIVISIONS: llvm.call @kolo.quotient(
// DIVISIONS: llvm.call @kolo.barrier()
// DIVISIONS-NOT: llvm.call @kolo.quotient
// DIVISIONS-LABEL: llvm.func internal @move.keeps.0(
// DIVISIONS-NOT: llvm.call @kolo.quotient
// DIVISIONS: llvm.return
kolo.chan.program @keeps #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remsi %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  %most = arith.addi %n, %c3 : index
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %most : index
    kolo.chan.signal 1 to %peer
  }
  kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
}
