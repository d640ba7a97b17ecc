// RUN: kolo-opt %s --kolo-gpu | FileCheck %s

// After a wait the kernel ends if the wait failed: out of loops too, and for all threads of the block alike.
// CHECK-LABEL: llvm.func internal @run.waits
// CHECK: llvm.call @kolo.signal(
// CHECK: [[STATUS:%.*]] = llvm.call @kolo.wait(
// CHECK: [[FAILED:%.*]] = llvm.icmp "ne" [[STATUS]], {{%.*}} : i32
// CHECK-NEXT: llvm.cond_br [[FAILED]], [[EXIT:\^bb[0-9]+]]([[STATUS]] : i32), ^bb
// CHECK: [[EXIT]]([[GIVEN:%.*]]: i32):
// CHECK-NEXT: llvm.return [[GIVEN]] : i32
kolo.chan.program @waits #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %up = arith.addi %me, %c1 : index
  %peer = arith.remui %up, %n : index
  scf.for %i = %c0 to %n step %c1 {
    kolo.chan.signal 0 to %peer
    kolo.chan.wait 0 from %peer
  }
}
