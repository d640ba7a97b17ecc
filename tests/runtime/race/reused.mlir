// A ring through one slot, which a rank fills again without knowing whether the next rank has emptied it.
kolo.chan.program @reused #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[3], [4]] semaphores 2 {
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
  %slot = kolo.buffer scratch "slot" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.signal 1 to %prev credit(entry)
  kolo.chan.wait 1 from %next credit(entry)
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  scf.for %s = %c0 to %last step %c1 {
    %i = arith.subi %me, %s : index
    %arrived = arith.subi %down, %s : index
    kolo.chan.put %out[%i] size [%c1] -> %slot[] size [] to %next part %lane of %lanes : !kolo.buffer<1> -> !kolo.buffer<0>
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %prev
    kolo.chan.copy %slot[] size [] -> %out[%arrived] size [%c1] part %lane of %lanes : !kolo.buffer<0> -> !kolo.buffer<1>
  }
  kolo.chan.flush
}
