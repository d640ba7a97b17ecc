/* What the stand-in driver runs for kernels: functions of a shared library, in some threads per block. */
#pragma once

#include <stdint.h>

typedef struct StandInBlock {
  uint32_t x, y;         /* number of the block */
  uint32_t gridX, gridY; /* blocks of the launch */
  uint32_t numThreads;   /* that a block has on a device */
} StandInBlock;

/* A kernel, exported under its name. `argument` is its one parameter. */
typedef void (*StandInKernel)(const void *argument, const StandInBlock *block);

/* A launch of a kernel of a PTX module. The texts live as long as the module, the argument as long as the runtime keeps
 * it. The host reads the argument, which is memory of a device, at `readable`. */
typedef struct StandInRecord {
  const char *text, *kernel;
  const void *argument, *readable;
  uint32_t gridX, gridY, numThreads;
  int device;
} StandInRecord;

/* Memory that the driver has given out. */
typedef struct StandInMemory {
  uint64_t address, sizeBytes;
  int device;           /* -1: none */
  const void *readable; /* where the host reads it */
} StandInMemory;
