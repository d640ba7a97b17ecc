// The bits of a run's outputs: what codecs did to them, and whether ranks that get the same output get the same bits.
#include "compiler/check/VectorClockRun.h"

using namespace mlir;

namespace kolo {

/// Terms in full take a tree per chunk and rank. On many ranks that is done only if the origins of outputs differ.
Terms::Detail VectorClockRun::detailOfTerms(int64_t mostRanksInFull) const {
  if (tracer.numRanks() <= mostRanksInFull)
    return Terms::Detail::All;
  if (options.followsCodecs && givesAllTheSame(tracer.program().program.getCollective().getKind()))
    return Terms::Detail::Origins;
  return codecs.isAny() ? Terms::Detail::Losses : Terms::Detail::Nothing;
}

/// What a move has written is stored by the codec of its destination. Bytes move as they are between equal codecs; a
/// combination is rounded when it is stored.
void VectorClockRun::convert(const Event &event, int64_t sourceOwner, int64_t destinationOwner) {
  uint32_t from = event.source.buffer, to = event.destination.buffer;
  if (codecs.ofBuffer[from] == codecs.ofBuffer[to] && event.kind != EventKind::Reduce)
    return;
  int64_t holder = group.moveBack(destinationOwner, sourceOwner);
  bool isSlot = tracer.grids()[from].isSlots; // whose places are no elements of a buffer
  uint32_t drawn = isSlot ? to : from;
  for (auto [source, destination] : llvm::zip_equal(sourceChunks, destinationChunks)) {
    Terms::Origin origin{holder, drawn, group.moveChunkBack(destinationOwner, drawn, isSlot ? destination : source)};
    Cell &cell = cellOf(destinationOwner, to, destination, event.part);
    cell.content = contents.store(cell.content, codecs.ofBuffer[to], origin, tracer.program().ops[event.op].op);
  }
}

const VectorClockRun::Cell &VectorClockRun::outputCell(int64_t rank, int64_t chunk) {
  auto [outer, place] = tracer.resolve(rank, *tracer.bufferOf(BufferRole::Output), chunk);
  return cellOf(rank, outer, place, 0);
}

/// Looks whether all chunks of an output's block are summed in one order. Representatives stand for their orbits: a
/// translation of ranks turns equal terms into equal ones.
class VectorClockRun::OrderFinder {
public:
  explicit OrderFinder(VectorClockRun &run) : run(run), output(run.tracer.bufferOf(BufferRole::Output)) {}
  SumOrder find();

private:
  bool isSummed() const;
  bool areChunksAlike(int64_t rank);
  void compare(int64_t rank, int64_t first, int64_t chunk);
  Terms::Id termOf(int64_t rank, int64_t chunk, int32_t part = 0) {
    auto [outer, place] = run.tracer.resolve(rank, *output, chunk);
    return run.contents.termOf(run.cellOf(rank, outer, place, part).content);
  }

  VectorClockRun &run;
  const std::optional<uint32_t> output;
  std::string difference;
};

/// Outputs that are combined at all.
bool VectorClockRun::OrderFinder::isSummed() const {
  for (int64_t rank : run.group.representatives())
    if (output && run.tracer.exists(rank, BufferRole::Output))
      return wantedContent(run.tracer, rank, 0).rank < 0;
  return false;
}

void VectorClockRun::OrderFinder::compare(int64_t rank, int64_t first, int64_t chunk) {
  auto [outer, place] = run.tracer.resolve(rank, *output, chunk);
  int32_t numParts = std::max<int32_t>(run.tracer.grids()[outer].numParts, 1);
  for (int32_t part = 0; part < numParts; ++part) {
    Terms::Id expected = termOf(rank, first), found = termOf(rank, chunk, part);
    if (expected == found)
      continue;
    Terms &terms = run.contents.allTerms();
    std::string a = terms.describeOrder(expected), b = terms.describeOrder(found);
    difference = "an element is summed in another order in chunk " + std::to_string(chunk) + " than in chunk " +
                 std::to_string(first) + (a.empty() || b.empty() ? "" : ", " + b + " and " + a) +
                 ", and the size decides in which chunk it is";
    const Entry &write = run.cellOf(rank, outer, place, part).lastWrite;
    run.result.otherOrder = {rank, chunk, {int32_t(run.group.move(rank, write.rank)), write.time}};
    return;
  }
}

bool VectorClockRun::OrderFinder::areChunksAlike(int64_t rank) {
  const Grid &grid = run.tracer.grids()[*output];
  for (int64_t chunk = 0; chunk < grid.numChunks && difference.empty(); ++chunk)
    compare(rank, chunk / grid.chunksPerBlock * grid.chunksPerBlock, chunk);
  return difference.empty();
}

SumOrder VectorClockRun::OrderFinder::find() {
  if (!isSummed())
    return {};
  if (run.detail != Terms::Detail::All)
    return {std::nullopt, "", 0};
  if (llvm::any_of(run.codecs.codecs, [](const codec::Codec &codec) { return codec.isStochastic(); }))
    return {false, "a stochastic codec draws anew in every call", 0};
  if (run.result.ranksAgreeBitwise == false)
    return {false, "ranks combine in different orders", 0};
  for (int64_t rank : run.group.representatives())
    if (run.tracer.exists(rank, BufferRole::Output) && !areChunksAlike(rank))
      return {false, difference, 0};
  SumOrder order;
  Terms &terms = run.contents.allTerms();
  for (int64_t rank = 0; rank < run.tracer.numRanks(); ++rank) {
    if (!run.tracer.exists(rank, BufferRole::Output))
      continue;
    Terms::Id term = run.contents.termOf(run.contents.move(rank, run.outputCell(rank, 0).content));
    order.fingerprint = 31 * order.fingerprint + terms.fingerprint(term);
    if (order.text.empty())
      order.text = terms.describeOrder(term);
  }
  return order;
}

void VectorClockRun::decideBits() {
  if (!givesAllTheSame(tracer.program().program.getCollective().getKind())) {
    result.ranksAgreeBitwise = true;
  } else if (detail == Terms::Detail::Origins || detail == Terms::Detail::All) {
    std::optional<OtherBits> other = findOtherBits();
    result.needsFullTerms = other && detail == Terms::Detail::Origins;
    if (!result.needsFullTerms) {
      result.ranksAgreeBitwise = !other;
      result.otherBits = other;
    }
  }
  result.order = OrderFinder(*this).find();
  result.needsFullTerms |= options.needsOneOrder && !result.order.isFixed;
}

/// Looks at the outputs that a collective gives to all ranks of a group.
std::optional<OtherBits> VectorClockRun::findOtherBits() {
  CollectiveAttr collective = tracer.program().program.getCollective();
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  llvm::SmallVector<int64_t> others = llvm::to_vector(group.generators());
  llvm::append_range(others, group.representatives());
  for (int64_t rank : others) {
    // Its group's member with the same place outside of the group, among the representatives.
    SmallVector<int64_t, 4> first = tracer.coordinatesOf(rank);
    for (int64_t dim : collective.getGroupDims())
      first[size_t(dim)] = 0;
    int64_t base = 0;
    for (auto [coordinate, size] : llvm::zip_equal(first, tracer.mesh()))
      base = base * size + coordinate;
    for (int64_t chunk = 0; chunk < tracer.grids()[output].numChunks; chunk = chunkRuns.next(output, chunk))
      if (contents.move(rank, outputCell(rank, chunk).content) != contents.move(base, outputCell(base, chunk).content))
        return describeOtherBits(rank, base, chunk);
  }
  return std::nullopt;
}

OtherBits VectorClockRun::describeOtherBits(int64_t rank, int64_t base, int64_t chunk) {
  auto lossOf = [&](int64_t who) -> const Loss & { return contents.lossOf(outputCell(who, chunk).content); };
  if (lossOf(base) < lossOf(rank))
    std::swap(rank, base);
  auto writeOf = [&](int64_t who) {
    const Entry &write = outputCell(who, chunk).lastWrite;
    return Moment{int32_t(group.move(who, write.rank)), write.time};
  };
  auto contentOf = [&](int64_t who) { return contents.move(who, outputCell(who, chunk).content); };
  auto numLike = [&](int64_t who) {
    return llvm::count_if(llvm::seq(tracer.numRanks()),
                          [&](int64_t each) { return contentOf(each) == contentOf(who); });
  };
  bool isAlike = lossOf(rank) == lossOf(base);
  return {rank,
          base,
          chunk,
          writeOf(rank),
          writeOf(base),
          isAlike ? nullptr : contents.lastEncoding(outputCell(base, chunk).content),
          numLike(base) >= numLike(rank)};
}

/// Translated ranks lose alike, so the representatives' outputs stand for all.
void VectorClockRun::findLosses() {
  std::optional<uint32_t> output = tracer.bufferOf(BufferRole::Output);
  if (!codecs.isAny() || !output)
    return;
  std::vector<int64_t> most(codecs.codecs.size());
  for (int64_t rank : group.representatives()) {
    if (!tracer.exists(rank, BufferRole::Output))
      continue;
    for (int64_t chunk = 0; chunk < tracer.grids()[*output].numChunks; ++chunk) {
      const Loss &loss = contents.lossOf(outputCell(rank, chunk).content);
      result.numEncodings = std::max(result.numEncodings, loss.numEncodings);
      for (auto [factor, largest] : llvm::zip(loss.factors, most))
        largest = std::max(largest, factor);
    }
  }
  for (auto [number, factor] : llvm::enumerate(most))
    if (factor > 0)
      result.losses.push_back({codecs.codecs[number], factor});
}

} // namespace kolo
