/* MPI programs whose barriers, begun to be completed later, come to another end: `ibarrier_ends CASE`. */
#include "barriers.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

static int countDescriptors(void) {
  int number = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder))
    ++number;
  closedir(folder);
  return number;
}

/* The communicator is freed before its barriers are over. */
static void freed(void) {
  int atFirst = 0;
  openBoard();
  for (int round = 0; round < 60; ++round) {
    MPI_Comm comm;
    MPI_Request requests[3];
    int token = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 5; ++i)
      MPI_Barrier(comm);
    for (int i = 0; i < 3; ++i)
      MPI_Ibarrier(comm, &requests[i]);
    if (round % 2 && rank == 0) /* others wait while this rank has freed it, or leave while this rank waits */
      MPI_Recv(&token, 1, MPI_INT, size - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    complete((round + rank) % KINDS, requests, 3);
    if (round % 2 && rank == size - 1)
      MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    if (round == 10)
      atFirst = countDescriptors();
  }
  check(countDescriptors() <= atFirst, "descriptors remain");
}

/* The communicator has begun to learn its name, and is freed before the door has asked for it. */
static void freedUnnamed(void) {
  for (int round = 0; round < 3000; ++round) { /* libraries have 2,048 numbers for communicators, or fewer */
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 4; ++i) {
      MPI_Request request;
      MPI_Ibarrier(comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (round % 2)
      MPI_Comm_free(&comm);
    else
      MPI_Comm_disconnect(&comm);
    if (round < 16 || round % 100 == 0)
      MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* MPI forbids both. */
static void misused(void) {
  openBoard();
  MPI_Request request, copy;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int round = 0; round < 10; ++round) {
    begin(&request);
    copy = request;
    check(MPI_Cancel(&copy) != MPI_SUCCESS, "a barrier was cancelled");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    begin(&request);
    if (MPI_Request_free(&request) != MPI_SUCCESS)
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  begin(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 0 waits for longer than the timeout; all functions that complete its requests say so. */
static void late(void) {
  for (int kind = 0; kind < 3; ++kind) {
    MPI_Comm comm;
    MPI_Request request;
    int code = MPI_SUCCESS, flag = 0;
    MPI_Status status;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 5; ++i)
      MPI_Barrier(comm);
    if (rank != 0) {
      usleep(700000);
      code = MPI_Ibarrier(comm, &request);
    } else {
      MPI_Request pending[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
      MPI_Ibarrier(comm, &pending[0]);
      MPI_Ibarrier(comm, &pending[1]);
      code = MPI_Wait(&pending[0], &status); /* the timeout is that of a wait */
      check(code != MPI_SUCCESS, "the timeout of a wait");
      if (kind == 0)
        code = MPI_Wait(&pending[1], &status);
      else if (kind == 1)
        code = MPI_Waitall(1, &pending[1], &status);
      else
        for (code = MPI_SUCCESS; !flag && code == MPI_SUCCESS;)
          code = MPI_Test(&pending[1], &flag, &status);
    }
    check(code != MPI_SUCCESS, "an error that nobody was told");
  }
  printf("told\n");
}

/* Rank 1 dies before it comes. */
static void death(void) {
  openBoard();
  MPI_Request request;
  int flag = 0;
  if (rank == 1)
    kill(getpid(), SIGKILL);
  begin(&request);
  while (!flag)
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  printf("went on\n");
}

int main(int argc, char **argv) {
  const struct Case cases[] = {
      {"freed", freed}, {"freed-unnamed", freedUnnamed}, {"misused", misused}, {"late", late}, {"death", death}};
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
