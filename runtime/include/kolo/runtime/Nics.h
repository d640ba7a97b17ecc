// The NICs of this host by which ranks may write to other hosts without TCP.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"

#include <string>
#include <vector>

namespace kolo::runtime {

struct NicDescription {
  std::string provider; // of libfabric, as KOLO_NETWORK names it
  std::string name;     // "hsn0"
  std::string address;  // of PCI, "0000:c1:00.0"; empty: the provider does not say
  bool isNearest;       // to KOLO_NETWORK_NEAR, or to the processors of this process: its ranks take these in turn
};

/// Those of the providers that KOLO_NETWORK may choose, or of the one that it names; none where it is tcp. Opens
/// libfabric where the host has RDMA devices. InvalidArgument, SystemError: as for a rank that starts.
KOLO_RUNTIME_API Result<std::vector<NicDescription>> describeNics();

} // namespace kolo::runtime
