// RUN: kolo-opt %s --verify-diagnostics --split-input-file

// What the channel phase refuses, by constraint label.

// expected-error @below {{program_c1: a mesh has between one and four dimensions with distinct names}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh [] meshes [] semaphores 2 {
}

// -----

// expected-error @below {{program_c1: a mesh has between one and four dimensions}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["a", "b", "c", "d", "e"] meshes [] semaphores 2 {
}

// -----

// expected-error @below {{program_c1: a mesh has between one and four dimensions with distinct names}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["a", "a"] meshes [] semaphores 2 {
}

// -----

// expected-error @below {{program_c2: the collective runs over a dimension that the mesh does not have}}
kolo.chan.program @bad #kolo.collective<all_gather over 1> mesh ["rank"] meshes [] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: mesh sizes [2, 2] do not fit a mesh of 1 dimensions}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [2, 2]] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: mesh sizes [0] do not fit a mesh of 1 dimensions}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[0]] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: a mesh of sizes [1048577] has more than 1048576 ranks}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[1048577]] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: a mesh of sizes [4294967296] has more than 1048576 ranks}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4294967296]] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: a mesh of sizes [1024, 1025] has more than 1048576 ranks}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["a", "b"] meshes [[1024, 1025]] semaphores 2 {
}

// -----

// expected-error @below {{program_c3: a mesh of sizes [4294967296, 4294967296] has more than 1048576 ranks}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["a", "b"] meshes [[4294967296, 4294967296]] semaphores 2 {
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{program_c4: belongs to the choreography phase}}
  kolo.copy %a -> %a {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  // expected-error @below {{coord_c1: the mesh has no dimension 1}}
  %x = kolo.chan.coord 1
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  // expected-error @below {{coord_c1: the mesh has no dimension -1}}
  %x = kolo.chan.coord -1
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  // expected-error @below {{signal_c1: the program has no semaphore 2}}
  kolo.chan.signal 2 to %n
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  // expected-error @below {{signal_c1: the program has no semaphore -1}}
  kolo.chan.signal -1 to %n
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  // expected-error @below {{wait_c1: the program has no semaphore 2}}
  kolo.chan.wait 2 from %n
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  // expected-error @below {{wait_c1: the program has no semaphore -1}}
  kolo.chan.wait -1 from %n
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{put_c1: a slice does not have its buffer's grid rank}}
  kolo.chan.put %a[%n] size [%c1] -> %a[] size [] to %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{put_c1: a slice does not have its buffer's grid rank}}
  kolo.chan.put %a[] size [] -> %b[%n] size [] to %n : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{put_c2: the source slice has 1 ranged dimensions, the destination slice 0}}
  kolo.chan.put %b[%n] size [%n] -> %a[] size [] to %n : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{put_c3: `part` and `of` come together}}
  "kolo.chan.put"(%a, %a, %n, %c1) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 0, 0, 1, 1, 0>}> : (!kolo.buffer<0>, !kolo.buffer<0>, index, index) -> ()
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{get_c1: a slice does not have its buffer's grid rank}}
  kolo.chan.get %a[%n] size [%c1] -> %a[] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{get_c1: a slice does not have its buffer's grid rank}}
  kolo.chan.get %a[] size [] -> %b[%n] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{get_c2: the source slice has 1 ranged dimensions, the destination slice 0}}
  kolo.chan.get %b[%n] size [%n] -> %a[] size [] from %n : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{get_c3: `part` and `of` come together}}
  "kolo.chan.get"(%a, %a, %n, %c1) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 0, 0, 1, 1, 0>}> : (!kolo.buffer<0>, !kolo.buffer<0>, index, index) -> ()
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{copy_c2: a slice does not have its buffer's grid rank}}
  kolo.chan.copy %a[%n] size [%c1] -> %a[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{copy_c2: a slice does not have its buffer's grid rank}}
  kolo.chan.copy %a[] size [] -> %b[%n] size [] : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{copy_c3: the source slice has 1 ranged dimensions, the destination slice 0}}
  kolo.chan.copy %b[%n] size [%n] -> %a[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{copy_c4: `part` and `of` come together}}
  "kolo.chan.copy"(%a, %a, %c1) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 0, 0, 1, 0>}> : (!kolo.buffer<0>, !kolo.buffer<0>, index) -> ()
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{reduce_c2: a slice does not have its buffer's grid rank}}
  kolo.chan.reduce %a[%n] size [%c1] -> %a[] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{reduce_c2: a slice does not have its buffer's grid rank}}
  kolo.chan.reduce %a[] size [] -> %b[%n] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{reduce_c3: the source slice has 1 ranged dimensions, the destination slice 0}}
  kolo.chan.reduce %b[%n] size [%n] -> %a[] size [] from %n : !kolo.buffer<1> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{reduce_c4: `part` and `of` come together}}
  "kolo.chan.reduce"(%a, %a, %n, %c1) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 0, 0, 1, 1, 0>}> : (!kolo.buffer<0>, !kolo.buffer<0>, index, index) -> ()
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{divide_c1: the slice does not have the buffer's grid rank}}
  kolo.chan.divide %b[] size [] : !kolo.buffer<1>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid(%n) blocks 1 : !kolo.buffer<1>
  // expected-error @below {{divide_c2: `part` and `of` come together}}
  "kolo.chan.divide"(%a, %c1) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 1>}> : (!kolo.buffer<0>, index) -> ()
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 cut %n : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid() blocks 0 cut %n : !kolo.buffer<0>
  // expected-error @below {{put_c4: one side must be a chunk of a buffer without slots}}
  kolo.chan.put %a[] size [] -> %b[] size [] to %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 cut %n : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid() blocks 0 cut %n : !kolo.buffer<0>
  // expected-error @below {{get_c4: one side must be a chunk of a buffer without slots}}
  kolo.chan.get %a[] size [] -> %b[] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 cut %n : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid() blocks 0 cut %n : !kolo.buffer<0>
  // expected-error @below {{copy_c5: one side must be a chunk of a buffer without slots}}
  kolo.chan.copy %a[] size [] -> %b[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 cut %n : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid() blocks 0 cut %n : !kolo.buffer<0>
  // expected-error @below {{reduce_c5: one side must be a chunk of a buffer without slots}}
  kolo.chan.reduce %a[] size [] -> %b[] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" grid() blocks 0 cut %n : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" grid() blocks 0 cut %n : !kolo.buffer<0>
  // expected-error @below {{divide_c3: the length of what is in a slot is not known}}
  kolo.chan.divide %b[] size [] : !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  // expected-error @below {{fuse_c1: the slice does not have the buffer's grid rank, or only one of `part` and `of`}}
  kolo.chan.fuse %out[] size [] : !kolo.buffer<1> {
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  // expected-error @below {{fuse_c2: the slice must be one chunk of a buffer without slots}}
  kolo.chan.fuse %out[%c0] size [%n] : !kolo.buffer<1> {
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    // expected-error @below {{fuse_c3: may not be fused}}
    kolo.chan.wait 0 from %c0
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    // expected-error @below {{fuse_c4: must move the fused slice, with its part, and into it before out of it}}
    kolo.chan.copy %in[%c1] size [%c1] -> %out[%c1] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.put %out[%c0] size [%c1] -> %out[%c0] size [%c1] to %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c4: must move the fused slice, with its part, and into it before out of it}}
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  %own = kolo.buffer scratch "own" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %own[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.get %in[%c0] size [%c1] -> %own[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c7: combines the fused slice with something else, and must overwrite it}}
    kolo.chan.reduce %own[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c5: only the first move, in no loop, may overwrite the fused slice}}
    kolo.chan.copy %in[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 in_place direct {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  // expected-error @below {{fuse_c6: one move may overwrite what another has still to read}}
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.copy %in[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.reduce %in[%c1] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  kolo.chan.enter
  // expected-error @below {{enter_c1: must be at the top level of a program, once}}
  kolo.chan.enter
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    // expected-error @below {{enter_c1: must be at the top level of a program, once}}
    kolo.chan.enter
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  kolo.chan.signal 0 to %c0
  // expected-error @below {{enter_c2: only what fills published buffers may come before it}}
  kolo.chan.enter
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.get %in[] size [] -> %published[] size [] from %c0 : !kolo.buffer<0> -> !kolo.buffer<0>
  // expected-error @below {{enter_c2: only what fills published buffers may come before it}}
  kolo.chan.enter
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.enter
  // expected-error @below {{program_c5: writes a published buffer, which only this rank may, and before it enters}}
  kolo.chan.copy %in[] size [] -> %published[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c5: writes a published buffer, which only this rank may, and before it enters}}
  kolo.chan.copy %in[] size [] -> %published[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else}}
  kolo.chan.copy %in[] size [] -> %packets[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %other = kolo.buffer packets "other" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else}}
  kolo.chan.put %packets[] size [] -> %other[] size [] to %c0 : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %own = kolo.buffer scratch "own" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else}}
  kolo.chan.get %packets[] size [] -> %own[] size [] from %c0 : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %own = kolo.buffer scratch "own" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.fuse %own[] size [] : !kolo.buffer<0> {
    // expected-error @below {{program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else}}
    kolo.chan.copy %packets[] size [] -> %own[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c6: packets are put, then copied or reduced by the rank that owns them, and nothing else}}
  kolo.chan.divide %packets[] size [] : !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %own = kolo.buffer scratch "own" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c7: accesses other memory of a peer's in a program with packets}}
  kolo.chan.put %in[] size [] -> %own[] size [] to %c0 : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  %own = kolo.buffer scratch "own" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c7: accesses other memory of a peer's in a program with packets}}
  kolo.chan.reduce %in[] size [] -> %own[] size [] from %c0 : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c8: moves packets by other parts than lane of num_lanes}}
  kolo.chan.put %in[] size [] -> %packets[] size [] to %c0 part %c0 of %c2 : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %packets = kolo.buffer packets "packets" grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{program_c9: some packets are LL128, and some are LL}}
  %lines = kolo.buffer packets "lines" grid() blocks 0 ll128 : !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
    kolo.chan.divide %out[%c1] size [%c1] : !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.copy %in[%c0] size [%c1] -> %out[%c0] size [%c1] : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
    kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
    // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
    kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.put %out[%c0] size [%c1] -> %out[%c0] size [%c1] to %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
    kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
  %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.fuse %out[%c0] size [%c1] : !kolo.buffer<1> {
    kolo.chan.reduce %in[%c0] size [%c1] -> %out[%c0] size [%c1] from %c1 : !kolo.buffer<1> -> !kolo.buffer<1>
    scf.for %k = %c0 to %n step %c1 {
      // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
      kolo.chan.divide %out[%c0] size [%c1] : !kolo.buffer<1>
    }
  }
}

// -----

// expected-error @below {{program_c10: is proved on another mesh than those it is compiled for, or twice on one}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] semaphores 0
    proved [#kolo.proof<[8] on [8]>] {
}

// -----

// expected-error @below {{program_c11: is proved on all of its meshes, and unproved}}
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] semaphores 0
    proved [#kolo.proof<[4] on [4]>] unproved {
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 1 needs_handshake {
  %me = kolo.chan.coord 0
  // expected-error @below {{program_c12: is a credit of a program that needs a handshake}}
  kolo.chan.signal 0 to %me credit(entry)
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 1 {
  %me = kolo.chan.coord 0
  kolo.chan.signal 0 to %me credit(entry)
  // expected-error @below {{program_c13: is another kind of credit than others of semaphore 0}}
  kolo.chan.wait 0 from %me credit(exit)
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 1 {
  %me = kolo.chan.coord 0
  kolo.chan.signal 0 to %me
  // expected-error @below {{program_c13: is another kind of credit than others of semaphore 0}}
  kolo.chan.wait 0 from %me credit(lag)
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{put_c5: the buffers have two different codecs with scales}}
  kolo.chan.put %a[] size [] -> %b[] size [] to %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{get_c5: the buffers have two different codecs with scales}}
  kolo.chan.get %a[] size [] -> %b[] size [] from %n : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{copy_c6: the buffers have two different codecs with scales}}
  kolo.chan.copy %a[] size [] -> %b[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{reduce_c6: combines into a buffer whose codec has scales, or is stochastic}}
  kolo.chan.reduce %a[] size [] -> %b[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<bf16 stochastic> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{reduce_c6: combines into a buffer whose codec has scales, or is stochastic}}
  kolo.chan.reduce %a[] size [] -> %b[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %n = kolo.dim_size 0
  %a = kolo.buffer scratch "a" as #kolo.codec<i8 per 128 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %b = kolo.buffer scratch "b" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{fuse_c9: the buffer's codec has scales, or is stochastic}}
  kolo.chan.fuse %a[] size [] : !kolo.buffer<0> {
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %a = kolo.buffer scratch "a" as #kolo.codec<bf16 stochastic> grid() blocks 0 : !kolo.buffer<0>
  // expected-error @below {{fuse_c9: the buffer's codec has scales, or is stochastic}}
  kolo.chan.fuse %a[] size [] : !kolo.buffer<0> {
  }
}

// -----

// What was encoded is passed on as it is.
kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.fuse %in[] size [] : !kolo.buffer<0> {
    kolo.chan.copy %in[] size [] -> %packed[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
    // expected-error @below {{fuse_c4: must move the fused slice, with its part, and into it before out of it}}
    kolo.chan.copy %packed[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [] semaphores 2 {
  %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.fuse %out[] size [] : !kolo.buffer<0> {
    kolo.chan.reduce %packed[] size [] -> %out[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
    // expected-error @below {{fuse_c8: must divide the fused slice, with its part, once and in no loop, between what is combined into it and what goes out of it, where nothing has a codec}}
    kolo.chan.divide %out[] size [] : !kolo.buffer<0>
  }
}

// -----

// Of a loop that is never entered, too.
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  // expected-error @below {{program_c14: a loop with a step of 0}}
  scf.for %i = %c0 to %c0 step %c0 {
  }
}

// -----

// Under a condition, too.
kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %down = arith.constant -1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %isFirst = arith.cmpi eq, %me, %c0 : index
  scf.if %isFirst {
    // expected-error @below {{program_c14: a loop with a step of -1}}
    scf.for %i = %n to %c0 step %down {
      kolo.chan.flush
    }
  }
}

// -----

kolo.chan.program @bad #kolo.collective<all_gather over 0> mesh ["rank"] meshes [] semaphores 0 {
  %c0 = arith.constant 0 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  // expected-error @below {{program_c14: a loop with a step that is no constant}}
  scf.for %i = %c0 to %n step %me {
    kolo.chan.flush
  }
}
