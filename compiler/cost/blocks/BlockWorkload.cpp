#include "compiler/cost/blocks/BlockWorkload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace kolo::cost {

using foreign::Action;
using foreign::ForeignSchedule;

namespace {

/// RCCL's primitives: a Simple message is two slices, of 32 KiB at least. The flags of LL lie in its data, so that a
/// receiver follows its sender. As many slices as a message has rounds of 256 threads come close to that.
constexpr double leastSliceBytes = 32 << 10;
constexpr int64_t slicesOfSimple = 2, slicesWithFlags = 8;
constexpr int32_t mostPerMessage = 71;

class BlockWorkloadBuilder {
public:
  BlockWorkloadBuilder(const ForeignSchedule &schedule, const MessageCut &cut, int64_t numPieces, double laneShare)
      : schedule(schedule), cut(cut), numPieces(numPieces), laneShare(laneShare) {}
  BlockWorkload build();

private:
  /// Who is told of something, and in which of its slots.
  struct BlockSlot {
    uint32_t thread, slot;
  };
  /// Of a connection: where slices are announced, and where free places are.
  struct BlockEnds {
    std::optional<BlockSlot> receiver, sender;
    int64_t slicesSent = 0, slicesTaken = 0, messagesSent = 0;
  };

  void findEnds();
  uint32_t addSlot(uint32_t thread);
  uint32_t channelTo(uint32_t thread, uint32_t peer);
  uint32_t statementOf(int32_t line);
  void addAction(uint32_t thread, const Action &action, int64_t piece);
  void addMessage(uint32_t thread, const Action &action, double bytes);
  void addTransfer(uint32_t thread, const Action &action, int64_t bytes);
  void addSignal(uint32_t thread, const BlockSlot &told, int32_t line);
  void addWait(uint32_t thread, uint32_t slot, int64_t number, int32_t line);
  RankProgram &programOf(uint32_t thread) { return result.workload.programs[thread]; }

  const ForeignSchedule &schedule;
  const MessageCut &cut;
  const int64_t numPieces;
  const double laneShare;
  BlockWorkload result;
  std::vector<BlockEnds> ends;                          // by connection
  std::vector<std::vector<BlockSlot>> waitersOf;        // by event
  std::vector<std::map<int32_t, uint32_t>> slotOfEvent; // by thread
  std::vector<std::vector<uint32_t>> peers;             // by thread and channel
  std::unordered_map<int32_t, uint32_t> statements;     // by line
};

} // namespace

std::vector<int64_t> MessageCut::slices(double messageBytes) const {
  double most = protocol == Protocol::Bulk
                    ? std::clamp(std::floor(messageBytes / leastSliceBytes), 1.0, double(slicesOfSimple))
                    : double(slicesWithFlags);
  auto number = int64_t(std::clamp(most, 1.0, std::max(messageBytes, 1.0)));
  auto whole = int64_t(std::llround(messageBytes));
  std::vector<int64_t> result;
  for (int64_t slice = 0; slice < number; ++slice)
    result.push_back(whole * (slice + 1) / number - whole * slice / number);
  return result;
}

Protocol protocolOf(const ForeignSchedule &schedule) {
  return schedule.messages.protocol == "LL"      ? Protocol::LL
         : schedule.messages.protocol == "LL128" ? Protocol::LL128
                                                 : Protocol::Bulk;
}

MessageCut cutMessages(const ForeignSchedule &schedule, double chunkBytes) {
  auto most = double(schedule.messages.bytes);
  MessageCut cut;
  cut.numPieces = std::max<int64_t>(int64_t(std::ceil(chunkBytes / most)), 1);
  cut.pieceBytes = chunkBytes / double(cut.numPieces);
  cut.chunksPerWrite = int32_t(std::clamp(most / std::max(chunkBytes, 1.0), 1.0, double(mostPerMessage)));
  cut.protocol = protocolOf(schedule);
  return cut;
}

uint32_t BlockWorkloadBuilder::addSlot(uint32_t thread) {
  programOf(thread).signalsToSlot.push_back(0);
  return uint32_t(programOf(thread).signalsToSlot.size() - 1);
}

uint32_t BlockWorkloadBuilder::channelTo(uint32_t thread, uint32_t peer) {
  std::vector<uint32_t> &known = peers[thread];
  auto found = std::ranges::find(known, peer);
  if (found == known.end()) {
    known.push_back(peer);
    programOf(thread).numChannels = uint32_t(known.size());
    return uint32_t(known.size() - 1);
  }
  return uint32_t(found - known.begin());
}

uint32_t BlockWorkloadBuilder::statementOf(int32_t line) {
  auto [known, isNew] = statements.try_emplace(line, uint32_t(result.lines.size() + 1));
  if (isNew)
    result.lines.push_back(line);
  return known->second;
}

/// One block sends on a connection and one receives; an event is raised by one block.
void BlockWorkloadBuilder::findEnds() {
  for (uint32_t thread = 0; thread < schedule.threads.size(); ++thread)
    for (const Action &action : schedule.threads[thread].actions) {
      if (action.receives >= 0 && !ends[size_t(action.receives)].receiver)
        ends[size_t(action.receives)].receiver = BlockSlot{thread, addSlot(thread)};
      if (action.sends >= 0 && !ends[size_t(action.sends)].sender)
        ends[size_t(action.sends)].sender = BlockSlot{thread, addSlot(thread)};
      for (int32_t event : action.waits)
        if (!slotOfEvent[thread].contains(event)) {
          uint32_t slot = slotOfEvent[thread][event] = addSlot(thread);
          waitersOf[size_t(event)].push_back({thread, slot});
        }
    }
}

void BlockWorkloadBuilder::addSignal(uint32_t thread, const BlockSlot &told, int32_t line) {
  Instruction signal{Instruction::Kind::Signal};
  signal.statement = statementOf(line);
  signal.first = channelTo(thread, told.thread);
  signal.number = told.slot;
  programOf(thread).code.push_back(signal);
  ++programOf(told.thread).signalsToSlot[told.slot];
}

void BlockWorkloadBuilder::addWait(uint32_t thread, uint32_t slot, int64_t number, int32_t line) {
  Instruction wait{Instruction::Kind::Wait};
  wait.statement = statementOf(line);
  wait.first = slot;
  wait.number = uint32_t(number);
  programOf(thread).code.push_back(wait);
}

/// What a block reads goes through it: of a message at the protocol's rate, of its own memory at that of copies.
void BlockWorkloadBuilder::addTransfer(uint32_t thread, const Action &action, int64_t bytes) {
  RankProgram &program = programOf(thread);
  Instruction transfer{Instruction::Kind::Transfer, /*blocks=*/true};
  transfer.statement = statementOf(action.line);
  transfer.first = uint32_t(program.legs.size());
  transfer.bytes = bytes;
  bool isPackets = cut.protocol != Protocol::Bulk;
  size_t numRead = action.sources.size() + size_t(action.receives >= 0);
  for (size_t source = 0; source < action.sources.size(); ++source)
    program.legs.push_back({Leg::Kind::ReadOwn});
  if (action.receives >= 0)
    program.legs.push_back({Leg::Kind::ReadOwn, isPackets});
  for (size_t destination = 0; destination < action.destinations.size(); ++destination)
    program.legs.push_back({Leg::Kind::WriteOwn});
  if (action.sends >= 0)
    program.legs.push_back(
        {Leg::Kind::WritePeer, isPackets, channelTo(thread, ends[size_t(action.sends)].receiver->thread)});
  transfer.number = uint32_t(program.legs.size()) - transfer.first;
  bool hasMessage = action.receives >= 0 || action.sends >= 0;
  transfer.laneLoad = float(double(numRead) - (hasMessage ? 1 - 1 / laneShare : 0));
  program.code.push_back(transfer);
}

void BlockWorkloadBuilder::addMessage(uint32_t thread, const Action &action, double bytes) {
  BlockEnds *in = action.receives >= 0 ? &ends[size_t(action.receives)] : nullptr;
  BlockEnds *out = action.sends >= 0 ? &ends[size_t(action.sends)] : nullptr;
  if (out && ++out->messagesSent > schedule.messages.slots)
    addWait(thread, out->sender->slot, out->messagesSent - schedule.messages.slots, action.line);
  for (int64_t slice : cut.slices(bytes)) {
    if (in)
      addWait(thread, in->receiver->slot, ++in->slicesTaken, action.line);
    addTransfer(thread, action, slice);
    if (out)
      addSignal(thread, *out->receiver, action.line);
  }
  if (in)
    addSignal(thread, *in->sender, action.line);
}

void BlockWorkloadBuilder::addAction(uint32_t thread, const Action &action, int64_t piece) {
  for (int32_t event : action.waits)
    addWait(thread, slotOfEvent[thread][event], piece + 1, action.line);
  if (action.receives >= 0 || action.sends >= 0) {
    for (int32_t chunk = 0; chunk < action.count; chunk += cut.chunksPerWrite)
      addMessage(thread, action, cut.pieceBytes * std::min(cut.chunksPerWrite, action.count - chunk));
  } else if (action.isMove()) {
    addTransfer(thread, action, std::llround(cut.pieceBytes * action.count));
  }
  for (int32_t event : action.raises)
    for (const BlockSlot &told : waitersOf[size_t(event)])
      addSignal(thread, told, action.line);
}

BlockWorkload BlockWorkloadBuilder::build() {
  size_t numThreads = schedule.threads.size();
  ends.resize(schedule.connections.size());
  waitersOf.resize(size_t(schedule.numEvents));
  slotOfEvent.resize(numThreads);
  peers.resize(numThreads);
  result.workload.programs.resize(numThreads);
  result.workload.programOf.resize(numThreads);
  std::iota(result.workload.programOf.begin(), result.workload.programOf.end(), 0);
  findEnds();
  for (uint32_t thread = 0; thread < numThreads; ++thread) {
    for (int64_t piece = 0; piece < numPieces; ++piece)
      for (const Action &action : schedule.threads[thread].actions)
        addAction(thread, action, piece);
    if (peers[thread].empty())
      channelTo(thread, thread); // legs name a channel
    result.numSteps += int64_t(programOf(thread).code.size());
  }
  result.workload.numStatements = uint32_t(result.lines.size() + 1);
  result.workload.peerOf = [peers = std::move(peers)](uint32_t thread, uint32_t channel) {
    return peers[thread][channel];
  };
  return std::move(result);
}

BlockWorkload makeWorkload(const ForeignSchedule &schedule, const MessageCut &cut, int64_t numPieces,
                           double laneShare) {
  return BlockWorkloadBuilder(schedule, cut, numPieces, laneShare).build();
}

} // namespace kolo::cost
