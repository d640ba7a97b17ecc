// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.chan.program(kolo-place-encoding))' | FileCheck %s

!scalar = !kolo.buffer<0>
!vector = !kolo.buffer<1>

// All peers get the same slice, which is encoded once. What arrives is combined from memory.

// CHECK-LABEL: kolo.chan.program @same
// CHECK: %[[IN:.*]] = kolo.buffer input "in"
// CHECK: %[[SUM:.*]] = kolo.buffer scratch "sum" as <f32>
// CHECK: %[[PACKETS:.*]] = kolo.buffer packets "packets" as <i8 per 256 scale f32 fit> grid(%{{.*}}) blocks 1
// CHECK-NEXT: %[[RECEIVED:.*]] = kolo.buffer scratch "packets.received" as <i8 per 256 scale f32 fit> grid() blocks 0
// CHECK-NEXT: %[[ENCODED:.*]] = kolo.buffer scratch "packets.encoded" as <i8 per 256 scale f32 fit> grid() blocks 0
// CHECK: kolo.chan.copy %[[IN]][] size[] -> %[[ENCODED]][] size[] {kolo.phase = 1
// CHECK-NEXT: scf.for %[[PEER:.*]] =
// CHECK-NEXT: kolo.chan.put %[[ENCODED]][] size[] -> %[[PACKETS]][%{{.*}}] size[%{{.*}}] to %[[PEER]]
// CHECK-NEXT: kolo.chan.signal 0 to %[[PEER]]
// CHECK-NEXT: }
// CHECK-NEXT: kolo.chan.flush
// CHECK: kolo.chan.wait 0
// CHECK: kolo.chan.copy %[[PACKETS]][%{{.*}}] size[%{{.*}}] -> %[[RECEIVED]][] size[]
// CHECK-NEXT: kolo.chan.reduce %[[RECEIVED]][] size[] -> %[[SUM]][] size[]
kolo.chan.program @same #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[4]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid() blocks 0 : !scalar
  %sum = kolo.buffer scratch "sum" as #kolo.codec<f32> grid() blocks 0 : !scalar
  %packets = kolo.buffer packets "packets" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 : !vector
  scf.for %peer = %c1 to %n step %c1 {
    kolo.chan.put %in[] size [] -> %packets[%me] size [%c1] to %peer : !scalar -> !vector
    kolo.chan.signal 0 to %peer
  } {kolo.phase = 1 : i64}
  kolo.chan.flush {kolo.phase = 1 : i64}
  scf.for %peer = %c1 to %n step %c1 {
    kolo.chan.wait 0 from %peer
  } {kolo.phase = 1 : i64}
  scf.for %peer = %c1 to %n step %c1 {
    kolo.chan.reduce %packets[%peer] size [%c1] -> %sum[] size [] : !vector -> !scalar
  } {kolo.phase = 2 : i64}
}

// -----

!vector = !kolo.buffer<1>

// A slice that depends on the outer loop alone is encoded before the inner one. Puts of the outer loop's iteration before
// may still read the memory.

// CHECK-LABEL: kolo.chan.program @different
// CHECK: %[[IN:.*]] = kolo.buffer input "in"
// CHECK: %[[ENCODED:.*]] = kolo.buffer scratch "packets.encoded" as <i8 per 256 scale f32 fit> grid(%{{.*}}) blocks 1
// CHECK: scf.for %[[PEER:.*]] =
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[PEER]]
// CHECK-NEXT: kolo.chan.flush
// CHECK-NEXT: kolo.chan.copy %[[IN]][%[[NEXT]]] size[%{{.*}}] -> %[[ENCODED]][%[[NEXT]]] size
// CHECK-NEXT: scf.for
// CHECK-NEXT: kolo.chan.put %[[ENCODED]][%[[NEXT]]]
// CHECK-NEXT: kolo.chan.signal 0
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: kolo.chan.flush
kolo.chan.program @different #kolo.collective<reduce_scatter over 0> mesh ["rank"] meshes [[4]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 1 : !vector
  %packets = kolo.buffer packets "packets" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 1 : !vector
  scf.for %peer = %c1 to %n step %c1 {
    scf.for %part = %c1 to %n step %c1 {
      %next = arith.addi %peer, %c1 : index
      kolo.chan.put %in[%next] size [%c1] -> %packets[%part] size [%c1] to %peer : !vector -> !vector
      kolo.chan.signal 0 to %peer
    }
  }
  kolo.chan.flush
  scf.for %peer = %c1 to %n step %c1 {
    kolo.chan.wait 0 from %peer
  }
}

// -----

!vector = !kolo.buffer<1>

// Two buffers of slots cannot be paired: here the memory has the shape of the packets.

// CHECK-LABEL: kolo.chan.program @slots
// CHECK: %[[SLOTS:.*]] = kolo.buffer scratch "slots" grid(%[[N:.*]]) blocks 1 cut %[[N]]
// CHECK: %[[ENCODED:.*]] = kolo.buffer scratch "packets.encoded" as <bf16> grid(%[[N]]) blocks 0
// CHECK: kolo.chan.copy %[[SLOTS]][%[[ME:.*]]] size[%{{.*}}] -> %[[ENCODED]][%[[PEER:.*]]] size
// CHECK-NEXT: kolo.chan.put %[[ENCODED]][%[[PEER]]]
kolo.chan.program @slots #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.subi %c1, %me : index
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %n : !vector
  %packets = kolo.buffer packets "packets" as #kolo.codec<bf16> grid(%n) blocks 0 : !vector
  kolo.chan.put %slots[%me] size [%c1] -> %packets[%peer] size [%c1] to %peer : !vector -> !vector
  kolo.chan.signal 0 to %peer
  kolo.chan.flush
  kolo.chan.wait 0 from %peer
}

// -----

!vector = !kolo.buffer<1>

// Between equal codecs bytes move, and without codecs elements are combined.

// CHECK-LABEL: kolo.chan.program @equal
// CHECK: %[[OUT:.*]] = kolo.buffer output
// CHECK: %[[PACKED:.*]] = kolo.buffer scratch "packed"
// CHECK: %[[PACKETS:.*]] = kolo.buffer packets "packets"
// CHECK: %[[PLAIN:.*]] = kolo.buffer packets "plain"
// CHECK-NEXT: kolo.chan.put %[[PACKED]][%{{.*}}] size[%{{.*}}] -> %[[PACKETS]][
// CHECK: kolo.chan.copy %[[PACKETS]][%{{.*}}] size[%{{.*}}] -> %[[PACKED]][
// CHECK-NEXT: kolo.chan.reduce %[[PLAIN]][%{{.*}}] size[%{{.*}}] -> %[[OUT]][
kolo.chan.program @equal #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.subi %c1, %me : index
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !vector
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !vector
  %packets = kolo.buffer packets "packets" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !vector
  %plain = kolo.buffer packets "plain" grid(%n) blocks 0 : !vector
  kolo.chan.put %packed[%me] size [%c1] -> %packets[%me] size [%c1] to %peer : !vector -> !vector
  kolo.chan.signal 0 to %peer
  kolo.chan.flush
  kolo.chan.wait 0 from %peer
  kolo.chan.copy %packets[%peer] size [%c1] -> %packed[%peer] size [%c1] : !vector -> !vector
  kolo.chan.reduce %plain[%peer] size [%c1] -> %out[%peer] size [%c1] : !vector -> !vector
}
