// Sums in one order: the same inputs give the same bits for all sizes, lanes, protocols, depths and kinds of memory.
// The inputs are such that other orders give other bits.
#include "Shipped.h"

#include "ir/reference/Oracle.h"

#include <cstring>
#include <functional>

using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::Launch;

namespace {

using Numbers = std::vector<float>; // one element of every rank

struct OrderRow {
  std::string algorithm;
  Sizes mesh;
  std::function<float(const Numbers &)> sum; // in the order that the algorithm has
  std::vector<kolo::Schedule> schedules;
};

float fromTheLeft(const Numbers &numbers) {
  float sum = numbers[0];
  for (size_t rank = 1; rank < numbers.size(); ++rank)
    sum += numbers[rank];
  return sum;
}

/// Ranks whose numbers differ in the highest bit first, then the next.
float byHalves(Numbers numbers) {
  for (size_t half = numbers.size() / 2; half > 0; half /= 2) {
    for (size_t rank = 0; rank < half; ++rank)
      numbers[rank] += numbers[rank + half];
    numbers.resize(half);
  }
  return numbers[0];
}

/// Neighbours first.
float byPairs(Numbers numbers) {
  for (; numbers.size() > 1; numbers.resize(numbers.size() / 2))
    for (size_t pair = 0; 2 * pair < numbers.size(); ++pair)
      numbers[pair] = numbers[2 * pair] + numbers[2 * pair + 1];
  return numbers[0];
}

/// Numbers of which no two orders of three or more give the same sum, mostly.
float numberAt(size_t rank, size_t element) {
  std::mt19937_64 random(1000003 * element + rank);
  return std::ldexp(float(random() % (1 << 24)), int(random() % 20)) * float(random() % 2 ? 1 : -1);
}

float numberOf(const Bytes &bytes, size_t element) {
  float value;
  std::memcpy(&value, &bytes[element * sizeof value], sizeof value);
  return value;
}

PreparedCase prepareRounded(const Case &choices, kolo::CollectiveAttr collective, const OrderRow &row) {
  PreparedCase prepared = prepare(choices, collective, row.mesh, 1);
  std::vector<Bytes> &inputs = prepared.simulated.inputs;
  for (size_t rank = 0; rank < inputs.size(); ++rank)
    for (size_t i = 0; i * sizeof(float) < inputs[rank].size(); ++i) {
      float value = numberAt(rank, i);
      std::memcpy(&inputs[rank][i * sizeof value], &value, sizeof value);
    }
  for (std::optional<Bytes> &expected : prepared.expected)
    for (size_t i = 0; expected && i * sizeof(float) < expected->size(); ++i) {
      Numbers numbers;
      for (const Bytes &input : inputs)
        numbers.push_back(numberOf(input, i));
      float sum = row.sum(numbers);
      std::memcpy(&(*expected)[i * sizeof sum], &sum, sizeof sum);
    }
  return prepared;
}

/// Every size, with one lane and several, in windows and in other memory, in place and not.
std::string callAll(const CompiledAlgorithm &algorithm, const OrderRow &row, int lanes, bool inWindow,
                    const std::vector<PreparedCase> &cases) {
  kolo::runtime::Mesh mesh = namedMesh(definitionOf(row.algorithm), row.mesh);
  std::vector<PreparedCase> prepared = cases;
  for (PreparedCase &each : prepared) {
    each.choices.lanes = lanes;
    each.choices.inWindow = inWindow;
  }
  auto body = [&](kolo::runtime::Communicator &communicator) {
    return Caller(communicator, algorithm.plugin(), mesh, 1).callAll(prepared);
  };
  return kolo::test::runRanks(Launch::Threads, mesh.numRanks(), {60000, lanes}, body);
}

class OneOrder : public testing::TestWithParam<OrderRow> {};

const std::vector<kolo::Schedule> withPackets = {{}, {.protocol = kolo::Protocol::LL}, {.pipelineDepth = 4}},
                                  all = {{},
                                         {.protocol = kolo::Protocol::LL},
                                         {.protocol = kolo::Protocol::LL128},
                                         {.protocol = kolo::Protocol::Published},
                                         {.pipelineDepth = 3},
                                         {.synchronisation = kolo::Synchronisation::Handshake}};

} // namespace

TEST_P(OneOrder, GivesTheSameBitsForAllSizesLanesProtocolsDepthsAndMemory) {
  const OrderRow &row = GetParam();
  for (kolo::Schedule schedule : row.schedules) {
    schedule.order = kolo::Summation::OneOrder;
    for (bool optimize : {true, false}) {
      CompiledAlgorithm algorithm(row.algorithm, optimize, schedule);
      std::vector<PreparedCase> cases;
      for (int64_t count : {1, 3, 17, 1000, 5003})
        for (bool isInPlace : {false, true})
          cases.push_back(prepareRounded(
              {.type = ElementType::F32, .count = count, .reduction = Reduction::Sum, .isInPlace = isInPlace},
              algorithm.collective(), row));
      for (int lanes : {1, 3})
        for (bool inWindow : {false, true})
          EXPECT_EQ(callAll(algorithm, row, lanes, inWindow, cases), "")
              << row.algorithm << ", lanes " << lanes << ", window " << inWindow;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OneOrder,
                         testing::Values(OrderRow{"orderedAllReduce", {3}, fromTheLeft, all},
                                         OrderRow{"rabenseifnerAllReduce", {4}, byHalves, withPackets},
                                         OrderRow{"recursiveDoublingAllReduce", {4}, byPairs, withPackets}),
                         [](const auto &info) { return info.param.algorithm; });

/// The data of these tests would show another order: a ring's depends on the chunk, and so on the count.
TEST(OneOrder, IsNotThatOfARing) {
  OrderRow row{"ringAllReduce", {4}, fromTheLeft, {}};
  CompiledAlgorithm algorithm("ringAllReduce", true);
  std::vector<PreparedCase> cases = {prepareRounded(
      {.type = ElementType::F32, .count = 1000, .reduction = Reduction::Sum}, algorithm.collective(), row)};
  EXPECT_NE(callAll(algorithm, row, 1, false, cases), "");
}
