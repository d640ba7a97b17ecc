// The library that calls are forwarded to: NVIDIA's NCCL or AMD's RCCL.
#pragma once

#include "Types.h"

#include "kolo/runtime/Device.h"

#include <memory>
#include <string>

namespace kolo::nccl {

/// Its functions; null: it has no such function.
struct RealFunctions {
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments) result(*name) parameters = nullptr;
#include "Api.def"
};

struct Real {
  RealFunctions functions;
  std::string path;    // of its file
  std::string way;     // how it was found: "the next library", "KOLO_NCCL_LIB"
  std::string failure; // if no library can be used: why, in one line. Then there are no functions
  int version = 0;     // as ncclGetVersion says it: 22809
  runtime::DeviceKind kind = runtime::DeviceKind::Cuda;
  /// "NCCL 2.28.9".
  std::string title() const;
};

/// What RCCL offers by its table of functions, instead of by their names; see Rccl.cpp. Null: it offered none. Then no
/// later table is taken, because the functions' names are.
std::unique_ptr<Real> takeTable();

/// Looks for the library when it is first called, in this order: KOLO_NCCL_LIB; the next library that defines the
/// functions, which is so in a preloaded library; RCCL, where it is loaded; the linker's search for libnccl.so.2. Never
/// this library itself.
const Real &real();

/// "2.28.9".
std::string versionText(int version);

/// The file of this library; "" where it cannot be told.
std::string ownPath();

/// Whether this thread is inside a call of the real library. The real library calls its own functions by name, so it
/// may call those of this library.
bool isInside();

/// While it lives, this thread is inside of the real library, or in this library's own calls of it.
class Inside {
public:
  Inside();
  ~Inside();
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
};

} // namespace kolo::nccl
