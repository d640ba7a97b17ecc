// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project,kolo.chan.program(kolo-place-pipeline,kolo-infer-synchronisation,kolo-place-lanes,kolo-verify-synchronised))' | FileCheck %s
// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project,kolo.chan.program(kolo-place-pipeline{depth=2},kolo-infer-synchronisation,kolo-place-lanes,kolo-verify-synchronised))' | FileCheck %s
// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project{together=1},kolo.chan.program(kolo-place-pipeline{depth=2},kolo-infer-handshake,kolo-place-lanes,kolo-verify-synchronised))' | FileCheck %s

// Whatever infers synchronisation leaves no mark, and lanes take parts.
// CHECK: kolo.chan.program @ring
// CHECK-NOT: needs_handshake
// CHECK-NOT: kolo.phase
// CHECK-NOT: kolo.pipeline_phase
kolo.choreography @ring #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// Not even a program that no credits can prove, as one whose result is wrong: CheckProgram says so at the end.
// CHECK: kolo.chan.program @wrong
// CHECK-NOT: needs_handshake
// CHECK-NOT: kolo.phase
// CHECK-NOT: kolo.pipeline_phase
kolo.choreography @wrong #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %in -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}
