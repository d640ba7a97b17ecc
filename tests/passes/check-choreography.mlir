// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.choreography(kolo-check-choreography))' | FileCheck %s

// What is right is left as it was, with a note of the meshes that were looked at.

// CHECK: kolo.choreography @test
// CHECK-SAME: checked [#kolo.proof<[4] on [4]>, #kolo.proof<[3] on [3]>]
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [3]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A mesh of more than 64 ranks is represented by a smaller one: a power of two by a power of two, others by none.
// CHECK: checked [#kolo.proof<[8192] on [64]>, #kolo.proof<[6000] on [47]>]
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[8192], [6000]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// A dimension that a table is mapped along keeps its size, and the other one shrinks.
// CHECK: checked [#kolo.proof<[100, 3] on [13, 3]>]
kolo.choreography @test #kolo.collective<all_gather over 0> mesh ["node", "gpu"] meshes [[100, 3]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %work to [keep, mapped [2, 0, 1]] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%node: index, %gpu: index):
    kolo.slices from [] size [] to [%node] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [others, keep] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [%node] size [%c1] to [%node] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// -----

// Every root is looked at; only its output is asked for.
// CHECK: kolo.choreography @test <reduce over 0>
// CHECK-SAME: checked [
kolo.choreography @test #kolo.collective<reduce over 0> mesh ["rank"] meshes [[1], [5]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %root = kolo.root
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    %isRoot = arith.cmpi eq, %me, %root : index
    kolo.slices from [] size [] to [] size [] when %isRoot
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [at %root] {
  ^bb0(%me: index, %peer: index):
    %isOther = arith.cmpi ne, %me, %root : index
    kolo.slices from [] size [] to [] size [] when %isOther
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Every chunk takes its way through one of two slots, whatever its length; on one rank there is nothing to hold.
// CHECK: checked [#kolo.proof<[5] on [5]>, #kolo.proof<[1] on [1]>]
kolo.choreography @test #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[5], [1]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %in = kolo.buffer input "in" grid(%n, %c2) blocks 1 : !kolo.buffer<2>
  %out = kolo.buffer output "out" grid(%n, %c2) blocks 1 : !kolo.buffer<2>
  %none = kolo.buffer scratch "none" grid(%last) blocks 1 cut %last : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%c2) blocks 1 cut %c2 : !kolo.buffer<1>
  scf.for %distance = %c0 to %n step %c1 {
    kolo.transfer %in -> %slots to [next %distance] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [%peer, %c0] size [%c1, %c2] to [%distance] size [%c2]
    } : !kolo.buffer<2> -> !kolo.buffer<1>
    kolo.copy %slots -> %out {
    ^bb0(%me: index):
      %sender = arith.subi %me, %distance : index
      kolo.slices from [%distance] size [%c2] to [%sender, %c0] size [%c1, %c2]
    } : !kolo.buffer<1> -> !kolo.buffer<2>
  }
}

// -----

// Receivers that a condition leaves out need not exist.
// CHECK: checked [#kolo.proof<[3] on [3]>]
kolo.choreography @absent #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[3]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %five = arith.constant 5 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    %is = arith.cmpi slt, %peer, %n : index
    kolo.slices from [%me] size [%c1] to [%me] size [%c1] when %is
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [at %five] {
  ^bb0(%me: index, %peer: index):
    %is = arith.cmpi slt, %peer, %n : index
    kolo.slices from [%me] size [%c1] to [%me] size [%c1] when %is
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}
