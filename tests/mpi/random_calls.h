/* Random calls, the same in every run, for a comparison with the MPI library alone. Included by cases.c. */
#pragma once

#include "checks.h"

#include <stdint.h>
#include <stdlib.h>

static uint64_t hash = 0xcbf29ce484222325u;
static void mix(const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

/* Random calls; what all ranks hold afterwards is printed. Any floats where a sum has one order, else whole numbers. */
static void randomCalls(void) {
  enum { most = 3000 };
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_FLOAT, MPI_LONG, MPI_UNSIGNED_CHAR};
  const MPI_Op operations[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_LOR};
  double *in = malloc(sizeof(double) * most * (size_t)size), *out = malloc(sizeof(double) * most * (size_t)size);
  unsigned shared = 12345;
  for (int call = 0; call < 600; ++call) {
#define NEXT(N) ((int)((shared = shared * 1664525u + 1013904223u) >> 16) % (N))
    int kind = NEXT(12), typeNumber = NEXT(5), op = NEXT(5), root = NEXT(size), count = NEXT(call % 3 ? 40 : most);
    MPI_Datatype type = types[typeNumber];
    if (op == 4 && (typeNumber == 1 || typeNumber == 2)) /* logical operations are for whole numbers */
      op = 0;
    int *counts = malloc(sizeof(int) * (size_t)size);
    for (int i = 0; i < size; ++i)
      counts[i] = count;
    memset(in, 0, sizeof(double) * most * (size_t)size);
    memset(out, 0, sizeof(double) * most * (size_t)size);
    for (int i = 0; i < most * size; ++i) {
      int value = (rank * 31 + i * 7 + call) % 5 + 1;
      if (typeNumber == 1)
        in[i] = size == 2 ? value / 3.0 : value;
      else if (typeNumber == 2)
        ((float *)in)[i] = size == 2 ? (float)value / 3.0f : (float)value;
      else if (typeNumber == 0)
        ((int *)in)[i] = value;
      else if (typeNumber == 3)
        ((long *)in)[i] = value;
      else
        ((unsigned char *)in)[i] = (unsigned char)value;
    }
    switch (kind) {
    case 0:
      MPI_Allreduce(in, out, count, type, operations[op], MPI_COMM_WORLD);
      break;
    case 1:
      MPI_Reduce(in, out, count, type, operations[op], root, MPI_COMM_WORLD);
      break;
    case 2:
      MPI_Reduce_scatter_block(in, out, count, type, operations[op], MPI_COMM_WORLD);
      break;
    case 3:
      MPI_Reduce_scatter(in, out, counts, type, operations[op], MPI_COMM_WORLD);
      break;
    case 4:
      MPI_Bcast(in, count, type, root, MPI_COMM_WORLD);
      break;
    case 5:
      MPI_Gather(in, count, type, out, count, type, root, MPI_COMM_WORLD);
      break;
    case 6:
      MPI_Scatter(in, count, type, out, count, type, root, MPI_COMM_WORLD);
      break;
    case 7:
      MPI_Allgather(in, count, type, out, count, type, MPI_COMM_WORLD);
      break;
    case 8:
      MPI_Alltoall(in, count, type, out, count, type, MPI_COMM_WORLD);
      break;
    case 9:
      MPI_Barrier(MPI_COMM_WORLD);
      break;
    case 10:
      MPI_Scan(in, out, count, type, operations[op], MPI_COMM_WORLD);
      break;
    case 11:
      MPI_Exscan(in, out, count, type, operations[op], MPI_COMM_WORLD);
      if (rank == 0) /* MPI does not say what it is */
        memset(out, 0, sizeof(double) * most);
      break;
    }
    mix(in, sizeof(double) * most * (size_t)size);
    mix(out, sizeof(double) * most * (size_t)size);
    free(counts);
  }
  printf("rank %d: %016llx\n", rank, (unsigned long long)hash);
  free(in);
  free(out);
}
