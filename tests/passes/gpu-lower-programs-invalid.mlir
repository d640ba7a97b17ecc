// RUN: kolo-opt %s --kolo-gpu-lower-programs --split-input-file --verify-diagnostics

// expected-error@+1 {{a program for a device needs a name of letters, digits, dots and '_', not 'two words'}}
kolo.chan.program @"two words" #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}

// -----

kolo.chan.program @"ring.ll" #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}

// expected-error@+1 {{another program for devices has a kernel 'ring_ll' too}}
kolo.chan.program @ring_ll #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}

// -----

// expected-error@+1 {{not '3ways'}}
kolo.chan.program @"3ways" #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}

// -----

kolo.chan.program @packed #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  // expected-error@+1 {{devices have no code for packets of codecs: buffer 'packed' is int8(256)}}
  %packed = kolo.buffer packets "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
}
