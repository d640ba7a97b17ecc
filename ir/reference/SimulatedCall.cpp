// Groups, buffer sizes and validity of a call.
#include "ir/reference/SimulatedCall.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace kolo::reference {

int64_t numRanks(const Call &call) {
  return std::accumulate(call.meshSizes.begin(), call.meshSizes.end(), int64_t(1), std::multiplies<>());
}

std::vector<int64_t> coordinatesOf(const Call &call, int64_t rank) {
  std::vector<int64_t> coordinates(call.meshSizes.size());
  for (size_t dim = coordinates.size(); dim-- > 0; rank /= call.meshSizes[dim])
    coordinates[dim] = rank % call.meshSizes[dim];
  return coordinates;
}

int64_t rankAt(const Call &call, llvm::ArrayRef<int64_t> coordinates) {
  int64_t rank = 0;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, call.meshSizes))
    rank = rank * size + coordinate;
  return rank;
}

std::vector<int64_t> groupOf(const Call &call, int64_t rank) {
  std::vector<int64_t> ranks, coordinates = coordinatesOf(call, rank);
  for (int64_t member = 0; member < groupSize(call); ++member) {
    int64_t rest = member;
    for (int64_t dim : llvm::reverse(call.collective.getGroupDims())) {
      coordinates[dim] = rest % call.meshSizes[dim];
      rest /= call.meshSizes[dim];
    }
    ranks.push_back(rankAt(call, coordinates));
  }
  return ranks;
}

int64_t groupSize(const Call &call) {
  int64_t size = 1;
  for (int64_t dim : call.collective.getGroupDims())
    size *= call.meshSizes[dim];
  return size;
}

int64_t memberNumber(const Call &call, int64_t rank) {
  std::vector<int64_t> coordinates = coordinatesOf(call, rank);
  int64_t number = 0;
  for (int64_t dim : call.collective.getGroupDims())
    number = number * call.meshSizes[dim] + coordinates[dim];
  return number;
}

int64_t numBlocks(const Call &call, BufferRole role) {
  bool isInput = role == BufferRole::Input;
  switch (call.collective.getKind()) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
  case CollectiveKind::Scan:
  case CollectiveKind::Exscan:
    return 1;
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    return isInput ? 1 : groupSize(call);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter:
    return isInput ? groupSize(call) : 1;
  case CollectiveKind::AllToAll:
    return groupSize(call);
  }
  llvm_unreachable("a collective");
}

bool exists(const Call &call, BufferRole role, int64_t rank) {
  const int64_t member = memberNumber(call, rank);
  const bool isRoot = member == call.root;
  switch (call.collective.getKind()) {
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
    return isRoot || role != BufferRole::Output;
  case CollectiveKind::Scatter:
    return isRoot || role != BufferRole::Input;
  case CollectiveKind::Exscan:
    return member != 0 || role != BufferRole::Output;
  default:
    return true;
  }
}

void setTables(Call &call, llvm::function_ref<int64_t(int64_t giver, int64_t taker)> given) {
  call.inputCounts.assign(numRanks(call), {});
  call.outputCounts.assign(numRanks(call), {});
  call.count = 0;
  for (int64_t rank = 0; rank < numRanks(call); ++rank) {
    std::vector<int64_t> group = groupOf(call, rank), &inputs = call.inputCounts[rank],
                         &outputs = call.outputCounts[rank];
    for (int64_t block = 0; block < numBlocks(call, BufferRole::Input); ++block)
      inputs.push_back(given(rank, group[block]));
    for (int64_t block = 0; block < numBlocks(call, BufferRole::Output); ++block)
      outputs.push_back(given(group[block], rank));
    for (int64_t count : llvm::concat<int64_t>(inputs, outputs))
      call.count = std::max(call.count, count);
  }
}

Range blockRange(const Call &call, BufferRole role, int64_t rank, int64_t block) {
  if (!hasTables(call))
    return {block * call.count, call.count};
  const std::vector<int64_t> &counts = (role == BufferRole::Input ? call.inputCounts : call.outputCounts)[rank];
  return {std::accumulate(counts.begin(), counts.begin() + block, int64_t(0)), counts[block]};
}

static size_t bufferBytes(const Call &call, BufferRole role, int64_t rank) {
  const Range last = blockRange(call, role, rank, numBlocks(call, role) - 1);
  return size_t((last.begin + last.size) * elementBytes(call.type));
}

SimulatedCall makeSimulatedCall(const Call &call) {
  SimulatedCall simulated;
  static_cast<Call &>(simulated) = call;
  for (int64_t rank = 0; rank < numRanks(call); ++rank) {
    simulated.inputs.emplace_back(bufferBytes(call, BufferRole::Input, rank));
    simulated.outputs.emplace_back(bufferBytes(call, BufferRole::Output, rank), poison);
  }
  return simulated;
}

void poisonOutputs(SimulatedCall &simulated) {
  for (Bytes &output : simulated.outputs)
    std::fill(output.begin(), output.end(), poison);
}

/// What one rank gives another, by the tables of both.
static bool agreeOnBlock(const Call &call, int64_t giver, int64_t taker) {
  auto numberOf = [&](BufferRole role, int64_t rank) {
    return numBlocks(call, role) == 1 ? 0 : memberNumber(call, rank);
  };
  if (!exists(call, BufferRole::Input, giver) || !exists(call, BufferRole::Output, taker))
    return true;
  return call.inputCounts[giver][numberOf(BufferRole::Input, taker)] ==
         call.outputCounts[taker][numberOf(BufferRole::Output, giver)];
}

/// What is wrong with the tables of a call that has some; empty: nothing.
static std::string mistakeInTables(const Call &call) {
  for (auto [role, tables] :
       {std::pair{BufferRole::Input, &call.inputCounts}, {BufferRole::Output, &call.outputCounts}}) {
    if (int64_t(tables->size()) != numRanks(call))
      return "it needs a table of every rank";
    for (const std::vector<int64_t> &table : *tables)
      if (int64_t(table.size()) != numBlocks(call, role) ||
          llvm::any_of(table, [&](int64_t count) { return count < 0 || count > call.count; }))
        return "a table has no count from 0 to " + std::to_string(call.count) + " for every block";
  }
  for (int64_t giver = 0; giver < numRanks(call); ++giver)
    for (int64_t taker : groupOf(call, giver))
      if (!agreeOnBlock(call, giver, taker))
        return "ranks " + std::to_string(giver) + " and " + std::to_string(taker) + " disagree on a block";
  return "";
}

llvm::Error validate(const SimulatedCall &simulated, const ProgramShape &program) {
  auto fail = [](const llvm::Twine &why) { return llvm::createStringError("bad call: " + why); };
  if (simulated.collective != program.collective)
    return fail("it is for another collective than the program");
  if (simulated.meshSizes.size() != program.mesh.size() ||
      llvm::any_of(simulated.meshSizes, [](int64_t size) { return size < 1; }))
    return fail("it needs one positive size for each of the program's " + llvm::Twine(program.mesh.size()) +
                " mesh dimensions");
  const CollectiveKind kind = program.collective.getKind();
  if (simulated.reduction == Reduction::Average && (kind == CollectiveKind::Scan || kind == CollectiveKind::Exscan))
    return fail("ranks that combine different numbers of inputs have no average");
  if (simulated.count < 0 || simulated.numLanes < 1)
    return fail("negative count, or no lane");
  if (simulated.root < 0 || simulated.root >= groupSize(simulated))
    return fail("no member " + llvm::Twine(simulated.root) + " in a group of " + llvm::Twine(groupSize(simulated)));
  if (std::string mistake = hasTables(simulated) ? mistakeInTables(simulated) : ""; !mistake.empty())
    return fail(mistake);
  for (auto [role, buffers] :
       {std::pair{BufferRole::Input, &simulated.inputs}, {BufferRole::Output, &simulated.outputs}})
    if (int64_t(buffers->size()) != numRanks(simulated) ||
        llvm::any_of(llvm::enumerate(*buffers), [&, role = role](const auto &buffer) {
          return buffer.value().size() != bufferBytes(simulated, role, int64_t(buffer.index()));
        }))
      return fail(stringifyBufferRole(role) + "s do not have the size that the collective asks for");
  return llvm::Error::success();
}

} // namespace kolo::reference
