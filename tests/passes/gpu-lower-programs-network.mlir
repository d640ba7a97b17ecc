// RUN: kolo-opt %s --kolo-gpu-lower-programs="types=f32 reductions=sum" --canonicalize --cse | FileCheck %s \
// RUN:   --implicit-check-not=@kolo.signal --implicit-check-not=@kolo.wait

// Thread 0 waits for a request that the host has taken, writes all its fields, and only then says that it is there.
// CHECK-LABEL: llvm.func internal @kolo.net.request(
// CHECK: llvm.call @kolo.net.room(
// CHECK: scf.if
// CHECK-COUNT-7: llvm.store
// CHECK-NOT: llvm.store
// CHECK: llvm.call @kolo.raise(

// A chunk is there for the host after all threads have written to it.
// CHECK-LABEL: llvm.func internal @kolo.net.commit(
// CHECK: llvm.call @kolo.publish()
// CHECK-NEXT: llvm.call @kolo.barrier()
// CHECK: scf.if
// CHECK: llvm.call @kolo.net.request(

// An inbox that is mapped is written directly.
// CHECK-LABEL: llvm.func internal @kolo.net.push(
// CHECK: %[[NULL:.*]] = llvm.icmp "eq"
// CHECK: scf.if %[[NULL]]
// CHECK: scf.for
// CHECK: llvm.call @kolo.net.claim(
// CHECK: llvm.call @kolo.copy(
// CHECK: llvm.call @kolo.net.commit(
// CHECK: else
// CHECK: llvm.call @kolo.copy(

// CHECK-LABEL: llvm.func internal @kolo.net.signal.one(
// CHECK: scf.if
// CHECK: llvm.call @kolo.net.request(
// CHECK: else
// CHECK: llvm.call @kolo.raise(

// A peer of another host raises a cell that has twice the count.
// CHECK-LABEL: llvm.func internal @kolo.net.wait.one(
// CHECK: arith.select {{.*}} : !llvm.ptr<1>
// CHECK: arith.select %{{.*}}, %c2_i64, %c1_i64

// Signals in a loop over peers follow each other, because one thread writes requests. Waits do not.
// CHECK-LABEL: llvm.func internal @run.staged(
// CHECK: scf.for
// CHECK: llvm.call @receive.staged.0(
// CHECK: scf.for
// CHECK: llvm.call @kolo.net.signal(
// CHECK: llvm.call @kolo.net.wait.one(
// CHECK: llvm.call @move.staged.1(
kolo.chan.program @staged <all_gather over 0> mesh ["rank"] meshes [[4]] semaphores 1 attributes {network_dims = array<i64: 0>, network_staged} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %in = kolo.buffer input "in" grid() blocks 0 : <0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : <1>
  %arriving = kolo.buffer inbox "arriving" grid(%n) blocks 1 : <1>
  scf.for %step = %c1 to %n step %c1 {
    %sum = arith.addi %me, %step : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.put %in[] size[] -> %arriving[%me] size[%c1] to %peer part %lane of %lanes : <0> -> <1>
  }
  scf.for %step = %c1 to %n step %c1 {
    %sum = arith.addi %me, %step : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  scf.for %step = %c1 to %n step %c1 {
    %sum = arith.addi %me, %step : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 0 from %peer
  }
  kolo.chan.copy %arriving[%c0] size[%n] -> %out[%c0] size[%n] part %lane of %lanes : <1> -> <1>
}

// Its invocations are longer.
// CHECK-LABEL: llvm.func @staged(
// CHECK: arith.constant 456 : i64
