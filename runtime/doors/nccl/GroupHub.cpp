#include "GroupHub.h"

#include "Process.h"

#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace kolo::nccl {
namespace {

// Between looks of the thread, in microseconds: at boards while a rank waits, and else at whether it must end.
constexpr int whilePending = 50, whileIdle = 10000;

} // namespace

GroupHub::GroupHub(const Key &ofCommunicator, uint64_t ownHost, int numRanks, std::span<const int> remote)
    : key(ofCommunicator), host(ownHost), size(numRanks), pid(getpid()) {
  for (int rank : remote)
    desks[rank];
}

GroupHub::~GroupHub() {
  mustClose = mustEnd = true;
  if (thread && pid == getpid())
    thread->join();
  else // a forked child does not have the thread, so it cannot join it
    (void)thread.release();
}

runtime::Status GroupHub::start(runtime::Hub connected) {
  hub = std::make_unique<runtime::Hub>(std::move(connected));
  try {
    thread = std::make_unique<std::thread>([this] { work(); });
  } catch (const std::system_error &problem) {
    return {runtime::StatusCode::SystemError,
            std::string("the thread for groups of ranks on other hosts cannot be started: ") + problem.what()};
  }
  return {};
}

/// Null: the rank's groups are forwarded.
GroupBoard *GroupHub::boardOf(int rank, Desk &desk) const {
  if (desk.board || desk.isClosed)
    return desk.board.get();
  runtime::Result<std::unique_ptr<GroupBoard>> opened = GroupBoard::open(key, host, rank, size);
  if (opened.isOk()) {
    desk.board = std::move(opened).value();
  } else {
    desk.isClosed = true;
    print("groups of sends and receives of rank " + std::to_string(rank) +
          " are forwarded: " + opened.status().message());
  }
  return desk.board.get();
}

bool GroupHub::take(int sender, std::span<const std::byte> message) {
  std::optional<GroupMessage> parsed = parseMessage(message, size);
  auto found = desks.find(sender);
  if (!parsed || found == desks.end() ||
      (parsed->kind == GroupMessage::Kind::Enter && found->second.pending != 0 && !found->second.isClosed))
    return false;
  Desk &desk = found->second;
  if (parsed->kind == GroupMessage::Kind::Leave) {
    close(desk);
    return true;
  }
  GroupBoard *board = boardOf(sender, desk);
  if (parsed->kind == GroupMessage::Kind::Enter) {
    numPending += desk.pending == 0 ? 1 : 0;
    desk.pending = parsed->number;
    if (board)
      board->enter(std::move(parsed->group), std::chrono::milliseconds(parsed->mostMs));
  } else if (board) {
    board->count(parsed->group.peers);
  }
  return true;
}

/// Its rank's groups are forwarded from now on. One that waits is over then, unless it was carried already.
void GroupHub::close(Desk &desk) const {
  if (desk.board && !std::exchange(desk.isClosed, true))
    desk.board->leave();
  desk.isClosed = true;
}

/// Tells a rank that waits what became of its group, as soon as that is known.
void GroupHub::look(int rank, Desk &desk) {
  if (hub->hasLeft(rank) || hub->isLost(rank) || mustClose)
    close(desk);
  if (desk.pending == 0)
    return;
  const std::optional<GroupVerdict> verdict = desk.board ? desk.board->look() : GroupVerdict();
  if (!verdict)
    return;
  (void)hub->send(rank, toBytes(GroupReply{std::exchange(desk.pending, 0), verdict->bound, verdict->isCarried,
                                           verdict->hasOneLengthEach, verdict->isTimeout}));
  --numPending;
}

void GroupHub::awaitTold() const {
  for (int look = 0; look < 1'000'000 / whilePending && numPending > 0; ++look)
    std::this_thread::sleep_for(std::chrono::microseconds(whilePending));
}

void GroupHub::work() {
  for (bool isLast = false; !isLast;) {
    isLast = mustEnd; // who waits is told once more
    hub->wait(numPending > 0 ? whilePending : whileIdle);
    for (auto &[rank, desk] : desks)
      look(rank, desk);
  }
}

} // namespace kolo::nccl
