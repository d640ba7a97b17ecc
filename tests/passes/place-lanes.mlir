// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo.chan.program(kolo-place-lanes))' | FileCheck %s

// Whatever moves or divides elements takes this lane's part; what has a part keeps it; synchronisation stays as it is.
// CHECK-LABEL: kolo.chan.program @lanes
// CHECK: [[LANE:%.*]] = kolo.chan.lane
// CHECK-NEXT: [[LANES:%.*]] = kolo.chan.num_lanes
// CHECK: kolo.chan.copy {{.*}} part [[LANE]] of [[LANES]] :
// CHECK: kolo.chan.put {{.*}} to {{%.*}} part [[LANE]] of [[LANES]] :
// CHECK-NEXT: kolo.chan.signal 0 to
// CHECK-NEXT: kolo.chan.wait 0 from
// CHECK: kolo.chan.reduce {{.*}} from {{%.*}} part [[LANE]] of [[LANES]] :
// CHECK-NEXT: kolo.chan.get {{.*}} from {{%.*}} part [[LANE]] of [[LANES]] :
// CHECK-NEXT: kolo.chan.copy {{.*}} part [[FIRST:%.*]] of [[TWO:%.*]] :
// CHECK-NEXT: kolo.chan.divide {{.*}} part [[LANE]] of [[LANES]] :
kolo.chan.program @lanes #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  scf.for %i = %c0 to %c2 step %c1 {
    kolo.chan.put %in[] size [] -> %work[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.signal 0 to %peer
    kolo.chan.wait 0 from %peer
  }
  kolo.chan.reduce %work[] size [] -> %out[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.get %in[] size [] -> %work[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %work[] size [] part %c0 of %c2 : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.divide %out[] size [] : !kolo.buffer<0>
}
