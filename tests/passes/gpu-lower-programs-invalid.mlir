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
