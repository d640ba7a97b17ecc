// RUN: kolo-opt %s | kolo-opt | FileCheck %s
// RUN: kolo-opt %s --mlir-print-op-generic | kolo-opt | FileCheck %s
// RUN: kolo-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// Every op of the channel phase prints as it was written.

// CHECK-LABEL: kolo.chan.program @all <all_reduce over 0> mesh ["rank"] meshes {{\[\[}}4], [8]] semaphores 2 {
// GENERIC: "kolo.chan.program"() <{collective = #kolo.collective<all_reduce over 0>, in_place = #kolo<in_place copyInput>, mesh = ["rank"],
// GENERIC-SAME: semaphores = 2 : i64, sym_name = "all"}> ({
kolo.chan.program @all #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4], [8]] semaphores 2 {
  // CHECK-DAG: [[ZERO:%.*]] = arith.constant 0 : index
  // CHECK-DAG: [[ONE:%.*]] = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: [[N:%.*]] = kolo.dim_size 0
  %n = kolo.dim_size 0
  // CHECK: [[ME:%.*]] = kolo.chan.coord 0
  // GENERIC: "kolo.chan.coord"() <{dim = 0 : i64}> : () -> index
  %me = kolo.chan.coord 0
  // CHECK: [[LANE:%.*]] = kolo.chan.lane
  // GENERIC: "kolo.chan.lane"() : () -> index
  %lane = kolo.chan.lane
  // CHECK: [[LANES:%.*]] = kolo.chan.num_lanes
  // GENERIC: "kolo.chan.num_lanes"() : () -> index
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  // CHECK: [[OUT:%.*]] = kolo.buffer output "out"
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>

  // CHECK: kolo.chan.signal 1 to [[ME]]
  // GENERIC: "kolo.chan.signal"({{.*}}) <{semaphore = 1 : i64}> : (index) -> ()
  kolo.chan.signal 1 to %me
  // CHECK: kolo.chan.wait 0 from [[ME]]
  // GENERIC: "kolo.chan.wait"({{.*}}) <{semaphore = 0 : i64}> : (index) -> ()
  kolo.chan.wait 0 from %me
  // CHECK: kolo.chan.flush
  // GENERIC: "kolo.chan.flush"() : () -> ()
  kolo.chan.flush

  // CHECK: kolo.chan.put [[OUT]]{{\[}}[[ZERO]]] size{{\[}}[[N]]] -> [[OUT]]{{\[}}[[ZERO]]] size{{\[}}[[N]]] to [[ME]] : <1> -> <1>
  // GENERIC: "kolo.chan.put"({{.*}}) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}>
  kolo.chan.put %out[%c0] size [%n] -> %out[%c0] size [%n] to %me : !kolo.buffer<1> -> !kolo.buffer<1>
  // CHECK: kolo.chan.put %{{.*}}[] size[] -> [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] to [[ME]] part [[LANE]] of [[LANES]] : <0> -> <1>
  // GENERIC: "kolo.chan.put"({{.*}}) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 1, 1, 1, 1, 1>}>
  kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %me part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  // CHECK: kolo.chan.get %{{.*}}[] size[] -> [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] from [[ME]] : <0> -> <1>
  // GENERIC: "kolo.chan.get"
  kolo.chan.get %in[] size [] -> %out[%me] size [%c1] from %me : !kolo.buffer<0> -> !kolo.buffer<1>
  // CHECK: kolo.chan.copy %{{.*}}[] size[] -> [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] part [[LANE]] of [[LANES]] : <0> -> <1>
  // GENERIC: "kolo.chan.copy"
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  // CHECK: kolo.chan.reduce %{{.*}}[] size[] -> [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] : <0> -> <1>
  // GENERIC: "kolo.chan.reduce"({{.*}}) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 1, 1, 0, 0, 0>}>
  kolo.chan.reduce %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  // CHECK: kolo.chan.reduce %{{.*}}[] size[] -> [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] from [[N]] part [[LANE]] of [[LANES]] : <0> -> <1>
  kolo.chan.reduce %in[] size [] -> %out[%me] size [%c1] from %n part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  // CHECK: kolo.chan.fuse [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] part [[LANE]] of [[LANES]] : <1> {
  // CHECK-NEXT: kolo.chan.put [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] ->
  // CHECK-NEXT: }
  kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
    kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %c0 part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  // CHECK: kolo.chan.fuse [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] : <1> {
  // CHECK-NEXT: kolo.chan.reduce
  // CHECK-NEXT: kolo.chan.divide [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] : <1>
  // CHECK-NEXT: }
  kolo.chan.fuse %out[%me] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[] size [] -> %out[%me] size [%c1] from %c0 : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.divide %out[%me] size [%c1] : !kolo.buffer<1>
  }
  // CHECK: kolo.chan.divide [[OUT]]{{\[}}[[ZERO]]] size{{\[}}[[N]]] : <1>
  // GENERIC: "kolo.chan.divide"({{.*}}) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}>
  kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>
  // CHECK: kolo.chan.divide [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]] part [[LANE]] of [[LANES]] : <1>
  kolo.chan.divide %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1>
}

// CHECK-LABEL: kolo.chan.program @packets
// GENERIC-LABEL: sym_name = "packets"
kolo.chan.program @packets #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  // CHECK: kolo.buffer packets "packets" grid() blocks 0 ll128 : <0>
  // GENERIC: "kolo.buffer"() <{blocks = 0 : i64, ll128, name = "packets"
  %packets = kolo.buffer packets "packets" grid() blocks 0 ll128 : !kolo.buffer<0>
}

// What passes state of a program stands in its head, and a credit beside its signal and its wait.
// CHECK-LABEL: kolo.chan.program @credits
// CHECK-SAME: semaphores 2 in_place direct proved [#kolo.proof<[2] on [2]>] unproved attributes {kept = "yes"} {
// GENERIC-LABEL: sym_name = "credits", unproved
kolo.chan.program @credits #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2], [64]] semaphores 2
    in_place direct proved [#kolo.proof<[2] on [2]>] unproved attributes {kept = "yes"} {
  %me = kolo.chan.coord 0
  // CHECK: kolo.chan.signal 1 to {{%.*}} credit(entry)
  kolo.chan.signal 1 to %me credit(entry)
  // CHECK-NEXT: kolo.chan.wait 1 from {{%.*}} credit(entry)
  kolo.chan.wait 1 from %me credit(entry)
}

// CHECK-LABEL: kolo.chan.program @projected
// CHECK-SAME: semaphores 0 needs_handshake {
kolo.chan.program @projected #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 needs_handshake {
  // CHECK: kolo.chan.flush {kolo.phase = 0 : i64}
  kolo.chan.flush {kolo.phase = 0}
  %true = arith.constant true
  scf.if %true {
    kolo.chan.flush
    // CHECK: } {kolo.pipeline_phase = 1 : i64}
  } {kolo.pipeline_phase = 1}
}
