#include "compiler/import/MscclSchedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace kolo::foreign {

namespace {

/// What the kernel runs as one: a step with the waits of the nops before it, or several reductions that it fuses.
struct MscclInstruction {
  Action action;
  std::vector<const MscclStep *> waits;
  int32_t numReductions = 0;
  int32_t number = 0; // that the kernel gives it: a wait for it, or for a lower number, is then over
  bool hasDependents = false;
};

/// One block's steps, as RCCL's reader understands them.
class BlockReader {
public:
  BlockReader(const MscclFile &file, int32_t rank, const MscclBlock &block) : file(file), rank(rank), block(block) {}
  std::vector<MscclInstruction> read();

private:
  bool continuesReduction(const MscclStep &step) const;
  void addStep(const MscclStep &step);
  void noteReduction(const MscclStep &step);
  Action makeAction(const MscclStep &step) const;
  void numberAll();

  const MscclFile &file;
  const int32_t rank;
  const MscclBlock &block;
  std::vector<MscclInstruction> instructions;
  std::vector<const MscclStep *> pending;                       // nops, whose waits the next step takes over
  std::optional<std::tuple<Memory, int32_t, Memory>> reduction; // destination and source of one that may go on
  int32_t numReductions = 0;                                    // of the block
};

class ScheduleMaker {
public:
  ScheduleMaker(const MscclFile &file, const std::string &path) : file(file) { schedule.path = path; }
  ForeignSchedule make();

private:
  void makeHead();
  void makeSlots();
  void addRank(int32_t rank);
  void findConnections();
  void findWaits(int32_t rank, size_t firstThread, std::vector<std::vector<MscclInstruction>> &blocks);
  int32_t connection(int32_t channel, int32_t sender, int32_t receiver, bool isSender, int32_t line);

  const MscclFile &file;
  ForeignSchedule schedule;
  struct Ends {
    int32_t id;
    std::array<int32_t, 2> lines; // of the blocks that receive and send
  };
  std::map<std::tuple<int32_t, int32_t, int32_t>, Ends> connections;
};

/// The kernel fuses so many: the reader's counter is that of the whole block.
constexpr int32_t mostFused = 16;
constexpr int64_t mostPerMessage = 71;
constexpr int64_t mostChunksInAll = int64_t(1) << 26;

} // namespace

bool BlockReader::continuesReduction(const MscclStep &step) const {
  return step.type == MscclType::Reduce && step.waitBlock < 0 &&
         reduction == std::tuple(step.destinationMemory, step.destination, step.sourceMemory);
}

/// The places that a step reads and writes. What receives and reduces, reduces with its source.
Action BlockReader::makeAction(const MscclStep &step) const {
  Action action;
  action.line = step.line;
  action.count = step.count;
  ChunkPlace source{rank, step.sourceMemory, step.source}, destination{rank, step.destinationMemory, step.destination};
  switch (step.type) {
  case MscclType::Send:
  case MscclType::ReceiveReduceSend:
    action.sources = {source};
    break;
  case MscclType::Receive:
  case MscclType::ReceiveCopySend:
    action.destinations = {destination};
    break;
  case MscclType::Copy:
  case MscclType::ReceiveReduceCopy:
  case MscclType::ReceiveReduceCopySend:
    action.sources = {source};
    action.destinations = {destination};
    break;
  case MscclType::Reduce:
    action.sources = {destination, source};
    action.destinations = {destination};
    break;
  case MscclType::Nop:
    break;
  }
  action.sends = sends(step.type) ? 0 : -1; // findConnections knows which
  action.receives = receives(step.type) ? 0 : -1;
  action.mayStillRead = step.type == MscclType::Send && file.protocol == "LL";
  return action;
}

void BlockReader::noteReduction(const MscclStep &step) {
  if (step.type != MscclType::Reduce) {
    reduction.reset();
    return;
  }
  ++numReductions;
  if (step.hasDependents || numReductions == mostFused)
    reduction.reset();
  else
    reduction = {step.destinationMemory, step.destination, step.sourceMemory};
}

void BlockReader::addStep(const MscclStep &step) {
  if (sends(step.type) && block.sendPeer < 0)
    throw Refusal{step.line, "a step sends, and its block sends to nobody"};
  if (receives(step.type) && block.receivePeer < 0)
    throw Refusal{step.line, "a step receives, and its block receives from nobody"};
  if (continuesReduction(step)) {
    MscclInstruction &last = instructions.back();
    last.action.sources.push_back({rank, step.sourceMemory, step.source});
    last.action.count = step.count; // the kernel takes that of the last one
  } else {
    if (!pending.empty() && step.waitBlock < 0)
      throw Refusal{step.line, "follows a nop and waits for nothing itself: RCCL refuses the file"};
    MscclInstruction &added = instructions.emplace_back(MscclInstruction{makeAction(step), std::move(pending)});
    pending.clear();
    if (step.waitBlock >= 0)
      added.waits.push_back(&step);
  }
  MscclInstruction &last = instructions.back();
  last.numReductions += int32_t(step.type == MscclType::Reduce);
  last.hasDependents = step.hasDependents;
  noteReduction(step);
}

/// The kernel counts a step, the waits beyond its first one, and the reductions beyond the first one.
void BlockReader::numberAll() {
  int32_t next = 0;
  for (MscclInstruction &instruction : instructions) {
    next += std::max(int32_t(instruction.waits.size()) - 1, 0) + std::max(instruction.numReductions - 1, 0);
    instruction.number = next++;
  }
}

std::vector<MscclInstruction> BlockReader::read() {
  for (const MscclStep &step : block.steps) {
    if (step.type != MscclType::Nop)
      addStep(step);
    else if (step.waitBlock >= 0)
      pending.push_back(&step);
  }
  numberAll();
  return std::move(instructions);
}

void ScheduleMaker::makeHead() {
  static const std::map<std::string_view, Collective> collectives{{"allgather", Collective::AllGather},
                                                                  {"allreduce", Collective::AllReduce},
                                                                  {"alltoall", Collective::AllToAll},
                                                                  {"reducescatter", Collective::ReduceScatter}};
  schedule.name = file.name;
  schedule.line = file.line;
  schedule.interpreter = "RCCL";
  auto found = collectives.find(file.collective);
  if (found == collectives.end())
    throw Refusal{file.line, fmt::format("coll is {}: only allgather, allreduce, alltoall and reducescatter can be "
                                         "imported. RCCL looks at no root, so a file that has one fits one root alone",
                                         quote(file.collective))};
  schedule.collective = found->second;
  makeSlots();
  schedule.numRanks = int32_t(file.ranks.size());
  int32_t numBlocks = schedule.collective == Collective::AllReduce ? 1 : schedule.numRanks;
  if (file.numChunks % numBlocks != 0)
    throw Refusal{file.line,
                  fmt::format("nchunksperloop is {}, which {} ranks cannot share", file.numChunks, numBlocks)};
  schedule.chunksPerBlock = file.numChunks / numBlocks;
  if (!file.runsInPlace && !file.runsOutOfPlace)
    throw Refusal{file.line, "inplace and outofplace are 0: RCCL takes it for no call"};
  schedule.runsInPlace = file.runsInPlace;
  schedule.runsOutOfPlace = file.runsOutOfPlace;
}

/// As mscclSetupCount does, for the largest call: smaller ones need no more messages.
void ScheduleMaker::makeSlots() {
  // A connection's buffer has 8 steps, of which a message takes 4 (MSCCL_CHUNKSTEPS), or 1 with LL and LL128. Its size
  // is what RCCL has without NCCL_BUFFSIZE: 4 MiB, and for LL and LL128 what 256 threads fill.
  struct Buffer {
    int32_t slots;
    int64_t messageBytes;
  };
  static const std::map<std::string_view, Buffer> buffers{
      {"Simple", {2, 2 << 20}}, {"LL", {8, 16 << 10}}, {"LL128", {8, 28 * 256 * 8 / 16 * 15}}};
  auto known = buffers.find(file.protocol);
  if (known == buffers.end())
    throw Refusal{file.line, fmt::format("proto is {}: it must be Simple, LL or LL128", quote(file.protocol))};
  Messages &messages = schedule.messages;
  messages = {known->second.slots, 1, known->second.messageBytes, file.protocol};
  int64_t chunkBytes = file.maxBytes == 0 ? INT64_MAX : std::max<int64_t>(file.maxBytes / file.numChunks, 1);
  messages.chunksPerMessage = int32_t(std::clamp<int64_t>(messages.bytes / chunkBytes, 1, mostPerMessage));
}

int32_t ScheduleMaker::connection(int32_t channel, int32_t sender, int32_t receiver, bool isSender, int32_t line) {
  auto [found, isNew] =
      connections.try_emplace({channel, sender, receiver}, Ends{int32_t(schedule.connections.size()), {0, 0}});
  if (isNew)
    schedule.connections.push_back({sender, receiver, channel});
  int32_t &known = found->second.lines[size_t(isSender)];
  if (known != 0)
    throw Refusal{line, fmt::format("two blocks are the {} of rank {} to rank {} on channel {}: line {}, too",
                                    isSender ? "sender" : "receiver", sender, receiver, channel, known)};
  known = line;
  return found->second.id;
}

void ScheduleMaker::findConnections() {
  size_t thread = 0;
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank)
    for (const MscclBlock &block : file.ranks[size_t(rank)].blocks) {
      int32_t sends = block.sendPeer < 0 ? -1 : connection(block.channel, rank, block.sendPeer, true, block.line);
      int32_t receives =
          block.receivePeer < 0 ? -1 : connection(block.channel, block.receivePeer, rank, false, block.line);
      for (Action &action : schedule.threads[thread].actions) {
        action.sends = action.sends < 0 || action.count == 0 ? -1 : sends;
        action.receives = action.receives < 0 || action.count == 0 ? -1 : receives;
      }
      ++thread;
    }
}

/// A step is told of when the first instruction is over that has its number or a higher one, and tells. If there is
/// none, the wait is for an event that nothing raises.
void ScheduleMaker::findWaits(int32_t rank, size_t firstThread, std::vector<std::vector<MscclInstruction>> &blocks) {
  std::vector<std::map<int32_t, int32_t>> events(blocks.size()); // by number
  for (size_t block = 0; block < blocks.size(); ++block)
    for (MscclInstruction &instruction : blocks[block])
      if (instruction.hasDependents) {
        events[block][instruction.number] = schedule.numEvents;
        instruction.action.raises = {schedule.numEvents++};
      }
  for (size_t block = 0; block < blocks.size(); ++block)
    for (MscclInstruction &instruction : blocks[block]) {
      for (const MscclStep *wait : instruction.waits) {
        if (size_t(wait->waitBlock) >= blocks.size())
          throw Refusal{wait->line, fmt::format("waits for block {} of rank {}, which has {}", wait->waitBlock, rank,
                                                blocks.size())};
        auto found = events[size_t(wait->waitBlock)].lower_bound(wait->waitStep);
        bool isRaised = found != events[size_t(wait->waitBlock)].end();
        instruction.action.waits.push_back(isRaised ? found->second : schedule.numEvents++);
      }
      schedule.threads[firstThread + block].actions.push_back(std::move(instruction.action));
    }
}

void ScheduleMaker::addRank(int32_t rank) {
  const MscclRank &own = file.ranks[size_t(rank)];
  schedule.scratchChunks.push_back(own.numScratchChunks);
  size_t firstThread = schedule.threads.size();
  std::vector<std::vector<MscclInstruction>> blocks;
  for (const MscclBlock &block : own.blocks) {
    schedule.threads.push_back({rank, fmt::format("block {}", blocks.size()), block.line, {}});
    blocks.push_back(BlockReader(file, rank, block).read());
  }
  findWaits(rank, firstThread, blocks);
}

ForeignSchedule ScheduleMaker::make() {
  makeHead();
  int64_t numChunks = 0;
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank) {
    addRank(rank);
    numChunks += schedule.numChunks(rank, Memory::Input) + schedule.numChunks(rank, Memory::Output) +
                 schedule.numChunks(rank, Memory::Scratch);
    if (numChunks > mostChunksInAll)
      throw Refusal{file.ranks[size_t(rank)].line,
                    fmt::format("the ranks have more than {} chunks together", mostChunksInAll)};
  }
  findConnections();
  return std::move(schedule);
}

std::variant<ForeignSchedule, Refusal> makeSchedule(const MscclFile &file, const std::string &path) {
  try {
    return ScheduleMaker(file, path).make();
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

} // namespace kolo::foreign
