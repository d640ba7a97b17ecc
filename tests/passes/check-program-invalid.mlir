// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.chan.program(kolo-check-program))'
// RUN: not kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.chan.program(kolo-check-program{transport=carrier}))' 2>&1 | FileCheck %s --check-prefix=TRANSPORT
// RUN: kolo-opt %s --split-input-file --pass-pipeline='builtin.module(kolo.chan.program(kolo-check-program{unproved=true}))' 2>&1 | FileCheck %s --check-prefix=UNPROVED

// TRANSPORT: error: there is no transport 'carrier'

// UNPROVED: warning: nothing orders two accesses
// UNPROVED: kolo.chan.program @early {{.*}} proved [] unproved {
// UNPROVED: kolo.chan.program @stuck {{.*}} proved [] unproved {

// What is put after the signal may arrive after it. Said once, for all meshes that it shows on.
kolo.chan.program @early #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2], [4]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-note@below {{1. rank 0, call 1: signals semaphore 0 of rank 1}}
  // expected-note@below {{2. rank 1, call 1: signals semaphore 0 of rank 0}}
  kolo.chan.signal 0 to %peer
  // expected-note@below {{the other statement}}
  // expected-note-re@below {{4. rank 1, call 1: puts to rank 0, {{.*}}'work' on rank 0}}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-note-re@below {{3. rank 0, call 1: wait{{.*}} semaphore 0 from rank 1}}
  kolo.chan.wait 0 from %peer
  // expected-error-re@below {{nothing orders two accesses to {{.*}}'work' on rank 0: {{.*}} (V2: no data race; mesh rank=2)}}
  // expected-note-re@below {{5. rank 0, call 1: copies, {{.*}}'work' on rank 0}}
  // expected-note@below {{the same on mesh rank=4}}
  kolo.chan.copy %work[] size [] -> %out[%peer] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.flush
}

// -----

// Everybody waits before anybody signals.
kolo.chan.program @stuck #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  // expected-error-re@below {{rank 0 waits for ever: {{.*}} (V4: no deadlock; mesh rank=2)}}
  // expected-note-re@below {{1. rank 0, call 1: {{.*}} from rank 1}}
  // expected-note-re@below {{2. rank 1, call 1: {{.*}} from rank 0}}
  kolo.chan.wait 0 from %peer
  kolo.chan.signal 0 to %peer
}

// -----

// Two signals, one wait.
kolo.chan.program @unbalanced #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  kolo.chan.signal 0 to %peer
  kolo.chan.signal 0 to %peer
  // expected-error-re@below {{rank 0 signals semaphore 0 of rank 1 2 times {{.*}} (V5: signals and waits balance; mesh rank=2)}}
  kolo.chan.wait 0 from %peer
}

// -----

// Nobody sends. The root is named, since every rank may be it.
// expected-error-re@below {{'out' on rank 1 ends as nothing {{.*}} (V1: right result; mesh rank=2, root 0)}}
kolo.chan.program @forgotten #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 1 in_place direct {
  %me = kolo.chan.coord 0
  %root = kolo.root
  %isRoot = arith.cmpi eq, %me, %root : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  scf.if %isRoot {
    kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  }
}

// -----

// All ranks do the same, which is right for the first one only.
// expected-error-re@below {{'out' on rank 1 ends as input chunk 0 of rank 1 instead of input chunk 0 of ranks 0 1 (V1: right result; mesh rank=3)}}
kolo.chan.program @own #kolo.collective<scan over 0> mesh ["rank"] meshes [[3]] semaphores 0 in_place direct {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// The first rank of an exscan has no output, so it cannot copy there.
kolo.chan.program @first #kolo.collective<exscan over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{rank 0 has no 'out', which the first rank lacks (V6: in bounds; mesh rank=2)}}
  kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// One way: nothing tells the sender that the packets of the call before the last were read.
// expected-note@below {{1. rank 0, call 2: its application writes its buffers again, between two calls}}
// expected-note@below {{2. rank 0, call 3: its application writes its buffers again, between two calls}}
kolo.chan.program @ahead #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %root = kolo.root
  %isRoot = arith.cmpi eq, %me, %root : index
  %peer = arith.subi %c1, %me : index
  scf.if %isRoot {
    kolo.chan.copy %in[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
    // expected-error-re@below {{nothing orders two accesses to {{.*}}'packets' on rank 1: {{.*}} (first call); {{.*}} (third call) (V7: safe back to back; mesh rank=2, root 0)}}
    // expected-note-re@below {{3. rank 0, call 1: puts to rank 1, {{.*}}}}
    // expected-note-re@below {{4. rank 0, call 3: puts to rank 1, {{.*}}}}
    kolo.chan.put %in[] size [] -> %packets[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  } else {
    kolo.chan.copy %packets[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  }
  kolo.chan.flush
}

// -----

// Twice in one call: the reader cannot tell which.
kolo.chan.program @twice #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  // expected-note@below {{the other statement}}
  // expected-note-re@below {{1. rank 0, call 1: puts to rank 1, {{.*}}}}
  kolo.chan.put %in[] size [] -> %packets[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error-re@below {{nothing orders two accesses to {{.*}}'packets' on rank 1: {{.*}} (V2: no data race; mesh rank=2)}}
  // expected-note-re@below {{2. rank 0, call 1: puts to rank 1, {{.*}}}}
  kolo.chan.put %in[] size [] -> %packets[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.copy %packets[] size [] -> %out[%peer] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.flush
}

// -----

// Everybody reads before anybody puts.
kolo.chan.program @unsent #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{rank 0 waits for ever: it copies packets, of which nobody puts some (V4: no deadlock; mesh rank=2)}}
  // expected-note@below {{1. rank 0, call 1: waits for ever: copies packets}}
  kolo.chan.copy %packets[] size [] -> %out[%peer] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.put %in[] size [] -> %packets[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// More blocks than the caller's buffers have.
// expected-error-re@below {{'in' has 2 blocks of the call's count; the input of broadcast has 1{{.*}}}}
kolo.chan.program @beyond #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %me = kolo.chan.coord 0
  %root = kolo.root
  %isRoot = arith.cmpi eq, %me, %root : index
  %peer = arith.subi %c1, %me : index
  %in = kolo.buffer input "in" grid(%c2) blocks 1 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%c2) blocks 1 : !kolo.buffer<1>
  kolo.chan.enter
  scf.if %isRoot {
    kolo.chan.copy %in[%c0] size [%c2] -> %out[%c0] size [%c2] : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.put %in[%c0] size [%c2] -> %out[%c0] size [%c2] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %peer
  } else {
    kolo.chan.wait 0 from %peer
  }
  kolo.chan.flush
}
