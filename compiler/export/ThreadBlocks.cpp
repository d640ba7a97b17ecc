// Moves become steps of thread blocks, statement by statement, so that the steps have the moves' order.
#include "compiler/export/ThreadBlocks.h"
#include "compiler/export/RankBuilder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kolo::msccl {

namespace {

class BlockMaker {
public:
  BlockMaker(const Moves &moves, const ScheduleOptions &options);
  std::variant<Blocks, Mistake> make();

private:
  /// What is done at a receiver when all messages of the statement have been received.
  struct Pending {
    int64_t block;
    Step step;
  };
  using ChunkOfRank = std::pair<int64_t, ChunkId>;

  void makeStatement(const Statement &statement);
  /// The runs of a move that belong to the lane, as long as they can be, at the names that memory has.
  std::vector<Run> runsOf(const Move &move) const;
  void findLastReads(const Statement &statement);
  bool isReadAfter(size_t message, int64_t rank, ChunkId place, int64_t numChunks) const;
  /// Whether one rank alone reduces into each place of the run.
  bool hasOneContributor(int64_t rank, const Run &run) const;
  /// Whether the statement writes where the run reads.
  bool isOverwritten(int64_t rank, const Run &run) const;
  void addLocal(const Statement &statement, size_t message, const Move &move, const Run &run);
  void addMessage(const Statement &statement, size_t message, const Move &move, const Run &run);
  ChunkId stage(int64_t rank, int64_t numChunks);
  void addPending(int64_t rank);
  bool mayGroup(const std::vector<Pending> &items) const;
  std::string findMistake() const;

  const Moves &moves;
  const ScheduleOptions &options;
  Aliasing aliasing;
  std::vector<RankBuilder> builders;
  std::vector<int64_t> numScratchChunks; // by rank, of the lanes so far
  int64_t lane = 0;
  std::map<ChunkOfRank, int64_t> laneOf; // that moves a place
  bool areLanesApart = true;

  // Of the statement that is being made.
  std::map<ChunkOfRank, size_t> lastReads;     // the last message that reads a place
  std::map<ChunkOfRank, size_t> contributions; // messages into a place
  std::vector<int64_t> numStaged;              // chunks, by rank
  std::vector<std::vector<Pending>> pending;   // by rank
};

BlockMaker::BlockMaker(const Moves &moves, const ScheduleOptions &options)
    : moves(moves), options(options), aliasing(moves, options.isInPlace),
      numScratchChunks(size_t(moves.numRanks), moves.numScratchChunks * options.lanes) {
  for (int64_t rank = 0; rank < moves.numRanks; ++rank)
    builders.emplace_back(rank, options.protocol);
}

std::vector<Run> BlockMaker::runsOf(const Move &move) const {
  std::vector<Run> runs;
  auto scaled = [&](int64_t rank, ChunkId place, int64_t length) {
    ChunkId named = aliasing.place(rank, place);
    return ChunkId{named.memory, named.chunk * options.lanes + lane * length};
  };
  for (const Run &run : move.runs) {
    ChunkId source = scaled(move.sender, run.source, run.numChunks);
    ChunkId destination = scaled(move.receiver, run.destination, run.numChunks);
    for (int64_t done = 0; done < run.numChunks; ++done) {
      ChunkId from{source.memory, source.chunk + done}, to{destination.memory, destination.chunk + done};
      if (!runs.empty()) {
        Run &last = runs.back();
        if (last.source.memory == from.memory && last.destination.memory == to.memory &&
            last.source.chunk + last.numChunks == from.chunk && last.destination.chunk + last.numChunks == to.chunk &&
            last.numChunks < maxChunksPerStep) {
          ++last.numChunks;
          continue;
        }
      }
      runs.push_back({from, to, 1});
    }
  }
  return runs;
}

void BlockMaker::findLastReads(const Statement &statement) {
  lastReads.clear();
  contributions.clear();
  for (size_t message = 0; message < statement.moves.size(); ++message) {
    const Move &move = statement.moves[message];
    for (const Run &run : runsOf(move))
      for (int64_t i = 0; i < run.numChunks; ++i) {
        ChunkOfRank source{move.sender, {run.source.memory, run.source.chunk + i}};
        ChunkOfRank destination{move.receiver, {run.destination.memory, run.destination.chunk + i}};
        lastReads[source] = message;
        ++contributions[destination];
        areLanesApart &= laneOf.try_emplace(source, lane).first->second == lane &&
                         laneOf.try_emplace(destination, lane).first->second == lane;
      }
  }
}

bool BlockMaker::isReadAfter(size_t message, int64_t rank, ChunkId place, int64_t numChunks) const {
  for (int64_t i = 0; i < numChunks; ++i) {
    auto found = lastReads.find({rank, {place.memory, place.chunk + i}});
    if (found != lastReads.end() && found->second >= message)
      return true;
  }
  return false;
}

bool BlockMaker::hasOneContributor(int64_t rank, const Run &run) const {
  for (int64_t i = 0; i < run.numChunks; ++i)
    if (contributions.at({rank, {run.destination.memory, run.destination.chunk + i}}) != 1)
      return false;
  return true;
}

bool BlockMaker::isOverwritten(int64_t rank, const Run &run) const {
  for (int64_t i = 0; i < run.numChunks; ++i)
    if (contributions.contains({rank, {run.source.memory, run.source.chunk + i}}))
      return true;
  return false;
}

ChunkId BlockMaker::stage(int64_t rank, int64_t numChunks) {
  ChunkId place{Memory::Scratch, numScratchChunks[size_t(rank)] + numStaged[size_t(rank)]};
  numStaged[size_t(rank)] += numChunks;
  return place;
}

void BlockMaker::addLocal(const Statement &statement, size_t message, const Move &move, const Run &run) {
  RankBuilder &builder = builders[size_t(move.sender)];
  if (!statement.reduces && run.source == run.destination)
    return; // input and output are one
  int64_t block = builder.local(lane);
  Step step{.kind = statement.reduces ? StepKind::Reduce : StepKind::Copy,
            .source = run.source,
            .destination = run.destination,
            .numChunks = run.numChunks};
  bool mustWait = statement.reduces || isReadAfter(message, move.receiver, run.destination, run.numChunks);
  if (mustWait && isOverwritten(move.sender, run)) {
    ChunkId staged = stage(move.sender, run.numChunks);
    Step copy{.kind = StepKind::Copy, .source = run.source, .destination = staged, .numChunks = run.numChunks};
    builder.add(block, {&copy, 1});
    step.source = staged;
  }
  if (mustWait)
    pending[size_t(move.receiver)].push_back({block, step});
  else
    builder.add(block, {&step, 1});
}

void BlockMaker::addMessage(const Statement &statement, size_t message, const Move &move, const Run &run) {
  RankBuilder &sender = builders[size_t(move.sender)], &receiver = builders[size_t(move.receiver)];
  Step send{.kind = StepKind::Send, .source = run.source, .destination = run.destination, .numChunks = run.numChunks};
  sender.add(sender.sender(move.receiver, lane), {&send, 1});
  int64_t block = receiver.receiver(move.sender, lane);
  Step receive = send;
  receive.kind = StepKind::Receive;
  bool mustWait = isReadAfter(message + 1, move.receiver, run.destination, run.numChunks);
  if (!mustWait && !statement.reduces) {
    receiver.add(block, {&receive, 1});
  } else if (!mustWait && options.mayReceiveAndReduce && hasOneContributor(move.receiver, run)) {
    receive.kind = StepKind::ReceiveReduceCopy;
    receiver.add(block, {&receive, 1});
  } else {
    receive.destination = stage(move.receiver, run.numChunks);
    receiver.add(block, {&receive, 1});
    pending[size_t(move.receiver)].push_back({block,
                                              {.kind = statement.reduces ? StepKind::Reduce : StepKind::Copy,
                                               .source = receive.destination,
                                               .destination = run.destination,
                                               .numChunks = run.numChunks}});
  }
}

/// Whether what goes into one place always goes there in one piece.
bool BlockMaker::mayGroup(const std::vector<Pending> &items) const {
  std::map<ChunkId, ChunkId> startOf; // of every chunk: the step's first
  for (const Pending &item : items)
    for (int64_t i = 0; i < item.step.numChunks; ++i) {
      ChunkId place{item.step.destination.memory, item.step.destination.chunk + i};
      auto [entry, isNew] = startOf.try_emplace(place, item.step.destination);
      if (!isNew && entry->second != item.step.destination)
        return false;
    }
  return true;
}

void BlockMaker::addPending(int64_t rank) {
  std::vector<Pending> items = std::move(pending[size_t(rank)]);
  pending[size_t(rank)].clear();
  RankBuilder &builder = builders[size_t(rank)];
  if (!mayGroup(items)) {
    for (const Pending &item : items)
      builder.add(item.block, {&item.step, 1});
    return;
  }
  std::vector<std::pair<ChunkId, std::vector<Pending>>> groups;
  for (const Pending &item : items) {
    auto found = std::ranges::find(groups, item.step.destination, [](auto &group) { return group.first; });
    if (found == groups.end())
      groups.push_back({item.step.destination, {item}});
    else
      found->second.push_back(item);
  }
  for (auto &[place, group] : groups) {
    std::vector<Step> steps;
    for (const Pending &item : group)
      steps.push_back(item.step);
    builder.add(group[size_t(place.chunk) % group.size()].block, steps); // the groups share the blocks
  }
}

std::string BlockMaker::findMistake() const {
  if (!areLanesApart)
    return "with several lanes, it moves chunks of two sizes in one buffer, so that lanes would meet";
  for (const RankBuilder &builder : builders)
    if (!builder.mistake().empty())
      return builder.mistake();
  return "";
}

void BlockMaker::makeStatement(const Statement &statement) {
  findLastReads(statement);
  numStaged.assign(size_t(moves.numRanks), 0);
  for (size_t message = 0; message < statement.moves.size(); ++message) {
    const Move &move = statement.moves[message];
    for (const Run &run : runsOf(move))
      if (move.sender == move.receiver)
        addLocal(statement, message, move, run);
      else
        addMessage(statement, message, move, run);
  }
  for (int64_t rank = 0; rank < moves.numRanks; ++rank)
    addPending(rank);
}

std::variant<Blocks, Mistake> BlockMaker::make() {
  pending.resize(size_t(moves.numRanks));
  for (lane = 0; lane < options.lanes; ++lane) {
    std::vector<int64_t> mostStaged(size_t(moves.numRanks), 0); // lanes never share scratch, statements do
    for (const Statement &statement : moves.statements) {
      makeStatement(statement);
      if (std::string mistake = findMistake(); !mistake.empty())
        return Mistake{statement.line, moves.name + " does not fit RCCL: " + mistake};
      for (size_t rank = 0; rank < mostStaged.size(); ++rank)
        mostStaged[rank] = std::max(mostStaged[rank], numStaged[rank]);
    }
    for (size_t rank = 0; rank < mostStaged.size(); ++rank)
      numScratchChunks[rank] += mostStaged[rank];
  }
  Blocks result{.ranks = {}, .chunksPerBlock = moves.chunksPerBlock * options.lanes, .lanes = options.lanes};
  for (int64_t rank = 0; rank < moves.numRanks; ++rank)
    result.ranks.push_back({builders[size_t(rank)].take(), numScratchChunks[size_t(rank)]});
  return result;
}

} // namespace

std::variant<Blocks, Mistake> makeThreadBlocks(const Moves &moves, const ScheduleOptions &options) {
  return BlockMaker(moves, options).make();
}

} // namespace kolo::msccl
