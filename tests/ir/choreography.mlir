// RUN: kolo-opt %s | kolo-opt | FileCheck %s
// RUN: kolo-opt %s --mlir-print-op-generic | kolo-opt | FileCheck %s
// RUN: kolo-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// Every op, relation step and attribute of the choreography phase prints as it was written.

// CHECK-LABEL: kolo.choreography @all <all_reduce over 0, 1> mesh ["node", "gpu"] meshes {{\[\[}}4, 8], [3, 8]] {
// GENERIC: "kolo.choreography"() <{collective = #kolo.collective<all_reduce over 0, 1>, in_place = #kolo<in_place copyInput>, mesh = ["node", "gpu"],
// GENERIC-SAME: meshes = [array<i64: 4, 8>, array<i64: 3, 8>], sym_name = "all"}> ({
kolo.choreography @all #kolo.collective<all_reduce over 0, 1> mesh ["node", "gpu"] meshes [[4, 8], [3, 8]] {
  %c0 = arith.constant 0 : index
  // CHECK-DAG: [[ONE:%.*]] = arith.constant 1 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // CHECK: [[N:%.*]] = kolo.dim_size 1
  // GENERIC: "kolo.dim_size"() <{dim = 1 : i64}> : () -> index
  %n = kolo.dim_size 1
  // CHECK: [[ROOT:%.*]] = kolo.root
  // GENERIC: "kolo.root"() : () -> index
  %root = kolo.root
  // CHECK: kolo.lookup [[N]] in [2, 0, -1]
  // GENERIC: "kolo.lookup"({{.*}}) <{table = array<i64: 2, 0, -1>}> : (index) -> index
  %entry = kolo.lookup %n in [2, 0, -1]
  // CHECK: [[IN:%.*]] = kolo.buffer input "in" grid() blocks 0 : <0>
  // GENERIC: "kolo.buffer"() <{blocks = 0 : i64, name = "in", operandSegmentSizes = array<i32: 0, 0>,
  // GENERIC-SAME: role = #kolo<role input>}> : () -> !kolo.buffer<0>
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  // CHECK: [[OUT:%.*]] = kolo.buffer output "out" grid({{.*}}) blocks 0 : <1>
  %out = kolo.buffer output "out" grid(%c1) blocks 0 : !kolo.buffer<1>
  // CHECK: [[SCRATCH:%.*]] = kolo.buffer scratch "stage" grid([[N]], {{.*}}) blocks 1 : <2>
  %stage = kolo.buffer scratch "stage" grid(%n, %c4) blocks 1 : !kolo.buffer<2>
  // CHECK: kolo.buffer scratch "slots" grid({{.*}}) blocks 1 cut [[N]] : <1>
  // GENERIC: "kolo.buffer"({{.*}}) <{blocks = 1 : i64, name = "slots", operandSegmentSizes = array<i32: 1, 1>,
  %slots = kolo.buffer scratch "slots" grid(%c4) blocks 1 cut %n : !kolo.buffer<1>

  // CHECK: kolo.copy [[IN]] -> [[OUT]] {
  // CHECK-NEXT: ^bb0([[NODE:%.*]]: index, [[GPU:%.*]]: index):
  // CHECK-NEXT: kolo.slices from[] size[] to{{\[}}[[NODE]]] size{{\[}}[[ONE]]]
  // CHECK-NEXT: } : <0> -> <1>
  // GENERIC: "kolo.copy"
  // GENERIC: "kolo.slices"({{.*}}) <{operandSegmentSizes = array<i32: 0, 0, 1, 1, 0>}>
  kolo.copy %in -> %out {
  ^bb0(%node: index, %gpu: index):
    kolo.slices from [] size [] to [%node] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>

  // CHECK: kolo.reduce [[IN]] -> [[OUT]] {
  // CHECK: kolo.slices from[] size[] to[{{.*}}] size[{{.*}}] when [[WHEN:%.*]]
  // GENERIC: "kolo.reduce"
  // GENERIC: "kolo.slices"({{.*}}) <{operandSegmentSizes = array<i32: 0, 0, 1, 1, 1>}>
  kolo.reduce %in -> %out {
  ^bb0(%node: index, %gpu: index):
    %isFirst = arith.cmpi eq, %gpu, %c0 : index
    kolo.slices from [] size [] to [%node] size [%c1] when %isFirst
  } : !kolo.buffer<0> -> !kolo.buffer<1>

  // CHECK: kolo.transfer [[SCRATCH]] -> [[SCRATCH]] to [next {{%.*}}, keep] {
  // CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
  // GENERIC: "kolo.transfer"({{.*}}) <{steps = [#kolo.step<next>, #kolo.step<keep>]}> ({
  kolo.transfer %stage -> %stage to [next %c4, keep] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [%node, %c0] size [%c1, %c4] to [%peerNode, %c0] size [%c1, %c4]
  } : !kolo.buffer<2> -> !kolo.buffer<2>

  // CHECK: kolo.transfer reducing [[SCRATCH]] -> [[OUT]] to [flip {{%.*}}, others] {
  // CHECK: } : <2> -> <1>
  // GENERIC: "kolo.transfer"({{.*}}) <{reducing, steps = [#kolo.step<flip>, #kolo.step<others>]}> ({
  kolo.transfer reducing %stage -> %out to [flip %c1, others] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [%node, %c0] size [%c1, %c1] to [%peerNode] size [%c1]
  } : !kolo.buffer<2> -> !kolo.buffer<1>

  // CHECK: kolo.transfer [[OUT]] -> [[OUT]] to [mapped [2, 0, 1], at [[ROOT]]] {
  // GENERIC: "kolo.transfer"({{.*}}) <{steps = [#kolo.step<mapped[2, 0, 1]>, #kolo.step<at>]}> ({
  kolo.transfer %out -> %out to [mapped [2, 0, 1], at %root] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [%node] size [%c1] to [%node] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
}

// CHECK: kolo.choreography @ag <all_gather over 0>
kolo.choreography @ag #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] {}
// CHECK: kolo.choreography @rs <reduce_scatter over 0> mesh ["rank"] meshes {{\[\[}}1]]
kolo.choreography @rs #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[1]] {}
// CHECK: kolo.choreography @bc <broadcast over 1>
kolo.choreography @bc #kolo.collective<broadcast over 1> mesh ["a", "b"] meshes [] {}
// CHECK: kolo.choreography @re <reduce over 0, 2>
kolo.choreography @re #kolo.collective<reduce over 0, 2> mesh ["a", "b", "c", "d"] meshes [] {}
// CHECK: kolo.choreography @ga <gather over 0>
kolo.choreography @ga #kolo.collective<gather over 0> mesh ["rank"] meshes [] {}
// CHECK: kolo.choreography @sc <scatter over 0>
kolo.choreography @sc #kolo.collective<scatter over 0> mesh ["rank"] meshes [] {}
// CHECK: kolo.choreography @aa <all_to_all over 0>
kolo.choreography @aa #kolo.collective<all_to_all over 0> mesh ["rank"] meshes [] {}

// CHECK: kolo.choreography @checked <all_gather over 0> mesh ["rank"] meshes {{\[\[}}64]] in_place direct checked [#kolo.proof<[64] on [16]>] {
kolo.choreography @checked #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[64]] in_place direct
    checked [#kolo.proof<[64] on [16]>] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c0 step %c1 {
    // CHECK: } {kolo.stripe = 1 : i64}
  } {kolo.stripe = 1}
}

// CHECK-LABEL: kolo.choreography @codecs
kolo.choreography @codecs #kolo.collective<all_reduce over 1, 0> mesh ["node", "gpu"] meshes [] {
  %n = kolo.dim_size 0
  // CHECK: kolo.buffer scratch "a" as <i8 per 256 scale f32 fit> grid() blocks 0 : <0>
  // GENERIC: codec = #kolo.codec<i8 per 256 scale f32 fit>
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // CHECK: kolo.buffer scratch "b" as <bf16 stochastic> grid({{.*}}) blocks 1 cut {{.*}} : <1>
  %b = kolo.buffer scratch "b" as #kolo.codec<bf16 stochastic> grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  // CHECK: as <levels [-1.0, -1.0e-05, 0.0, 0.5] per 64 scale bf16 fit> grid() blocks 0 : <0>
  %c = kolo.buffer scratch "c" as #kolo.codec<levels [-1.0, -0.00001, 0.0, 0.5] per 64 scale bf16 fit> grid() blocks 0 : !kolo.buffer<0>
  // CHECK: as <e4m3 per 32 scale e8m0 power> grid() blocks 0 : <0>
  %d = kolo.buffer scratch "d" as #kolo.codec<e4m3 per 32 scale e8m0 power> grid() blocks 0 : !kolo.buffer<0>
}
