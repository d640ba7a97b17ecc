// RUN: kolo-opt %s --verify-diagnostics --split-input-file

// What both phases refuse of the ops that they share, by constraint label.

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{dim_size_c1: the mesh has no dimension 1}}
  %n = kolo.dim_size 1
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c1: the type says 2 grid dimensions, the op has 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks 0 : !kolo.buffer<2>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c2: 2 block dimensions in a grid of 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks 2 : !kolo.buffer<1>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c2: -1 block dimensions in a grid of 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks -1 : !kolo.buffer<1>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  scf.for %i = %c1 to %c1 step %c1 {
    // expected-error @below {{buffer_c3: must be at the top level of a program}}
    %b = kolo.buffer scratch "b" grid() blocks 0 : !kolo.buffer<0>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  // expected-error @below {{dim_size_c1: the mesh has no dimension 1}}
  %n = kolo.dim_size 1
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c1: the type says 2 grid dimensions, the op has 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks 0 : !kolo.buffer<2>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c2: 2 block dimensions in a grid of 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks 2 : !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c2: -1 block dimensions in a grid of 1}}
  %b = kolo.buffer scratch "b" grid(%c1) blocks -1 : !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  scf.for %i = %c1 to %c1 step %c1 {
    // expected-error @below {{buffer_c3: must be at the top level of a program}}
    %b = kolo.buffer scratch "b" grid() blocks 0 : !kolo.buffer<0>
  }
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c4: only scratch, inbox and packets have slots, not the output}}
  %b = kolo.buffer output "b" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c5: 1 block dimensions in a grid of slots of 2}}
  %b = kolo.buffer scratch "b" grid(%c1, %c1) blocks 1 cut %c1 : !kolo.buffer<2>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c4: only scratch, inbox and packets have slots, not the output}}
  %b = kolo.buffer output "b" grid(%c1) blocks 1 cut %c1 : !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  // expected-error @below {{buffer_c5: 1 block dimensions in a grid of slots of 2}}
  %b = kolo.buffer scratch "b" grid(%c1, %c1) blocks 1 cut %c1 : !kolo.buffer<2>
}

// -----

// expected-error @below {{dim_size_c1: the mesh has no dimension 0}}
%n = kolo.dim_size 0

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  // expected-error @below {{buffer_c6: only packets are LL128, not the scratch}}
  %b = kolo.buffer scratch "b" grid() blocks 0 ll128 : !kolo.buffer<0>
}

// -----

// expected-error @below {{proof_c1: both meshes must have the same number of dimensions, and positive sizes}}
module attributes {test = #kolo.proof<[4] on [4, 1]>} {}

// -----

// expected-error @below {{proof_c1: both meshes must have the same number of dimensions, and positive sizes}}
module attributes {test = #kolo.proof<[4] on [0]>} {}

// -----

// expected-error @below {{proof_c1: both meshes must have at most 1048576 ranks}}
module attributes {test = #kolo.proof<[1048576, 2] on [2, 2]>} {}

// -----

// expected-error @below {{proof_c1: both meshes must have at most 1048576 ranks}}
module attributes {test = #kolo.proof<[2, 2] on [4294967296, 4294967296]>} {}

// -----

// expected-error @below {{proof_c2: there must be a size from which on the proof holds, or 0, for each dimension}}
module attributes {test = #kolo.proof<[4] on [4] from [1, 1]>} {}

// -----

// expected-error @below {{proof_c2: there must be a size from which on the proof holds, or 0, for each dimension}}
module attributes {test = #kolo.proof<[4] on [4] from [-1]>} {}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{stripe_c1: only a statement or an scf.for has a kolo.stripe, which is a number}}
  %n = kolo.dim_size 0 {kolo.stripe = 1}
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{stripe_c1: only a statement or an scf.for has a kolo.stripe, which is a number}}
  scf.for %i = %c0 to %c0 step %c1 {
  } {kolo.stripe = "one"}
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{phase_c1: only an op at the top level of a program has a kolo.phase, a number}}
  %n = kolo.dim_size 0 {kolo.phase = 1}
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  // expected-error @below {{pipeline_phase_c1: only an scf.if of a program has a kolo.pipeline_phase, a number}}
  kolo.chan.flush {kolo.pipeline_phase = 1}
}

// -----

// A mark that is misspelt, or of an older form, is refused, not ignored.
// expected-error @below {{mark_c1: there is no mark kolo.in_place}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 attributes {kolo.in_place = "direct"} {
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{buffer_c7: the output is the caller's and has no codec}}
  %b = kolo.buffer output "b" as #kolo.codec<bf16> grid() blocks 0 : !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{codec_c1: has a block of 48; a block is a power of two from 16 to 1024}}
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 48 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{codec_c1: has a scale, but bf16 is a cast}}
  %b = kolo.buffer scratch "b" as #kolo.codec<bf16 per 32 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{codec_c1: has level -1 after 0; levels increase}}
  %b = kolo.buffer scratch "b" as #kolo.codec<levels [0.0, -1.0] per 32 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{codec_c1: 'none' is no text of a codec}}
  %b = kolo.buffer scratch "b" as #kolo.codec<none> grid() blocks 0 : !kolo.buffer<0>
}

// -----

kolo.choreography @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {
  // expected-error @below {{'i9 per 32 scale f32 fit' is no codec: ELEMENT [per BLOCK scale TYPE RULE] [stochastic]}}
  %b = kolo.buffer scratch "b" as #kolo.codec<i9 per 32 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
}
