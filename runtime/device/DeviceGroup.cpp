// DeviceCommunicator::runGroup: calls of several communicators that one thread starts together.
#include "device/DeviceState.h"

#include "base/Error.h"

#include <algorithm>
#include <thread>

namespace kolo::runtime {
namespace {

/// The next call of one communicator.
struct Member {
  DeviceCall *call;
  DeviceState *state;
  PreparedCall prepared;
};

/// The calls that may be prepared together: the first of each communicator. Takes them from `calls`.
std::vector<DeviceCall *> takeRound(std::vector<DeviceCall *> &calls) {
  std::vector<DeviceCall *> round, later;
  for (DeviceCall *call : calls) {
    auto isOfSame = [&](const DeviceCall *other) { return other->communicator == call->communicator; };
    (std::ranges::any_of(round, isOfSame) ? later : round).push_back(call);
  }
  calls = std::move(later);
  return round;
}

/// Every communicator waits for its peers, which may be others of this thread; so each has a thread here.
void makeRoomForAll(std::vector<Member> &members) {
  std::vector<Member *> waiting;
  for (Member &member : members)
    if (member.prepared.fresh)
      waiting.push_back(&member);
  auto makeRoom = [](Member &member) {
    member.call->status = guarded([&] { return member.state->makeRoom(member.prepared); });
  };
  std::vector<std::jthread> threads; // joined at the end, and where one cannot be made
  for (size_t index = 1; index < waiting.size(); ++index)
    threads.emplace_back([&, index] { makeRoom(*waiting[index]); });
  if (!waiting.empty())
    makeRoom(*waiting.front());
}

} // namespace

Status DeviceCommunicator::runGroup(std::span<DeviceCall> calls) {
  return guarded([&]() -> Status {
    std::vector<DeviceCall *> left;
    for (DeviceCall &call : calls) {
      if (!call.communicator || !call.plugin)
        return error(StatusCode::InvalidArgument, "a call of the group has no {}",
                     call.communicator ? "plugin" : "communicator");
      if (call.communicator->ranks().size() != 1)
        return error(StatusCode::InvalidArgument, "a communicator of the group runs {} ranks, not one",
                     call.communicator->ranks().size());
      left.push_back(&call);
    }
    Status first;
    while (!left.empty()) {
      std::vector<Member> members;
      for (DeviceCall *call : takeRound(left)) {
        Member &member = members.emplace_back(Member{call, call->communicator->state.get(), {}});
        RankBuffers buffers = {call->arguments.input, call->arguments.output, call->arguments.blocks};
        Result<PreparedCall> prepared = member.state->prepare(call->plugin->state, call->arguments, {&buffers, 1});
        call->status = prepared.status();
        if (prepared.isOk())
          member.prepared = std::move(prepared).value();
      }
      makeRoomForAll(members);
      for (Member &member : members) {
        if (member.call->status.isOk())
          member.call->status = member.state->start(*member.prepared.plan, {&member.call->stream, 1});
        if (first.isOk())
          first = member.call->status;
      }
    }
    return first;
  });
}

} // namespace kolo::runtime
