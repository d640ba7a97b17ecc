// RUN: kolo-opt %s --kolo-project --kolo-verify-projected --canonicalize --cse | FileCheck %s
// RUN: kolo-opt %s --kolo-project=transfers=pull --kolo-verify-projected | FileCheck %s
// RUN: kolo-opt %s --kolo-project=together=1 --kolo-verify-projected | FileCheck %s

// Whatever Project makes passes: pushes and pulls, in loops and fans, under conditions, with a division.
// CHECK: kolo.chan.program @loops {{.*}} semaphores 2
// CHECK-SAME: needs_handshake
kolo.choreography @loops #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %root = kolo.root
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  scf.for %s = %c0 to %n step %c1 {
    kolo.transfer %in -> %work to [others] {
    ^bb0(%me: index, %peer: index):
      %isLater = arith.cmpi slt, %s, %me : index
      kolo.slices from [] size [] to [%me] size [%c1] when %isLater
    } : !kolo.buffer<0> -> !kolo.buffer<1>
  }
  kolo.transfer reducing %in -> %out to [at %root] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// A program that its author wrote has all of its synchronisation: nothing is asked of it.
// CHECK: kolo.chan.program @byHand
kolo.chan.program @byHand #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 1 to %peer credit(entry)
  kolo.chan.wait 1 from %peer credit(entry)
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
}
