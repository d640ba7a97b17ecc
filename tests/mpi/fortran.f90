! Collectives from Fortran, in place too: Open MPI's Fortran functions do not call its C functions.
program fortran
  use mpi
  implicit none
  integer :: rank, size, code, i
  integer :: one, total, inplace
  real(8) :: values(10), sums(10)
  integer, allocatable :: gathered(:)

  call mpi_init(code)
  call mpi_comm_rank(mpi_comm_world, rank, code)
  call mpi_comm_size(mpi_comm_world, size, code)
  allocate (gathered(size))
  do i = 1, 6
    call mpi_barrier(mpi_comm_world, code)
  end do
  one = rank + 1
  call mpi_allreduce(one, total, 1, mpi_integer, mpi_sum, mpi_comm_world, code)
  if (total /= size*(size + 1)/2) stop 3
  inplace = rank + 1
  call mpi_allreduce(mpi_in_place, inplace, 1, mpi_integer, mpi_max, mpi_comm_world, code)
  if (inplace /= size) stop 4
  one = rank + 1
  call mpi_scan(one, total, 1, mpi_integer, mpi_sum, mpi_comm_world, code)
  if (total /= (rank + 1)*(rank + 2)/2) stop 9
  inplace = rank + 1
  call mpi_exscan(mpi_in_place, inplace, 1, mpi_integer, mpi_sum, mpi_comm_world, code)
  if (rank > 0 .and. inplace /= rank*(rank + 1)/2) stop 10
  if (rank == 0 .and. inplace /= 1) stop 11
  total = size*(size + 1)/2
  values = rank + 1
  call mpi_reduce(values, sums, 10, mpi_double_precision, mpi_sum, 1, mpi_comm_world, code)
  if (rank == 1 .and. any(sums /= total)) stop 5
  values = rank
  call mpi_bcast(values, 10, mpi_double_precision, 1, mpi_comm_world, code)
  if (any(values /= 1)) stop 6
  gathered(rank + 1) = rank
  call mpi_allgather(mpi_in_place, 0, mpi_datatype_null, gathered, 1, mpi_integer, mpi_comm_world, code)
  if (any(gathered /= [(i, i=0, size - 1)])) stop 7
  call mpi_alltoall(mpi_in_place, 0, mpi_datatype_null, gathered, 1, mpi_integer, mpi_comm_world, code)
  if (any(gathered /= rank)) stop 8
  call mpi_finalize(code)
end program
