// RUN: kolo-opt %s --kolo-gpu-lower-programs --split-input-file --verify-diagnostics

// expected-error@+1 {{a program for a device needs a name of letters, digits and '_', not 'two words'}}
kolo.chan.program @"two words" #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}

// -----

// expected-error@+1 {{not '3ways'}}
kolo.chan.program @"3ways" #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
}
