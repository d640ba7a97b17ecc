// What every chunk of every buffer holds on every rank, symbolically.
#include "compiler/check/ChunkState.h"

#include "ir/Members.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kolo {

std::string describeInputs(int64_t chunk, ArrayRef<int64_t> ranks) {
  constexpr size_t mostListed = 8;
  std::string text = "input chunk " + std::to_string(chunk) + " of rank" + (ranks.size() == 1 ? "" : "s");
  for (int64_t rank : ranks.take_front(mostListed))
    text += " " + std::to_string(rank);
  return text + (ranks.size() > mostListed ? " and " + std::to_string(ranks.size() - mostListed) + " more" : "");
}

std::optional<std::string> ChunkContent::combine(const ChunkContent &other) {
  if (inputChunk != other.inputChunk)
    return "combines " + describe() + " with " + other.describe();
  if (contributors.anyCommon(other.contributors))
    return "counts a contribution twice: combines " + describe() + " with " + other.describe();
  contributors |= other.contributors;
  return std::nullopt;
}

std::string ChunkContent::describe() const {
  return isDefined() ? describeInputs(inputChunk, SmallVector<int64_t>(contributors.set_bits())) : "nothing";
}

ChunkState::ChunkState(ChoreographyOp choreography, const IndexEvaluator &evaluator, int64_t root)
    : collective(choreography.getCollective()), mesh(evaluator.mesh()), root(root), numRanks(evaluator.numRanks()) {
  for (auto buffer : choreography.getBody().getOps<BufferOp>()) {
    bufferNumbers[buffer] = layouts.size();
    Value cut = buffer.getCut();
    Layout layout{buffer.getRole(), buffer.getName().str(), {}, 1, cut ? evaluator.get(cut) : 1, bool(cut)};
    for (auto [dim, extent] : llvm::enumerate(buffer.getGrid())) {
      layout.grid.push_back(evaluator.get(extent));
      layout.numChunks *= layout.grid.back();
      if (dim >= buffer.getBlocks())
        layout.chunksPerBlock *= layout.grid.back();
    }
    layouts.push_back(std::move(layout));
  }
  contents.resize(size_t(numRanks));
  for (int64_t rank = 0; rank < numRanks; ++rank)
    for (const Layout &layout : layouts) {
      auto &chunks = contents[size_t(rank)].emplace_back(std::max<int64_t>(layout.numChunks, 0));
      if (layout.role != BufferRole::Input || !exists(rank, BufferRole::Input))
        continue;
      for (auto [number, chunk] : llvm::enumerate(chunks)) {
        chunk.inputChunk = int64_t(number);
        chunk.contributors.resize(unsigned(numRanks));
        chunk.contributors.set(unsigned(rank));
      }
    }
}

uint64_t ChunkState::countChunks(BufferOp buffer, const IndexEvaluator &evaluator) {
  uint64_t number = 1;
  for (Value extent : buffer.getGrid())
    number = llvm::SaturatingMultiply(number, uint64_t(std::max<int64_t>(evaluator.get(extent), 0)));
  return number;
}

ChunkContent &ChunkState::at(int64_t rank, Value buffer, int64_t chunk) {
  return contents[size_t(rank)][bufferNumbers.at(buffer)][size_t(chunk)];
}

SmallVector<int64_t> ChunkState::chunksOf(const GridBox &box) {
  SmallVector<int64_t> chunks{0};
  for (const GridRange &range : box) {
    SmallVector<int64_t> next;
    for (int64_t base : chunks)
      for (int64_t i = 0; i < range.size; ++i)
        next.push_back(base * range.extent + (((range.offset + i) % range.extent) + range.extent) % range.extent);
    chunks = std::move(next);
  }
  return chunks;
}

bool ChunkState::haveEqualSize(Value bufferA, int64_t chunkA, Value bufferB, int64_t chunkB) const {
  const Layout &a = layoutOf(bufferA), &b = layoutOf(bufferB);
  return a.chunksPerBlock == b.chunksPerBlock &&
         (a.isSlots || b.isSlots || chunkA % a.chunksPerBlock == chunkB % b.chunksPerBlock);
}

bool ChunkState::isAsLongAs(const ChunkContent &content, Value buffer, int64_t chunk) const {
  const Layout &layout = layoutOf(buffer);
  return layout.isSlots || content.inputChunk % layout.chunksPerBlock == chunk % layout.chunksPerBlock;
}

bool ChunkState::mayWrite(int64_t rank, Value buffer) const {
  return layoutOf(buffer).role != BufferRole::Output || exists(rank, BufferRole::Output);
}

std::string ChunkState::describe(Value buffer, int64_t chunk) const {
  const Layout &layout = layoutOf(buffer);
  return layout.isSlots && !layout.grid.empty()
             ? "slot " + describeIndices(layout.grid, chunk) + " of '" + layout.name + "'"
             : describeChunk(layout.grid, chunk, layout.name);
}

std::string ChunkState::describeCuts(Value bufferA, Value bufferB) const {
  auto describeCut = [](const Layout &layout) {
    std::string chunks = std::to_string(layout.chunksPerBlock) + " chunks";
    return layout.isSlots ? "the slots of '" + layout.name + "' are for blocks of " + chunks
                          : "a block of '" + layout.name + "' has " + chunks;
  };
  const Layout &a = layoutOf(bufferA), &b = layoutOf(bufferB);
  return a.isSlots || b.isSlots ? ": " + describeCut(a) + ", " + describeCut(b) : "";
}

int64_t ChunkState::numberInGroup(int64_t rank) const {
  SmallVector<int64_t, 4> coordinates(mesh.size());
  for (size_t dim = mesh.size(); dim-- > 0; rank /= mesh[dim])
    coordinates[dim] = rank % mesh[dim];
  int64_t number = 0;
  for (int64_t dim : collective.getGroupDims())
    number = number * mesh[size_t(dim)] + coordinates[size_t(dim)];
  return number;
}

BitVector ChunkState::groupOf(int64_t rank) const {
  auto outside = [&](int64_t other) { // coordinates outside of the group's dimensions, as one number
    int64_t number = 0;
    for (size_t dim = mesh.size(), scale = 1; dim-- > 0; other /= mesh[dim])
      if (!llvm::is_contained(collective.getGroupDims(), int64_t(dim))) {
        number += other % mesh[dim] * int64_t(scale);
        scale *= size_t(mesh[dim]);
      }
    return number;
  };
  BitVector result{unsigned(numRanks)};
  for (int64_t other = 0; other < numRanks; ++other)
    if (outside(other) == outside(rank))
      result.set(unsigned(other));
  return result;
}

BitVector ChunkState::combinedBy(int64_t rank, const BitVector &group) const {
  int64_t number = numCombined(collective.getKind(), numberInGroup(rank), int64_t(group.count()));
  BitVector result(group);
  for (unsigned member : group.set_bits())
    if (numberInGroup(member) >= number)
      result.reset(member);
  return result;
}

bool ChunkState::exists(int64_t rank, BufferRole role) const {
  return isEverywhere(collective.getKind(), role) || isAtMember(collective.getKind(), role, numberInGroup(rank), root);
}

ChunkContent ChunkState::expected(int64_t rank, const BitVector &group, int64_t chunk) const {
  auto output = llvm::find_if(layouts, [](const Layout &layout) { return layout.role == BufferRole::Output; });
  int64_t cut = output->chunksPerBlock, block = chunk / cut, inner = chunk % cut;
  BitVector one{unsigned(numRanks)};
  auto only = [&](int64_t number) { // the member of the group with this number
    for (unsigned member : group.set_bits())
      if (numberInGroup(member) == number)
        one.set(member);
    return one;
  };
  CollectiveKind kind = collective.getKind();
  int64_t sent = inner + (hasBlockPerMember(kind, BufferRole::Input) ? numberInGroup(rank) * cut : 0);
  return {sent, isReduction(kind) ? combinedBy(rank, group) : only(isAtRoot(kind, BufferRole::Input) ? root : block)};
}

std::optional<std::string> ChunkState::findWrongResult() {
  size_t output = 0;
  while (output < layouts.size() && layouts[output].role != BufferRole::Output)
    ++output;
  if (output == layouts.size())
    return "there is no output";
  for (int64_t rank = 0; rank < numRanks; ++rank) {
    if (!exists(rank, BufferRole::Output))
      continue;
    const BitVector group = groupOf(rank);
    for (int64_t chunk = 0; chunk < layouts[output].numChunks; ++chunk) {
      const ChunkContent &actual = contents[size_t(rank)][output][size_t(chunk)];
      ChunkContent wanted = expected(rank, group, chunk);
      if (actual == wanted)
        continue;
      return "on rank " + std::to_string(rank) + ", chunk " + std::to_string(chunk) + " of the output holds " +
             actual.describe() + " instead of " + wanted.describe();
    }
  }
  return std::nullopt;
}

} // namespace kolo
