// RUN: kolo-opt %s --kolo-project --verify-diagnostics

// Codecs are not lowered: nothing may come out that would move elements as they are.

kolo.choreography @coded #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{this version lowers no codecs: buffer 'packed' is int8(256)}}
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  kolo.copy %in -> %packed {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}
