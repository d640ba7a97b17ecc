// Data for runs: rank-tagged inputs, and the check of every byte of the outputs against the reference.
#include "tools/run/Data.h"
#include "tools/run/ReferenceKinds.h"

#include "ir/reference/Oracle.h"

#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cstring>

namespace kolo::tools {

using runtime::CollectiveKind;

// Not a multiple of any block size that anybody uses, so that a block in the wrong place shows.
static constexpr int64_t period = 4099;

reference::ElementType referenceTypeOf(runtime::DataType type) {
  switch (type) {
#define KOLO_CASE(CONSTANT, ENUMERATOR, ...)                                                                           \
  case runtime::DataType::ENUMERATOR:                                                                                  \
    return reference::ElementType::ENUMERATOR;
    KOLO_FOR_EACH_TYPE(KOLO_CASE)
#undef KOLO_CASE
  }
  llvm_unreachable("every type is handled");
}

reference::Reduction referenceReductionOf(runtime::Reduction reduction) {
  switch (reduction) {
#define KOLO_CASE(CONSTANT, ENUMERATOR, ...)                                                                           \
  case runtime::Reduction::ENUMERATOR:                                                                                 \
    return reference::Reduction::ENUMERATOR;
    KOLO_FOR_EACH_REDUCTION(KOLO_CASE)
#undef KOLO_CASE
  }
  llvm_unreachable("every reduction is handled");
}

/// Tables and reductions of one period are those of an all-reduce, or of a scan, whatever the collective.
static kolo::CollectiveKind kindOfPeriod(CollectiveKind collective) {
  switch (collective) {
  case CollectiveKind::Scan:
    return kolo::CollectiveKind::Scan;
  case CollectiveKind::Exscan:
    return kolo::CollectiveKind::Exscan;
  default:
    return kolo::CollectiveKind::AllReduce;
  }
}

TaggedData::TaggedData(CollectiveKind collective, const std::vector<int64_t> &groupDims, const runtime::Mesh &mesh,
                       runtime::DataType type, runtime::Reduction reduction)
    : collective(collective), elementBytes(int64_t(runtime::sizeBytes(type))) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KoloDialect>();
  reference::Call call;
  call.collective = CollectiveAttr::get(&context, kindOfPeriod(collective), groupDims);
  for (const runtime::MeshDim &dim : mesh.dims())
    call.meshSizes.push_back(dim.size);
  call.count = period;
  call.type = referenceTypeOf(type);
  call.reduction = referenceReductionOf(reduction);
  reference::SimulatedCall simulated = reference::makeSimulatedCall(call);
  reference::tagInput(simulated);
  bool reduces = runtime::factsOf(collective).reduces;
  for (int rank = 0; rank < mesh.numRanks(); ++rank) {
    groups.push_back(reference::groupOf(simulated, rank));
    reductions.push_back(reduces ? reference::expectedOutput(simulated, rank).value_or(Table()) : Table());
  }
  inputs = std::move(simulated.inputs);
}

int TaggedData::memberNumber(int rank) const {
  const std::vector<int64_t> &group = groups[size_t(rank)];
  return int(std::ranges::find(group, rank) - group.begin());
}

bool TaggedData::hasInput(int rank, int root) const {
  return !runtime::isAtRoot(runtime::factsOf(collective).input) || memberNumber(rank) == root;
}

bool TaggedData::hasOutput(int rank, int root) const {
  const runtime::CollectiveFacts facts = runtime::factsOf(collective);
  if (facts.reduces && reductions[size_t(rank)].empty()) // as of the first rank of an exscan
    return false;
  return !runtime::isAtRoot(facts.output) || memberNumber(rank) == root;
}

void TaggedData::fillInput(int rank, const CallBlocks &blocks, void *input) const {
  int64_t numBytes = blocks.sizes(memberNumber(rank)).inputElements * elementBytes;
  const Table &table = inputs[size_t(rank)];
  for (int64_t done = 0; done < numBytes; done += int64_t(table.size()))
    std::memcpy(static_cast<std::byte *>(input) + done, table.data(),
                size_t(std::min(numBytes - done, int64_t(table.size()))));
}

void TaggedData::poisonOutput(void *output, int64_t numElements) const {
  if (numElements > 0)
    std::memset(output, int(reference::poison), size_t(numElements * elementBytes));
}

std::optional<std::string> TaggedData::compare(const Table &table, int64_t phase, int64_t first, int64_t numElements,
                                               const std::byte *output, int rank) const {
  int64_t done = 0, at = phase % period;
  while (done < numElements) {
    int64_t run = std::min(numElements - done, period - at);
    const std::byte *wanted = table.data() + at * elementBytes, *actual = output + (first + done) * elementBytes;
    if (std::memcmp(wanted, actual, size_t(run * elementBytes)) != 0) {
      int64_t wrong = 0;
      while (std::memcmp(wanted + wrong * elementBytes, actual + wrong * elementBytes, size_t(elementBytes)) == 0)
        ++wrong;
      return "rank " + std::to_string(rank) + ": element " + std::to_string(first + done + wrong) +
             " of the output is wrong";
    }
    done += run;
    at = 0;
  }
  return std::nullopt;
}

std::optional<std::string> TaggedData::check(int rank, int root, const CallBlocks &blocks, const void *output) const {
  if (!hasOutput(rank, root))
    return std::nullopt;
  const std::vector<int64_t> &group = groups[size_t(rank)];
  auto bytes = static_cast<const std::byte *>(output);
  const int64_t self = memberNumber(rank);
  const runtime::CollectiveFacts facts = runtime::factsOf(collective);
  // The first element of what a member's input gives this rank.
  auto given = [&](int64_t giver) {
    return runtime::isPerRank(facts.input) ? blocks.place(BufferSide::Input, giver, self) : 0;
  };
  auto compareBlock = [&](const Table &table, int64_t giver, int64_t block) {
    return compare(table, given(giver), blocks.place(BufferSide::Output, self, block),
                   blocks.count(BufferSide::Output, self, block), bytes, rank);
  };
  if (facts.reduces)
    return compareBlock(reductions[size_t(rank)], self, 0);
  if (runtime::isAtRoot(facts.input))
    return compareBlock(inputs[size_t(group[size_t(root)])], root, 0);
  for (int64_t block = 0; block < groupSize(); ++block)
    if (auto wrong = compareBlock(inputs[size_t(group[size_t(block)])], block, block))
      return wrong;
  return std::nullopt;
}

} // namespace kolo::tools
