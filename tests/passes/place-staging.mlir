// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.choreography(kolo-place-staging))' | FileCheck %s

// A ring step reads another chunk than it writes: it moves data in one step.
// CHECK-LABEL: @ring
// CHECK-SAME: in_place direct
// CHECK-NOT: staging
// CHECK: kolo.transfer [[OUT:%.*]] -> [[OUT]] to [next
// CHECK-NOT: staging
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

// -----

// Both partners of an exchange read what the other one writes: through a staging buffer, shaped like the destination, with
// one slot, since every rank has one sender. What was received is combined at the receiver, from where the partner put it.
// CHECK-LABEL: @exchange
// CHECK-SAME: in_place direct
// CHECK: [[N:%.*]] = kolo.dim_size 0
// CHECK: [[OUT:%.*]] = kolo.buffer output "out" grid([[N]]) blocks 0
// CHECK: [[STAGING:%.*]] = kolo.buffer scratch "staging0" grid([[N]]) blocks 0
// CHECK: kolo.transfer [[OUT]] -> [[STAGING]] to [flip [[MASK:%.*]]] {
// CHECK: kolo.slices from[[[FROM:%.*]]] size[[[N]]] to[[[FROM]]] size[[[N]]]
// CHECK: kolo.reduce [[STAGING]] -> [[OUT]] {
// CHECK: kolo.slices from[[[AT:%.*]]] size[[[N]]] to[[[AT]]] size[[[N]]]
// CHECK-NOT: kolo.transfer
kolo.choreography @exchange #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer reducing %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// With many senders, one slot each, in front of the destination's own grid; the receiver goes through them in a loop.
// CHECK-LABEL: @fan
// CHECK: [[SIZE:%.*]] = kolo.dim_size 0
// CHECK: [[STAGING:%.*]] = kolo.buffer scratch "staging0" grid([[SIZE]]) blocks 1
// CHECK: kolo.transfer [[OUT:%.*]] -> [[STAGING]] to [others] {
// CHECK-NEXT: ^bb0([[ME:%.*]]: index, {{%.*}}: index):
// CHECK: kolo.slices from[] size[] to[[[ME]]] size[{{%.*}}]
// CHECK: scf.for
// CHECK: kolo.reduce [[STAGING]] -> [[OUT]] {
kolo.choreography @fan #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A local statement that shifts chunks inside of one buffer goes through staging as well, with a copy on both sides.
// CHECK-LABEL: @shift
// CHECK: [[STAGING:%.*]] = kolo.buffer scratch "staging0"
// CHECK: kolo.copy [[WORK:%.*]] -> [[STAGING]] {
// CHECK: kolo.copy [[STAGING]] -> [[WORK]] {
kolo.choreography @shift #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %work = kolo.buffer scratch "work" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %work -> %work {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%c1] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// The two chunks are apart on four ranks and the same on two: one mesh with a hazard is enough.
// CHECK-LABEL: @onOneMeshOnly
// CHECK: kolo.buffer scratch "staging0"
kolo.choreography @onOneMeshOnly #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [2]] {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    %i = arith.addi %peer, %c2 : index
    kolo.slices from [%me] size [%c1] to [%i] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// CHECK-LABEL: @onNoMesh
// CHECK-NOT: staging
// CHECK: kolo.transfer
// CHECK-NOT: staging
kolo.choreography @onNoMesh #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [5]] {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    %i = arith.addi %peer, %c2 : index
    kolo.slices from [%me] size [%c1] to [%i] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Not the same from every rank's point of view: only the last rank, whose neighbour's number starts again at 0, reads the
// chunk that it receives into. It must be looked at although the difference of the two coordinates looks constant.
// CHECK-LABEL: @onTheLastRankOnly
// CHECK: kolo.buffer scratch "staging0"
kolo.choreography @onTheLastRankOnly #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %work = kolo.buffer scratch "work" grid(%c3) blocks 0 : !kolo.buffer<1>
  kolo.transfer %work -> %work to [next %c1] {
  ^bb0(%me: index, %peer: index):
    %i = arith.subi %me, %peer : index
    kolo.slices from [%i] size [%c1] to [%c0] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A copy of this rank's block to where it is already, and nothing read afterwards: may run in place.
// CHECK-LABEL: @home
// CHECK-SAME: in_place direct
kolo.choreography @home #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

// The input is read while the output that it lies in is being written.
// CHECK-LABEL: @allToAll
// CHECK-NOT: in_place
kolo.choreography @allToAll #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[4]] {
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

// The input is read after something of the output was written.
// CHECK-LABEL: @late
// CHECK-NOT: in_place
kolo.choreography @late #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// The same copy moves an all-gather's input away from where it lies.
// CHECK-LABEL: @elsewhere
// CHECK-NOT: in_place
kolo.choreography @elsewhere #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    %i = arith.addi %me, %c1 : index
    kolo.slices from [] size [] to [%i] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A broadcast in place overwrites no input: only the root has one, and gives every rank its chunks at their own places.
// CHECK-LABEL: kolo.choreography @fromRoot
// CHECK-SAME: in_place direct
kolo.choreography @fromRoot #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}
