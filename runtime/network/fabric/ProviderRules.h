// ProviderRules: what Kolo knows about each provider of libfabric. Code follows these rules and asks for no provider's
// name.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kolo::runtime::fabric {

/// How a signal stays behind the puts before it.
enum class SignalOrder : uint8_t {
  Ordered,     // the flag is a write behind the puts, which the provider keeps in order (FI_ORDER_RMA_WAW)
  Counted,     // every put carries data to the target, which counts them; a message says how many there are
  Acknowledged // the flag is written when the puts before it are complete at the target
};

const char *toString(SignalOrder order);

/// Longer names of fabrics are compared up to here.
inline constexpr size_t maxFabricName = 63;

/// What tells devices that cannot reach each other. A provider may have several kinds on one host.
struct DeviceKind {
  uint32_t protocol = 0, protocolVersion = 0, addressFormat = 0; // as fi_info has them
  std::string fabric;                                            // empty where it is named after an address of the host
  bool operator==(const DeviceKind &) const = default;
};
std::string describe(const DeviceKind &kind);

/// Keys that a rank chooses for its memory; no matter with FI_MR_PROV_KEY.
struct KeyRules {
  uint64_t number = 0;  // they are below
  uint64_t numFast = 0; // those below cost less, and are used first
};

/// How this rank's device reads from memory of a GPU, which shows what peers had written there.
enum class GpuRead : uint8_t {
  None,
  AtTarget, // by itself, before the completion that says that data can be seen
  BySelf    // when this rank has it read
};

/// What holds for memory of GPUs (FI_HMEM). Their memory and the cells lie in different places, so a flag behind puts
/// proves nothing: peers send a message, and this rank raises the cell.
struct GpuRules {
  bool isReached = false;    // else no such memory is registered
  uint64_t messageOrder = 0; // FI_ORDER_*: without which a message could pass writes that are complete
  GpuRead read = GpuRead::None;
  bool hasPeerOption = false; // it obeys FI_OPT_FI_HMEM_P2P: else it never copies such writes itself
  bool hasCudaOption = false; // it obeys FI_OPT_CUDA_API_PERMITTED: else no write calls CUDA
};

struct ProviderRules {
  std::string_view name;     // what KOLO_NETWORK calls it
  std::string_view provider; // what libfabric calls it
  SignalOrder order = SignalOrder::Acknowledged;
  uint64_t memoryModes = 0; // FI_MR_*: what its memory regions need
  KeyRules keys = {};
  uint64_t maxPutBytes = 0; // larger puts go in pieces
  uint64_t injectBytes = 0; // writes up to this size are injected: their source is free at once. 0: none are
  fi_progress progress = FI_PROGRESS_MANUAL;
  fi_threading threads = FI_THREAD_DOMAIN; // what this rank promises about calls of several threads
  uint64_t sentCompletion = 0;             // of ordered writes: says that the source is free, and the data will arrive
  uint64_t completion = 0;                 // the completion that says: the data can be seen at the target
  bool targetKnowsInitiator = false;       // nothing may be written before the target has this rank's address
  bool takesAddress = false;               // its devices are chosen by an IP address of this host
  GpuRules gpu = {};
  std::string_view source; // where all this is from
};

std::span<const ProviderRules> allProviderRules();
/// Null: there are no rules for a provider with this name.
const ProviderRules *findProviderRules(std::string_view name);

} // namespace kolo::runtime::fabric
