// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo-project,kolo.chan.program(kolo-infer-synchronisation),canonicalize,cse)' | FileCheck %s

// A ring lands in user buffers: one entry credit, before the loop, and one flush, after it.
// CHECK-LABEL: @ring
// CHECK-SAME: semaphores 2
// CHECK: kolo.chan.signal 1 to {{.*}} credit(entry)
// CHECK: kolo.chan.wait 1 from {{.*}} credit(entry)
// CHECK-NEXT: scf.for
// CHECK-NOT: kolo.chan.flush
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 0
// CHECK-NEXT: kolo.chan.wait 0
// CHECK-NEXT: }
// CHECK-NEXT: kolo.chan.flush
kolo.choreography @ring #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[3], [4]] {
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

// -----

// Two slots for a ring: a sender keeps two steps behind its receiver, and nothing else.
// CHECK-LABEL: @twoSlots
// CHECK-NOT: "entry"
// CHECK-NOT: "statement"
// CHECK: scf.for
// CHECK: scf.if
// CHECK-NEXT: kolo.chan.wait 2 from {{.*}} credit(lag)
// CHECK: kolo.chan.put
// CHECK: kolo.chan.reduce
// CHECK: scf.if
// CHECK-NEXT: kolo.chan.signal 2 to {{.*}} credit(lag)
kolo.choreography @twoSlots #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[3], [4], [6]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%c2) blocks 1 cut %n : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %slots to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %back = arith.subi %me, %c1 : index
      %i = arith.subi %back, %s : index
      kolo.slices from [%i] size [%c1] to [%s] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.reduce %slots -> %out {
    ^bb0(%me: index):
      %back = arith.subi %me, %c2 : index
      %i = arith.subi %back, %s : index
      kolo.slices from [%s] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

// What is read from a peer stays there until it was read.
// CHECK-LABEL: @pull
// CHECK-SAME: semaphores 2
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.reduce
// CHECK: kolo.chan.signal 1 to {{.*}} credit(exit)
// CHECK: kolo.chan.wait 1 from {{.*}} credit(exit)
// CHECK-NOT: kolo.chan.flush
// CHECK: kolo.chan.divide
kolo.choreography @pull #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3]] {
  %c0 = arith.constant 0 : index
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

// Two directions of a ring at once: in every iteration both are on their way before either is waited for, though all is in
// one buffer, and what may be fetched is said of both before anything is fetched.
// CHECK-LABEL: @sideBySide
// CHECK-NOT: credit(
// CHECK: scf.for
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.signal 1
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.reduce
// CHECK: kolo.chan.wait 1
// CHECK: kolo.chan.reduce
// CHECK: scf.for
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 2
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 3
// CHECK: kolo.chan.wait 2
// CHECK: kolo.chan.wait 3
// CHECK-NEXT: }
kolo.choreography @sideBySide #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3], [4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %back = arith.constant -1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  %out = kolo.buffer output "out" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0, %c0] size [%n, %c2] to [%c0, %c0] size [%n, %c2]
  } : !kolo.buffer<2> -> !kolo.buffer<2>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer reducing %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %before = arith.subi %me, %c1 : index
      %i = arith.subi %before, %s : index
      kolo.slices from [%i, %c0] size [%c1, %c1] to [%i, %c0] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.transfer reducing %out -> %out to [next %back] {
    ^bb0(%me: index, %peer: index):
      %after = arith.addi %me, %c1 : index
      %i = arith.addi %after, %s : index
      kolo.slices from [%i, %c1] size [%c1, %c1] to [%i, %c1] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
  }
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i, %c0] size [%c1, %c1] to [%i, %c0] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.transfer %out -> %out to [next %back] {
    ^bb0(%me: index, %peer: index):
      %i = arith.addi %me, %s : index
      kolo.slices from [%i, %c1] size [%c1, %c1] to [%i, %c1] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
  }
}

// -----

// The same by pushes into slots: what arrives is waited for just before it is combined.
// CHECK-LABEL: @sideBySideSlots
// CHECK: scf.for
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 0
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 1
// CHECK: kolo.chan.wait 0
// CHECK-NOT: kolo.chan.wait
// CHECK: kolo.chan.reduce
// CHECK: kolo.chan.wait 1
// CHECK: kolo.chan.reduce
// CHECK-NEXT: }
kolo.choreography @sideBySideSlots #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[2], [3], [4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %back = arith.constant -1 : index
  %n = kolo.dim_size 0
  %cut = arith.constant 2 : index
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid(%n, %c2) blocks 1 : !kolo.buffer<2>
  %out = kolo.buffer output "out" grid(%c2) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n, %c2) blocks 1 : !kolo.buffer<2>
  %slots = kolo.buffer scratch "slots" grid(%last, %c2) blocks 2 cut %cut : !kolo.buffer<2>
  kolo.copy %in -> %work {
  ^bb0(%me: index):
    kolo.slices from [%c0, %c0] size [%n, %c2] to [%c0, %c0] size [%n, %c2]
  } : !kolo.buffer<2> -> !kolo.buffer<2>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %work -> %slots to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %before = arith.subi %me, %c1 : index
      %i = arith.subi %before, %s : index
      kolo.slices from [%i, %c0] size [%c1, %c1] to [%s, %c0] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.transfer %work -> %slots to [next %back] {
    ^bb0(%me: index, %peer: index):
      %after = arith.addi %me, %c1 : index
      %i = arith.addi %after, %s : index
      kolo.slices from [%i, %c1] size [%c1, %c1] to [%s, %c1] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.reduce %slots -> %work {
    ^bb0(%me: index):
      %before = arith.subi %me, %c2 : index
      %i = arith.subi %before, %s : index
      kolo.slices from [%s, %c0] size [%c1, %c1] to [%i, %c0] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    kolo.reduce %slots -> %work {
    ^bb0(%me: index):
      %after = arith.addi %me, %c2 : index
      %i = arith.addi %after, %s : index
      kolo.slices from [%s, %c1] size [%c1, %c1] to [%i, %c1] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
  }
  kolo.copy %work -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me, %c0] size [%c1, %c2] to [%c0] size [%c2]
  } : !kolo.buffer<2> -> !kolo.buffer<1>
}
