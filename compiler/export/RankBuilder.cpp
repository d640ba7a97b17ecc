// The steps of one rank, and what they wait for.
#include "compiler/export/RankBuilder.h"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::msccl {

void RankBuilder::fail(std::string message) {
  if (firstMistake.empty())
    firstMistake = std::move(message);
}

int64_t RankBuilder::blockFor(const Key &key) {
  auto [entry, isNew] = numbers.try_emplace(key, int64_t(blocks.size()));
  if (isNew) {
    if (int64_t(blocks.size()) == maxBlocksPerRank)
      fail(fmt::format(
          "rank {} needs more than {} thread blocks: one for each peer that it sends to, one for each that it "
          "receives from, and one for copies, on each of the channels",
          rank, maxBlocksPerRank));
    blocks.push_back({key.sendPeer, key.receivePeer, key.channel, {}});
    clocks.emplace_back();
    history.emplace_back();
  }
  return entry->second;
}

static bool readsSource(StepKind kind) {
  return kind == StepKind::Send || kind == StepKind::Copy || kind == StepKind::Reduce;
}
static bool readsDestination(StepKind kind) { return kind == StepKind::Reduce || kind == StepKind::ReceiveReduceCopy; }
static bool writesDestination(StepKind kind) { return kind != StepKind::Send && kind != StepKind::Nop; }

/// Calls visit(place, isWrite) for every chunk.
template <typename Visitor> static void forEachAccess(const Step &step, Visitor visit) {
  auto visitAll = [&](ChunkId place, bool isWrite) {
    for (int64_t i = 0; i < step.numChunks; ++i)
      visit(ChunkId{place.memory, place.chunk + i}, isWrite);
  };
  if (readsSource(step.kind))
    visitAll(step.source, false);
  if (readsDestination(step.kind))
    visitAll(step.destination, false);
  if (writesDestination(step.kind))
    visitAll(step.destination, true);
}

static int64_t timeOf(const std::vector<int64_t> &clock, int64_t block) {
  return size_t(block) < clock.size() ? clock[size_t(block)] : -1;
}

std::vector<RankBuilder::StepId> RankBuilder::findDependences(int64_t block, std::span<const Step> steps) {
  std::map<int64_t, int64_t> needed; // step by block
  auto need = [&](StepId id) {
    if (id.block >= 0 && id.block != block && timeOf(clocks[size_t(block)], id.block) < id.step)
      needed[id.block] = std::max(needed.try_emplace(id.block, -1).first->second, id.step);
  };
  for (const Step &step : steps)
    forEachAccess(step, [&](ChunkId place, bool isWrite) {
      auto found = accesses.find(place);
      if (found == accesses.end())
        return;
      need(found->second.lastWriter);
      if (!isWrite)
        return;
      for (const StepId &reader : found->second.readers) {
        // LL returns from a send before all its threads have read the source.
        if (protocol == Protocol::LL && blocks[size_t(reader.block)].steps[size_t(reader.step)].kind == StepKind::Send)
          fail(
              "this overwrites a chunk that the rank has sent, and LL does not tell when a chunk that is sent has been "
              "read; use another protocol");
        need(reader);
      }
    });
  std::vector<StepId> result;
  for (auto [other, step] : needed) {
    bool isImplied = std::ranges::any_of(needed, [&](auto &entry) {
      return entry.first != other && timeOf(history[size_t(entry.first)][size_t(entry.second)], other) >= step;
    });
    if (!isImplied)
      result.push_back({other, step});
  }
  return result;
}

void RankBuilder::append(int64_t block, Step step) {
  ThreadBlock &target = blocks[size_t(block)];
  if (int64_t(target.steps.size()) == maxStepsPerBlock)
    fail(fmt::format("thread block {} of rank {} needs more than {} steps", block, rank, maxStepsPerBlock));
  Clock &clock = clocks[size_t(block)];
  clock.resize(std::max(clock.size(), blocks.size()), -1);
  if (step.block >= 0) {
    blocks[size_t(step.block)].steps[size_t(step.step)].hasDependents = true;
    const Clock &seen = history[size_t(step.block)][size_t(step.step)];
    for (size_t other = 0; other < seen.size(); ++other)
      clock[other] = std::max(clock[other], seen[other]);
  }
  clock[size_t(block)] = int64_t(target.steps.size());
  target.steps.push_back(step);
  history[size_t(block)].push_back(clock);
}

void RankBuilder::record(int64_t block, const Step &step) {
  StepId id{block, int64_t(blocks[size_t(block)].steps.size()) - 1};
  forEachAccess(step, [&](ChunkId place, bool isWrite) {
    Accesses &entry = accesses[place];
    if (isWrite)
      entry = {id, {}};
    else
      entry.readers.push_back(id);
  });
}

void RankBuilder::add(int64_t block, std::span<const Step> steps) {
  std::vector<StepId> dependences = findDependences(block, steps);
  // A step waits for one other; the kernel lets it wait for those of the nops before it too.
  for (size_t i = 0; i + 1 < dependences.size(); ++i)
    append(block, {StepKind::Nop, {}, {}, 0, dependences[i].block, dependences[i].step});
  for (size_t i = 0; i < steps.size(); ++i) {
    Step step = steps[i];
    if (i == 0 && !dependences.empty()) {
      step.block = dependences.back().block;
      step.step = dependences.back().step;
    }
    append(block, step);
    record(block, step);
  }
}

/// Whether RCCL's reader makes one instruction of both.
static bool areFused(const Step &first, const Step &second) {
  return first.kind == StepKind::Reduce && second.kind == StepKind::Reduce && !first.hasDependents &&
         second.block < 0 && first.destination == second.destination && first.source.memory == second.source.memory;
}

/// The fused instruction has the length of its last step alone, and a limit of steps.
static void separateReductions(std::vector<Step> &steps) {
  int64_t length = 1;
  for (size_t i = 1; i < steps.size(); ++i) {
    length = areFused(steps[i - 1], steps[i]) ? length + 1 : 1;
    if (length > maxFusedReductions || (length > 1 && steps[i - 1].numChunks != steps[i].numChunks)) {
      steps[i - 1].hasDependents = true; // nobody waits, but the reader ends the instruction here
      length = 1;
    }
  }
}

std::vector<ThreadBlock> RankBuilder::take() {
  for (ThreadBlock &block : blocks)
    separateReductions(block.steps);
  return std::move(blocks);
}

} // namespace kolo::msccl
