// RUN: split-file %s %t
// RUN: kolo-opt %t/program.mlir --kolo-gpu-lower-programs --kolo-gpu-lower-divisions | FileCheck %s
// RUN: kolo-opt %t/program.mlir --kolo-gpu | FileCheck %s --check-prefix=ALL

// Divisions of indices are calls, whose results all threads agree on; those by constants stay.
// CHECK-LABEL: llvm.func internal @kolo.quotient.of(
// CHECK: arith.divui {{.*}} : i32
// CHECK: arith.divui {{.*}} : i64
// CHECK-LABEL: llvm.func internal @kolo.quotient(
// CHECK: llvm.call @kolo.quotient.of(
// CHECK: llvm.call @kolo.uniform(

// CHECK-LABEL: llvm.func internal @run.divides(
// CHECK: [[A:%.*]] = arith.index_cast {{.*}} : index to i64
// CHECK: [[B:%.*]] = arith.index_cast {{.*}} : index to i64
// CHECK: [[Q:%.*]] = llvm.call @kolo.quotient([[A]], [[B]])
// CHECK: [[P:%.*]] = arith.muli [[Q]], [[B]] : i64
// CHECK: arith.subi [[A]], [[P]] : i64
// CHECK: arith.divui {{.*}} : index

// Signs are put aside and back.
// CHECK: arith.shrsi
// CHECK: arith.shrsi
// CHECK: arith.xori
// CHECK: llvm.call @kolo.quotient(
// CHECK: arith.xori
// CHECK-NOT: {{arith.(rem|div)..}} {{.*}} : index

// ALL-LABEL: llvm.func internal @run.divides(
// ALL-NOT: llvm.{{[us]rem}}
// ALL-COUNT-2: llvm.mul {{.*}} : i128
// ALL-NOT: llvm.{{[us]rem}}
// ALL: llvm.return

//--- program.mlir
kolo.chan.program @divides #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 1 {
  %c4 = arith.constant 4 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.remui %me, %n : index
  %half = arith.divui %me, %c4 : index
  %root = kolo.root
  %other = arith.divsi %root, %n : index
  kolo.chan.signal 0 to %peer
  kolo.chan.signal 0 to %half
  kolo.chan.signal 0 to %other
}
