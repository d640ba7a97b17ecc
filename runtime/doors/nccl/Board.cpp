#include "Board.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace kolo::nccl {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

constexpr size_t slotBytes = 512;
constexpr uint32_t numRounds = 2;
constexpr auto longestWait = std::chrono::minutes(2); // between ranks that have all returned from the real library

} // namespace

struct BoardMemory {
  struct Entry {
    Note note;
    std::atomic<int32_t> isPinned;
  };
  std::atomic<uint32_t> numPinned;
  std::atomic<uint32_t> numArrived[numRounds];
  Entry entries[Board::mostRanks];
  std::byte slots[numRounds][Board::mostRanks][slotBytes];
};

Result<std::shared_ptr<Board>> Board::pin(const Key &key, const Note &own) {
  Result<SharedMemory> opened = SharedMemory::open(key, own.host, sizeof(BoardMemory));
  if (!opened.isOk())
    return opened.status();
  auto board = std::shared_ptr<Board>(new Board(std::move(opened).value()));
  BoardMemory &memory = board->content();
  uint32_t number = memory.numPinned.fetch_add(1);
  if (number < mostRanks) {
    memory.entries[number].note = own;
    memory.entries[number].isPinned.store(1, std::memory_order_release);
  }
  return board;
}

std::vector<Note> Board::notes() const {
  std::vector<Note> all;
  for (const BoardMemory::Entry &entry : content().entries)
    if (entry.isPinned.load(std::memory_order_acquire))
      all.push_back(entry.note);
  return all;
}

Status Board::gather(int rank, int numRanks, const void *own, size_t sizeBytes, void *all) {
  if (sizeBytes > slotBytes || round >= numRounds)
    return {StatusCode::InvalidArgument, "a board gathers twice, and 512 bytes"};
  auto &slots = content().slots[round];
  std::memcpy(slots[rank], own, sizeBytes);
  std::atomic<uint32_t> &numArrived = content().numArrived[round++];
  numArrived.fetch_add(1, std::memory_order_acq_rel);
  auto until = std::chrono::steady_clock::now() + longestWait;
  while (numArrived.load(std::memory_order_acquire) < static_cast<uint32_t>(numRanks)) {
    if (std::chrono::steady_clock::now() > until)
      return {StatusCode::Timeout, "a rank that was there does not come to the exchange"};
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (int peer = 0; peer < numRanks; ++peer)
    std::memcpy(static_cast<std::byte *>(all) + static_cast<size_t>(peer) * sizeBytes, slots[peer], sizeBytes);
  return {};
}

} // namespace kolo::nccl
