// RUN: kolo-opt %s --kolo-gpu-lower-programs --canonicalize --cse | FileCheck %s --implicit-check-not=kolo.chan
// RUN: kolo-opt %s --kolo-gpu-lower-programs --kolo-cuda-define-primitives | FileCheck %s --check-prefix=CUDA
// RUN: kolo-opt %s --kolo-gpu-lower-programs --kolo-hip-define-primitives | FileCheck %s --check-prefix=HIP
// RUN: not kolo-opt %s --kolo-gpu-lower-programs=list-entries=3 2>&1 | FileCheck %s --check-prefix=SHORT

// An entry of a list of moves between codecs is an address and a codec.
// SHORT: a list has at least 4 and at most 128 entries, not 3

// A team has a barrier of its own, beside the block's.
// CUDA: llvm.mlir.global internal @kolo.rooms() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<5376 x i64>
// CUDA: llvm.func internal @kolo.meet(
// CUDA: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.count"
// HIP: llvm.func internal @kolo.meet(
// HIP-NEXT: llvm.fence syncscope("workgroup") release
// HIP-NEXT: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"
// HIP-NEXT: llvm.fence syncscope("workgroup") acquire

// Every stage of a conversion is a function: the team meets between decoding and encoding.
// CHECK-LABEL: llvm.func internal @kolo.convert(
// CHECK: scf.for
// CHECK: llvm.call @kolo.convert.absorb.0(
// CHECK: llvm.call @kolo.convert.absorb.1(
// CHECK: llvm.call @kolo.meet
// CHECK: llvm.call @kolo.convert.encode.0(
// CHECK: llvm.call @kolo.convert.encode.1(

// Products of codes and scales are rounded before anything else is done with them.
// CHECK-LABEL: llvm.func internal @kolo.convert.absorb.1(
// CHECK-NOT: fma
// CHECK: arith.mulf
// CHECK-NOT: fma
// CHECK-LABEL: llvm.func internal @kolo.convert.encode.1(
// CHECK-NOT: fma
// CHECK: llvm.call @kolo.meet
// CHECK-NOT: fma

// CHECK-LABEL: llvm.func internal @move.gather.0(
// CHECK: llvm.call @kolo.convert(
kolo.chan.program @gather #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.subi %c1, %me : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.copy %in[] size [] -> %packed[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  // Between equal codecs, bytes move as they are.
  // CHECK-LABEL: llvm.func internal @move.gather.1(
  // CHECK: llvm.call @kolo.copy(
  kolo.chan.put %packed[%me] size [%c1] -> %packed[%me] size [%c1] to %peer part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
  // CHECK-LABEL: llvm.func internal @move.gather.2(
  // CHECK: llvm.call @kolo.convert(
  kolo.chan.copy %packed[%c0] size [%n] -> %out[%c0] size [%n] part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
}
