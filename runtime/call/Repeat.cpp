// A repeated call among several hosts, on which ranks agree without an exchange.
//
// The last call was that of an agreement, and this one is the same on every rank, because plugin and arguments are
// the same, but for what the program ignores. So each rank knows what its peers know. Nothing but the proof orders this
// call behind the last one: it covers calls back to back, however late a rank is. Hence:
// - It has no block tables. Each rank knows its own: where one has those of the last call, another may have others.
// - The program has no entry barrier, and is proved on this mesh.
// - Only this rank needs to know where its buffers are: they are staged, or peers access only the runtime's memory, or
//   every rank is alone on its host and TCP carries the call.
// - At most Exchange::mostRepeated calls in a row went without an exchange. In the next, ranks propose the plan again.
// - No other call and no exchange of windows came between; a barrier may. Programs share scratch memory, and no proof
//   orders one behind the other.
//
// What peers check on arrival: a put names its agreement, and a signal says its count since the first call. If every
// rank is alone on its host, the caller's output is lent to one call alone, under a number that only grows. A put for a
// later call waits in the socket, and one for an earlier call is refused. All exchanges compare how many calls went
// without one. So a rank that makes another call is found by that call's exchange, also by ranks that are inside of
// this one.
#include "call/CommunicatorState.h"

#include "base/Error.h"
#include "call/CallIdentity.h"
#include "call/Remote.h"

#include <algorithm>

namespace kolo::runtime {

bool mayRepeat(const Plan &plan, const Peers &peers) {
  const Call &call = plan.call;
  return peers.hosts().areSeveral() && !call.tables && !call.info->enters && call.isProved && !call.publishes &&
         !call.hasPackets && (peers.links()->areApart() || isStaged(plan.buffers.staging) || !call.isShared());
}

/// Gives an agreed plan the buffers of this call. Peers notice nothing. InvalidArgument. May throw std::bad_alloc.
Status CommunicatorState::takeBuffers(Plan &plan, const PluginState &plugin, const CallArguments &arguments) {
  if (plan.request.load() != plugin.load)
    if (Status status = reload(plan, plugin, arguments); !status.isOk())
      return status;
  Call &call = plan.call;
  Buffers &buffers = plan.buffers;
  call.setPointers(arguments);
  plan.request.setPointers(arguments);
  if (Status status = call.checkPointers(); !status.isOk())
    return status;
  // The placement is that of the first call. If input and output did not overlap then, but do now, the input moves.
  bool isOverwritten = buffers.isCopied[KOLO_INPUT] ? call.overlap() == Overlap::Other && buffers.pieces.number > 1
                                                    : call.mustCopyInput();
  if (isOverwritten && !buffers.isInputAside) {
    plan.inputCopy.resize(call.inputBytes);
    copyInput(call, plan.inputCopy.data());
    call.input = plan.inputCopy.data();
  }
  if (!buffers.isCopied[KOLO_INPUT] && !buffers.isInputAside)
    buffers.local[KOLO_INPUT] = call.inputBytes ? call.input : nullptr;
  if (!buffers.isCopied[KOLO_OUTPUT])
    buffers.local[KOLO_OUTPUT] = call.outputBytes ? call.output : nullptr;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    plan.peers.buffers[role][static_cast<size_t>(ranks->rank())] = buffers.local[role];
  for (Lane &lane : plan.lanes)
    std::copy_n(buffers.local, 2, lane.invocation.local);
  return plan.access.lentRight ? lendAgain(plan, ++agreements, *ranks) : Status();
}

/// Another load of the same plugin: the code of the plan may be gone.
Status CommunicatorState::reload(Plan &plan, const PluginState &plugin, const CallArguments &arguments) {
  CallArguments named = arguments;
  named.program = plugin.manifest.programs[static_cast<size_t>(plan.call.key.program)].name;
  named.mesh = plan.call.mesh;
  const Planner planner{ranks->rank(), ranks->size()};
  Result<Call> planned = planCall(plugin, named, *segments, planner);
  if (!planned.isOk())
    return planned.status();
  planned->memory = plan.call.memory;
  planned->numLanes = plan.call.numLanes;
  plan.call = *planned;
  plan.request.setLoad(plugin.load);
  plan.content = plugin.content; // the next comparison reads no manifest
  lanes.makeLanes(plan);
  return {};
}

/// Why the repeated call that this rank has begun can be no call of all ranks, or Ok. Any thread of the call, and any
/// later wait: the plugin may be unloaded then.
Status CommunicatorState::findDeparture() const {
  std::optional<Exchange::Announced> left = steady ? exchange.findDeparture() : std::nullopt;
  if (!left)
    return {};
  if (const Record *record = left->record) {
    if (record->code != StatusCode::Ok)
      return rankError(record->code, left->rank, "rank {}: {}", left->rank, record->message);
    if (left->operation() == Operation::Run)
      if (Status status = runtime::compareCalls(steady->call.key, record->call, {ranks->rank(), left->rank});
          !status.isOk())
        return status;
  }
  if (left->operation() != Operation::Run)
    return rankError(StatusCode::Mismatch, left->rank,
                     "ranks disagree on the operation: rank {} repeated a call of program {}, rank {} called {}",
                     ranks->rank(), steady->program, left->rank, toString(left->operation()));
  return rankError(StatusCode::Mismatch, left->rank,
                   "ranks disagree on the call: rank {} repeated one of program {}, rank {} made another one",
                   ranks->rank(), steady->program, left->rank);
}

} // namespace kolo::runtime
