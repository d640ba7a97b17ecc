// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.choreography(kolo-place-slots))' | FileCheck %s

// In every step of a ring the same rank sends one chunk: two slots take turns. The receiver knows from its sender's place
// what has arrived. Along a dimension that is no network, the receiver reads what it combines.
// CHECK-LABEL: @ring
// CHECK: [[NODES:%.*]] = kolo.dim_size 0
// CHECK: [[OUT:%.*]] = kolo.buffer output "out" grid([[NODES]]) blocks 0
// CHECK: [[TWO:%.*]] = arith.constant 2
// CHECK: [[CUT:%.*]] = arith.muli %{{.*}}, [[NODES]]
// CHECK: [[SLOTS:%.*]] = kolo.buffer scratch "arriving0" grid([[TWO]]) blocks 1 cut [[CUT]]
// CHECK: scf.for [[STEP:%.*]] =
// CHECK: kolo.transfer [[OUT]] -> [[SLOTS]] to [next
// CHECK: [[TURN:%.*]] = arith.floordivsi
// CHECK: kolo.slices from[%{{.*}}] size[%c1] to[[[TURN]]] size[%c1
// CHECK: kolo.reduce [[SLOTS]] -> [[OUT]] {
// CHECK: kolo.slices from[%{{.*}}] size[%c1{{.*}}] to[%{{.*}}] size[%c1]
// CHECK: kolo.transfer reducing [[OUT]] -> [[OUT]] to [keep, others]
kolo.choreography @ring #kolo.collective<all_reduce over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]]
    attributes {network_dims = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer reducing %out -> %out to [next %c1, keep] {
    ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
      %i = arith.subi %node, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  kolo.transfer reducing %out -> %out to [keep, others] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [%otherGpu] size [%c1] to [%otherGpu] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Another sender in every step: each has slots, as many as a step may move.
// CHECK-LABEL: @exchange
// CHECK: [[N:%.*]] = kolo.dim_size 0
// CHECK: [[OUT:%.*]] = kolo.buffer output "out" grid([[N]]) blocks 0
// CHECK: [[STEPS:%.*]] = arith.maxsi
// CHECK: [[SLOTS:%.*]] = kolo.buffer scratch "arriving0" grid([[STEPS]], [[N]]) blocks 2 cut
// CHECK: kolo.transfer [[OUT]] -> [[SLOTS]] to [flip
// CHECK: kolo.reduce [[SLOTS]] -> [[OUT]] {
// CHECK-NOT: reducing
kolo.choreography @exchange #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]]
    attributes {network_dims = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %s = %c0 to %c2 step %c1 {
    %mask = arith.shli %c1, %s : index
    kolo.transfer reducing %out -> %out to [flip %mask] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [%c0] size [%n] to [%c0] size [%n]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

// Many senders in one statement: each has a slot. The variants of a stripe keep their parts and their marks, so that
// kolo-fuse-stripes finds them.
// CHECK-LABEL: @all_pairs
// CHECK: kolo.buffer output
// CHECK: [[SENDERS:%.*]] = kolo.dim_size 0
// CHECK: [[SLOTS:%.*]] = kolo.buffer scratch "arriving0" grid([[SENDERS]], %c2) blocks 2 cut
// CHECK: kolo.transfer %{{.*}} -> [[SLOTS]] to [others] {
// CHECK: kolo.slices from[%{{.*}}, %c1] size[%c1, %c1] to[%{{.*}}, %c1] size[%{{.*}}, %c1]
// CHECK: {kolo.stripe = 1 : i64}
// CHECK: scf.for
// CHECK: kolo.reduce [[SLOTS]] ->
// CHECK: {kolo.stripe = 1 : i64}
kolo.choreography @all_pairs #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]]
    attributes {network_dims = array<i64: 0>} {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  kolo.transfer reducing %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer, %c1] size [%c1, %c1] to [%peer, %c1] size [%c1, %c1]
  } {kolo.stripe = 1} : !kolo.buffer<2> -> !kolo.buffer<2>
}

// -----

// What is sent from a slot goes to memory of the destination's shape: no slot holds what comes from another one.
// CHECK-LABEL: @from_slots
// CHECK: [[OUT:%.*]] = kolo.buffer output "out" grid([[N:%.*]]) blocks 0
// CHECK: [[MEMORY:%.*]] = kolo.buffer scratch "arriving0" grid([[N]]) blocks 0 :
// CHECK: kolo.transfer %{{.*}} -> [[MEMORY]] to [next
// CHECK: kolo.reduce [[MEMORY]] -> [[OUT]]
kolo.choreography @from_slots #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]]
    attributes {network_dims = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %held = kolo.buffer scratch "held" grid(%c1) blocks 1 cut %n : !kolo.buffer<1>
  kolo.transfer reducing %held -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%c0] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Without a network, nothing changes.
// CHECK-LABEL: @one_host
// CHECK: kolo.transfer reducing
kolo.choreography @one_host #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer reducing %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Buffers are at the top level, however deep the loop is in which the sender changes.
// CHECK-LABEL: @nested
// CHECK: kolo.buffer scratch "arriving0"
// CHECK: scf.for
// CHECK: scf.for
// CHECK: kolo.reduce
kolo.choreography @nested #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]]
    attributes {network_dims = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %k = %c0 to %n step %c1 {
    scf.for %s = %c0 to %c2 step %c1 {
      %mask = arith.shli %c1, %s : index
      kolo.transfer reducing %out -> %out to [flip %mask] {
      ^bb0(%me: index, %peer: index):
        kolo.slices from [%k] size [%c1] to [%k] size [%c1]
      } : !kolo.buffer<1> -> !kolo.buffer<1>
    }
  }
}

// -----

// A staged network: what overwrites the output arrives in an inbox, from where the receiver copies it, and what combines
// likewise. Memory of the program's own becomes an inbox itself. Within a node nothing changes.
// CHECK-LABEL: @staged
// CHECK: [[OUT:%.*]] = kolo.buffer output "out"
// CHECK: [[SLOTS:%.*]] = kolo.buffer inbox "arriving0" grid(%{{.*}}) blocks 1 cut
// CHECK: [[OWN:%.*]] = kolo.buffer inbox "own" grid(
// CHECK: scf.for
// CHECK: kolo.transfer [[OUT]] -> [[SLOTS]] to [next
// CHECK: kolo.copy [[SLOTS]] -> [[OUT]] {
// CHECK: kolo.transfer [[OUT]] -> [[OWN]] to [next
// CHECK: kolo.transfer [[OUT]] -> [[OUT]] to [keep, others]
kolo.choreography @staged #kolo.collective<all_gather over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]]
    attributes {network_dims = array<i64: 0>, network_staged} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %own = kolo.buffer scratch "own" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1, keep] {
    ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
      %i = arith.subi %node, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  kolo.transfer %out -> %own to [next %c1, keep] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [keep, others] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [%gpu] size [%c1] to [%gpu] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}
