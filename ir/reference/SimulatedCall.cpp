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
  bool isRoot = memberNumber(call, rank) == call.root;
  switch (call.collective.getKind()) {
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
    return isRoot || role != BufferRole::Output;
  case CollectiveKind::Scatter:
    return isRoot || role != BufferRole::Input;
  default:
    return true;
  }
}

static size_t bufferBytes(const Call &call, BufferRole role) {
  return size_t(numBlocks(call, role) * call.count * elementBytes(call.type));
}

SimulatedCall makeSimulatedCall(const Call &call) {
  SimulatedCall simulated;
  static_cast<Call &>(simulated) = call;
  simulated.inputs.assign(numRanks(call), Bytes(bufferBytes(call, BufferRole::Input)));
  simulated.outputs.assign(numRanks(call), Bytes(bufferBytes(call, BufferRole::Output), poison));
  return simulated;
}

void poisonOutputs(SimulatedCall &simulated) {
  for (Bytes &output : simulated.outputs)
    std::fill(output.begin(), output.end(), poison);
}

llvm::Error validate(const SimulatedCall &simulated, const ProgramShape &program) {
  auto fail = [](const llvm::Twine &why) { return llvm::createStringError("bad call: " + why); };
  if (simulated.collective != program.collective)
    return fail("it is for another collective than the program");
  if (simulated.meshSizes.size() != program.mesh.size() ||
      llvm::any_of(simulated.meshSizes, [](int64_t size) { return size < 1; }))
    return fail("it needs one positive size for each of the program's " + llvm::Twine(program.mesh.size()) +
                " mesh dimensions");
  if (simulated.count < 0 || simulated.numLanes < 1)
    return fail("negative count, or no lane");
  if (simulated.root < 0 || simulated.root >= groupSize(simulated))
    return fail("no member " + llvm::Twine(simulated.root) + " in a group of " + llvm::Twine(groupSize(simulated)));
  for (auto [role, buffers] :
       {std::pair{BufferRole::Input, &simulated.inputs}, {BufferRole::Output, &simulated.outputs}})
    if (int64_t(buffers->size()) != numRanks(simulated) || llvm::any_of(*buffers, [&, role = role](const Bytes &bytes) {
          return bytes.size() != bufferBytes(simulated, role);
        }))
      return fail(stringifyBufferRole(role) + "s do not have the size that the collective asks for");
  return llvm::Error::success();
}

} // namespace kolo::reference
