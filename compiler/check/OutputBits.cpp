#include "compiler/check/OutputBits.h"

using namespace mlir;

namespace kolo {

Terms::Detail detailOfTerms(const Tracer &tracer, const CheckOptions &options, const BufferCodecs &codecs,
                            int64_t mostRanksInFull) {
  if (tracer.numRanks() <= mostRanksInFull)
    return Terms::Detail::All;
  if (options.followsCodecs && givesAllTheSame(tracer.program().program.getCollective().getKind()))
    return Terms::Detail::Origins;
  return codecs.isAny() ? Terms::Detail::Losses : Terms::Detail::Nothing;
}

void OutputBits::decide(Terms::Detail detail, VectorClockResult &result) {
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
}

/// Looks at the outputs that a collective gives to all ranks of a group.
std::optional<OtherBits> OutputBits::findOtherBits() {
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  llvm::SmallVector<int64_t> others = llvm::to_vector(group.generators());
  llvm::append_range(others, group.representatives());
  for (int64_t rank : others) {
    int64_t base = memberOfGroup(tracer, rank, 0); // which is among the representatives
    for (int64_t chunk = 0; chunk < tracer.grids()[output].numChunks; chunk = chunkRuns.next(output, chunk))
      if (contents.move(rank, accesses.outputCell(rank, chunk).content) !=
          contents.move(base, accesses.outputCell(base, chunk).content))
        return describeOtherBits(rank, base, chunk);
  }
  return std::nullopt;
}

OtherBits OutputBits::describeOtherBits(int64_t rank, int64_t base, int64_t chunk) {
  auto lossOf = [&](int64_t who) -> const Loss & { return contents.lossOf(accesses.outputCell(who, chunk).content); };
  if (lossOf(base) < lossOf(rank))
    std::swap(rank, base);
  auto writeOf = [&](int64_t who) {
    const AccessEntry &write = accesses.outputCell(who, chunk).lastWrite;
    return Moment{int32_t(group.move(who, write.rank)), write.time};
  };
  auto contentOf = [&](int64_t who) { return contents.move(who, accesses.outputCell(who, chunk).content); };
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
          isAlike ? nullptr : contents.lastEncoding(accesses.outputCell(base, chunk).content),
          numLike(base) >= numLike(rank)};
}

/// Translated ranks lose alike, so the representatives' outputs stand for all.
void OutputBits::findLosses(VectorClockResult &result) {
  std::optional<uint32_t> output = tracer.bufferOf(BufferRole::Output);
  if (!codecs.isAny() || !output)
    return;
  std::vector<int64_t> most(codecs.codecs.size());
  for (int64_t rank : group.representatives()) {
    if (!tracer.exists(rank, BufferRole::Output))
      continue;
    for (int64_t chunk = 0; chunk < tracer.grids()[*output].numChunks; ++chunk) {
      const Loss &loss = contents.lossOf(accesses.outputCell(rank, chunk).content);
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
