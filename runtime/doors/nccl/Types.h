// NCCL's binary interface, as far as this library passes it on: every type of NCCL that is passed by value has the size
// and class of its namesake here. tests/nccl compares both with NCCL's own header, where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kolo::nccl {

enum class Code : int32_t {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

struct OpaqueComm;
struct OpaqueWindow;
struct OpaqueParameter;
using Comm = OpaqueComm *;
using Window = OpaqueWindow *;
using Parameter = OpaqueParameter *;
using Stream = void *; // a cudaStream_t or a hipStream_t

struct UniqueId {
  char bytes[128];
};
struct Team {
  int numRanks, rank, stride;
};
struct Multimem {
  void *address;
};

/// The start of an ncclConfig_t, which has the same fields in every version.
struct Config {
  size_t sizeBytes;
  uint32_t magic, version;
  int32_t blocking; // 0: calls return InProgress and go on in the background
};

/// An option of a vendor, which NCCL ignores (2.31).
struct Extension {
  Extension *next;
  int32_t vendor, option;
  union {
    int32_t number;
    const char *text;
    void *raw;
  };
};

/// The start of an ncclCollConfig_t (2.31).
struct CollectiveConfig {
  size_t sizeBytes;
  uint32_t magic, version;
  Extension *extensions;
};

/// The value of ncclDataType_t for bytes.
inline constexpr int32_t typeUint8 = 1;

/// Values of ncclRedOp_t; from numFixedReductions on, operations that the program made.
enum FixedReduction : int32_t { redSum, redProduct, redMax, redMin, redAverage, numFixedReductions };

} // namespace kolo::nccl
