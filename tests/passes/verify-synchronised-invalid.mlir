// RUN: kolo-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kolo.chan.program(kolo-verify-synchronised))'

// Nothing is wrong.
kolo.chan.program @right #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 1 to %peer credit(entry)
  kolo.chan.wait 1 from %peer credit(entry)
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
}

// -----

// Synchronisation was not inferred.
// expected-error@below {{synchronised_c1: has a mark that an earlier pass should have taken away}}
kolo.chan.program @awaits #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 needs_handshake {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
}

// -----

// Phases were not looked at.
kolo.chan.program @phase #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error@below {{synchronised_c1: has a mark that an earlier pass should have taken away}}
  kolo.chan.signal 0 to %peer {kolo.phase = 0}
  kolo.chan.wait 0 from %peer
}

// -----

// Nor a pipeline.
kolo.chan.program @pipelinePhase #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  %isFirst = arith.cmpi eq, %lanes, %c1 : index
  // expected-error@below {{synchronised_c1: has a mark that an earlier pass should have taken away}}
  scf.if %isFirst {
    kolo.chan.flush
  } {kolo.pipeline_phase = 0}
}

// -----

// Every lane would put the whole chunk.
kolo.chan.program @whole #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{synchronised_c2: takes whole chunks, not a part for every lane}}
  kolo.chan.put %in[] size [] -> %work[] size [] to %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
}

// -----

// Every lane would divide it.
kolo.chan.program @wholeDivision #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 2 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %work = kolo.buffer scratch "work" grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{synchronised_c2: takes whole chunks, not a part for every lane}}
  kolo.chan.divide %work[] size [] : !kolo.buffer<0>
}

// -----

// What goes to packets was not encoded before.
kolo.chan.program @unencoded #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %me = kolo.chan.coord 0
  %peer = arith.xori %me, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" as #kolo.codec<bf16> grid() blocks 0 : !kolo.buffer<0>
  // expected-error@below {{synchronised_c3: converts between codecs, and one of the buffers is packets}}
  kolo.chan.put %in[] size [] -> %packets[] size [] to %peer part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<0>
}
