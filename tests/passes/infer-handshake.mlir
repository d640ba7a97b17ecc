// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo-project{transfers=push},kolo.chan.program(kolo-place-pipeline),canonicalize,cse,kolo.chan.program(kolo-infer-handshake))' | FileCheck %s

// A put: the receiver first tells the sender that it may write.
// CHECK-LABEL: @push
// CHECK-SAME: semaphores 2
// CHECK: [[PEER:%.*]] = arith.xori
// CHECK-NEXT: kolo.chan.signal 1 to [[PEER]]
// CHECK-NEXT: kolo.chan.wait 1 from [[PEER]]
// CHECK-NEXT: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 0 to [[PEER]]
// CHECK-NEXT: kolo.chan.flush
// CHECK-NEXT: kolo.chan.wait 0 from [[PEER]]
kolo.choreography @push #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A reduction from a peer: the peer waits until its memory was read.
// CHECK-LABEL: @pull
// CHECK-SAME: semaphores 2
// CHECK: kolo.chan.signal 0 to [[PEER:%.*]]
// CHECK-NEXT: kolo.chan.wait 0 from [[PEER]]
// CHECK-NEXT: kolo.chan.reduce {{.*}} from [[PEER]]
// CHECK-NEXT: kolo.chan.signal 1 to [[PEER]]
// CHECK-NEXT: kolo.chan.wait 1 from [[PEER]]
kolo.choreography @pull #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A fan: all credits are given, over the senders, before the first one is waited for, over the receivers.
// CHECK-LABEL: @pushFan
// CHECK: scf.for
// CHECK: kolo.chan.signal 1 to
// CHECK: }
// CHECK: scf.for
// CHECK: kolo.chan.wait 1 from [[PEER:%[0-9]+]]
// CHECK-NEXT: kolo.chan.put {{.*}} to [[PEER]]
// CHECK-NEXT: kolo.chan.signal 0 to [[PEER]]
// CHECK: }
// CHECK: kolo.chan.flush
// CHECK: scf.for
// CHECK: kolo.chan.wait 0
kolo.choreography @pushFan #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// CHECK-LABEL: @pullFan
// CHECK: scf.for
// CHECK: kolo.chan.signal 0
// CHECK: }
// CHECK: scf.for
// CHECK: kolo.chan.wait 0 from [[PEER:%.*]]
// CHECK-NEXT: kolo.chan.reduce {{.*}} from [[PEER]]
// CHECK-NEXT: kolo.chan.signal 1 to [[PEER]]
// CHECK: }
// CHECK: scf.for
// CHECK: kolo.chan.wait 1
kolo.choreography @pullFan #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A condition goes along: who receives gives the credit, who sends takes it; each under its own condition, inside the loop.
// CHECK-LABEL: @conditional
// CHECK: scf.for
// CHECK: scf.if [[RECEIVES:%.*]] {
// CHECK-NEXT: kolo.chan.signal 1
// CHECK: scf.if [[SENDS:%.*]] {
// CHECK-NEXT: kolo.chan.wait 1
// CHECK-NEXT: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 0
// CHECK-NEXT: }
// CHECK-NEXT: kolo.chan.flush
// CHECK: scf.if
// CHECK-NEXT: kolo.chan.wait 0
kolo.choreography @conditional #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %isTurn = arith.cmpi eq, %me, %s : index
      kolo.slices from [] size [] to [] size [] when %isTurn
    } : !kolo.buffer<0> -> !kolo.buffer<0>
  }
}

// -----

// Every transfer has a credit of its own, in the order of the text.
// CHECK-LABEL: @several
// CHECK-SAME: semaphores 4
// CHECK: kolo.chan.wait 2
// CHECK: kolo.chan.put
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.wait 3
// CHECK: kolo.chan.put
// CHECK: kolo.chan.signal 1
// CHECK: kolo.chan.wait 1
kolo.choreography @several #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %out -> %work to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer %work -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}
