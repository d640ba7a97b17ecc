// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.choreography(kolo-fuse-stripes))' | FileCheck %s

// Loops with equal bounds become one, in pairs, though those of one variant come first; the parts of all variants around
// them stay where they are.
// CHECK-LABEL: @twoWays
// CHECK: kolo.copy
// CHECK-NOT: kolo.stripe
// CHECK: scf.for [[S:%[a-z0-9]+]] = %c0 to
// CHECK: kolo.transfer reducing {{.*}} to [next %c1] {
// CHECK: arith.subi {{%.*}}, [[S]]
// CHECK: kolo.slices from[{{%.*}}, %c0] size[%c1, %c1]
// CHECK: {kolo.stripe = 0 : i64}
// CHECK: kolo.transfer reducing {{.*}} to [next %c-1] {
// CHECK: arith.addi {{%.*}}, [[S]]
// CHECK: kolo.slices from[{{%.*}}, %c1] size[%c1, %c1]
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: }
// CHECK-NEXT: scf.for
// CHECK: kolo.transfer {{.*}} to [next %c1] {
// CHECK: {kolo.stripe = 0 : i64}
// CHECK: kolo.transfer {{.*}} to [next %c-1] {
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: }
// CHECK-NOT: scf.for
// CHECK: kolo.copy
kolo.choreography @twoWays #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  %out = kolo.buffer output "out" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  %work = kolo.buffer scratch "work" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  kolo.copy %in -> %work {
  ^bb0(%me: index):
    kolo.slices from [%c0, %c0] size [%n, %c2] to [%c0, %c0] size [%n, %c2]
  } : !kolo.buffer<2> -> !kolo.buffer<2>
  %last = arith.subi %n, %c1 : index
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer reducing %work -> %work to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i, %c0] size [%c1, %c1] to [%i, %c0] size [%c1, %c1]
    } {kolo.stripe = 0} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %work -> %work to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i, %c0] size [%c1, %c1] to [%i, %c0] size [%c1, %c1]
    } {kolo.stripe = 0} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 0}
  %back = arith.constant -1 : index
  %alsoLast = arith.subi %n, %c1 : index
  scf.for %s = %c0 to %alsoLast step %c1 {
    kolo.transfer reducing %work -> %work to [next %back] {
    ^bb0(%me: index, %peer: index):
      %i = arith.addi %me, %s : index
      kolo.slices from [%i, %c1] size [%c1, %c1] to [%i, %c1] size [%c1, %c1]
    } {kolo.stripe = 1} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 1}
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %work -> %work to [next %back] {
    ^bb0(%me: index, %peer: index):
      %i = arith.addi %me, %s : index
      kolo.slices from [%i, %c1] size [%c1, %c1] to [%i, %c1] size [%c1, %c1]
    } {kolo.stripe = 1} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 1}
  kolo.copy %work -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0, %c0] size [%n, %c2] to [%c0, %c0] size [%n, %c2]
  } : !kolo.buffer<2> -> !kolo.buffer<2>
}

// -----

// Statements take turns, before loops and inside them; loops inside loops become one; loops of different length stay apart.
// CHECK-LABEL: @turns
// CHECK: kolo.copy
// CHECK: {kolo.stripe = 0 : i64}
// CHECK-NEXT: kolo.copy
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: kolo.reduce
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: scf.for [[S:%[a-z0-9]+]] = %c0 to %c4
// CHECK-NEXT: [[UP:%.*]] = arith.addi [[S]], %c1
// CHECK: kolo.copy
// CHECK: {kolo.stripe = 0 : i64}
// CHECK-NEXT: kolo.copy
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: scf.for {{%.*}} = %c0 to [[UP]]
// CHECK: kolo.reduce
// CHECK: {kolo.stripe = 0 : i64}
// CHECK-NEXT: kolo.reduce
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: scf.for {{.*}} to %c2
// CHECK: {kolo.stripe = 0 : i64}
// CHECK-NEXT: } {kolo.stripe = 0 : i64}
// CHECK-NEXT: scf.for {{.*}} to %c4
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NEXT: } {kolo.stripe = 1 : i64}
kolo.choreography @turns #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %in = kolo.buffer input "in" grid(%c2) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%c2) blocks 0 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
  } {kolo.stripe = 0} : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %c4 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } {kolo.stripe = 0} : !kolo.buffer<1> -> !kolo.buffer<1>
    %up = arith.addi %s, %c1 : index
    scf.for %t = %c0 to %up step %c1 {
      kolo.reduce %in -> %out {
      ^bb0(%me: index):
        kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
      } {kolo.stripe = 0} : !kolo.buffer<1> -> !kolo.buffer<1>
    } {kolo.stripe = 0}
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } {kolo.stripe = 0} : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
  } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.reduce %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
  } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %c4 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
    } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
    %up = arith.addi %s, %c1 : index
    scf.for %t = %c0 to %up step %c1 {
      kolo.reduce %in -> %out {
      ^bb0(%me: index):
        kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
      } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
    } {kolo.stripe = 1}
  } {kolo.stripe = 1}
  scf.for %s = %c0 to %c4 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
    } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
}

// -----

// Variants that meet in one part stay as they are, however they are marked: here index 2 is index 0 again.
// CHECK-LABEL: @meet
// CHECK: scf.for
// CHECK: } {kolo.stripe = 0 : i64}
// CHECK: scf.for
// CHECK: } {kolo.stripe = 1 : i64}
kolo.choreography @meet #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %in = kolo.buffer input "in" grid(%c2) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%c2) blocks 0 : !kolo.buffer<1>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } {kolo.stripe = 0} : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c2] size [%c1]
    } {kolo.stripe = 1} : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
}

// -----

// The same part under two numbers, parts that depend on a loop, more than one part, a statement of no variant in between.
// CHECK-LABEL: @apart
// CHECK-COUNT-8: } {kolo.stripe = {{[0-9]}} : i64}
kolo.choreography @apart #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %in = kolo.buffer input "in" grid(%c2) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%c2) blocks 0 : !kolo.buffer<1>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
  %first = kolo.buffer scratch "first" grid() blocks 0 : !kolo.buffer<0>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%s] size [%c1] to [%c0] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
  %second = kolo.buffer scratch "second" grid() blocks 0 : !kolo.buffer<0>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c2] to [%c0] size [%c2]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
  %third = kolo.buffer scratch "third" grid() blocks 0 : !kolo.buffer<0>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%c1] to [%c0] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 0}
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%c2] to [%c0] size [%c2]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %c2 step %c1 {
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c1] size [%c1] to [%c1] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  } {kolo.stripe = 1}
}

// -----

// The slots of a variant, which lie before its loop, do not keep the loops apart.
// CHECK-LABEL: @slots
// CHECK: "slots0"
// CHECK: "slots1"
// CHECK: scf.for
// CHECK: kolo.copy
// CHECK: {kolo.stripe = 0 : i64}
// CHECK: kolo.copy
// CHECK: {kolo.stripe = 1 : i64}
// CHECK-NOT: scf.for
kolo.choreography @slots #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = kolo.dim_size 0
  %work = kolo.buffer scratch "work" grid(%n, %c2) blocks 0 : !kolo.buffer<2>
  %slots0 = kolo.buffer scratch "slots0" grid(%n, %c2) blocks 2 cut %n : !kolo.buffer<2>
  scf.for %s = %c0 to %n step %c1 {
    kolo.copy %work -> %slots0 {
    ^bb0(%me: index):
      kolo.slices from [%s, %c0] size [%c1, %c1] to [%s, %c0] size [%c1, %c1]
    } {kolo.stripe = 0} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 0}
  %slots1 = kolo.buffer scratch "slots1" grid(%n, %c2) blocks 2 cut %n : !kolo.buffer<2>
  scf.for %s = %c0 to %n step %c1 {
    kolo.copy %work -> %slots1 {
    ^bb0(%me: index):
      kolo.slices from [%s, %c1] size [%c1, %c1] to [%s, %c1] size [%c1, %c1]
    } {kolo.stripe = 1} : !kolo.buffer<2> -> !kolo.buffer<2>
  } {kolo.stripe = 1}
}
