// The topology of the machine that this process runs on, in NCCL's own form, for Topology. Used by `kolo probe`. No
// MLIR.
#pragma once

#include <string>

namespace kolo::foreign {

/// What nvidia-smi prints; empty: there is none.
struct NvidiaSmi {
  std::string devices; // --query-gpu=index,pci.bus_id,compute_cap --format=csv,noheader
  std::string matrix;  // topo -m
};

/// <system> with the accelerators of NVIDIA and AMD, the NICs of InfiniBand and Slingshot, and the bridges above them.
/// `sysfs` is a folder like /sys. Slots and NUMA nodes are from there, links of AMD's devices from the topology of its
/// driver, NVLinks from the matrix. Empty if there is no accelerator.
std::string hostTopology(const std::string &sysfs, const NvidiaSmi &smi);

} // namespace kolo::foreign
