! Barriers that a program of the module mpi_f08 begins and completes later, by every function that completes requests.
program ibarrier08
  use mpi_f08
  implicit none
  integer :: rank, ranks, i, position, number, one, sum
  integer :: indices(3)
  type(MPI_Request) :: requests(3)
  type(MPI_Status) :: statuses(3)
  type(MPI_Comm) :: other
  logical :: flag
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  do i = 1, 6
    call MPI_Barrier(MPI_COMM_WORLD)
  end do
  call begin()
  do i = 1, 3
    call MPI_Wait(requests(i), statuses(i))
  end do
  call check()
  call begin()
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  call check()
  call begin()
  do i = 1, 3
    call MPI_Waitany(3, requests, position, MPI_STATUS_IGNORE)
    if (completed() /= i) call MPI_Abort(MPI_COMM_WORLD, 8)
  end do
  call check()
  call begin()
  i = 0
  do while (i < 3)
    call MPI_Waitsome(3, requests, number, indices, statuses)
    i = i + number
  end do
  call check()
  call begin()
  do i = 1, 3
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status(requests(i), flag, statuses(i))
    end do
    flag = .false.
    do while (.not. flag)
      call MPI_Test(requests(i), flag, MPI_STATUS_IGNORE)
    end do
  end do
  call check()
  call begin()
  flag = .false.
  do while (.not. flag)
    call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE)
  end do
  call check()
  call begin()
  do i = 1, 3
    flag = .false.
    do while (.not. flag)
      call MPI_Testany(3, requests, position, flag, MPI_STATUS_IGNORE)
    end do
  end do
  call check()
  call begin()
  i = 0
  do while (i < 3)
    call MPI_Testsome(3, requests, number, indices, MPI_STATUSES_IGNORE)
    i = i + number
  end do
  call check()
  ! Communicators that are freed before their ranks connect.
  do i = 1, 2
    call MPI_Comm_dup(MPI_COMM_WORLD, other)
    do number = 1, 4
      call MPI_Ibarrier(other, requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    end do
    call MPI_Comm_free(other)
    if (other /= MPI_COMM_NULL) call MPI_Abort(MPI_COMM_WORLD, 9)
  end do
  call MPI_Finalize()
contains
  ! Two barriers, and a call that MPI itself makes.
  subroutine begin()
    one = 1
    sum = 0
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(1))
    call MPI_Iallreduce(one, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2))
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(3))
  end subroutine
  integer function completed()
    integer :: j
    completed = 0
    do j = 1, 3
      if (requests(j) == MPI_REQUEST_NULL) completed = completed + 1
    end do
  end function
  subroutine check()
    if (sum /= ranks) call MPI_Abort(MPI_COMM_WORLD, 7)
    if (completed() /= 3) call MPI_Abort(MPI_COMM_WORLD, 9)
  end subroutine
end program
