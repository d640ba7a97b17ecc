// Library: libfabric, opened when it is first asked for. All else that this folder calls of it goes through tables of
// what these functions return.
#pragma once

#include "kolo/runtime/Status.h"

#include <rdma/fabric.h>

#include <memory>
#include <string>

namespace kolo::runtime::fabric {

/// The interface that Kolo asks for, and the oldest library that it accepts.
inline constexpr uint32_t apiVersion = FI_VERSION(1, 15);
/// Where the library has it: the one that takes dma-bufs.
inline constexpr uint32_t dmaBufVersion = FI_VERSION(1, 20);

struct Library {
  decltype(&::fi_getinfo) getInfo = nullptr;
  decltype(&::fi_freeinfo) freeInfo = nullptr;
  decltype(&::fi_dupinfo) copyInfo = nullptr;
  decltype(&::fi_fabric) openFabric = nullptr;
  decltype(&::fi_strerror) errorText = nullptr;
  decltype(&::fi_version) version = nullptr;
  std::string path;

  /// What it is asked for: memory of GPUs as dma-bufs, too, if it can.
  uint32_t interfaceFor(bool isForDevices) const {
    return isForDevices && version() >= dmaBufVersion ? dmaBufVersion : apiVersion;
  }

  /// Opens the library at KOLO_LIBFABRIC, or else libfabric.so.1. It stays open until the process ends. SystemError: it
  /// is missing, is no libfabric, or is too old.
  static Result<const Library *> open();
};

/// Owns what getInfo returned.
struct InfoDeleter {
  const Library *library = nullptr;
  void operator()(fi_info *info) const { library->freeInfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoDeleter>;

} // namespace kolo::runtime::fabric
