! Barriers that a Fortran program begins and completes later, by every function that completes requests.
program ibarrier
  use mpi
  implicit none
  integer :: rank, ranks, ierr, i, position, number, one, sum
  integer :: requests(3), indices(3), statuses(MPI_STATUS_SIZE, 3)
  logical :: flag
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  do i = 1, 6
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call begin()
  do i = 1, 3
    call MPI_Wait(requests(i), statuses(:, i), ierr)
  end do
  call check()
  call begin()
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierr)
  call check()
  call begin()
  do i = 1, 3
    call MPI_Waitany(3, requests, position, MPI_STATUS_IGNORE, ierr)
    if (completed() /= i) call MPI_Abort(MPI_COMM_WORLD, 8, ierr)
  end do
  call check()
  call begin()
  i = 0
  do while (i < 3)
    call MPI_Waitsome(3, requests, number, indices, statuses, ierr)
    i = i + number
  end do
  call check()
  call begin()
  do i = 1, 3
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status(requests(i), flag, statuses(:, i), ierr)
    end do
    flag = .false.
    do while (.not. flag)
      call MPI_Test(requests(i), flag, MPI_STATUS_IGNORE, ierr)
    end do
  end do
  call check()
  call begin()
  flag = .false.
  do while (.not. flag)
    call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE, ierr)
  end do
  call check()
  call begin()
  do i = 1, 3
    flag = .false.
    do while (.not. flag)
      call MPI_Testany(3, requests, position, flag, MPI_STATUS_IGNORE, ierr)
    end do
  end do
  call check()
  call begin()
  i = 0
  do while (i < 3)
    call MPI_Testsome(3, requests, number, indices, MPI_STATUSES_IGNORE, ierr)
    i = i + number
  end do
  call check()
  call MPI_Finalize(ierr)
contains
  ! Two barriers, and a call that MPI itself makes.
  subroutine begin()
    one = 1
    sum = 0
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Iallreduce(one, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(3), ierr)
  end subroutine
  integer function completed()
    integer :: j
    completed = 0
    do j = 1, 3
      if (requests(j) == MPI_REQUEST_NULL) completed = completed + 1
    end do
  end function
  subroutine check()
    if (sum /= ranks) call MPI_Abort(MPI_COMM_WORLD, 7, ierr)
    if (completed() /= 3) call MPI_Abort(MPI_COMM_WORLD, 9, ierr)
  end subroutine
end program
