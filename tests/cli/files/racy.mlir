// A ring that tells the next rank of a block before it sends it.
kolo.chan.program @racy #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[1], [4]] semaphores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %last = arith.subi %n, %c1 : index
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %up = arith.addi %me, %c1 : index
  %next = arith.remsi %up, %n : index
  %down = arith.addi %me, %last : index
  %prev = arith.remsi %down, %n : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.chan.signal 1 to %prev credit(entry)
  kolo.chan.wait 1 from %next credit(entry)
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    %i = arith.subi %me, %s : index
    kolo.chan.signal 0 to %next
    kolo.chan.put %out[%i] size [%c1] -> %out[%i] size [%c1] to %next part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.chan.wait 0 from %prev
  }
  kolo.chan.flush
}
