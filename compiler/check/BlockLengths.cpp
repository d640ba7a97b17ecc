#include "compiler/check/BlockLengths.h"

#include "compiler/SourceLine.h"

using namespace mlir;

namespace kolo {

/// Of what a program's text says nothing against.
static bool mayTakeTables(const Tracer &tracer) {
  return !tracer.innerAndOuter() && !findTableObstacle(tracer.program().program);
}

/// Code for a fuse reads once how long its slice is, and all its moves are that long. Nothing: the move is in none, or
/// passes on what another move of the fuse has copied from the slice.
static std::optional<Measure> measureOfFuse(CollectiveKind kind, MoveInterface move) {
  auto fuse = move->getParentOfType<FuseOp>();
  if (!fuse || !(fuse.isInto(move) || fuse.isOutOf(move)))
    return std::nullopt;
  std::optional<Measure> measure = measureOf(kind, fuse);
  if (measure)
    measure->side = fuse.isInto(move) ? MoveSide::Destination : MoveSide::Source;
  return measure;
}

BlockLengths::BlockLengths(const Tracer &tracer, const RankGroup &group, const Contents &contents, bool isFollowed,
                           std::string &whyNot)
    : tracer(tracer), group(group), contents(contents), whyNot(whyNot),
      kind(tracer.program().program.getCollective().getKind()), isActive(isFollowed && mayTakeTables(tracer)) {
  for (const OpInfo &op : tracer.program().ops) {
    auto move = isActive ? dyn_cast_or_null<MoveInterface>(op.op) : MoveInterface();
    auto divide = isActive ? dyn_cast_or_null<DivideOp>(op.op) : DivideOp();
    measures.push_back(move ? measureOf(kind, move) : divide ? measureOf(kind, divide) : std::nullopt);
    fused.push_back(move ? measureOfFuse(kind, move) : std::nullopt);
  }
}

/// Of the block that the input or the output has in the place of a chunk of this buffer.
BlockLengths::Key BlockLengths::keyOf(BufferRole table, uint32_t buffer, int64_t owner, int64_t chunk) const {
  const int64_t chunksPerBlock = tracer.grids()[*tracer.bufferOf(table)].chunksPerBlock;
  const int64_t first = chunk / tracer.grids()[buffer].chunksPerBlock * chunksPerBlock;
  const WantedContent given =
      table == BufferRole::Input ? WantedContent{first, owner, false} : wantedContent(tracer, owner, first);
  return {hasBlockPerMember(kind, BufferRole::Output) ? given.rank : -1,
          hasBlockPerMember(kind, BufferRole::Input) ? given.inputChunk / chunksPerInputBlock() : -1};
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

/// A rank looks in its own tables, also for a chunk of a peer.
BlockLengths::Key BlockLengths::measuredKey(const Event &event, const MovedChunk &moved, const Measure &measure) const {
  const int64_t rank = event.kind == EventKind::Put ? moved.sourceOwner : moved.destinationOwner;
  if (!measure.table)
    return keyOf(moved.content);
  return measure.side == MoveSide::Source
             ? keyOf(*measure.table, event.source.buffer, rank, moved.sourceChunk)
             : keyOf(*measure.table, event.destination.buffer, rank, moved.destinationChunk);
}

uint32_t BlockLengths::bufferOf(const Event &event, const Measure &measure) {
  return measure.side == MoveSide::Source ? event.source.buffer : event.destination.buffer;
}

/// Only representatives are followed, so the blocks of memory must be translated with the ranks as those of the table.
bool BlockLengths::liesLikeTable(uint32_t buffer, std::optional<BufferRole> table) const {
  if (!table || group.isTrivial())
    return true;
  const uint32_t ofTable = *tracer.bufferOf(*table);
  const size_t blocks = tracer.program().buffers[ofTable].numBlockDims;
  auto blockDims = [&](uint32_t each) { return ArrayRef(group.chunkDims[each]).take_front(blocks); };
  return buffer == ofTable || blockDims(buffer) == blockDims(ofTable);
}

bool BlockLengths::areInOneGroup(int64_t rank, int64_t other) const {
  return rank == other || memberOfGroup(tracer, rank, 0) == memberOfGroup(tracer, other, 0);
}

void BlockLengths::follow(const Event &event, const MovedChunk &moved) {
  if (!areInOneGroup(moved.sourceOwner, moved.destinationOwner))
    return refuse(event, "moves a chunk to another group of ranks, whose tables are others");
  const Measure &measure = *measures[event.op];
  const Key key = measuredKey(event, moved, measure);
  if (!isOfKey(moved.content, key) || !liesLikeTable(bufferOf(event, measure), measure.table))
    return refuse(event, "moves a chunk of another block than the one that says how long it is");
  follow(event, event.source.buffer, moved.sourceOwner, moved.sourceChunk, key);
  follow(event, event.destination.buffer, moved.destinationOwner, moved.destinationChunk, key);
  if (const std::optional<Measure> &ofFuse = fused[event.op])
    if (!isOfKey(moved.content, measuredKey(event, moved, *ofFuse)) ||
        !liesLikeTable(bufferOf(event, *ofFuse), ofFuse->table))
      refuse(event, "is fused with moves of a chunk of another block");
}

void BlockLengths::followDivision(const Event &event, int64_t rank, int64_t chunk, Contents::Id content) {
  const std::optional<BufferRole> table = measures[event.op]->table;
  const uint32_t buffer = event.destination.buffer;
  if (table && !(isOfKey(content, keyOf(*table, buffer, rank, chunk)) && liesLikeTable(buffer, table)))
    refuse(event, "divides a chunk of another block than the one that says how long it is");
}

/// As the representative of the owner's orbit sees it.
BlockLengths::Key BlockLengths::moveBack(int64_t owner, Key key) const {
  const int64_t cut = chunksPerInputBlock();
  if (key.first >= 0)
    key.first = group.moveBack(owner, key.first);
  if (key.second >= 0)
    key.second = group.moveChunkBack(owner, *tracer.bufferOf(BufferRole::Input), key.second * cut) / cut;
  return key;
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
  const int64_t holder = group.representatives()[group.orbitOf(owner)];
  const int64_t block = group.moveChunkBack(owner, buffer, chunk) / grid.chunksPerBlock;
  const Key ofHolder = moveBack(owner, key);
  auto [known, isNew] = ownBlocks.try_emplace({{buffer, holder}, block}, ofHolder);
  if (known->second != ofHolder)
    refuse(event, "moves chunks of blocks of different lengths to one block of the program's own memory");
}

void BlockLengths::refuse(const Event &event, StringRef why) {
  if (!whyNot.empty())
    return;
  SourceLine place = sourceLineOf(tracer.program().ops[event.op].op->getLoc());
  whyNot = (why + ": " + place.file + ":" + Twine(place.line)).str();
}

} // namespace kolo
