// RUN: split-file %s %t
// RUN: kolo-opt %t/line.mlir --kolo-cpu-lower-moves --kolo-cpu-lower-waits | FileCheck %s
// RUN: kolo-opt %t/loop.mlir --kolo-cpu | FileCheck %s --check-prefix=ALL

//--- line.mlir

// After every wait the program leaves if the wait failed, by one exit that gives back what the wait gave.
// CHECK-LABEL: llvm.func internal @run.waits
// CHECK: [[FIRST:%.*]] = llvm.call @kolo.wait
// CHECK-NEXT: [[ZERO:%.*]] = arith.constant 0 : i32
// CHECK-NEXT: [[FAILED:%.*]] = arith.cmpi ne, [[FIRST]], [[ZERO]] : i32
// CHECK-NEXT: cf.cond_br [[FAILED]], [[EXIT:\^bb[0-9]+]]([[FIRST]] : i32), ^bb
// CHECK: [[SECOND:%.*]] = llvm.call @kolo.wait
// CHECK: cf.cond_br {{%.*}}, [[EXIT]]([[SECOND]] : i32), ^bb
// CHECK: [[EXIT]]([[STATUS:%.*]]: i32):
// CHECK-NEXT: llvm.return [[STATUS]] : i32
kolo.chan.program @waits #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
}

//--- loop.mlir

// Out of a loop too: its blocks are there before waits are looked at.
// ALL-LABEL: llvm.func internal @run.waitsInLoop
// ALL: [[FIRST:%.*]] = llvm.call @kolo.wait
// ALL: llvm.cond_br {{%.*}}, [[EXIT:\^bb[0-9]+]]([[FIRST]] : i32), ^bb
// ALL: [[SECOND:%.*]] = llvm.call @kolo.wait
// ALL: llvm.cond_br {{%.*}}, [[EXIT]]([[SECOND]] : i32), [[ON:\^bb[0-9]+]]
// ALL: [[ON]]:
// ALL: llvm.br ^bb
// ALL: [[EXIT]]([[STATUS:%.*]]: i32):
// ALL-NEXT: llvm.return [[STATUS]] : i32
kolo.chan.program @waitsInLoop #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
  scf.for %i = %c0 to %n step %c1 {
    kolo.chan.signal 0 to %peer
    kolo.chan.wait 0 from %peer
  }
}
