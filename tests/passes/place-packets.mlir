// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.choreography(kolo-place-packets))' | FileCheck %s
// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.choreography(kolo-place-packets,kolo-place-staging),kolo-project,kolo.chan.program(kolo-infer-synchronisation,kolo-place-lanes),canonicalize,cse,kolo.chan.program(kolo-check-program))' | FileCheck %s --check-prefix=PROGRAM
// RUN: not kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.choreography(kolo-place-packets{ll128=true}))' 2>&1 | FileCheck %s --check-prefix=LINES

// Senders put to different places. Packets say that they have arrived: there is no signal, and that is proved.

// CHECK-LABEL: kolo.choreography @gather
// CHECK: %[[OUT:.*]] = kolo.buffer output "out"
// CHECK: %[[PACKETS:.*]] = kolo.buffer packets "packets0" grid(%{{.*}}) blocks 1
// CHECK: kolo.transfer %{{.*}} -> %[[PACKETS]] to [others]
// CHECK: scf.for
// CHECK: kolo.copy %[[PACKETS]] -> %[[OUT]]

// LINES-LABEL: kolo.choreography @gather
// LINES: kolo.buffer packets "packets0" grid(%{{.*}}) blocks 1 ll128

// PROGRAM-LABEL: kolo.chan.program @gather
// PROGRAM-SAME: semaphores 0
// PROGRAM-SAME: proved [
// PROGRAM: kolo.chan.put %{{.*}}[] size[] -> %[[PACKETS:.*]][%{{.*}}] size[%{{.*}}] to
// PROGRAM-NOT: kolo.chan.wait
// PROGRAM: kolo.chan.copy %[[PACKETS]][
kolo.choreography @gather #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %n = kolo.dim_size 0
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// What several senders combine into one place is kept apart by sender.

// CHECK-LABEL: kolo.choreography @sum
// CHECK: kolo.buffer packets "packets0" grid(%{{.*}}) blocks 1
// CHECK: kolo.transfer %{{.*}} to [others]
// CHECK: kolo.reduce
kolo.choreography @sum #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A loop that would put to one place again has a place for every iteration.

// CHECK-LABEL: kolo.choreography @doubling
// CHECK: %[[STEPS:.*]] = arith.maxsi
// CHECK: %[[PACKETS:.*]] = kolo.buffer packets "packets0" grid(%[[STEPS]]) blocks 1
// CHECK: scf.for %[[STEP:.*]] =
// CHECK: kolo.transfer %{{.*}} -> %[[PACKETS]] to [flip
// CHECK: kolo.reduce %[[PACKETS]]

// PROGRAM-LABEL: kolo.chan.program @doubling
// PROGRAM-SAME: semaphores 0
kolo.choreography @doubling #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  scf.for %s = %c0 to %c2 step %c1 {
    %mask = arith.shli %c1, %s : index
    kolo.transfer reducing %out -> %out to [flip %mask] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [] size []
    } : !kolo.buffer<0> -> !kolo.buffer<0>
  }
}

// -----

// How long a chunk in a slot is, what it is paired with says; packets in slots would be paired with slots.

kolo.choreography @slots #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer scratch "slots" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-error @below {{protocol ll: this sends to slots, which say nothing of how much they hold}}
  kolo.transfer %in -> %slots to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%c0] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// What is encoded takes other room than the elements that packets are counted by.

kolo.choreography @coded #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{protocol ll: packets hold elements of the call, and buffer 'packed' is int8(256)}}
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %packed to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}
