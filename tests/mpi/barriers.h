/* What programs share that begin barriers and complete them later. */
#pragma once

#include "checks.h"

enum { MOST = 16 };

/* How many barriers each rank has begun: memory that all ranks see, so that a barrier that ends too early is seen. */
static volatile long *begun[MOST];
static MPI_Win board;

/* Collective. The ranks are then connected. */
static inline void openBoard(void) {
  long *own = NULL;
  MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &board);
  *own = 0;
  for (int peer = 0; peer < size; ++peer) {
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(board, peer, &bytes, &unit, (void *)&begun[peer]);
  }
  for (int i = 0; i < 6; ++i)
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Returns the number of the barrier. */
static inline long begin(MPI_Request *request) {
  long number = *begun[rank] + 1;
  __atomic_store_n(begun[rank], number, __ATOMIC_RELEASE);
  check(MPI_Ibarrier(MPI_COMM_WORLD, request) == MPI_SUCCESS, "begin");
  check(*request != MPI_REQUEST_NULL, "no request");
  return number;
}

static inline void checkOver(long number) {
  for (int peer = 0; peer < size; ++peer)
    check(__atomic_load_n(begun[peer], __ATOMIC_ACQUIRE) >= number, "a barrier ended too early");
}

/* Completes all requests, by the function that `kind` names. */
enum { WAIT, WAITALL, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME, STATUS, KINDS };
static inline void complete(int kind, MPI_Request *requests, int count) {
  int flag = 0, index = 0, number = 0, left = 0, indices[64];
  MPI_Status statuses[64];
  for (int i = 0; i < count; ++i)
    left += requests[i] != MPI_REQUEST_NULL;
  switch (kind) {
  case WAIT:
    for (int i = 0; i < count; ++i)
      MPI_Wait(&requests[i], &statuses[i]);
    break;
  case WAITALL:
    MPI_Waitall(count, requests, statuses);
    break;
  case WAITANY:
    for (; left > 0; --left) {
      MPI_Waitany(count, requests, &index, statuses);
      check(index >= 0 && index < count && requests[index] == MPI_REQUEST_NULL, "Waitany");
    }
    MPI_Waitany(count, requests, &index, statuses);
    check(index == MPI_UNDEFINED, "Waitany of nothing");
    break;
  case WAITSOME:
    for (; left > 0; left -= number) {
      MPI_Waitsome(count, requests, &number, indices, statuses);
      check(number > 0 && number <= left, "Waitsome");
    }
    break;
  case TEST:
    for (int i = 0; i < count; ++i)
      for (flag = 0; !flag;)
        MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    break;
  case TESTALL:
    while (!flag)
      MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
    break;
  case TESTANY:
    while (!flag || index != MPI_UNDEFINED)
      MPI_Testany(count, requests, &index, &flag, statuses);
    break;
  case TESTSOME:
    while (number != MPI_UNDEFINED)
      MPI_Testsome(count, requests, &number, indices, statuses);
    break;
  case STATUS:
    for (int i = 0; i < count; ++i) {
      const MPI_Request before = requests[i];
      for (flag = 0; !flag;)
        MPI_Request_get_status(requests[i], &flag, &statuses[i]);
      check(requests[i] == before, "a status frees nothing");
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
  }
  for (int i = 0; i < count; ++i)
    check(requests[i] == MPI_REQUEST_NULL, "a request remains");
}
