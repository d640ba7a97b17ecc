! Collectives with a count for each block from Fortran, in place too. For two ranks: rank r gives r+1 numbers to each.
program tables
  use mpi
  implicit none
  integer :: rank, code, i
  integer :: counts(0:1), places(0:1), types(0:1), own(2), whole(4), bytes(0:1)

  call mpi_init(code)
  call mpi_comm_rank(mpi_comm_world, rank, code)
  do i = 1, 6
    call mpi_barrier(mpi_comm_world, code)
  end do
  counts = [1, 2]
  places = [3, 0]
  types = mpi_integer
  own = [rank + 1, rank + 11]
  whole = -1
  call mpi_allgatherv(own, rank + 1, mpi_integer, whole, counts, places, mpi_integer, mpi_comm_world, code)
  if (any(whole /= [2, 12, -1, 1])) stop 3
  call mpi_allgatherv(mpi_in_place, 0, mpi_datatype_null, whole, counts, places, mpi_integer, mpi_comm_world, code)
  if (any(whole /= [2, 12, -1, 1])) stop 4
  whole = -1
  call mpi_gatherv(own, rank + 1, mpi_integer, whole, counts, places, mpi_integer, 1, mpi_comm_world, code)
  if (rank == 1 .and. any(whole /= [2, 12, -1, 1])) stop 5
  own = 0
  whole = [5, 6, 7, 8]
  call mpi_scatterv(whole, counts, places, mpi_integer, own, rank + 1, mpi_integer, 0, mpi_comm_world, code)
  if (any(own /= merge([8, 0], [5, 6], rank == 0))) stop 6
  call mpi_alltoallv([1, 2, 3, 4], [rank + 1, rank + 1], [0, 2], mpi_integer, whole, counts, places, mpi_integer, &
                     mpi_comm_world, code)
  if (any(whole /= [1 + 2*rank, 2 + 2*rank, 7, 1 + 2*rank])) stop 7
  bytes = 4*places
  call mpi_alltoallw([5, 6, 7, 8], [rank + 1, rank + 1], [0, 8], types, whole, counts, bytes, types, mpi_comm_world, code)
  if (any(whole /= [5 + 2*rank, 6 + 2*rank, 7, 5 + 2*rank])) stop 8
  call mpi_alltoallw(mpi_in_place, counts, bytes, types, whole, [1, 1], [0, 4], types, mpi_comm_world, code)
  if (any(whole(1:2) /= merge([5, 7], [6, 8], rank == 0))) stop 9
  call mpi_reduce_scatter([1, 2, 3], own, counts, mpi_integer, mpi_sum, mpi_comm_world, code)
  if (rank == 0 .and. own(1) /= 2) stop 10
  if (rank == 1 .and. any(own /= [4, 6])) stop 11
  call mpi_finalize(code)
end program
