// RUN: kolo-opt %s --split-input-file --kolo-verify-projected --verify-diagnostics

// A choreography is left.
// expected-error@below {{projected_c1: was not projected}}
kolo.choreography @left #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] {
  %n = kolo.dim_size 0
}

// -----

// As Project leaves a push: nothing is said.
kolo.chan.program @right #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// And a pull.
kolo.chan.program @rightPull #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
  kolo.chan.get %in[] size [] -> %work[] size [] from %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Two transfers share a semaphore.
// expected-error@below {{projected_c2: semaphore 0 has 2 signals and 1 waits}}
kolo.chan.program @shared #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A semaphore without a transfer.
// expected-error@below {{projected_c2: semaphore 1 has 0 signals and 0 waits}}
kolo.chan.program @unused #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A put whose receiver is not told at once.
kolo.chan.program @unsignalled #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c3: the signal to the receiver must follow at once}}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A put whose signal goes to another rank.
kolo.chan.program @otherPeer #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c3: the signal to the receiver must follow at once}}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %me {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A read that nobody allowed.
kolo.chan.program @unasked #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  // expected-error@below {{projected_c3: the wait for the sender must come right before}}
  kolo.chan.get %in[] size [] -> %work[] size [] from %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// Put, and read by the receiver too.
kolo.chan.program @both #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error@below {{projected_c3: a transfer is either put or read by its receiver}}
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
  kolo.chan.get %in[] size [] -> %work[] size [] from %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

// Neither.
kolo.chan.program @neither #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c3: a transfer is either put or read by its receiver}}
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// Every rank waits before it signals.
kolo.chan.program @circle #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c4: the signal of the transfer must come before its wait}}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
}

// -----

// The statement ends while its source may still be read.
kolo.chan.program @unflushed #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  // expected-error@below {{projected_c4: a flush must come between a put and the wait of its transfer}}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// An op of no phase.
kolo.chan.program @unnumbered #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  // expected-error@below {{projected_c5: the number of its phase is missing, or below the one before}}
  kolo.chan.flush
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A phase after a later one.
kolo.chan.program @backwards #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 1} : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error@below {{projected_c5: the number of its phase is missing, or below the one before}}
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A part, before there are lanes.
kolo.chan.program @part #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c6: whole chunks move and are divided, one move at a time}}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer part %me of %c1 {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// A division of a part.
kolo.chan.program @dividedPart #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c6: whole chunks move and are divided, one move at a time}}
  kolo.chan.divide %work[] size [] part %me of %c1 {kolo.phase = 0} : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}

// -----

// Moves that are fused.
kolo.chan.program @fused #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 needs_handshake {
  %c1 = arith.constant 1 : index
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{projected_c6: whole chunks move and are divided, one move at a time}}
  kolo.chan.fuse %work[] size [] : !kolo.buffer<0> attributes {kolo.phase = 0} {
    kolo.chan.copy %in[] size [] -> %work[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  }
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer {kolo.phase = 0} : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.flush {kolo.phase = 0}
  kolo.chan.wait 0 from %peer {kolo.phase = 0}
}
