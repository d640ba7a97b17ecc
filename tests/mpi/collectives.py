"""Collectives of mpi4py on arrays and objects, with the answers that arithmetic gives. A program of mpi4py as packaged."""
import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
ranks = range(size)


def doubles(values):
    return array.array("d", values)


for count in (1, 10, 1000, 50000):
    mine = doubles(rank + i for i in range(count))
    summed = doubles(size * (size - 1) / 2 + size * i for i in range(count))
    whole = doubles(peer + i for peer in ranks for i in range(count))
    many = doubles([0.0]) * (size * count)
    for root in ranks:
        one = doubles(mine)
        comm.Bcast(one, root)
        assert one == whole[root * count:(root + 1) * count]
        comm.Reduce(mine, one, MPI.SUM, root)
        assert rank != root or one == summed
        comm.Gather(mine, many if rank == root else None, root)
        assert rank != root or many == whole
        comm.Scatter(whole if rank == root else None, one, root)
        assert one == mine
    comm.Allreduce(mine, one, MPI.SUM)
    assert one == summed
    comm.Allreduce(MPI.IN_PLACE, one, MPI.MAX)
    assert one == summed
    comm.Allgather(mine, many)
    assert many == whole
    comm.Reduce_scatter_block(whole, one, MPI.SUM)
    assert one == doubles(size * value for value in mine)
    comm.Alltoall(whole, many)
    assert many == mine * size
    comm.Barrier()

assert comm.allgather({"rank": rank}) == [{"rank": peer} for peer in ranks]
assert comm.bcast("x" * 10000 if rank == 0 else None) == "x" * 10000
assert comm.allreduce(rank) == sum(ranks)
half = comm.Split(rank % 2, rank)
assert half.allreduce(1) == len(range(rank % 2, size, 2))
half.Free()
