#include "Group.h"

#include "Own.h"
#include "Process.h"
#include "Transfers.h"

#include <algorithm>
#include <exception>
#include <list>
#include <utility>

namespace kolo::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<QueuedCall> calls;
  std::vector<Transfer> transfers;
  std::vector<Creation> creations;
  std::vector<Registration> registrations;
  std::vector<std::shared_ptr<Member>> flushed;
};
thread_local Group group;

/// The group's sends and receives by rank, in the order of communicators that is the same on all ranks.
std::list<TransferGroup> divide(const Group &ended) {
  std::map<std::pair<Key, Member *>, std::vector<Transfer>> byMember;
  for (const Transfer &each : ended.transfers)
    byMember[{each.member->key, each.member.get()}].push_back(each);
  std::list<TransferGroup> divided;
  for (auto &[of, transfers] : byMember)
    divided.emplace_back(std::move(transfers), std::ranges::none_of(ended.calls, [&](const QueuedCall &call) {
                           return call.member.get() == of.second;
                         }));
  return divided;
}

/// Has the ranks agree on sends and receives. A thread's other ranks may be peers, so no one is awaited alone.
void agree(std::list<TransferGroup> &groups) {
  for (TransferGroup &each : groups)
    each.begin();
  std::vector<TransferGroup *> pending;
  for (TransferGroup &each : groups)
    pending.push_back(&each);
  for (int numLooks = 0;; pause(numLooks)) {
    std::erase_if(pending, [](TransferGroup *each) { return each->look(); });
    if (pending.empty())
      return;
  }
}

/// Carried calls come first, as the real library puts collectives before sends; the others go to its own group. A call
/// may wait for its peers, so all ranks go through their communicators in the same order.
Code performQueued(const std::vector<QueuedCall> &calls, const std::list<TransferGroup> &transfers) {
  std::vector<const QueuedCall *> order;
  for (const QueuedCall &call : calls)
    order.push_back(&call);
  std::ranges::sort(order, {}, [](const QueuedCall *call) { return std::pair(call->member->key, call); });
  for (const TransferGroup &each : transfers)
    if (const QueuedCall *call = each.call())
      order.push_back(call);
  std::vector<Submission> submissions;
  for (const QueuedCall *call : order)
    submissions.push_back({call->member->carrier.get(), call->member->rank, &call->shape, call->buffers, call->stream});
  std::vector<RequestPointer> requests = submitAll(submissions);
  Code first = Code::Success;
  auto note = [&](Code code) { first = first == Code::Success ? code : first; };
  for (size_t number = 0; number < order.size(); ++number) {
    const QueuedCall &call = *order[number];
    call.member->carrier->await(call.member->rank, requests[number]);
    std::optional<Code> code = outcome(*call.member, *requests[number]);
    note(code ? *code : call.forward());
  }
  for (const TransferGroup &each : transfers)
    if (!each.call())
      note(each.forward());
  return first;
}

/// Lets no exception keep the real library's group from being ended.
Code perform(const Group &ended) {
  try {
    std::list<TransferGroup> transfers = divide(ended);
    agree(transfers);
    Code code = performQueued(ended.calls, transfers);
    for (const std::shared_ptr<Member> &member : ended.flushed)
      if (Code own = settle(*member, member->carrier->flush(member->rank)); code == Code::Success)
        code = own;
    return code;
  } catch (const std::exception &problem) {
    return fail(Code::SystemError, problem.what());
  }
}

} // namespace

bool isInGroup() { return group.depth != 0; }
void queue(QueuedCall call) { group.calls.push_back(std::move(call)); }
void queue(Transfer transfer) { group.transfers.push_back(std::move(transfer)); }
Code performAlone(std::vector<Transfer> transfers) {
  Group alone;
  alone.transfers = std::move(transfers);
  return perform(alone);
}
void queue(Registration registration) { group.registrations.push_back(std::move(registration)); }
Code flush(std::shared_ptr<Member> member) {
  if (!isInGroup())
    return settle(*member, member->carrier->flush(member->rank));
  group.flushed.push_back(std::move(member));
  return Code::Success;
}

Code settle(Member &member, const runtime::Status &status) {
  if (status.isOk())
    return Code::Success;
  Code first = Code::Success;
  if (member.failure.compare_exchange_strong(first, codeOf(status)))
    fail(codeOf(status), "rank " + std::to_string(member.rank) + ": " + status.message());
  return member.failure;
}

Code create(std::vector<Creation> creations, const std::function<Code()> &call) {
  for (Creation &creation : creations)
    if (Code code = begin(creation); code != Code::Success)
      return code;
  Code code = call();
  bool isBegun = code == Code::Success || code == Code::InProgress;
  if (!isInGroup() || !isBegun)
    return finish(std::move(creations), code);
  for (Creation &creation : creations)
    group.creations.push_back(std::move(creation));
  return code;
}

Code create(Creation creation, const std::function<Code()> &call) {
  return create(std::vector<Creation>{std::move(creation)}, call);
}

std::optional<Code> outcome(const Member &member, const CallRequest &request) {
  if (request.state == CallRequest::State::Carried) [[likely]]
    return Code::Success;
  if (request.state == CallRequest::State::Failed)
    return fail(request.code, "rank " + std::to_string(member.rank) + ": " + request.message);
  countForwarded(request.reason);
  return std::nullopt;
}

namespace own {

Code GroupStart() {
  Code code = forward(real().functions.GroupStart, "ncclGroupStart");
  if (code == Code::Success)
    ++group.depth;
  return code;
}

Code GroupEnd() {
  if (group.depth > 1 || group.depth == 0) {
    group.depth -= group.depth > 1;
    return forward(real().functions.GroupEnd, "ncclGroupEnd");
  }
  Group ended = std::exchange(group, {});
  Code own = perform(ended);
  Code code = forward(real().functions.GroupEnd, "ncclGroupEnd");
  code = finish(std::move(ended.creations), code);
  finish(std::move(ended.registrations), code);
  return own == Code::Success ? code : own;
}

/// Nothing is started: the real library estimates the calls that would be carried, too.
Code GroupSimulateEnd(void *information) {
  if (group.depth != 1) {
    group.depth -= group.depth > 0;
    return forward(real().functions.GroupSimulateEnd, "ncclGroupSimulateEnd", information);
  }
  Group ended = std::exchange(group, {});
  Code first = Code::Success;
  auto note = [&](Code code) { first = first == Code::Success ? code : first; };
  for (const QueuedCall &call : ended.calls)
    note(call.forward());
  for (const Transfer &each : ended.transfers)
    note(each.forward());
  Code code = forward(real().functions.GroupSimulateEnd, "ncclGroupSimulateEnd", information);
  code = finish(std::move(ended.creations), code);
  return first == Code::Success ? code : first;
}

} // namespace own
} // namespace kolo::nccl
