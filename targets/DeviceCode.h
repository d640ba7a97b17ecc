// What a plugin carries for devices: kernels, and images that hold their code. Passed from the device targets to the packing.
#ifndef KOLO_TARGETS_DEVICECODE_H
#define KOLO_TARGETS_DEVICECODE_H

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

/// What there is code for. A kernel of its own for every pair keeps each small and its registers few; the pairs that most
/// applications use are the default, since each takes its time to compile.
struct DeviceOptions {
  std::vector<KoloType> types = {KOLO_F16, KOLO_BF16, KOLO_F32};
  std::vector<KoloReduction> reductions = {KOLO_SUM}; // serves averages too
  Accumulation accumulation = Accumulation::F32;
};

/// A program for one type and reduction, or, where it reduces nothing, for all types (both -1). Named alike in all images.
struct DeviceKernel {
  std::string name, program;
  int32_t type = -1, reduction = -1; // KoloType, KoloReduction
};

/// The kernels' code for one architecture.
struct DeviceImage {
  std::string kind, architecture; // "cuda", "sm_90"
  KoloDeviceFormat format = KOLO_DEVICE_PTX;
  std::string data;
  /// What a kernel takes of the device, by name, as far as the code generator settles that: vector registers, ...
  using Resources = std::vector<std::pair<std::string, int64_t>>;
  std::vector<Resources> resources; // of every kernel, in their order; or empty
};

struct DeviceCode {
  std::vector<DeviceKernel> kernels;
  std::vector<DeviceImage> images;
};

} // namespace kolo

#endif
