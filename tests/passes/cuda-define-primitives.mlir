// RUN: kolo-opt %s --kolo-gpu-lower-programs --kolo-cuda-define-primitives | FileCheck %s
// RUN: kolo-opt %s --kolo-cuda | FileCheck %s --check-prefix=ALL

// Lists of addresses are in memory of the block.
// CHECK: llvm.mlir.global internal @kolo.lists() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<384 x i64>

// Counters are released and acquired at system scope: an empty syncscope is the system.
// CHECK: llvm.func internal @kolo.barrier() attributes {always_inline, convergent
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK: llvm.func internal @kolo.share(
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.red.or.aligned.all"
// CHECK: llvm.func internal @kolo.raise(
// CHECK-NEXT: llvm.store %arg1, %arg0 atomic release {alignment = 8 : i64} : i64, !llvm.ptr<1>
// CHECK: llvm.func internal @kolo.peek(
// CHECK-NEXT: llvm.load %arg0 atomic acquire {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK: llvm.func internal @kolo.list() -> !llvm.ptr<3>
// CHECK-NEXT: llvm.mlir.addressof @kolo.lists : !llvm.ptr<3>
// CHECK: llvm.func internal @kolo.pause(
// CHECK: llvm.call_intrinsic "llvm.nvvm.nanosleep"

// The threads of a group meet, then access a line by one instruction, 16 bytes each.
// CHECK: llvm.func internal @kolo.storeLine(
// CHECK: llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
// CHECK-NEXT: llvm.store volatile %{{.*}}, %arg0 {alignment = 16 : i64} : vector<2xi64>, !llvm.ptr<1>
// CHECK: llvm.func internal @kolo.loadLine(
// CHECK: llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
// CHECK-NEXT: llvm.load volatile %arg0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<2xi64>
// CHECK: llvm.func internal @kolo.fromLast(
// CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"

// ALL-NOT: {{arith|scf|cf|kolo\.chan}}.
// ALL: llvm.func @waits(
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
