// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.choreography(kolo-publish-inputs))' | FileCheck %s
// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.choreography(kolo-publish-inputs),kolo-project,kolo.chan.program(kolo-infer-synchronisation,kolo-place-lanes),canonicalize,cse,kolo.chan.program(kolo-check-program))' | FileCheck %s --check-prefix=PROGRAM

// Who is the root publishes; everybody reads that, and nothing else: one meeting is all the synchronisation.

// CHECK-LABEL: kolo.choreography @direct
// CHECK: %[[IN:.*]] = kolo.buffer input "in"
// CHECK: %[[PUBLISHED:.*]] = kolo.buffer published "published" grid() blocks 0
// CHECK: kolo.copy %[[IN]] -> %[[PUBLISHED]] {
// CHECK: ^bb0(%[[ME:.*]]: index):
// CHECK: %[[ROOT:.*]] = kolo.root
// CHECK: %[[IS_ROOT:.*]] = arith.cmpi eq, %[[ME]], %[[ROOT]]
// CHECK: kolo.slices from[] size[] to[] size[] when %[[IS_ROOT]]
// CHECK: %[[OUT:.*]] = kolo.buffer output "out"
// CHECK: kolo.copy %[[IN]] -> %[[OUT]]
// CHECK: kolo.transfer %[[PUBLISHED]] -> %[[OUT]] to [others]

// PROGRAM-LABEL: kolo.chan.program @direct
// PROGRAM-SAME: semaphores 0
// PROGRAM-SAME: proved [
// PROGRAM: scf.if
// PROGRAM-NEXT: kolo.chan.copy %[[IN:.*]][] size[] -> %[[PUBLISHED:.*]][] size[] part
// PROGRAM: kolo.chan.enter
// PROGRAM: kolo.chan.copy %[[IN]][] size[] -> %[[OUT:.*]][] size[]
// PROGRAM-NOT: kolo.chan.wait
// PROGRAM: kolo.chan.get %[[PUBLISHED]][] size[] -> %[[OUT]][] size[] from
// PROGRAM-NOT: kolo.chan.signal
kolo.choreography @direct #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    %root = kolo.root
    %isRoot = arith.cmpi eq, %me, %root : index
    kolo.slices from [] size [] to [] size [] when %isRoot
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    %root = kolo.root
    %isRoot = arith.cmpi eq, %me, %root : index
    kolo.slices from [] size [] to [] size [] when %isRoot
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Blocks and chunks are published as they are, but for this rank's own block, which nobody else reads.
// CHECK-LABEL: kolo.choreography @scattered
// CHECK: %[[N:.*]] = kolo.dim_size 0
// CHECK: %[[IN:.*]] = kolo.buffer input "in" grid(%[[N]]) blocks 1
// CHECK: %[[PUBLISHED:.*]] = kolo.buffer published "published" grid(%[[N]]) blocks 1
// CHECK: kolo.copy %[[IN]] -> %[[PUBLISHED]] {
// CHECK: ^bb0(%[[ME:.*]]: index):
// CHECK: %[[ONE:.*]] = arith.constant 1
// CHECK: %[[FIRST:.*]] = arith.addi %[[ME]], %[[ONE]]
// CHECK: %[[OTHERS:.*]] = arith.subi %[[N]], %[[ONE]]
// CHECK: kolo.slices from[%[[FIRST]]] size[%[[OTHERS]]] to[%[[FIRST]]] size[%[[OTHERS]]]
// CHECK: kolo.transfer reducing %[[PUBLISHED]] -> %{{.*}} to [others]

// PROGRAM-LABEL: kolo.chan.program @scattered
// PROGRAM: kolo.chan.copy
// PROGRAM: kolo.chan.enter
// PROGRAM-NOT: kolo.chan.wait
// PROGRAM: kolo.chan.reduce %{{.*}} from
kolo.choreography @scattered #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

// All of it: what one transfer leaves out another one sends.
// CHECK-LABEL: kolo.choreography @around
// CHECK: %[[N:.*]] = kolo.dim_size 0
// CHECK: kolo.copy %{{.*}} -> %[[PUBLISHED:.*]] {
// CHECK: %[[ZERO:.*]] = arith.constant 0
// CHECK: kolo.slices from[%[[ZERO]]] size[%[[N]]] to[%[[ZERO]]] size[%[[N]]]
// CHECK: kolo.transfer %[[PUBLISHED]] -> %{{.*}} to [others]
// CHECK: kolo.transfer %[[PUBLISHED]] -> %{{.*}} to [next
// PROGRAM-LABEL: kolo.chan.program @around
kolo.choreography @around #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %aside = kolo.buffer scratch "aside" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %in -> %aside to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// expected-error @below {{protocol published publishes the input, from which nothing is sent here}}
kolo.choreography @forwarded #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}
