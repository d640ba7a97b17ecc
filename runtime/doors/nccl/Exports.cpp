// The functions that programs call: every row of the table, as ncclX and as pncclX.
#include "Own.h"
#include "Process.h"

#include <exception>
#include <type_traits>

#define KOLO_NCCL_EXPORT __attribute__((visibility("default")))

using namespace kolo::nccl;

/// Lets no exception reach the program, which may be C: there is no memory, or no thread can be made.
template <class Call> static auto guarded(Call call) {
  if constexpr (std::is_same_v<decltype(call()), Code>) {
    try {
      return call();
    } catch (const std::exception &problem) {
      return fail(Code::SystemError, problem.what());
    }
  } else {
    return call();
  }
}

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
    return guarded([&] { return own::name arguments; });                                                               \
  }                                                                                                                    \
  KOLO_NCCL_EXPORT result pnccl##name parameters __attribute__((alias("nccl" #name)));
#include "Api.def"

// RCCL's older names of ncclAlltoAll and ncclAlltoAllv.
KOLO_NCCL_EXPORT decltype(ncclAlltoAll) ncclAllToAll __attribute__((alias("ncclAlltoAll")));
KOLO_NCCL_EXPORT decltype(ncclAlltoAll) pncclAllToAll __attribute__((alias("ncclAlltoAll")));
KOLO_NCCL_EXPORT decltype(ncclAlltoAllv) ncclAllToAllv __attribute__((alias("ncclAlltoAllv")));
KOLO_NCCL_EXPORT decltype(ncclAlltoAllv) pncclAllToAllv __attribute__((alias("ncclAlltoAllv")));
}
