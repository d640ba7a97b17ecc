// What a plugin carries for devices: kernels, and images that hold their code. Passed from the device targets to the
// packing.
#pragma once

#include "kolo/runtime/DeviceAbi.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

/// How f16 and bf16 are computed with.
enum class Accumulation {
  F32,   // in f32, rounded once per operation
  Native // in their own type
};

/// What programs that reduce have code for. Each pair takes its time to compile: those that most applications use are
/// the default.
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
  /// What a kernel takes of the device, by name, as far as the code generator settles that: vector registers, ...
  using Resources = std::vector<std::pair<std::string, int64_t>>;
  std::vector<Resources> resources; // of every program, in their order; or empty
};

struct DeviceCode {
  DeviceOptions options; // what the images hold
  std::vector<DeviceImage> images;
};

} // namespace kolo
