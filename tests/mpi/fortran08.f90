! Collectives of the module mpi_f08, whose functions reach those of C in other ways than those of the module mpi.
program fortran08
  use mpi_f08
  implicit none
  integer :: rank, size, i, one, total
  call mpi_init()
  call mpi_comm_rank(mpi_comm_world, rank)
  call mpi_comm_size(mpi_comm_world, size)
  do i = 1, 6
    call mpi_barrier(mpi_comm_world)
  end do
  one = rank + 1
  do i = 1, 6
    call mpi_allreduce(one, total, 1, mpi_integer, mpi_sum, mpi_comm_world)
    if (total /= size*(size + 1)/2) stop 3
    call mpi_barrier(mpi_comm_world)
  end do
  call mpi_finalize()
end program
