// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.choreography(kolo-check-choreography))'

// Every kind of mistake is refused where the author made it.

// A slice out of range.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %five = arith.constant 5 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{a slice takes 5 chunks along dimension 0 of 'out', which has 4 there (mesh rank=4)}}
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%five] to [%me] size [%five]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A slice of less than nothing.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %less = arith.constant -1 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{a slice takes -1 chunks along dimension 0 of 'out'}}
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%less] to [%me] size [%less]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A grid without chunks.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %n4 = arith.constant 4 : index
  %none = arith.subi %n, %n4 : index
  %work = kolo.buffer scratch "work" grid(%none) blocks 0 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{grid dimension 0 of 'work' has 0 chunks on mesh rank=4}}
  kolo.copy %work -> %work {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%none] to [%c0] size [%none]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Different shapes.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{the source slice has [2] chunks, the destination slice [3] (rank 0 to 1, mesh rank=4)}}
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%two] to [%me] size [%three]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Chunks of different size: a whole block and a part of one.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  // expected-error@below {{chunks of different size: all of 'in' and chunk [0] of 'out' (mesh rank=4)}}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%c0] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// Chunks of different size: with four chunks per block, the second is not as large as the first when rounding differs.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  // expected-error@below {{chunks of different size: chunk [0] of 'in' and chunk [1] of 'out'}}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%c1] to [%c1] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Read before written.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{rank 0 reads chunk [0] of 'out' before anything wrote it (mesh rank=4)}}
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Read before written, on the last rank and on the second mesh only.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [5]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %four = arith.constant 4 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    %isLow = arith.cmpi slt, %me, %four : index
    kolo.slices from [] size [] to [%me] size [%c1] when %isLow
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{rank 4 reads chunk [4] of 'out' before anything wrote it (mesh rank=5)}}
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Reduced into before written.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{reduces into all of 'out' on rank 1 before anything wrote it (mesh rank=4)}}
  kolo.transfer reducing %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Two writers.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{several senders write chunk [0] of 'out' on rank}}
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%c0] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A contribution twice.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error@below {{counts a contribution twice: combines input chunk 0 of ranks 0 1 with input chunk 0 of ranks 0 3 in all of 'out' on rank 1}}
  kolo.transfer reducing %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Contributions to different elements.
kolo.choreography @test #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
  // expected-error@below {{combines input chunk}}
  kolo.transfer reducing %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

// A wrong result.
// expected-error@below {{the result is not all_gather: on rank 0, chunk 1 of the output holds nothing instead of input chunk 0 of rank 1 (mesh rank=4)}}
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// No output at all.
// expected-error@below {{the result is not all_gather: there is no output}}
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
}

// -----

// A flip outside of the mesh.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2], [3]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{flip(rank, 1) leads from coordinate 2 to 3, but rank has 3 ranks; the size must be a power of two}}
  kolo.transfer %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Where the condition holds for a receiver that is not there.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[3]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{flip(rank, 1) leads from coordinate 2 to 3, but rank has 3 ranks; the size must be a power of two}}
  kolo.transfer %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    %is = arith.cmpi sle, %peer, %n : index
    kolo.slices from [%me] size [%c1] to [%me] size [%c1] when %is
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  // expected-error@below {{at(rank, 3), but rank has 3 ranks}}
  kolo.transfer %out -> %out to [at %n] {
  ^bb0(%me: index, %peer: index):
    %is = arith.cmpi eq, %me, %c1 : index
    kolo.slices from [%me] size [%c1] to [%me] size [%c1] when %is
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A fixed coordinate outside of the mesh.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %nine = arith.constant 9 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{at(rank, 9), but rank has 4 ranks}}
  kolo.transfer %out -> %out to [at %nine] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A table of another size.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{the table mapped along rank has 2 entries, but rank has 4 ranks}}
  kolo.transfer %out -> %out to [mapped [1, 0]] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A division by zero.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %four = arith.constant 4 : index
  %zero = arith.subi %n, %four : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    // expected-error@below {{divides by zero on this mesh}}
    %i = arith.floordivsi %me, %zero : index
    kolo.slices from [%i] size [%c1] to [%i] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A logarithm of zero.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %n64 = arith.index_cast %n : index to i64
  %four = arith.constant 4 : i64
  %zero = arith.subi %n64, %four : i64
  // expected-error@below {{logarithm of 0 on this mesh}}
  %zeros = math.ctlz %zero : i64
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A power of two with an impossible exponent.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %big = arith.constant 63 : index
  // expected-error@below {{2 to the power of 63 on this mesh; the exponent must be 0 to 62}}
  %power = arith.shli %c1, %big : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A product beyond 64 bits.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %big = arith.constant 4611686018427387904 : index
  // expected-error@below {{the product of 4611686018427387904 and 4 is beyond 64 bits on this mesh}}
  %beyond = arith.muli %big, %n : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A sum beyond 64 bits.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %big = arith.constant 9223372036854775807 : index
  // expected-error@below {{the sum of 9223372036854775807 and 4 is beyond 64 bits on this mesh}}
  %beyond = arith.addi %big, %n : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A difference beyond 64 bits.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %big = arith.constant -9223372036854775806 : index
  // expected-error@below {{-9223372036854775806 less 4 is beyond 64 bits on this mesh}}
  %beyond = arith.subi %big, %n : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// An index outside of a table.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{index 4 is outside of the table of 2}}
  %entry = kolo.lookup %n in [0, 1]
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// The output of a rank that is not the root.
kolo.choreography @test #kolo.collective<gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{writes the output of rank 1, but only the root has an output (mesh rank=4)}}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// The input of a rank that is not the root.
kolo.choreography @test #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{rank 1 reads all of 'in' before anything wrote it (mesh rank=4)}}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A loop that does not advance.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{choreography_c6: a loop with a step of 0}}
  scf.for %s = %c0 to %n step %c0 {
  }
}

// -----

// Arithmetic that a choreography may not use.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{'arith.shrsi' is not index arithmetic that a choreography may use}}
  %half = arith.shrsi %n, %c1 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// Several mistakes are reported at once; a mistaken statement only once.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %nine = arith.constant 9 : index
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-error@below {{at(rank, 9), but rank has 4 ranks}}
  kolo.transfer %out -> %out to [at %nine] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %n step %c1 {
    // expected-error@below {{a slice takes 9 chunks}}
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [%me] size [%nine] to [%me] size [%nine]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

// Slots for other chunks: of whole blocks.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %c1 : !kolo.buffer<1>
  // expected-error@below {{chunks of different size: chunk [0] of 'in' and slot [2] of 'slots': a block of 'in' has 4 chunks, the slots of 'slots' are for blocks of 1 chunks (mesh rank=4)}}
  kolo.transfer %in -> %slots to [next %c1] {
  ^bb0(%me: index, %peer: index):
    %two = arith.constant 2 : index
    kolo.slices from [%me] size [%c1] to [%two] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// What was put into a slot as one chunk is taken from it as another, which may be longer.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  kolo.copy %in -> %slots {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [%c0] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  // expected-error@below {{slot [0] of 'slots' on rank 0 holds input chunk 0 of rank 0, which may be of another size than chunk [1] of 'work' (mesh rank=4)}}
  kolo.copy %slots -> %work {
  ^bb0(%me: index):
    %up = arith.addi %me, %c1 : index
    kolo.slices from [%c0] size [%c1] to [%up] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A chunk is combined into a slot that holds another one.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid() blocks 0 cut %n : !kolo.buffer<0>
  kolo.copy %in -> %slots {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
  // expected-error@below {{combines input chunk 0 of rank 0 with input chunk 1 of rank 0 in all of 'slots' on rank 0; a statement starts when those before it are complete (mesh rank=4)}}
  kolo.reduce %in -> %slots {
  ^bb0(%me: index):
    %up = arith.addi %me, %c1 : index
    kolo.slices from [%up] size [%c1] to [] size []
  } : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

// Nothing arrived in the slot yet.
kolo.choreography @test #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%n, %n) blocks 2 cut %n : !kolo.buffer<2>
  // expected-error@below {{rank 0 reads slot [1, 0] of 'slots' before anything wrote it (mesh rank=4)}}
  kolo.copy %slots -> %work {
  ^bb0(%me: index):
    kolo.slices from [%c1, %me] size [%c1, %c1] to [%me] size [%c1]
  } : !kolo.buffer<2> -> !kolo.buffer<1>
}

// -----

// A grid of more chunks than can be looked at.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %many = arith.constant 1099511627776 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error@below {{'work' has 4398046511104 chunks on every rank; all buffers on all ranks together may have 4194304 (mesh rank=4)}}
  %work = kolo.buffer scratch "work" grid(%many, %n) blocks 0 : !kolo.buffer<2>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A loop of more rounds than can be gone through.
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 1099511627776 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  scf.for %i = %c0 to %n step %c1 {
    // expected-error@below {{going through this loop takes 1099511627776 executions of statements, and 3298534883328 moves of chunks by each rank; 16777216 moves are allowed (mesh rank=4)}}
    scf.for %j = %c0 to %many step %c1 {
      kolo.transfer %out -> %out to [others] {
      ^bb0(%me: index, %peer: index):
        kolo.slices from [%me] size [%c1] to [%me] size [%c1]
      } : !kolo.buffer<1> -> !kolo.buffer<1>
    }
  }
}

// -----

// expected-error@below {{mesh rank=65 has more than 4194304 chunks on all ranks together, and no smaller mesh represents it, since a relation maps a dimension by a table}}
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[65]] {
  %c1 = arith.constant 1 : index
  %many = arith.constant 1000 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%many) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n, %many) blocks 1 : !kolo.buffer<2>
  kolo.transfer %in -> %out to [mapped [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 0]] {
  ^bb0(%me: index, %peer: index):
    %zero = arith.constant 0 : index
    kolo.slices from [%zero] size [%c1] to [%me, %zero] size [%c1, %c1]
  } : !kolo.buffer<1> -> !kolo.buffer<2>
}

// -----

// A scan whose ranks combine what only the rank below has.
// expected-error@below {{the result is not scan: on rank 2, chunk 0 of the output holds input chunk 0 of ranks 1 2 instead of input chunk 0 of ranks 0 1 2 (mesh rank=4)}}
kolo.choreography @test #kolo.collective<scan over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    %isBelow = arith.cmpi slt, %me, %peer : index
    kolo.slices from [] size [] to [] size [] when %isBelow
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// A scan whose ranks combine what ranks above have, too.
// expected-error@below {{the result is not scan: on rank 0, chunk 0 of the output holds input chunk 0 of ranks 0 1 2 3 instead of input chunk 0 of rank 0 (mesh rank=4)}}
kolo.choreography @test #kolo.collective<scan over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
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

// The first rank of an exscan has no output.
kolo.choreography @test #kolo.collective<exscan over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{writes the output of rank 0, but the first rank has no output (mesh rank=4)}}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// An exscan whose ranks combine their own inputs as well. The group runs over the slower dimension.
// expected-error@below {{the result is not exscan: on rank 2, chunk 0 of the output holds input chunk 0 of ranks 0 2 instead of input chunk 0 of rank 0 (mesh node=2,gpu=2)}}
kolo.choreography @test #kolo.collective<exscan over 0> mesh ["node", "gpu"] meshes [[2, 2]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%node: index, %gpu: index):
    %isLater = arith.cmpi sgt, %node, %c0 : index
    kolo.slices from [] size [] to [] size [] when %isLater
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [next %c1, keep] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    %isBelow = arith.cmpi slt, %node, %peerNode : index
    kolo.slices from [] size [] to [] size [] when %isBelow
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}
