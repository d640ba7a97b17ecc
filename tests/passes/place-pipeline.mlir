// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project{transfers=push},kolo.chan.program(kolo-place-pipeline{depth=4}),canonicalize,cse)' | FileCheck %s
// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project{transfers=push},kolo.chan.program(kolo-place-pipeline),canonicalize,cse)' | FileCheck %s --check-prefix=WHOLE
// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo-project{transfers=push},kolo.chan.program(kolo-place-pipeline{depth=4},kolo-infer-synchronisation),canonicalize,cse)' | FileCheck %s --check-prefix=ARRIVED

// Two phases and four slices: five rounds. The later phase comes first, for the slice before.
// CHECK-LABEL: @twoPhases
// CHECK-DAG: [[SLICES:%.*]] = arith.constant 4
// CHECK-DAG: [[ROUNDS:%.*]] = arith.constant 5
// CHECK-DAG: [[LANES:%.*]] = kolo.chan.num_lanes
// CHECK: [[PARTS:%.*]] = arith.muli [[LANES]], [[SLICES]]
// CHECK: scf.for [[ROUND:%.*]] = {{.*}} to [[ROUNDS]]
// CHECK: [[BEFORE:%.*]] = arith.subi [[ROUND]]
// CHECK: scf.if
// CHECK: [[START:%.*]] = arith.muli [[BEFORE]], [[LANES]]
// CHECK: [[PART:%.*]] = arith.addi [[START]]
// CHECK: kolo.chan.copy {{.*}} part [[PART]] of [[PARTS]]
// CHECK: scf.if
// CHECK: kolo.chan.put {{.*}} part {{.*}} of [[PARTS]]
// CHECK-NEXT: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK: {kolo.pipeline_phase = 0 : i64}

// One slice: nothing changes.
// WHOLE-LABEL: @twoPhases
// WHOLE-NOT: kolo.phase
// WHOLE-NOT: scf.for
// WHOLE: kolo.chan.put
// WHOLE-NOT: part
// WHOLE: kolo.chan.wait 0
// WHOLE-NOT: part
kolo.choreography @twoPhases #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %between = kolo.buffer scratch "between" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %between to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.copy %between -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// The last phase sends: one more round, for what it sent in the round before.
// CHECK-LABEL: @lastSends
// CHECK-DAG: [[ROUNDS:%.*]] = arith.constant 6
// CHECK: scf.for {{.*}} to [[ROUNDS]]

// WHOLE-LABEL: @lastSends
// WHOLE-NOT: scf.for

// Where no phase waits between its moves, a round then begins with the first phase. One entry credit does for all slices.
// ARRIVED-LABEL: @lastSends
// ARRIVED: kolo.chan.signal 1 {{.*}} credit(entry)
// ARRIVED: kolo.chan.wait 1 {{.*}} credit(entry)
// ARRIVED: scf.for
// ARRIVED: kolo.chan.copy
// ARRIVED: kolo.chan.put
// ARRIVED-NEXT: kolo.chan.signal 0
// ARRIVED-NEXT: }
// ARRIVED: kolo.chan.wait 0
// ARRIVED-NEXT: }
kolo.choreography @lastSends #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}
