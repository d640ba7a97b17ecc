// RUN: kolo-opt %s --split-input-file --kolo-project --canonicalize --cse | FileCheck %s
// RUN: kolo-opt %s --split-input-file --kolo-project=transfers=push --canonicalize --cse | FileCheck %s --check-prefix=PUSH
// RUN: kolo-opt %s --split-input-file --kolo-project=transfers=pull --canonicalize --cse | FileCheck %s --check-prefix=PULL
// RUN: kolo-opt %s --split-input-file --kolo-project=together=1 --canonicalize --cse | FileCheck %s --check-prefix=TOGETHER

// A transfer is pushed: to the next rank, data signal behind it, flush, and a wait for the rank before. A loop stays one.
// CHECK-LABEL: kolo.chan.program @push <all_gather over 0> mesh ["rank"] meshes {{\[\[}}4]] semaphores 1
// CHECK-SAME: kept = "yes"
// CHECK-NOT: kolo.choreography
// CHECK: [[ME:%.*]] = kolo.chan.coord 0
// CHECK: kolo.chan.copy {{%.*}}[] size[] -> [[OUT:%.*]][[[ME]]] size[{{%.*}}]
// CHECK: scf.for [[S:%.*]] =
// CHECK: arith.addi [[ME]], %c1
// CHECK: [[NEXT:%.*]] = arith.select
// CHECK: [[I:%.*]] = arith.subi [[ME]], [[S]]
// CHECK: kolo.chan.put [[OUT]][[[I]]] size[{{%.*}}] -> [[OUT]][[[I]]] size[{{%.*}}] to [[NEXT]]
// CHECK-NEXT: kolo.chan.signal 0 to [[NEXT]]
// CHECK-NEXT: kolo.chan.flush
// CHECK: arith.subi [[ME]], %c1
// CHECK: [[PREVIOUS:%.*]] = arith.select
// CHECK: kolo.chan.wait 0 from [[PREVIOUS]]
// CHECK-NOT: kolo.chan.divide
// All ranks enter before anything is moved.
// CHECK-NOT: kolo.chan.enter
// TOGETHER-LABEL: kolo.chan.program @push
// TOGETHER-NOT: kolo.chan.copy
// TOGETHER: kolo.chan.enter
// TOGETHER: kolo.chan.copy
kolo.choreography @push #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] attributes {kept = "yes"} {
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

// A reducing transfer is pulled: a signal that the source is ready, a wait for the sender's, and a reduction from there.
// A reducing collective ends with the division of an average.
// CHECK-LABEL: kolo.chan.program @pull
// CHECK: [[ME:%.*]] = kolo.chan.coord 0
// CHECK: [[PEER:%.*]] = arith.xori [[ME]], %c1
// CHECK-NEXT: kolo.chan.signal 0 to [[PEER]]
// CHECK-NEXT: kolo.chan.wait 0 from [[PEER]]
// CHECK-NEXT: kolo.chan.reduce [[IN:%.*]][] size[] -> [[OUT:%.*]][] size[] from [[PEER]]
// CHECK-NEXT: kolo.chan.divide [[OUT]][] size[]
// CHECK-NOT: kolo.chan.flush
kolo.choreography @pull #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// One loop over the receivers, one over the senders; the sender of a chunk is the peer in the second one.
// CHECK-LABEL: kolo.chan.program @fan
// CHECK: scf.for
// CHECK: kolo.chan.put
// CHECK: kolo.chan.signal 0
// CHECK: }
// CHECK: kolo.chan.flush
// CHECK: scf.for
// CHECK: kolo.chan.wait 0
kolo.choreography @fan #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [[4]] {
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

// Everybody sends to one rank, which alone waits, for all. The condition holds for the sender, so it is computed twice.
// CHECK-LABEL: kolo.chan.program @at
// CHECK: [[ROOT:%.*]] = kolo.root
// CHECK: scf.if {{%.*}} {
// CHECK: kolo.chan.put {{.*}} to [[ROOT]]
// CHECK: kolo.chan.signal 0 to [[ROOT]]
// CHECK: kolo.chan.flush
// CHECK: scf.for [[SENDER:%.*]] =
// CHECK: arith.cmpi eq, [[ME:%.*]], [[ROOT]]
// CHECK: scf.if
// CHECK: arith.cmpi ne, [[SENDER]], [[ROOT]]
// CHECK: scf.if
// CHECK: kolo.chan.wait 0 from [[SENDER]]
kolo.choreography @at #kolo.collective<gather over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %root = kolo.root
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %in -> %out to [at %root] {
  ^bb0(%me: index, %peer: index):
    %isOther = arith.cmpi ne, %me, %root : index
    kolo.slices from [] size [] to [%me] size [%c1] when %isOther
  } : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

// A permutation is looked up forwards, and backwards in its inverse. Ranks are numbered row-major.
// CHECK-LABEL: kolo.chan.program @mapped
// CHECK: [[GPUS:%.*]] = kolo.dim_size 1
// CHECK: [[GPU:%.*]] = kolo.chan.coord 1
// CHECK: [[TO:%.*]] = kolo.lookup [[GPU]] in [1, 2, 0]
// CHECK: [[ROW:%.*]] = arith.muli {{%.*}}, [[GPUS]]
// CHECK: [[RANK:%.*]] = arith.addi [[ROW]], [[TO]]
// CHECK: kolo.chan.put {{.*}} to [[RANK]]
// CHECK: kolo.lookup [[GPU]] in [2, 0, 1]
kolo.choreography @mapped #kolo.collective<all_gather over 0> mesh ["node", "gpu"] meshes [[2, 3]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %work to [keep, mapped [1, 2, 0]] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// The root alone divides.
// CHECK-LABEL: kolo.chan.program @reduce
// CHECK: [[IS_ROOT:%.*]] = arith.cmpi eq
// CHECK-NEXT: scf.if [[IS_ROOT]] {
// CHECK-NEXT: kolo.chan.divide
kolo.choreography @reduce #kolo.collective<reduce over 0> mesh ["rank"] meshes [[4]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
}

// -----

// What exists at the root only is fetched by those who want it, unless the schedule says otherwise; the rest is not.
// CHECK-LABEL: kolo.chan.program @fromRoot
// CHECK: kolo.chan.signal 0
// CHECK: kolo.chan.wait 0
// CHECK-NEXT: kolo.chan.get
// CHECK: kolo.chan.put
// CHECK-NEXT: kolo.chan.signal 1
// CHECK-NOT: kolo.chan.get
// PUSH-LABEL: kolo.chan.program @fromRoot
// PUSH-NOT: kolo.chan.get
// PUSH-COUNT-2: kolo.chan.put
// PULL-LABEL: kolo.chan.program @fromRoot
// PULL-NOT: kolo.chan.put
// PULL-COUNT-2: kolo.chan.get
kolo.choreography @fromRoot #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[4]] {
  %c1 = arith.constant 1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %out to [others] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer %out -> %out to [next %c1] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Along a dimension that may be a network nothing is read, so here the root sends, whatever the schedule says. Along others
// the schedule decides. The program keeps the attribute.
// CHECK-LABEL: kolo.chan.program @network
// CHECK-SAME: network_dims = array<i64: 0>
// CHECK: kolo.chan.put
// CHECK: kolo.chan.get
// PULL-LABEL: kolo.chan.program @network
// PULL: kolo.chan.put
// PULL: kolo.chan.get
kolo.choreography @network #kolo.collective<broadcast over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]]
    attributes {network_dims = array<i64: 0>} {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.transfer %in -> %out to [others, keep] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer %in -> %out to [keep, others] {
  ^bb0(%node: index, %gpu: index, %otherNode: index, %otherGpu: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Where a condition lets receivers be absent, a rank first asks whether its sender exists, and evaluates the body after that.
// CHECK-LABEL: kolo.chan.program @absent
// CHECK: [[N:%.*]] = kolo.dim_size 0
// CHECK: [[ME:%.*]] = kolo.chan.coord 0
// CHECK: [[PEER:%.*]] = arith.xori [[ME]], %c1
// CHECK: [[TAKES_PART:%.*]] = arith.cmpi slt, [[PEER]], [[N]]
// CHECK-NEXT: scf.if [[TAKES_PART]] {
// CHECK-NEXT: kolo.chan.put {{.*}} to [[PEER]]
// CHECK: kolo.chan.flush
// CHECK: [[IS_RANK:%.*]] = arith.cmpi s{{.*}}, [[PEER]]
// CHECK: [[IS_SENDER:%.*]] = arith.andi [[IS_RANK]], [[TAKES_PART]]
// CHECK-NEXT: scf.if [[IS_SENDER]] {
// CHECK: arith.cmpi slt, [[ME]], [[N]]
// CHECK: kolo.chan.wait 0 from [[PEER]]
kolo.choreography @absent #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[3]] {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.transfer %out -> %out to [flip %c1] {
  ^bb0(%me: index, %peer: index):
    %is = arith.cmpi slt, %peer, %n : index
    kolo.slices from [%me] size [%c1] to [%me] size [%c1] when %is
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}
