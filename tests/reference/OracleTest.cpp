// The oracle's definitions, and the properties that its data promises.
#include "Support.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

using namespace kolo;
using namespace kolo::reference;

namespace {
class Oracle : public testing::Test {
protected:
  Oracle() { context.loadDialect<KoloDialect>(); }
  SimulatedCall simulated(CollectiveKind kind, std::vector<int64_t> mesh, int64_t count, ElementType type,
                          Reduction reduction = Reduction::Sum) {
    Call call;
    std::vector<int64_t> groupDims = {int64_t(mesh.size()) - 1};
    call.collective = CollectiveAttr::get(&context, kind, groupDims);
    call.meshSizes = std::move(mesh);
    call.count = count;
    call.type = type;
    call.reduction = reduction;
    SimulatedCall result = makeSimulatedCall(call);
    tagInput(result);
    return result;
  }
  /// Bytes of a call with inputs 10*rank + element.
  static void number(SimulatedCall &simulated) {
    for (size_t rank = 0; rank < simulated.inputs.size(); ++rank)
      for (size_t at = 0; at < simulated.inputs[rank].size(); ++at)
        simulated.inputs[rank][at] = std::byte(10 * rank + at);
  }
  static std::vector<int> numbers(const std::optional<Bytes> &bytes) {
    std::vector<int> result;
    for (std::byte byte : bytes.value_or(Bytes{std::byte(255)}))
      result.push_back(int(byte));
    return result;
  }
  mlir::MLIRContext context;
};
using Numbers = std::vector<int>;
} // namespace

TEST_F(Oracle, KnowsEveryCollective) {
  const Numbers untouched = {255};
  const std::pair<CollectiveKind, Numbers> outputsOfRank1[] = {{CollectiveKind::AllGather, {0, 1, 10, 11, 20, 21}},
                                                               {CollectiveKind::ReduceScatter, {36, 39}},
                                                               {CollectiveKind::AllReduce, {30, 33}},
                                                               {CollectiveKind::Broadcast, {20, 21}},
                                                               {CollectiveKind::Reduce, untouched},
                                                               {CollectiveKind::Gather, untouched},
                                                               {CollectiveKind::Scatter, {22, 23}},
                                                               {CollectiveKind::AllToAll, {2, 3, 12, 13, 22, 23}}};
  for (const auto &[kind, expected] : outputsOfRank1) {
    SimulatedCall call = simulated(kind, {3}, 2, ElementType::U8);
    call.root = 2;
    number(call);
    EXPECT_EQ(numbers(expectedOutput(call, 1)), expected) << stringifyCollectiveKind(kind).str();
  }
}

TEST_F(Oracle, GivesTheRootItsOutput) {
  SimulatedCall call = simulated(CollectiveKind::Gather, {2}, 2, ElementType::U8);
  number(call);
  EXPECT_EQ(numbers(expectedOutput(call, 0)), (Numbers{0, 1, 10, 11}));
}

TEST_F(Oracle, CollectsInsideEveryGroup) {
  SimulatedCall call = simulated(CollectiveKind::AllGather, {2, 2}, 1, ElementType::U8);
  number(call);
  EXPECT_EQ(numbers(expectedOutput(call, 1)), (Numbers{0, 10}));
  EXPECT_EQ(numbers(expectedOutput(call, 3)), (Numbers{20, 30}));
}

TEST_F(Oracle, WantsPoisonWhereTheCollectiveWritesNothing) {
  SimulatedCall call = simulated(CollectiveKind::Reduce, {2}, 3, ElementType::F32);
  call.outputs[0] = *expectedOutput(call, 0);
  EXPECT_EQ(messageOf(checkOutputs(call)), "");
  call.outputs[1][5] = std::byte{0};
  EXPECT_EQ(messageOf(checkOutputs(call)), "output of rank 1: written, and must not be");
}

TEST_F(Oracle, PrefixesCombineTheRanksBeforeOneAndTheFirstOfAnExscanHasNone) {
  SimulatedCall scan = simulated(CollectiveKind::Scan, {3}, 9, ElementType::I32),
                exscan = simulated(CollectiveKind::Exscan, {3}, 9, ElementType::I32);
  Bytes sum = scan.inputs[0];
  EXPECT_EQ(expectedOutput(scan, 0), sum);
  EXPECT_EQ(expectedOutput(exscan, 0), std::nullopt);
  for (int64_t rank : {1, 2}) {
    EXPECT_EQ(expectedOutput(exscan, rank), sum) << rank;
    combine(ElementType::I32, Reduction::Sum, sum, scan.inputs[size_t(rank)]);
    EXPECT_EQ(expectedOutput(scan, rank), sum) << rank;
  }
}

TEST_F(Oracle, NamesTheFirstWrongElement) {
  SimulatedCall call = simulated(CollectiveKind::AllReduce, {2}, 3, ElementType::I32);
  call.outputs[0] = *expectedOutput(call, 0);
  std::string message = messageOf(checkOutputs(call));
  EXPECT_EQ(message.find("output of rank 1: element 0 is -606348325, expected "), 0u) << message;
}

TEST_F(Oracle, TagsAreNeverTheSameOnEveryRankAndNeverZeroButForSpecialElements) {
  for (ElementType type : allElementTypes)
    for (Reduction reduction : allReductions)
      for (int64_t numRanks : {2, 3, 5, 64}) {
        SimulatedCall call = simulated(CollectiveKind::AllReduce, {numRanks}, 9, type, reduction);
        int64_t bytes = elementBytes(type);
        for (int64_t element = 0; element < call.count; ++element) {
          std::set<std::string> values;
          for (const Bytes &input : call.inputs)
            values.insert(show(type, &input[element * bytes]));
          bool isZero = values.count("0") + values.count("0.000000") + values.count("-0.000000") > 0;
          EXPECT_TRUE(values.size() > 1 || isZero) << nameOf(type).str() << ' ' << nameOf(reduction).str();
          EXPECT_FALSE(isZero && type > ElementType::F64) << "of integers";
        }
      }
}

/// What a comparison or an order of operands could show: zeros of both signs alone, and NaNs and infinities of both
/// signs, at the same element as numbers.
TEST_F(Oracle, SpecialElementsMeetEachOtherInEveryFloatingPointType) {
  for (ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32, ElementType::F64}) {
    SimulatedCall call = simulated(CollectiveKind::AllReduce, {3}, 3000, type);
    std::set<std::set<std::string>> met;
    for (int64_t at = 0; at < int64_t(call.inputs[0].size()); at += elementBytes(type)) {
      std::set<std::string> kinds;
      for (const Bytes &input : call.inputs) {
        std::string value = show(type, &input[size_t(at)]);
        kinds.insert(std::isdigit(value.back()) && value != "-0.000000" && value != "0.000000" ? "number" : value);
      }
      met.insert(kinds);
    }
    using Kinds = std::set<std::string>;
    for (const Kinds &wanted : {Kinds{"0.000000", "-0.000000"}, {"inf", "-inf", "number"}, {"nan", "-nan", "number"}})
      EXPECT_TRUE(met.contains(wanted)) << nameOf(type).str() << ' ' << *wanted.begin();
  }
}

TEST_F(Oracle, ReductionsOfTagsAreTheSameInAnyOrder) {
  std::mt19937 random(1);
  for (ElementType type : allElementTypes)
    for (Reduction reduction : allReductions)
      for (int64_t numRanks : {2, 7, 64}) {
        SimulatedCall call = simulated(CollectiveKind::AllReduce, {numRanks}, 99, type, reduction);
        std::optional<Bytes> expected = expectedOutput(call, 0);
        for (int trial = 0; trial < 5; ++trial) {
          std::shuffle(call.inputs.begin(), call.inputs.end(), random);
          EXPECT_EQ(expectedOutput(call, 0), expected) << nameOf(type).str() << ' ' << nameOf(reduction).str();
        }
      }
}
