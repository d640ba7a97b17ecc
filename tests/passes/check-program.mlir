// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.chan.program(kolo-check-program))' | FileCheck %s
// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.chan.program(kolo-check-program{budget=200 represented stand-in-budget=200}))' | FileCheck %s --check-prefix=SMALL

// What is proved is recorded, mesh by mesh; a program written by hand is like any other. An old claim is not believed.
// CHECK-LABEL: @ring
// CHECK-SAME: proved [#kolo.proof<[1] on [1] from [{{[0-9]+}}]>, #kolo.proof<[64] on [64] from [{{[0-9]+}}]>]
// CHECK-SAME: attributes {block_tables = [unit, unit]} {
// With little room, a smaller mesh of the same kind is run through.
// SMALL-LABEL: @ring
// SMALL-SAME: proved [#kolo.proof<[1] on [1] from [{{[0-9]+}}]>, #kolo.proof<[64] on [{{4|8|16}}]>]
// SMALL-SAME: attributes {block_tables = [unit, "a smaller mesh does not decide it"]} {
kolo.chan.program @ring #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[1], [64]] semaphores 2
    proved [#kolo.proof<[1] on [5]>] unproved {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %up = arith.addi %me, %c1 : index
  %next = arith.remsi %up, %n : index
  %down = arith.addi %me, %last : index
  %prev = arith.remsi %down, %n : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.signal 1 to %prev
  kolo.chan.wait 1 from %next
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    %i = arith.subi %me, %s : index
    kolo.chan.put %out[%i] size [%c1] -> %out[%i] size [%c1] to %next part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %prev
  }
  kolo.chan.flush
}
