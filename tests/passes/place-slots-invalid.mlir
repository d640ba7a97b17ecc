// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo.choreography(kolo-place-slots))' --verify-diagnostics

// What lands in a slot of the receiver's would have to be combined from another slot.
kolo.choreography @into_slots #kolo.collective<all_reduce over 0> mesh ["node"] meshes [[2]]
    attributes {network_dims = array<i64: 0>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %held = kolo.buffer scratch "held" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-error@below {{dimension 'node' may be a network, over which nothing combines into slots; send to other slots}}
  kolo.transfer reducing %out -> %held to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%c0] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}
