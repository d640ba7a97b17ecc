// RUN: kolo-opt %s --kolo-gpu-lower-programs --kolo-hip-define-primitives | FileCheck %s
// RUN: kolo-opt %s --kolo-hip | FileCheck %s --check-prefix=ALL

// 3952 is the wait for all accesses to memory. It stands after every release: LLVM drops its own.
// CHECK: llvm.func internal @kolo.threads(
// CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"
// CHECK: llvm.func internal @kolo.publish(
// CHECK-NEXT: llvm.fence syncscope("workgroup") release
// CHECK-NEXT: [[MEMORY:%.*]] = arith.constant 3952 : i32
// CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.s.waitcnt"([[MEMORY]])
// CHECK: llvm.func internal @kolo.acquire(
// CHECK-NEXT: llvm.fence acquire
// CHECK: llvm.func internal @kolo.share(
// CHECK: llvm.store {{.*}} !llvm.ptr<3>
// CHECK: llvm.call_intrinsic "llvm.amdgcn.s.barrier"
// CHECK: llvm.load {{.*}} !llvm.ptr<3>
// CHECK: llvm.call_intrinsic "llvm.amdgcn.s.barrier"
// CHECK: llvm.func internal @kolo.raise(
// CHECK-NEXT: llvm.fence release
// CHECK-NEXT: [[MEMORY:%.*]] = arith.constant 3952 : i32
// CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.s.waitcnt"([[MEMORY]])
// CHECK-NEXT: llvm.store %arg1, %arg0 atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr<1>
// CHECK: llvm.func internal @kolo.peek(
// CHECK-NEXT: llvm.load %arg0 atomic monotonic {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK: llvm.func internal @kolo.uniform(
// CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.readfirstlane"
// CHECK: llvm.func internal @kolo.list() -> !llvm.ptr<3>
// CHECK: llvm.mlir.addressof @kolo.lists : !llvm.ptr<3>

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
