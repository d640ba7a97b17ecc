// Interleavings, and what counts as harm.
#include "Judge.h"

#include "ir/Members.h"
#include "ir/reference/Oracle.h"

#include "llvm/ADT/StringExtras.h"

#include <random>

namespace kolo::mutation {

using namespace reference;

static constexpr int64_t numKindsOfCalls = 60;
static constexpr int64_t maxInvocations = 3;

static std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

bool isRooted(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce || kind == CollectiveKind::Gather ||
         kind == CollectiveKind::Scatter;
}

static std::string describe(const Call &call) {
  auto sizes = llvm::map_range(call.meshSizes, [](int64_t size) { return std::to_string(size); });
  return "mesh " + llvm::join(sizes, "x") + ", count " + std::to_string(call.count) + ", " + nameOf(call.type).str() +
         " " + nameOf(call.reduction).str() + ", root " + std::to_string(call.root) + ", lanes " +
         std::to_string(call.numLanes);
}

std::string Harm::text() const {
  return call + ", interleaving " + std::to_string(interleaving) + ", KOLO_SEED=" + std::to_string(seed) + ": " + what;
}

/// The same for the same number. The first two counts are so large that every part of every chunk has elements.
static Call callNumber(CollectiveAttr collective, const Sizes &mesh, int64_t number) {
  Call call;
  call.collective = collective;
  call.meshSizes = mesh;
  int64_t numMembers = groupSize(call), counts[] = {8 * numMembers, 16 * numMembers + 3, 19, 5, 1};
  static constexpr Reduction reductions[] = {Reduction::Sum, Reduction::Average, Reduction::Max};
  call.count = counts[number % 5];
  std::mt19937_64 random{uint64_t(number)};
  call.type = random() % 2 ? ElementType::F32 : ElementType::I32;
  call.numLanes = random() % 6 == 0 ? 2 : 1; // two lanes take twice as long
  call.reduction = reductions[random() % 3];
  if (isPrefixReduction(collective.getKind()) && call.reduction == Reduction::Average)
    call.reduction = Reduction::Sum;
  call.root = isRooted(collective.getKind()) ? int64_t(random() % uint64_t(numMembers)) : 0;
  return call;
}

const Judge::Calls &Judge::callsNumber(int64_t number) {
  auto [entry, isNew] = known.try_emplace(number);
  Calls &calls = entry->second;
  if (!isNew)
    return calls;
  for (int64_t invocation = 0; invocation < maxInvocations; ++invocation) {
    calls.simulated.push_back(makeSimulatedCall(callNumber(collective, mesh, number)));
    tagInput(calls.simulated.back(), uint64_t(invocation));
    calls.expected.emplace_back();
    for (int64_t rank = 0; rank < numRanks(calls.simulated.back()); ++rank)
      calls.expected.back().push_back(expectedOutput(calls.simulated.back(), rank));
  }
  return calls;
}

std::string Judge::run(ProgramOp program, const Calls &calls, uint64_t interleavingSeed, int64_t numInvocations) {
  SimulatedCall simulated = calls.simulated.front();
  std::string failure;
  auto look = [&](int64_t rank, int64_t invocation, const Bytes &output, const char *when) {
    const std::optional<Bytes> &expected = calls.expected[size_t(invocation)][size_t(rank)];
    bool isRight = expected ? output == *expected : llvm::all_of(output, [](std::byte byte) { return byte == poison; });
    if (!isRight && failure.empty())
      failure = when + (" invocation " + std::to_string(invocation)) + ": " +
                textOf(checkOutput(calls.simulated[size_t(invocation)], rank, output));
  };
  ChannelOptions options;
  options.numInvocations = numInvocations;
  options.atEnd = [&](int64_t rank, int64_t invocation, const Bytes &output) {
    look(rank, invocation, output, "at the end of");
  };
  options.beforeNext = [&](int64_t rank, int64_t invocation, Bytes &input, Bytes &output) {
    look(rank, invocation - 1, output, "some time after");
    input = calls.simulated[size_t(invocation)].inputs[size_t(rank)];
    std::fill(output.begin(), output.end(), poison);
  };
  std::string error = textOf(interpretChannel(program, simulated, interleavingSeed, options));
  return failure.empty() ? error : failure;
}

std::optional<Harm> Judge::firstHarm(ProgramOp program, int64_t numInterleavings) {
  for (int64_t i = 0; i < numInterleavings; ++i) {
    const Calls &calls = callsNumber(i % numKindsOfCalls);
    int64_t numInvocations = i % 8 == 7 ? maxInvocations : 2;
    std::string what = run(program, calls, seed + uint64_t(i), numInvocations);
    if (!what.empty())
      return Harm{seed, i, describe(calls.simulated.front()), what};
  }
  return std::nullopt;
}

} // namespace kolo::mutation
