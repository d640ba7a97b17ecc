// Adds steps to the thread blocks of one rank, with the waits that keep the order of accesses to every chunk.
#pragma once

#include "compiler/export/ThreadBlocks.h"

#include <map>
#include <optional>
#include <span>

namespace kolo::msccl {

class RankBuilder {
public:
  RankBuilder(int64_t rank, Protocol protocol) : rank(rank), protocol(protocol) {}

  // The number of a block, which is made when it is asked for first.
  int64_t sender(int64_t peer, int64_t channel) { return blockFor({peer, -1, channel}); }
  int64_t receiver(int64_t peer, int64_t channel) { return blockFor({-1, peer, channel}); }
  int64_t local(int64_t channel) { return blockFor({-1, -1, channel}); }

  /// Adds the steps to one block, one after the other. The first one waits for all that any of them needs of other
  /// blocks, so that the kernel can fuse reductions. Memory goes by one name: see Aliasing.
  void add(int64_t block, std::span<const Step> steps);

  /// What is wrong with the blocks so far; empty if nothing is.
  const std::string &mistake() const { return firstMistake; }
  /// The blocks, with reductions kept apart that the kernel must not fuse.
  std::vector<ThreadBlock> take();

private:
  struct Key {
    int64_t sendPeer, receivePeer, channel;
    auto operator<=>(const Key &) const = default;
  };
  struct StepId {
    int64_t block = -1, step = -1;
  };
  struct Accesses {
    StepId lastWriter;
    std::vector<StepId> readers; // since then
  };
  using Clock = std::vector<int64_t>; // by block: the last step that is known to be complete; -1: none

  int64_t blockFor(const Key &key);
  /// By block, the last step that must be complete first; without those that others imply.
  std::vector<StepId> findDependences(int64_t block, std::span<const Step> steps);
  void append(int64_t block, Step step);
  void record(int64_t block, const Step &step);
  void fail(std::string message);

  int64_t rank;
  Protocol protocol;
  std::map<Key, int64_t> numbers;
  std::vector<ThreadBlock> blocks;
  std::vector<Clock> clocks;               // of every block now
  std::vector<std::vector<Clock>> history; // [block][step]: after that step
  std::map<ChunkId, Accesses> accesses;
  std::string firstMistake;
};

} // namespace kolo::msccl
