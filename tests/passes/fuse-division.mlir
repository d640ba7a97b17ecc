// RUN: kolo-opt %s --pass-pipeline='builtin.module(kolo.chan.program(kolo-fuse-division),canonicalize,cse)' | FileCheck %s

// The sum is divided before it goes to the others, and nothing at the end.
// CHECK-LABEL: kolo.chan.program @twoShot
// CHECK: kolo.chan.fuse [[OUT:%.*]]{{\[}}[[ME:%.*]]] size{{\[}}[[ONE:%.*]]] :
// CHECK: kolo.chan.reduce
// CHECK: }
// CHECK-NEXT: kolo.chan.divide [[OUT]]{{\[}}[[ME]]] size{{\[}}[[ONE]]]
// CHECK: kolo.chan.put
// CHECK-NOT: kolo.chan.divide
kolo.chan.program @twoShot #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2], [3]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 0 to %peer
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 0 from %peer
  }
  kolo.chan.fuse %out[%me] size [%c1] : !kolo.buffer<1> {
    kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
    scf.for %k = %c1 to %n step %c1 {
      %sum = arith.addi %me, %k : index
      %peer = arith.remui %sum, %n : index
      kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    }
    scf.for %k = %c1 to %n step %c1 {
      %sum = arith.addi %me, %k : index
      %peer = arith.remui %sum, %n : index
      kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    }
  }
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.signal 1 to %peer
  }
  kolo.chan.flush
  scf.for %k = %c1 to %n step %c1 {
    %sum = arith.addi %me, %k : index
    %peer = arith.remui %sum, %n : index
    kolo.chan.wait 1 from %peer
  }
  kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>
}

// A sum that another one is made of is not the last: its division would be a second one there, and none would be here.
// CHECK-LABEL: kolo.chan.program @twoSums
// CHECK: kolo.chan.fuse %{{.*}}[] size[]
// CHECK-NOT: kolo.chan.divide
// CHECK: kolo.chan.fuse %{{.*}}[] size[]
// CHECK: kolo.chan.reduce
// CHECK-NEXT: kolo.chan.divide
// CHECK-NOT: kolo.chan.divide
kolo.chan.program @twoSums #kolo.collective<all_reduce over 0, 1> mesh ["node", "gpu"] meshes [[2, 2]] semaphores 4 {
  %c1 = arith.constant 1 : index
  %gpus = kolo.dim_size 1
  %node = kolo.chan.coord 0
  %gpu = kolo.chan.coord 1
  %otherNode = arith.xori %node, %c1 : index
  %otherGpu = arith.xori %gpu, %c1 : index
  %row = arith.muli %node, %gpus : index
  %near = arith.addi %row, %otherGpu : index
  %otherRow = arith.muli %otherNode, %gpus : index
  %far = arith.addi %otherRow, %gpu : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %half = kolo.buffer scratch "half" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 0 to %near
  kolo.chan.wait 0 from %near
  kolo.chan.fuse %half[] size [] : !kolo.buffer<0> {
    kolo.chan.copy %in[] size [] -> %half[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.reduce %in[] size [] -> %half[] size [] from %near : !kolo.buffer<0> -> !kolo.buffer<0>
  }
  kolo.chan.signal 1 to %near
  kolo.chan.wait 1 from %near
  kolo.chan.signal 2 to %far
  kolo.chan.wait 2 from %far
  kolo.chan.fuse %out[] size [] : !kolo.buffer<0> {
    kolo.chan.copy %half[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.reduce %half[] size [] -> %out[] size [] from %far : !kolo.buffer<0> -> !kolo.buffer<0>
  }
  kolo.chan.signal 3 to %far
  kolo.chan.wait 3 from %far
  kolo.chan.divide %out[] size [] : !kolo.buffer<0>
}

// A sum that no fuse makes is divided at the end, as before.
// CHECK-LABEL: kolo.chan.program @plain
// CHECK: kolo.chan.reduce
// CHECK: kolo.chan.divide
kolo.chan.program @plain #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
  kolo.chan.reduce %in[] size [] -> %out[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 1 to %peer
  kolo.chan.wait 1 from %peer
  kolo.chan.divide %out[] size [] : !kolo.buffer<0>
}
