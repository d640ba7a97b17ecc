// NearestNic: which NICs of a host are nearest to a device, or to the processors that a rank runs on. From sysfs.
#pragma once

#include "kolo/runtime/Status.h"

#include <sched.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// What a rank's NIC should be near to.
struct RankLocality {
  std::string device;        // of PCI: "0000:c1:00.0"; empty: the processors count
  cpu_set_t processors = {}; // that the rank may run on

  /// Of the calling process: KOLO_NETWORK_NEAR, and its affinity. InvalidArgument: the variable names no device of PCI
  /// that this host has.
  static Result<RankLocality> here(const std::filesystem::path &sysfs = "/sys");
};

/// Numbers of the NICs that are equally near and nearest; of all, where nothing tells them apart. `nics`: addresses of
/// PCI, at least one; empty for a NIC that has none.
///
/// NICs are compared with a device by the bridges of PCI that both are behind: more are nearer. A NIC behind another
/// host bridge is nearer if it is of the same NUMA node. NICs are compared with processors by `local_cpulist`.
std::vector<size_t> nearestNics(std::span<const std::string> nics, const RankLocality &place,
                                const std::filesystem::path &sysfs = "/sys");

} // namespace kolo::runtime
