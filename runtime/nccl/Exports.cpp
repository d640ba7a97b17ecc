// The functions that programs call: every row of the table, as ncclX and as pncclX.
#include "Own.h"
#include "Process.h"

#define KOLO_NCCL_EXPORT __attribute__((visibility("default")))

using namespace kolo::nccl;

extern "C" {

/// Says that a library is Kolo's.
KOLO_NCCL_EXPORT extern const char koloNcclDoor[] = "libkolo_nccl";

#define KOLO_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  KOLO_NCCL_EXPORT result nccl##name parameters {                                                                      \
    return forward(real().functions.name, "nccl" #name KOLO_UNPACK arguments);                                         \
  }                                                                                                                    \
  KOLO_NCCL_EXPORT result pnccl##name parameters __attribute__((alias("nccl" #name)));
#define KOLO_NCCL_HANDLED(since, result, name, parameters, arguments)                                                  \
  KOLO_NCCL_EXPORT result nccl##name parameters {                                                                      \
    if (isInside()) [[unlikely]]                                                                                       \
      return forward(real().functions.name, "nccl" #name KOLO_UNPACK arguments);                                       \
    return own::name arguments;                                                                                        \
  }                                                                                                                    \
  KOLO_NCCL_EXPORT result pnccl##name parameters __attribute__((alias("nccl" #name)));
#include "Api.def"
}
