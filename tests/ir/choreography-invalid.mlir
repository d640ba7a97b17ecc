// RUN: kolo-opt %s --verify-diagnostics --split-input-file

// What the choreography phase refuses, by constraint label.

// expected-error @below {{choreography_c1: a mesh has between one and four dimensions with distinct names}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh [] meshes [] {
}

// -----

// expected-error @below {{choreography_c1: a mesh has between one and four dimensions}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["a", "b", "c", "d", "e"] meshes [] {
}

// -----

// expected-error @below {{choreography_c1: a mesh has between one and four dimensions with distinct names}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["a", "a"] meshes [] {
}

// -----

// expected-error @below {{choreography_c2: the collective runs over a dimension that the mesh does not have}}
kolo.choreography @bad #kolo.collective<all_gather over 1> mesh ["rank"] meshes [] {
}

// -----

// expected-error @below {{choreography_c3: mesh sizes [2, 2] do not fit a mesh of 1 dimensions}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [2, 2]] {
}

// -----

// expected-error @below {{choreography_c3: mesh sizes [0] do not fit a mesh of 1 dimensions}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[0]] {
}

// -----

// expected-error @below {{choreography_c3: a mesh of sizes [1048577] has more than 1048576 ranks}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[1048577]] {
}

// -----

// expected-error @below {{choreography_c3: a mesh of sizes [4294967296] has more than 1048576 ranks}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4294967296]] {
}

// -----

// expected-error @below {{choreography_c3: a mesh of sizes [1024, 1025] has more than 1048576 ranks}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["a", "b"] meshes [[1024, 1025]] {
}

// -----

// expected-error @below {{choreography_c3: a mesh of sizes [4294967296, 4294967296] has more than 1048576 ranks}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["a", "b"] meshes [[4294967296, 4294967296]] {
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{choreography_c4: belongs to the channel phase}}
  %me = kolo.chan.coord 0
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{transfer_c1: 2 steps for a mesh of 1 dimensions}}
  kolo.transfer %a -> %a to [keep, keep] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{transfer_c2: the relation needs 1 operands, not 0}}
  "kolo.transfer"(%a, %a) <{steps = [#kolo.step<next>]}> ({
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  }) : (!kolo.buffer<0>, !kolo.buffer<0>) -> ()
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{transfer_c3: the body must take 2 coordinates of type index}}
  kolo.transfer %a -> %a to [keep] {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{transfer_c3: the body must take 2 coordinates of type index}}
  kolo.transfer %a -> %a to [keep] {
  ^bb0(%me: index, %peer: i64):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{copy_c1: the body must take 1 coordinates of type index}}
  kolo.copy %a -> %a {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{reduce_c1: the body must take 1 coordinates of type index}}
  kolo.reduce %a -> %a {
  ^bb0(%me: i64):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %a -> %a to [keep] {
  ^bb0(%me: index, %peer: index):
    // expected-error @below {{slices_c1: the source slice does not have the source's grid rank}}
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %a -> %a to [keep] {
  ^bb0(%me: index, %peer: index):
    // expected-error @below {{slices_c1: the destination slice does not have the destination's grid rank}}
    kolo.slices from [] size [] to [] size [%n]
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %b -> %b to [keep] {
  ^bb0(%me: index, %peer: index):
    // expected-error @below {{slices_c2: the source slice has 1 ranged dimensions, the destination slice 0}}
    kolo.slices from [%me] size [%n] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %a -> %a {
  ^bb0(%me: index):
    // expected-error @below {{slices_c1: the source slice does not have the source's grid rank}}
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %a -> %a {
  ^bb0(%me: index):
    // expected-error @below {{slices_c1: the destination slice does not have the destination's grid rank}}
    kolo.slices from [] size [] to [] size [%n]
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %b -> %b {
  ^bb0(%me: index):
    // expected-error @below {{slices_c2: the source slice has 1 ranged dimensions, the destination slice 0}}
    kolo.slices from [%me] size [%n] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.reduce %a -> %a {
  ^bb0(%me: index):
    // expected-error @below {{slices_c1: the source slice does not have the source's grid rank}}
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.reduce %a -> %a {
  ^bb0(%me: index):
    // expected-error @below {{slices_c1: the destination slice does not have the destination's grid rank}}
    kolo.slices from [] size [] to [] size [%n]
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.reduce %b -> %b {
  ^bb0(%me: index):
    // expected-error @below {{slices_c2: the source slice has 1 ranged dimensions, the destination slice 0}}
    kolo.slices from [%me] size [%n] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// expected-error @below {{a collective runs over a mesh dimension once}}
kolo.choreography @bad #kolo.collective<all_gather over 1, 1> mesh ["a", "b"] meshes [] {
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{a mapped step's table must be a permutation of 0 to its size - 1, or it has no inverse}}
  kolo.transfer %a -> %a to [mapped [0, 0]] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{only a mapped step has a table}}
  "kolo.transfer"(%a, %a) <{steps = [#kolo.step<keep[0]>]}> ({
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  }) : (!kolo.buffer<0>, !kolo.buffer<0>) -> ()
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{expected keep, next, flip, others, at or mapped}}
  kolo.transfer %a -> %a to [sideways] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  kolo.transfer %a -> %a to [next %c1] {
  ^bb0(%me: index, %peer: index):
    // expected-error @below {{slices_c3: one side must be a chunk of a buffer without slots}}
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// expected-error @below {{choreography_c5: was checked for another mesh than those it is compiled for, or twice for one}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] checked [#kolo.proof<[8] on [8]>] {
}

// -----

// expected-error @below {{choreography_c5: was checked for another mesh than those it is compiled for, or twice for one}}
kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]]
    checked [#kolo.proof<[4] on [4]>, #kolo.proof<[4] on [2]>] {
}

// -----

kolo.choreography @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] {
  %a = kolo.buffer scratch "a" as #kolo.codec<f32> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  kolo.reduce %a -> %b {
  ^bb0(%me: index):
    // expected-error @below {{slices_c4: combines into a buffer whose codec has scales, or is stochastic}}
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] {
  %a = kolo.buffer scratch "a" as #kolo.codec<f32> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<bf16 stochastic> grid() blocks 0 : !kolo.buffer<0>
  kolo.reduce %a -> %b {
  ^bb0(%me: index):
    // expected-error @below {{slices_c4: combines into a buffer whose codec has scales, or is stochastic}}
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] {
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %a -> %b {
  ^bb0(%me: index):
    // expected-error @below {{slices_c5: the buffers have two different codecs with scales}}
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c0 = arith.constant 0 : index
  %n = kolo.dim_size 0
  // expected-error @below {{choreography_c6: a loop with a step of 0}}
  scf.for %i = %n to %c0 step %c0 {
  }
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c0 = arith.constant 0 : index
  %n = kolo.dim_size 0
  // expected-error @below {{choreography_c6: a loop with a step that is no constant}}
  scf.for %i = %c0 to %n step %n {
  }
}
