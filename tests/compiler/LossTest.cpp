// What kolo run says of errors: an element beyond its bound is found, wherever it is.
#include "tools/run/Loss.h"

#include "ir/reference/Oracle.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kolo;
using namespace kolo::reference;
using tools::loadElement, tools::storeElement;

namespace {

/// A sum over two ranks, of 1 and 2 in all elements but the last, where they are 100 times as large.
SimulatedCall exactSum(mlir::MLIRContext &context, ElementType type, int64_t count) {
  Call shape;
  shape.collective = CollectiveAttr::get(&context, CollectiveKind::AllReduce, {0});
  shape.meshSizes = {2};
  shape.count = count;
  shape.type = type;
  SimulatedCall call = makeSimulatedCall(shape);
  for (int64_t rank : {0, 1})
    for (int64_t i = 0; i < count; ++i)
      storeElement(type, float(rank + 1) * (i == count - 1 ? 100.0f : 1.0f),
                   &call.inputs[size_t(rank)][size_t(i * elementBytes(type))]);
  for (int64_t rank : {0, 1})
    call.outputs[size_t(rank)] = *expectedOutput(call, rank);
  return call;
}

void change(SimulatedCall &call, int64_t element, float by) {
  std::byte *at = &call.outputs[1][size_t(element * elementBytes(call.type))];
  storeElement(call.type, loadElement(call.type, at) + by, at);
}

/// Encoded twice: 3 u A, with A = 2 but in the last block.
const runtime::Loss proved{{2}, 2, {{"i8 per 32 scale f32 fit", 3}}};

class Losses : public testing::Test {
protected:
  void SetUp() override { context.loadDialect<KoloDialect>(); }
  mlir::MLIRContext context;
};

} // namespace

TEST_F(Losses, NothingIsLostOfExactOutputs) {
  tools::Loss loss = tools::measureLoss(exactSum(context, ElementType::F32, 100), &proved);
  EXPECT_EQ(loss.worstError, 0);
  EXPECT_TRUE(std::isinf(loss.signalToNoise));
  EXPECT_EQ(loss.beyond, "");
  EXPECT_NEAR(loss.bound.value(), 3.0 / 254, 1e-6);
}

TEST_F(Losses, EveryBlockHasItsOwnLargestElement) {
  for (auto [element, error, isBeyond] : {std::tuple(31, 0.0236f, false),
                                          {31, 0.0239f, true},
                                          {95, 0.0239f, true},
                                          {96, 0.0239f, false},
                                          {99, 2.5f, true}}) {
    SimulatedCall call = exactSum(context, ElementType::F32, 100);
    change(call, element, -error);
    tools::Loss loss = tools::measureLoss(call, &proved);
    EXPECT_EQ(loss.beyond.empty(), !isBeyond) << element << " by " << error;
    EXPECT_NE(isBeyond, loss.beyond.find("rank 1: element " + std::to_string(element) + " ") == std::string::npos);
    EXPECT_NEAR(loss.worstError, error / (element < 96 ? 2 : 200), 1e-5);
  }
}

TEST_F(Losses, HalvesAddTheirOwnRounding) {
  SimulatedCall call = exactSum(context, ElementType::F16, 64);
  runtime::Loss halves{{2}, 1, {{"none", 2}, {"bf16", 1}}};
  change(call, 0, 0x1p-7f);
  EXPECT_EQ(tools::measureLoss(call, &halves).beyond, "");
  change(call, 0, 0x1p-6f);
  EXPECT_NE(tools::measureLoss(call, &halves).beyond, "");
}

TEST_F(Losses, WithoutAProofThereIsNoBound) {
  SimulatedCall call = exactSum(context, ElementType::F32, 64);
  change(call, 0, 1000);
  runtime::Loss nothing;
  EXPECT_EQ(tools::measureLoss(call, &nothing).bound, std::nullopt);
  EXPECT_EQ(tools::measureLoss(call, &nothing).beyond, "");
}

TEST_F(Losses, BeyondTheLargestInputAnElementMayBeNoNumberButNoOtherNumber) {
  auto equalSum = [&](float number) {
    SimulatedCall call = exactSum(context, ElementType::F32, 64);
    for (size_t rank : {0, 1})
      for (size_t at = 0; at < call.inputs[rank].size(); at += sizeof number) {
        storeElement(ElementType::F32, number, &call.inputs[rank][at]);
        storeElement(ElementType::F32, 2 * number, &call.outputs[rank][at]);
      }
    return call;
  };
  for (const char *codec : {"e4m3", "i4 per 32 scale f16 signed"}) {
    runtime::Loss loss{{2}, 1, {{codec, 2}}};
    SimulatedCall large = equalSum(1e6f), small = equalSum(1);
    EXPECT_EQ(tools::measureLoss(large, &loss).beyond, "") << codec;
    change(large, 5, NAN);
    EXPECT_EQ(tools::measureLoss(large, &loss).beyond, "") << codec;
    change(large, 6, 524032 - 2e6f); // clamped
    EXPECT_NE(tools::measureLoss(large, &loss).beyond, "") << codec;
    change(small, 5, NAN);
    EXPECT_NE(tools::measureLoss(small, &loss).beyond, "") << codec;
  }
}

TEST_F(Losses, FiguresLeaveOutWhatTheyAreToldTo) {
  SimulatedCall call = exactSum(context, ElementType::F32, 100);
  change(call, 31, 0.5f);
  auto isLeftOut = [](int64_t place) { return place == 31; };
  EXPECT_EQ(tools::measureLoss(call, &proved, isLeftOut).worstError, 0);
  EXPECT_NE(tools::measureLoss(call, &proved, isLeftOut).beyond, "");
}
