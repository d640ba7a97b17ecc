/* MPI programs with barriers that they begin and complete later: `ibarrier CASE`. With -DOWN_WAIT, the program has a
 * function MPI_Wait of its own, as programs have that a tool was linked into. */
#include "barriers.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef OWN_WAIT
int MPI_Wait(MPI_Request *request, MPI_Status *status) { return PMPI_Wait(request, status); }
#endif

/* Nobody completes a barrier that the last rank has not begun, and then all do, by each function. */
static void order(void) {
  openBoard();
  for (int round = 0; round < 3 * KINDS; ++round) {
    const int last = round % size;
    MPI_Request request;
    int flag = 0, index = 0, token = round;
    long number;
    if (rank == last) {
      for (int peer = 0; peer < size; ++peer)
        if (peer != last)
          MPI_Recv(&token, 1, MPI_INT, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      number = begin(&request);
    } else {
      number = begin(&request);
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      check(!flag && request != MPI_REQUEST_NULL, "Test");
      MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
      check(!flag, "Testall");
      MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
      check(!flag, "Testany");
      MPI_Testsome(1, &request, &flag, &index, MPI_STATUSES_IGNORE);
      check(flag == 0, "Testsome");
      MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
      check(!flag, "Request_get_status");
      MPI_Send(&token, 1, MPI_INT, last, 7, MPI_COMM_WORLD);
    }
    complete(round % KINDS, &request, 1);
    checkOver(number);
  }
}

/* Many are outstanding, completed in another order on each rank. */
static void many(void) {
  enum { COUNT = 48 };
  openBoard();
  for (int kind = 0; kind < KINDS; ++kind) {
    MPI_Request requests[COUNT];
    long number = 0;
    for (int i = 0; i < COUNT; ++i)
      number = begin(&requests[rank % 2 ? i : COUNT - 1 - i]);
    complete((kind + rank) % KINDS, requests, COUNT);
    checkOver(number);
  }
}

/* Among requests of other kinds, some of which end before the barrier does, and some after it. */
static void mixed(void) {
  openBoard();
  for (int kind = 0; kind < KINDS; ++kind) {
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int got[2] = {-1, -1}, own = rank, sum = 0, one = 1, index = -1;
    MPI_Request inactive, requests[6];
    MPI_Recv_init(&got[1], 1, MPI_INT, before, 9, MPI_COMM_WORLD, &inactive);
    MPI_Irecv(&got[0], 1, MPI_INT, before, 8, MPI_COMM_WORLD, &requests[0]);
    long number = begin(&requests[1]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&own, 1, MPI_INT, next, 8, MPI_COMM_WORLD, &requests[3]);
    MPI_Irecv(&got[1], 1, MPI_INT, before, 9, MPI_COMM_WORLD, &requests[4]);
    if (rank != 0) /* the ring of the tag 9 begins at rank 0, once its barrier is over */
      MPI_Wait(&requests[4], MPI_STATUS_IGNORE);
    requests[5] = MPI_REQUEST_NULL;
    if (rank == 0) {
      MPI_Request pair[3] = {inactive, MPI_REQUEST_NULL, requests[1]};
      MPI_Waitany(3, pair, &index, MPI_STATUS_IGNORE);
      check(index == 2 && pair[2] == MPI_REQUEST_NULL, "Waitany beside an inactive request");
      begin(&requests[1]);
      MPI_Send(&own, 1, MPI_INT, next, 9, MPI_COMM_WORLD);
    } else {
      begin(&requests[4]);
      MPI_Send(&own, 1, MPI_INT, next, 9, MPI_COMM_WORLD);
    }
    complete(kind, requests, 6);
    checkOver(number + 1);
    MPI_Request_free(&inactive);
    check(got[0] == before && got[1] == before && sum == size, "what others carry");
  }
}

/* One that waits for any of two gets the message while the barrier is pending; then rank 0 begins the barrier. */
static void any(void) {
  openBoard();
  for (int round = 0; round < 20; ++round) {
    MPI_Request requests[2];
    int value = round, index = -1, number = 0, indices[2];
    if (rank == 0) {
      for (int peer = 1; peer < size; ++peer) {
        MPI_Send(&value, 1, MPI_INT, peer, 3, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      begin(&requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      continue;
    }
    value = -1;
    begin(&requests[0]);
    MPI_Irecv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &requests[1]);
    if (round % 2) {
      MPI_Waitsome(2, requests, &number, indices, MPI_STATUSES_IGNORE);
      check(number == 1, "Waitsome");
      index = indices[0];
    } else {
      MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    }
    check(index == 1 && value == round, "the message comes first");
    MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    check(index == 0, "then the barrier");
  }
}

/* Legal: a rank that waits for a barrier, or that only has begun one, lets others go on. */
static void progress(void) {
  openBoard();
  for (int bytes = 1; bytes <= 1 << 20; bytes *= 32) {
    char *data = calloc((size_t)bytes, 1), token = 0;
    MPI_Request message = MPI_REQUEST_NULL, barrier;
    if (rank == 0) {
      MPI_Irecv(data, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &message);
      begin(&barrier);
      MPI_Wait(&barrier, MPI_STATUS_IGNORE);
      MPI_Wait(&message, MPI_STATUS_IGNORE);
    } else {
      if (rank == 1)
        MPI_Ssend(data, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
      begin(&barrier);
      MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    }
    begin(&barrier);
    if (rank == 0) {
      MPI_Recv(&token, 1, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* rank 1 needs nothing of this rank */
      MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    } else {
      MPI_Wait(&barrier, MPI_STATUS_IGNORE);
      if (rank == 1)
        MPI_Send(&token, 1, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
    }
    free(data);
  }
}

/* A collective that MPI itself begins, by its number. */
enum { LENGTH = 100, FORWARDED = 6 };
struct Pending {
  int kind, step; /* kind FORWARDED: a barrier, of this number */
  int in[LENGTH], out[LENGTH];
};

static void beginForwarded(struct Pending *call, MPI_Request *request) {
  int counts[MOST], places[MOST], own = rank + 1;
  for (int i = 0; i < LENGTH; ++i)
    call->in[i] = call->step + i * rank;
  memcpy(call->out, call->in, sizeof(call->out));
  for (int peer = 0; peer < size; ++peer) {
    counts[peer] = call->kind == 4 ? 1 + peer : 1 + peer + rank;
    places[peer] = peer * 8;
  }
  switch (call->kind) {
  case 0:
    MPI_Iallreduce(call->in, call->out, LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
    break;
  case 1:
    MPI_Ibcast(call->out, LENGTH, MPI_INT, call->step % size, MPI_COMM_WORLD, request);
    break;
  case 2:
    MPI_Ialltoall(call->in, 4, MPI_INT, call->out, 4, MPI_INT, MPI_COMM_WORLD, request);
    break;
  case 3:
    MPI_Iallgather(call->in, 4, MPI_INT, call->out, 4, MPI_INT, MPI_COMM_WORLD, request);
    break;
  default: /* these need their counts until they are complete */
    if (call->kind == 4)
      MPI_Iallgatherv(call->in, own, MPI_INT, call->out, counts, places, MPI_INT, MPI_COMM_WORLD, request);
    else
      MPI_Ialltoallv(call->in, counts, places, MPI_INT, call->out, counts, places, MPI_INT, MPI_COMM_WORLD, request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
  }
}

static void checkEnded(const struct Pending *call) {
  const int peer = (rank + 1) % size, step = call->step, ranks = size * (size - 1) / 2;
  const int *out = call->out;
  const int holds[] = {out[99] == size * step + 99 * ranks,
                       out[99] == step + 99 * (step % size),
                       out[peer * 4 + 3] == step + (rank * 4 + 3) * peer,
                       out[peer * 4 + 3] == step + 3 * peer,
                       out[peer * 8 + peer] == step + peer * peer,
                       out[peer * 8] == step + rank * 8 * peer};
  if (call->kind == FORWARDED)
    checkOver(step);
  else
    check(holds[call->kind], "what a call gives that was pending");
}

static void blocking(int what, int step) {
  int one = rank + 1, sum = 0, in[MOST], out[MOST];
  for (int peer = 0; peer < size; ++peer)
    in[peer] = step + rank * peer;
  if (what == 0) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size + 1) / 2, "sum");
  } else if (what == 1) {
    MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
    check(out[size - 1] == step + (size - 1) * rank, "all-to-all");
  } else if (what == 2) { /* MPI itself */
    MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == (rank + 1) * (rank + 2) / 2, "scan");
  } else if (what == 3) {
    MPI_Exscan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(rank == 0 || sum == rank * (rank + 1) / 2, "exscan");
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* Collectives of all kinds in one order on all ranks; each rank completes what it likes when it likes. */
static void random_(void) {
  enum { STEPS = 900, SLOTS = 32 };
  static struct Pending calls[SLOTS];
  MPI_Request requests[SLOTS];
  unsigned alike = 12345, apart = 777u + (unsigned)rank;
  int used = 0;
  openBoard();
  for (int step = 0; step < STEPS; ++step) {
    const int what = rand_r(&alike) % 16;
    if (what >= FORWARDED + 4) {
      blocking(what - FORWARDED - 4, step);
    } else {
      if (used == SLOTS) {
        complete(rand_r(&apart) % KINDS, requests, used);
        for (; used > 0; --used)
          checkEnded(&calls[used - 1]);
      }
      struct Pending *call = &calls[used];
      call->kind = what < FORWARDED ? what : FORWARDED;
      call->step = step;
      if (call->kind == FORWARDED)
        call->step = (int)begin(&requests[used]);
      else
        beginForwarded(call, &requests[used]);
      ++used;
    }
    if (used > 0 && rand_r(&apart) % 3 == 0) {
      --used;
      complete(rand_r(&apart) % KINDS, &requests[used], 1);
      checkEnded(&calls[used]);
    }
  }
  complete(WAITALL, requests, used);
}

/* Communicators on which there are no collectives but these barriers, and whose ranks have begun different numbers of
 * them when they come to a barrier of all. */
static void only(void) {
  enum { COMMS = 4, ROUNDS = 140 };
  MPI_Comm comms[COMMS];
  volatile long *counts[MOST];
  MPI_Win window;
  long *own = NULL, ends[COMMS];
  MPI_Win_allocate_shared(COMMS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
  memset(own, 0, COMMS * sizeof(long));
  for (int peer = 0; peer < size; ++peer) {
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window, peer, &bytes, &unit, (void *)&counts[peer]);
  }
  const int colors[COMMS] = {0, rank % 2, rank / 2, rank == 0 ? MPI_UNDEFINED : 1};
  for (int i = 0; i < COMMS; ++i) /* in the second one, ranks have another order */
    MPI_Comm_split(MPI_COMM_WORLD, colors[i], i == 1 ? -rank : rank, &comms[i]);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Request requests[2 * COMMS];
    int number = 0;
    for (int when = 0; when < 2; ++when) {
      if (when == (rank + round) % 2)
        for (int i = 0; i < COMMS; ++i)
          for (int j = 0; comms[i] != MPI_COMM_NULL && j < 1 + i % 2; ++j) {
            ends[i] = counts[rank][i] + 1;
            __atomic_store_n(&counts[rank][i], ends[i], __ATOMIC_RELEASE);
            MPI_Ibarrier(comms[i], &requests[number++]);
          }
      if (when == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    }
    complete((round + rank) % KINDS, requests, number);
    for (int peer = 0; peer < size; ++peer)
      for (int i = 0; i < COMMS; ++i) {
        const int theirs[COMMS] = {0, peer % 2, peer / 2, peer == 0 ? MPI_UNDEFINED : 1};
        if (comms[i] != MPI_COMM_NULL && theirs[i] == colors[i])
          check(__atomic_load_n(&counts[peer][i], __ATOMIC_ACQUIRE) >= ends[i], "a barrier ended too early");
      }
  }
  for (int i = 0; i < COMMS; ++i)
    if (comms[i] != MPI_COMM_NULL)
      MPI_Comm_free(&comms[i]);
}

/* Barriers before the ranks connect, among which they do. */
static void early(void) {
  MPI_Request requests[12];
  for (int i = 0; i < 12; ++i) {
    if (i % 2)
      MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]);
  }
  complete(WAITALL, requests, 12);
}

static void *waitInThread(void *request) {
  MPI_Wait(request, MPI_STATUS_IGNORE);
  return NULL;
}

/* A thread waits while another calls collectives on the same communicator. */
static void threads(void) {
  openBoard();
  for (int round = 0; round < 20; ++round) {
    MPI_Request request;
    pthread_t thread;
    int one = 1, sum = 0;
    long number = begin(&request);
    pthread_create(&thread, NULL, waitInThread, &request);
    for (int i = 0; i < 5; ++i)
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    check(sum == size, "sum");
    checkOver(number);
  }
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"order", order},       {"many", many},      {"mixed", mixed}, {"any", any},
                               {"progress", progress}, {"random", random_}, {"only", only},   {"early", early}};
  if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided == MPI_THREAD_MULTIPLE)
      threads();
    MPI_Finalize();
    return 0;
  }
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
