// Cases, their data, and one rank's part in one of them.
#include "Cases.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace kolo::conformance {

using namespace reference;

static constexpr size_t guardBytes = 64;
static constexpr std::byte guard{0xa5};

std::string Case::describe() const {
  return nameOf(type).str() + " " + nameOf(reduction).str() + ", count " + std::to_string(count) + ", root " +
         std::to_string(root) + ", lanes " + std::to_string(lanes) + (isInPlace ? ", in place" : "") +
         (inWindow ? ", in windows" : "");
}

std::vector<size_t> CaseSpace::extents() const {
  size_t numRoots = isRooted ? 3 : 1;
  return {meshes.size(),
          launches.size(),
          ordinaryMemory.size(),
          lanes.size(),
          windows.size(),
          std::size(allElementTypes),
          countsOf(meshes.front()).size(),
          reductions.size(),
          numRoots,
          2};
}

std::map<Setup, std::vector<Case>> coverPairs(const CaseSpace &space, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::map<Setup, std::vector<Case>> cases;
  for (const test::Choices &numbers : test::pairwiseCover(space.extents(), CaseSpace::numOuter, random())) {
    std::array<size_t, 10> chosen;
    std::ranges::copy(numbers, chosen.begin());
    auto [mesh, launch, memory, lanes, window, type, count, reduction, root, inPlace] = chosen;
    Setup setup{space.meshes[mesh], space.launches[launch], space.ordinaryMemory[memory], space.lanes[lanes],
                space.windows[window]};
    int64_t groupSize = space.groupSizeOf(setup.mesh);
    int64_t roots[] = {0, groupSize - 1, int64_t(random() % uint64_t(groupSize))};
    cases[setup].push_back({allElementTypes[type], space.countsOf(setup.mesh)[count], space.reductions[reduction],
                            roots[root], setup.lanes, inPlace != 0, setup.inWindow, numbers});
  }
  return cases;
}

std::string missingPairs(const CaseSpace &space, const std::vector<test::Choices> &made) {
  static const char *names[] = {"mesh", "launch", "ordinary memory", "lanes", "window",
                                "type", "count",  "reduction",       "root",  "in place"};
  std::string missing;
  for (auto [a, i, b, j] : test::missingPairs(space.extents(), made))
    missing += std::string(names[a]) + " " + std::to_string(i) + " with " + names[b] + " " + std::to_string(j) + "; ";
  return missing;
}

PreparedCase prepare(const Case &choices, CollectiveAttr collective, const Sizes &mesh, uint64_t salt) {
  Call call{collective, mesh, choices.count, choices.type, choices.reduction, choices.root, choices.lanes};
  PreparedCase prepared{choices, makeSimulatedCall(call), {}};
  tagInput(prepared.simulated, salt);
  for (int64_t rank = 0; rank < numRanks(call); ++rank)
    prepared.expected.push_back(expectedOutput(prepared.simulated, rank));
  return prepared;
}

std::string Caller::allocate(llvm::ArrayRef<PreparedCase> cases) {
  size_t largest = 0, rank = size_t(communicator.rank());
  for (const PreparedCase &prepared : cases)
    largest = std::max({largest, prepared.simulated.inputs[rank].size(), prepared.simulated.outputs[rank].size()});
  size_t sizeBytes = largest + 4 * guardBytes;
  for (Memory *memory : {&first, &second}) {
    if (!cases.front().choices.inWindow) {
      memory->heap.resize(sizeBytes);
      continue;
    }
    auto window = communicator.allocate(sizeBytes);
    if (!window.isOk())
      return window.status().message();
    memory->window.emplace(std::move(window).value());
  }
  return "";
}

Caller::Region Caller::place(Memory &memory, size_t size, size_t elementBytes) {
  Region region{guardBytes + random() % (guardBytes / elementBytes) * elementBytes, size, {}};
  std::fill_n(memory.data(), memory.sizeBytes(), guard);
  std::fill_n(memory.data() + region.begin, size, poison);
  return region;
}

void Caller::remember(Memory &memory, Region &region) {
  region.before.assign(memory.data(), memory.data() + memory.sizeBytes());
}

std::string Caller::compare(Memory &memory, const Region &region, const char *name) {
  auto [wanted, found] = std::mismatch(region.before.begin(), region.before.end(), memory.data());
  if (wanted == region.before.end())
    return "";
  auto at = size_t(wanted - region.before.begin());
  std::string place = at < region.begin ? "in front of the " + std::string(name)
                      : at >= region.begin + region.size
                          ? "behind the " + std::string(name)
                          : "byte " + std::to_string(at - region.begin) + " of the " + name;
  return place + " is " + std::to_string(int(*found)) + ", not " + std::to_string(int(*wanted));
}

/// Where the input lies inside the output of an in-place call, in blocks of the smaller one, and the other way round.
struct Overlap {
  int64_t inputBlock = 0, outputBlock = 0;
};
static Overlap overlapOf(const SimulatedCall &simulated, int64_t rank) {
  int64_t member = memberNumber(simulated, rank);
  switch (simulated.collective.getKind()) {
  case CollectiveKind::AllGather:
    return {member, 0};
  case CollectiveKind::Gather:
    return {exists(simulated, BufferRole::Output, rank) ? member : 0, 0};
  case CollectiveKind::ReduceScatter:
    return {0, member};
  case CollectiveKind::Scatter:
    return {0, exists(simulated, BufferRole::Input, rank) ? member : 0};
  default:
    return {};
  }
}

std::string Caller::callAll(llvm::ArrayRef<PreparedCase> cases) {
  if (std::string wrong = allocate(cases); !wrong.empty())
    return wrong;
  for (const PreparedCase &each : cases)
    if (std::string wrong = call(each); !wrong.empty())
      return wrong + " (" + each.choices.describe() + ")";
  // Nobody leaves, and takes its memory along, while others are still in a call.
  runtime::Status status = communicator.barrier();
  return status.isOk() ? "" : status.message();
}

std::string Caller::call(const PreparedCase &prepared) {
  const SimulatedCall &simulated = prepared.simulated;
  auto rank = int64_t(communicator.rank());
  const Bytes &input = simulated.inputs[size_t(rank)], &output = simulated.outputs[size_t(rank)];
  const std::optional<Bytes> &expected = prepared.expected[size_t(rank)];
  auto elementBytes = size_t(reference::elementBytes(simulated.type));
  size_t blockBytes = size_t(simulated.count) * elementBytes;
  bool isInPlace = prepared.choices.isInPlace;

  Memory &inputMemory = first, &outputMemory = isInPlace ? first : second;
  Region region = place(first, isInPlace ? std::max(input.size(), output.size()) : input.size(), elementBytes);
  Region outputRegion = isInPlace ? region : place(second, output.size(), elementBytes);
  Overlap overlap = isInPlace ? overlapOf(simulated, rank) : Overlap{};
  std::byte *in = inputMemory.data() + region.begin + size_t(overlap.inputBlock) * blockBytes;
  std::byte *out = outputMemory.data() + outputRegion.begin + size_t(overlap.outputBlock) * blockBytes;
  bool isRead = exists(simulated, BufferRole::Input, rank), isWritten = expected.has_value();
  if (isRead)
    std::copy(input.begin(), input.end(), in);

  remember(inputMemory, region);
  if (!isInPlace)
    remember(outputMemory, outputRegion);
  Region &written = isInPlace ? region : outputRegion;
  if (isWritten)
    std::copy(expected->begin(), expected->end(), written.before.begin() + (out - outputMemory.data()));

  runtime::CallArguments arguments;
  arguments.mesh = mesh;
  arguments.count = simulated.count;
  arguments.type = runtime::DataType(int(simulated.type));
  arguments.reduction = runtime::Reduction(int(simulated.reduction));
  arguments.root = int(simulated.root);
  arguments.collective = selected;
  arguments.program = program;
  // What a rank has no use for may be null, or point to memory that nobody touches.
  arguments.input = isRead || flipCoin() ? in : nullptr;
  arguments.output = isWritten || flipCoin() ? out : nullptr;
  if (random() % 8 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  runtime::Status status = communicator.run(plugin, arguments);
  std::string wrong = status.isOk() ? "" : status.message();
  if (wrong.empty())
    wrong = compare(inputMemory, region, isInPlace ? "buffer" : "input");
  if (wrong.empty() && !isInPlace)
    wrong = compare(outputMemory, outputRegion, "output");
  return wrong;
}

} // namespace kolo::conformance
