#include "compiler/Schedule.h"

#include <optional>

namespace kolo {

static bool usesPackets(Protocol protocol) { return protocol == Protocol::LL || protocol == Protocol::LL128; }

static std::optional<std::string> findMistake(const Schedule &schedule, const Setting &setting) {
  if (schedule.pipelineDepth < 1 || schedule.pipelineDepth > maxPipelineDepth)
    return "pipeline: " + std::to_string(schedule.pipelineDepth) + " is no number from 1 to " +
           std::to_string(maxPipelineDepth);
  if (schedule.protocol == Protocol::Published &&
      (schedule.pipelineDepth > 1 || schedule.transfers == Transfers::Push || schedule.entry == Entry::Credits))
    return "protocol published: all of the input is published at once as all ranks enter, and read; not with pipeline, "
           "transfers push or entry credits";
  if (usesPackets(schedule.protocol) && (schedule.pipelineDepth > 1 || schedule.transfers == Transfers::Pull))
    return std::string("protocol ") + (schedule.protocol == Protocol::LL ? "ll" : "ll128") +
           ": everything is written by its sender, a packet at a time; not with pipeline or transfers pull";
  if (setting.runners == Runners::HostAndDevices &&
      (schedule.protocol == Protocol::Published || schedule.entry == Entry::Together))
    return "protocol published, and ranks that enter together, are for the host alone";
  return std::nullopt;
}

std::variant<ResolvedSchedule, ScheduleMistake> resolve(const Schedule &schedule, const Setting &setting) {
  if (std::optional<std::string> mistake = findMistake(schedule, setting))
    return ScheduleMistake{*mistake};
  using Packets = ResolvedSchedule::Packets;
  ResolvedSchedule resolved;
  resolved.optimizes = setting.optimize;
  resolved.depth = schedule.pipelineDepth;
  resolved.publishes = schedule.protocol == Protocol::Published;
  if (usesPackets(schedule.protocol))
    resolved.packets = schedule.protocol == Protocol::LL128 ? Packets::LL128 : Packets::LL;
  // What is published can only be read, and nobody writes to the caller's memory where nobody reads it. Packets can
  // only be written.
  resolved.moves = resolved.publishes ? Transfers::Pull : resolved.usesPackets() ? Transfers::Push : schedule.transfers;
  resolved.together = resolved.publishes || schedule.entry == Entry::Together ||
                      (schedule.entry == Entry::Auto && setting.runners == Runners::Host);
  // Handshakes need no search for what less will do.
  resolved.handshakes = !setting.optimize || schedule.synchronisation == Synchronisation::Handshake;
  resolved.oneOrder = schedule.order == Summation::OneOrder;
  return resolved;
}

} // namespace kolo
