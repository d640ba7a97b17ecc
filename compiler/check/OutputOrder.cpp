#include "compiler/check/OutputOrder.h"

#include "compiler/check/OutputBits.h"

namespace kolo {

/// Whether outputs are combined at all.
bool OutputOrder::isSummed() const {
  for (int64_t rank : group.representatives())
    if (output && tracer.exists(rank, BufferRole::Output))
      return wantedContent(tracer, rank, 0).rank < 0;
  return false;
}

void OutputOrder::compare(int64_t rank, int64_t first, int64_t chunk, VectorClockResult &result) {
  const Terms::Id expected = contents.termOf(accesses.outputCell(rank, first).content);
  const int32_t numParts = std::max<int32_t>(tracer.grids()[tracer.resolve(rank, *output, chunk).first].numParts, 1);
  for (int32_t part = 0; part < numParts; ++part) {
    const ChunkCells::Cell &cell = accesses.outputCell(rank, chunk, part);
    const Terms::Id found = contents.termOf(cell.content);
    if (expected == found)
      continue;
    Terms &terms = contents.allTerms();
    std::string a = terms.describeOrder(expected), b = terms.describeOrder(found);
    difference = "an element is summed in another order in chunk " + std::to_string(chunk) + " than in chunk " +
                 std::to_string(first) + (a.empty() || b.empty() ? "" : ", " + b + " and " + a) +
                 ", and the size decides in which chunk it is";
    result.otherOrder = {rank, chunk, {int32_t(group.move(rank, cell.lastWrite.rank)), cell.lastWrite.time}};
    return;
  }
}

/// The first chunk of a run stands for it: all of its chunks are combined in one order.
bool OutputOrder::areChunksAlike(int64_t rank, VectorClockResult &result) {
  const Grid &grid = tracer.grids()[*output];
  int64_t previous = 0, first = 0; // of the run before, and of the run that the block at hand begins in
  for (int64_t chunk = 0; chunk < grid.numChunks && difference.empty(); chunk = chunkRuns.next(*output, chunk)) {
    int64_t block = chunk / grid.chunksPerBlock * grid.chunksPerBlock;
    if (block == chunk)
      first = chunk;
    else if (block >= previous)
      first = previous;
    compare(rank, first, chunk, result);
    previous = chunk;
  }
  return difference.empty();
}

SumOrder OutputOrder::find(VectorClockResult &result) {
  if (!isSummed())
    return {};
  if (detail != Terms::Detail::All)
    return {std::nullopt, "", 0};
  if (llvm::any_of(codecs.codecs, [](const codec::Codec &codec) { return codec.isStochastic(); }))
    return {false, "a stochastic codec draws anew in every call", 0};
  if (result.ranksAgreeBitwise == false)
    return {false, "ranks combine in different orders", 0};
  for (int64_t rank : group.representatives())
    if (tracer.exists(rank, BufferRole::Output) && !areChunksAlike(rank, result))
      return {false, difference, 0};
  // Where all of a group get the same, V11 has shown that they have the same terms.
  const CollectiveKind kind = tracer.program().program.getCollective().getKind();
  const bool firstStands = givesAllTheSame(kind);
  SumOrder order;
  Terms &terms = contents.allTerms();
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    if (!tracer.exists(rank, BufferRole::Output) || (firstStands && tracer.numberInGroup(rank) != 0))
      continue;
    Terms::Id term = contents.termOf(contents.move(rank, accesses.outputCell(rank, 0).content));
    order.fingerprint = 31 * order.fingerprint + terms.fingerprint(term);
    if (order.text.empty() || isPrefixReduction(kind))
      order.text = terms.describeOrder(term);
  }
  return order;
}

void OutputOrder::decide(VectorClockResult &result) { result.order = find(result); }

} // namespace kolo
