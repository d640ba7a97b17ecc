#include "network/fabric/ProviderRules.h"

#include "base/Error.h"

#include <algorithm>
#include <array>

namespace kolo::runtime::fabric {
namespace {

constexpr uint64_t kibibyte = 1024, gibibyte = kibibyte * kibibyte * kibibyte;
constexpr uint64_t manyKeys = uint64_t(1) << 31;

constexpr std::array<ProviderRules, 4> rows = {{
    {.name = "cxi",
     .provider = "cxi",
     .order =
         SignalOrder::Ordered, // of any size, if asked for; fi_writedata may fail with ENOSYS: libfabric issue 12754
     .memoryModes = FI_MR_ENDPOINT | FI_MR_ALLOCATED,
     .keys = {manyKeys, 100}, // the optimized regions
     .maxPutBytes = 4 * gibibyte - 4 * kibibyte,
     .injectBytes = 64,
     .progress = FI_PROGRESS_MANUAL,
     .threads = FI_THREAD_DOMAIN,
     .sentCompletion = FI_TRANSMIT_COMPLETE, // in the target's NIC, perhaps not yet visible
     .completion = FI_DELIVERY_COMPLETE,
     // Small writes are copied to the NIC by the processor: from memory of NVIDIA's, without CUDA, only with GDRCopy.
     .gpu = {.isReached = true, .read = GpuRead::AtTarget, .hasCudaOption = true},
     .source = "fi_cxi(7) of libfabric 1.21 and 2.3: Endpoints, Memory Registration, Completions; prov/cxi/src"},
    {.name = "verbs",
     .provider = "verbs;ofi_rxm",
     .order = SignalOrder::Ordered,
     .memoryModes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL,
     .keys = {manyKeys},
     .maxPutBytes = 1 * gibibyte,
     .injectBytes = 0,
     .progress = FI_PROGRESS_MANUAL,
     .threads = FI_THREAD_DOMAIN,
     .sentCompletion = FI_TRANSMIT_COMPLETE,
     .completion = FI_TRANSMIT_COMPLETE, // the acknowledgement of a reliable connection; it has no other
     .gpu = {.isReached = true, .messageOrder = FI_ORDER_SAW, .read = GpuRead::BySelf},
     .source = "fi_verbs(7) and fi_rxm(7) of libfabric 1.17; prov/verbs/src/verbs_info.c"},
    {.name = "efa",
     .provider = "efa",
     .order = SignalOrder::Counted, // max_order_waw_size is 0
     .memoryModes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL,
     .keys = {manyKeys},
     .maxPutBytes = 1 * gibibyte,
     .injectBytes = 0, // writes have none, whatever inject_size says
     .progress = FI_PROGRESS_MANUAL,
     .threads = FI_THREAD_DOMAIN,
     .completion = FI_DELIVERY_COMPLETE,
     .targetKnowsInitiator = true,
     // Software may make its reads, which show nothing.
     .gpu = {.isReached = true, .hasPeerOption = true, .hasCudaOption = true},
     .source = "fi_efa(7) of libfabric 1.17 to 2.3; prov/efa/src/efa_prov_info.c"},
    {.name = "tcp;ofi_rxm",
     .provider = "tcp;ofi_rxm",
     .order = SignalOrder::Ordered,
     .memoryModes = 0,
     .keys = {manyKeys},
     .maxPutBytes = 1 * gibibyte,
     .injectBytes = 64,
     .progress = FI_PROGRESS_MANUAL,
     .threads = FI_THREAD_DOMAIN,
     .sentCompletion = FI_DELIVERY_COMPLETE, // what a kernel has alone is lost if its process ends
     .completion = FI_DELIVERY_COMPLETE,
     .takesAddress = true,
     .source = "fi_tcp(7) and fi_rxm(7) of libfabric 1.17; tests/network"},
}};

} // namespace

const char *toString(SignalOrder order) {
  constexpr const char *names[] = {"ordered", "counted", "acknowledged"};
  return names[static_cast<size_t>(order)];
}

std::string describe(const DeviceKind &kind) {
  return fmt::format("protocol {:#x} version {}, addresses of format {}{}{}", kind.protocol, kind.protocolVersion,
                     kind.addressFormat, kind.fabric.empty() ? "" : ", fabric ", kind.fabric);
}

std::span<const ProviderRules> allProviderRules() { return rows; }

const ProviderRules *findProviderRules(std::string_view name) {
  const auto *found = std::ranges::find(rows, name, &ProviderRules::name);
  return found == rows.end() ? nullptr : found;
}

} // namespace kolo::runtime::fabric
