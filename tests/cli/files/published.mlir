// All-gather on two ranks, by hand: the peer's block as it published it; and read once more from the peer's own input, which
// therefore is copied where peers cannot reach it.
kolo.chan.program @published #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[2]] semaphores 1 {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %peer = arith.subi %c1, %me : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%n) blocks 1 : !kolo.buffer<1>
  %published = kolo.buffer published "published" grid() blocks 0 : !kolo.buffer<0>
  %again = kolo.buffer scratch "again" grid() blocks 0 : !kolo.buffer<0>
  kolo.chan.copy %in[] size [] -> %published[] size [] : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.enter
  kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.get %published[] size [] -> %out[%peer] size [%c1] from %peer : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.chan.get %in[] size [] -> %again[] size [] from %peer : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.chan.signal 0 to %peer
  kolo.chan.wait 0 from %peer
}
