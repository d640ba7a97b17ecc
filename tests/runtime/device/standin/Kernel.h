/* What the stand-in driver runs for kernels: functions of a shared library, some threads of the host per block. */
#pragma once

#include <stdint.h>

typedef struct StandInBlock {
  uint32_t x, y;         /* number of the block */
  uint32_t gridX, gridY; /* blocks of the launch */
  uint32_t numThreads;   /* that a block has on a device */
} StandInBlock;

/* A kernel, exported under its name. `argument` is its one parameter. */
typedef void (*StandInKernel)(const void *argument, const StandInBlock *block);
