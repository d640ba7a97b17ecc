// Code for devices, as images that hold the kernels. The device targets make it, and packaging takes it.
#pragma once

#include "kolo/runtime/DeviceAbi.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

/// The type in which kernels compute with f16 and bf16.
enum class Accumulation {
  F32,   // in f32, rounded once per operation
  Native // in their own type
};

/// The types and reductions that kernels have code for. Each pair costs compile time, so that the default has those
/// that most applications use.
struct DeviceOptions {
  std::vector<KoloType> types = {KOLO_F16, KOLO_BF16, KOLO_F32};
  std::vector<KoloReduction> reductions = {KOLO_SUM, KOLO_AVERAGE};
  Accumulation accumulation = Accumulation::F32;
};

/// The programs' code for one architecture.
struct DeviceImage {
  std::string kind, architecture; // "cuda", "sm_90"
  KoloDeviceFormat format = KOLO_DEVICE_PTX;
  std::string data;
  /// Registers and memory that a kernel takes, by name, as far as the code generator decides them.
  using Resources = std::vector<std::pair<std::string, int64_t>>;
  std::vector<Resources> resources; // of every program, in their order; or empty
};

/// The kernel of a program: of the same name, but without dots, which assembly languages do not take.
inline std::string kernelName(std::string program) {
  std::ranges::replace(program, '.', '_');
  return program;
}

struct DeviceCode {
  DeviceOptions options; // what the images hold
  std::vector<DeviceImage> images;
};

} // namespace kolo
