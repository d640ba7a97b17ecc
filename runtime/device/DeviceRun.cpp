// A call: has it been seen before? Then it is launched as it was.
#include "device/DeviceState.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// Mixes words into one.
class Hash {
public:
  void add(uint64_t word) {
    value = (value ^ word) * 0x9e3779b97f4a7c15;
    value ^= value >> 29;
  }
  void add(const void *address) { add(reinterpret_cast<uint64_t>(address)); }
  void add(std::string_view text) {
    add(text.size());
    for (char character : text)
      add(static_cast<uint64_t>(static_cast<unsigned char>(character)));
  }
  uint64_t get() const { return value; }

private:
  uint64_t value = 0x243f6a8885a308d3;
};

} // namespace

Status DeviceState::run(std::shared_ptr<const PluginState> plugin, const CallArguments &arguments,
                        std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) {
  if (Status status = query(); !status.isOk())
    return status;
  if (Status status = checkSpans(buffers, streams); !status.isOk())
    return status;
  Result<uint64_t> key = callKey(ownKey(*plugin, arguments, buffers));
  if (!key.isOk())
    return fail(key.status());
  DevicePlan *plan = findPlan(*key);
  if (!plan) {
    auto fresh = std::make_unique<DevicePlan>();
    fresh->plugin = std::move(plugin);
    fresh->program = arguments.program;
    fresh->arguments = arguments;
    fresh->arguments.program = fresh->program;
    fresh->buffers.assign(buffers.begin(), buffers.end());
    fresh->key = *key;
    Result<DevicePlan *> agreed = agree(std::move(fresh));
    if (!agreed.isOk())
      return agreed.status();
    plan = *agreed;
  }
  Status status = launch(*plan, streams);
  return status.isOk() ? status : fail(status);
}

Status DeviceState::checkSpans(std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) const {
  for (size_t number : {buffers.size(), streams.size()})
    if (number != locals.size())
      return error(StatusCode::InvalidArgument, "{} ranks are here, and the call is for {}", locals.size(), number);
  return {};
}

/// What this process calls with. Where others map its memory, memory that was freed and came again at the same address
/// is another: the allocation counts too.
uint64_t DeviceState::ownKey(const PluginState &plugin, const CallArguments &arguments,
                             std::span<const RankBuffers> buffers) const {
  Hash hash;
  hash.add(plugin.load);
  hash.add(arguments.program);
  for (const MeshDim &dim : arguments.mesh.dims()) {
    hash.add(dim.name);
    hash.add(static_cast<uint64_t>(dim.size));
  }
  hash.add(static_cast<uint64_t>(arguments.count));
  hash.add(static_cast<uint64_t>(arguments.type));
  hash.add(static_cast<uint64_t>(arguments.reduction));
  hash.add(static_cast<uint64_t>(arguments.root));
  const OpenDevice &device = *devices.front();
  for (const RankBuffers &own : buffers)
    for (const void *memory : {own.input, static_cast<const void *>(own.output)}) {
      hash.add(memory);
      KoloDriverRange range = {};
      if (memory && peers && peers->haveOwnProcesses() &&
          device.driver().locate(device.ordinal(), memory, &range) == KOLO_DRIVER_OK)
        hash.add(range.id);
    }
  return hash.get();
}

/// One key for what all ranks call with: they compute it from the same words, so all find a plan, the same, or none
/// does.
Result<uint64_t> DeviceState::callKey(uint64_t own) {
  if (!meeting)
    return own;
  meeting->next().callKey = own;
  if (Status status = meeting->perform(); !status.isOk())
    return status;
  Hash hash;
  for (int peer = 0; peer < numRanks; ++peer)
    hash.add(meeting->heard(peer).callKey);
  return hash.get();
}

DevicePlan *DeviceState::findPlan(uint64_t key) {
  for (size_t i = 0; i < plans.size(); ++i) {
    size_t index = (lastPlan + i) % plans.size();
    if (plans[index]->key != key)
      continue;
    lastPlan = index;
    return plans[index].get();
  }
  return nullptr;
}

} // namespace kolo::runtime
