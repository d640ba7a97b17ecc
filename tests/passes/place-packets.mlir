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

// Slots that only transfers fill, each once, become packets. They hold encoded bytes; who reads them decodes.

// CHECK-LABEL: kolo.choreography @slots
// CHECK: %[[SUM:.*]] = kolo.buffer scratch "sum"
// CHECK: %[[SLOTS:.*]] = kolo.buffer packets "slots" as <i8 per 256 scale f32 fit> grid(%{{.*}}) blocks 1 cut %{{.*}} :
// CHECK-NOT: kolo.buffer
// CHECK: kolo.transfer %{{.*}} -> %[[SLOTS]] to [others]
// CHECK: kolo.reduce %[[SLOTS]] -> %[[SUM]]

// LINES-LABEL: kolo.choreography @slots
// LINES: kolo.buffer packets "slots" as <i8 per 256 scale f32 fit> grid(%{{.*}}) blocks 1 cut %{{.*}} ll128

// PROGRAM-LABEL: kolo.chan.program @slots
// PROGRAM-SAME: semaphores 0
// PROGRAM-SAME: proved [
// PROGRAM-NOT: kolo.chan.wait
// PROGRAM: kolo.chan.reduce %{{.*}}[%{{.*}}] size[%{{.*}}] -> %{{.*}}[] size[]
kolo.choreography @slots #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer scratch "slots" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 cut %c1 : !kolo.buffer<1>
  kolo.copy %in -> %sum {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
  kolo.transfer %in -> %slots to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %i = %c0 to %last step %c1 {
    kolo.reduce %slots -> %sum {
    ^bb0(%me: index):
      %next = arith.addi %me, %c1 : index
      %from = arith.addi %next, %i : index
      kolo.slices from [%from] size [%c1] to [] size []
    } : !kolo.buffer<1> -> !kolo.buffer<0>
  }
  kolo.copy %sum -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// What is encoded on its way to a buffer goes as encoded bytes.

// CHECK-LABEL: kolo.choreography @coded
// CHECK: %[[PACKED:.*]] = kolo.buffer scratch "packed"
// CHECK: %[[PACKETS:.*]] = kolo.buffer packets "packets0" as <i8 per 256 scale f32 fit> grid() blocks 0
// CHECK: kolo.transfer %{{.*}} -> %[[PACKETS]] to [next
// CHECK: kolo.copy %[[PACKETS]] -> %[[PACKED]]
kolo.choreography @coded #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %mine = kolo.buffer scratch "mine" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %mine {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.copy %mine -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %in -> %packed to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.copy %packed -> %out {
  ^bb0(%me: index):
    %other = arith.addi %me, %c1 : index
    kolo.slices from [] size [] to [%other] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A packet is put once in a call.

kolo.choreography @again #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer scratch "slots" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  scf.for %s = %c0 to %c2 step %c1 {
    // expected-error @below {{protocol ll: this sends to slots that hold something of the same call}}
    kolo.transfer %in -> %slots to [next %c1] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [%c0] size [%c1]
    } : !kolo.buffer<0> -> !kolo.buffer<1>
  }
}

// -----

// Nobody puts packets to itself.

kolo.choreography @own #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %n = kolo.dim_size 0
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-note @below {{this fills them, too}}
  kolo.copy %in -> %slots {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error @below {{protocol ll: this sends to slots that packets cannot stand for}}
  kolo.transfer %in -> %slots to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// What is put from packets has not waited for them.

kolo.choreography @forwarded #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%c1) blocks 1 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-error @below {{protocol ll: this sends to slots that packets cannot stand for}}
  kolo.transfer %in -> %slots to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%c0] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-note @below {{this sends what they hold}}
  kolo.transfer %slots -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

kolo.choreography @combined #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %slots = kolo.buffer scratch "slots" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-error @below {{protocol ll: this sends to slots, and combines there}}
  kolo.transfer reducing %in -> %slots to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%c0] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// What leaves a slot draws by where it arrives.

kolo.choreography @drawn #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slots = kolo.buffer scratch "slots" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  %next = kolo.buffer scratch "next" as #kolo.codec<bf16 stochastic> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{protocol ll: 'next' is stochastic, and packets do not say which elements they hold}}
  kolo.transfer %slots -> %next to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%c0] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
}
