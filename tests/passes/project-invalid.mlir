// RUN: kolo-opt %s --split-input-file --kolo-project --verify-diagnostics

// What combines is read by its receiver, which cannot be done over a network. Without published inputs, kolo-place-slots
// comes before.
kolo.choreography @combines #kolo.collective<all_reduce over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]]
    attributes {network_dims = array<i64: 0>} {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [keep, flip %c1] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error@below {{dimension 'node' may be a network, over which ranks read nothing but published inputs}}
  kolo.transfer reducing %in -> %out to [flip %c1, keep] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Packets are stored where their receiver has them mapped.
kolo.choreography @packets #kolo.collective<all_gather over 0> mesh ["node"] meshes [[2]]
    attributes {network_dims = array<i64: 0>} {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{dimension 'node' may be a network, which carries no packets}}
  kolo.transfer %in -> %packets to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// kolo-place-slots, which makes the inboxes, has not run.
kolo.choreography @staged #kolo.collective<all_gather over 0> mesh ["node"] meshes [[2]]
    attributes {network_dims = array<i64: 0>, network_staged} {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{dimension 'node' may be a network, which is staged: data arrives in an inbox}}
  kolo.transfer %in -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{dimension 'node' may be a network, over which ranks read nothing where data is staged}}
  kolo.transfer %published -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}
