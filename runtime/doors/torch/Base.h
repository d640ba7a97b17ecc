// What differs between the versions of torch that this door is built against.
#pragma once

// Before the other headers of torch, which in C++20 use its types before they are complete.
#include <ATen/core/ivalue.h>

#include <torch/csrc/api/include/torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace kolo::torch_door {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// Whether the caller goes on while the call runs. Torch tells it in newer versions; in older ones it may always.
template <class Options> bool isAsync(const Options &options) {
  if constexpr (requires { options.asyncOp; })
    return options.asyncOp;
  else
    return true;
}

} // namespace kolo::torch_door
