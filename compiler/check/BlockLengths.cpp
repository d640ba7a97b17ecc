#include "compiler/check/BlockLengths.h"

#include "compiler/SourceLine.h"

using namespace mlir;

namespace kolo {

/// Of what a program's text says nothing against.
static bool mayTakeTables(const Tracer &tracer) {
  return !tracer.innerAndOuter() && !findTableObstacle(tracer.program().program);
}

BlockLengths::BlockLengths(const Tracer &tracer, const Contents &contents, bool isFollowed, std::string &whyNot)
    : tracer(tracer), contents(contents), whyNot(whyNot), kind(tracer.program().program.getCollective().getKind()),
      isActive(isFollowed && mayTakeTables(tracer)) {
  for (const OpInfo &op : tracer.program().ops) {
    auto move = isActive && op.isMove() ? cast<MoveInterface>(op.op) : MoveInterface();
    measures.push_back(move ? *measureOf(kind, move) : Measure{MoveSide::Source, std::nullopt});
  }
}

/// Of the block that the input or the output has in the place of a chunk of this buffer.
BlockLengths::Key BlockLengths::keyOf(BufferRole table, uint32_t buffer, int64_t owner, int64_t chunk) const {
  const auto cutOf = [&](BufferRole role) { return tracer.grids()[*tracer.bufferOf(role)].chunksPerBlock; };
  const int64_t first = chunk / tracer.grids()[buffer].chunksPerBlock * cutOf(table), cut = cutOf(BufferRole::Input);
  const WantedContent given =
      table == BufferRole::Input ? WantedContent{first, owner, false} : wantedContent(tracer, owner, first);
  return {hasBlockPerMember(kind, BufferRole::Output) ? given.rank : -1,
          hasBlockPerMember(kind, BufferRole::Input) ? given.inputChunk / cut : -1};
}

int64_t BlockLengths::chunksPerInputBlock() const {
  const std::optional<uint32_t> input = tracer.bufferOf(BufferRole::Input);
  return input ? tracer.grids()[*input].chunksPerBlock : 1;
}

/// Of what was given, by what it holds.
BlockLengths::Key BlockLengths::keyOf(Contents::Id content) const {
  return {hasBlockPerMember(kind, BufferRole::Output) ? contents.rankOf(content).value_or(-1) : -1,
          hasBlockPerMember(kind, BufferRole::Input) ? contents.inputChunkOf(content) / chunksPerInputBlock() : -1};
}

bool BlockLengths::isOfKey(Contents::Id content, const Key &key) const {
  return contents.isGiven(content) && (key.first < 0 || contents.isOfRank(content, key.first)) &&
         (key.second < 0 || contents.inputChunkOf(content) / chunksPerInputBlock() == key.second);
}

BlockLengths::Key BlockLengths::measuredKey(const Event &event, const MovedChunk &moved) const {
  const Measure &measure = measures[event.op];
  if (!measure.table)
    return keyOf(moved.content);
  return measure.side == MoveSide::Source
             ? keyOf(*measure.table, event.source.buffer, moved.sourceOwner, moved.sourceChunk)
             : keyOf(*measure.table, event.destination.buffer, moved.destinationOwner, moved.destinationChunk);
}

void BlockLengths::follow(const Event &event, const MovedChunk &moved) {
  const Key key = measuredKey(event, moved);
  if (!isOfKey(moved.content, key))
    return refuse(event, "moves a chunk of another block than the one that says how long it is");
  follow(event, event.source.buffer, moved.sourceOwner, moved.sourceChunk, key);
  follow(event, event.destination.buffer, moved.destinationOwner, moved.destinationChunk, key);
}

/// One side of the move: its block must be as long as what is moved.
void BlockLengths::follow(const Event &event, uint32_t buffer, int64_t owner, int64_t chunk, const Key &key) {
  const Grid &grid = tracer.grids()[buffer];
  if (grid.isSlots)
    return;
  if (isOfCaller(tracer.program().buffers[buffer].role)) {
    if (keyOf(tracer.program().buffers[buffer].role, buffer, owner, chunk) != key)
      refuse(event, "moves a chunk to a block of another length");
    return;
  }
  if (grid.chunksPerBlock == 1)
    return;
  auto [known, isNew] = ownBlocks.try_emplace({{buffer, owner}, chunk / grid.chunksPerBlock}, key);
  if (known->second != key)
    refuse(event, "moves chunks of blocks of different lengths to one block of the program's own memory");
}

void BlockLengths::refuse(const Event &event, StringRef why) {
  if (!whyNot.empty())
    return;
  SourceLine place = sourceLineOf(tracer.program().ops[event.op].op->getLoc());
  whyNot = (why + ": " + place.file + ":" + Twine(place.line)).str();
}

} // namespace kolo
