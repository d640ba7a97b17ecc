// RUN: kolo-opt %s --verify-diagnostics --split-input-file --kolo-cpu-lower-moves

// The size of scratch memory is asked for before a call: it may depend on the mesh, and on nothing else.
kolo.chan.program @scratch #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %root = kolo.root
  %chunks = arith.addi %root, %c1 : index
  %fine = kolo.buffer scratch "fine" grid(%n) blocks 0 : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %n : !kolo.buffer<1>
  // expected-error@below {{the grid of scratch buffer 'work' may depend on the sizes of mesh dimensions only}}
  %work = kolo.buffer scratch "work" grid(%chunks) blocks 0 : !kolo.buffer<1>
}

// -----

// So may that of slots.
kolo.chan.program @slots #kolo.collective<broadcast over 0> mesh ["rank"] meshes [[2]] semaphores 0 {
  %root = kolo.root
  %n = kolo.dim_size 0
  // expected-error@below {{the grid of scratch buffer 'slots' may depend on the sizes of mesh dimensions only}}
  %slots = kolo.buffer scratch "slots" grid(%n) blocks 1 cut %root : !kolo.buffer<1>
}
