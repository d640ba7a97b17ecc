// Calls with block tables: what the collectives give, and what the interpreters refuse.
#include "Support.h"

using namespace kolo;
using namespace kolo::reference;

namespace {

/// Of U8: rank r gives 2 r elements to each, or gets so many of each. Element e of its input is 10 r + e.
SimulatedCall tabledCall(CollectiveAttr collective, int64_t numRanks, bool isByGiver) {
  Call call;
  call.collective = collective;
  call.meshSizes = {numRanks};
  call.type = ElementType::U8;
  setTables(call, [&](int64_t giver, int64_t taker) { return 2 * (isByGiver ? giver : taker); });
  SimulatedCall result = makeSimulatedCall(call);
  for (size_t rank = 0; rank < result.inputs.size(); ++rank)
    for (size_t at = 0; at < result.inputs[rank].size(); ++at)
      result.inputs[rank][at] = std::byte(10 * rank + at);
  return result;
}

std::vector<int> outputOf(CollectiveKind kind, bool isByGiver, int64_t rank) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KoloDialect>();
  const SimulatedCall simulated = tabledCall(CollectiveAttr::get(&context, kind, {0}), 3, isByGiver);
  EXPECT_EQ(simulated.count, 4);
  std::vector<int> numbers;
  for (std::byte byte : expectedOutput(simulated, rank).value_or(Bytes{std::byte(255)}))
    numbers.push_back(int(byte));
  return numbers;
}

using Numbers = std::vector<int>;

/// What comes of an all-gather on 4 ranks, of which rank r gives 2 r elements.
std::string gathered(const std::string &body) {
  ParsedChoreography parsed(choreography("all_gather", wholeIn + blocksOut + body));
  return outcome(parsed, tabledCall((*parsed).getCollective(), 4, true));
}

std::string sendTo(const std::string &step, const std::string &block) {
  return "kolo.transfer %in -> %out to [" + step +
         "] {\n^bb0(%me: index, %peer: index):\nkolo.slices from [] size [] to [" + block +
         "] size [%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n";
}

const std::string ownToOut = "kolo.copy %in -> %out {\n^bb0(%me: index):\nkolo.slices from [] size [] to [%me] size "
                             "[%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n";

} // namespace

TEST(TabledCall, HasTheOutputsOfItsCollective) {
  EXPECT_EQ(outputOf(CollectiveKind::AllGather, true, 1), (Numbers{10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(outputOf(CollectiveKind::Gather, true, 0), (Numbers{10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(outputOf(CollectiveKind::Gather, true, 1), Numbers{255});
  EXPECT_EQ(outputOf(CollectiveKind::AllToAll, true, 1), (Numbers{12, 13, 24, 25, 26, 27}));
  EXPECT_EQ(outputOf(CollectiveKind::AllToAll, false, 2), (Numbers{2, 3, 4, 5, 12, 13, 14, 15, 22, 23, 24, 25}));
  EXPECT_EQ(outputOf(CollectiveKind::ReduceScatter, false, 0), Numbers{});
  EXPECT_EQ(outputOf(CollectiveKind::ReduceScatter, false, 2), (Numbers{36, 39, 42, 45}));
  EXPECT_EQ(outputOf(CollectiveKind::Scatter, false, 1), (Numbers{0, 1}));
}

TEST(TabledCall, IsRightWhereBlocksGoToTheirPlaces) { EXPECT_EQ(gathered(ownToOut + sendTo("others", "%me")), ""); }

TEST(TabledCall, GoesThroughMemoryOfTheProgramsOwn) {
  const std::string scratch = "%s = kolo.buffer scratch \"s\" grid(%n) blocks 1 : !kolo.buffer<1>\n"
                              "kolo.copy %in -> %s {\n^bb0(%me: index):\nkolo.slices from [] size [] to [%c0] size "
                              "[%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n";
  const std::string toOut = "kolo.transfer %s -> %out to [others] {\n^bb0(%me: index, %peer: index):\nkolo.slices from "
                            "[%c0] size [%c1] to [%me] size [%c1]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n";
  EXPECT_EQ(gathered(ownToOut + scratch + toOut), "");
  std::string fromAnother = toOut;
  fromAnother.replace(fromAnother.find("[%c0]"), 5, "[%c1]");
  expectContains(gathered(ownToOut + scratch + fromAnother), "no block lies whole in chunk 1 of memory of rank 0");
}

TEST(TabledCall, RefusesToMoveABlockWhereOneOfAnotherLengthBelongs) {
  expectContains(gathered(ownToOut + sendTo("next %c1", "%peer")),
                 "a chunk of a block of 0 elements is moved where rank 1 has a block of 2");
}

TEST(TabledCall, NeedsTablesThatAgree) {
  ParsedChoreography parsed(choreography("all_gather", wholeIn + blocksOut + ownToOut + sendTo("others", "%me")));
  SimulatedCall simulated = tabledCall((*parsed).getCollective(), 4, true);
  ++simulated.outputCounts[1][2];
  simulated.count = 7;
  EXPECT_EQ(outcome(parsed, simulated), "bad call: ranks 2 and 1 disagree on a block");
  simulated.count = 5;
  EXPECT_EQ(outcome(parsed, simulated), "bad call: a table has no count from 0 to 5 for every block");
  simulated.count = 7;
  simulated.outputCounts.pop_back();
  EXPECT_EQ(outcome(parsed, simulated), "bad call: it needs a table of every rank");
}

TEST(TabledCall, RefusesChannelProgramsThatNoTableServes) {
  const std::string scratch = "%s = kolo.buffer scratch \"s\" grid() blocks 0 : !kolo.buffer<0>\n";
  const std::string toScratch =
      "kolo.chan.put %in[%next] size [%c1] -> %s[] size [] to %next : !kolo.buffer<1> -> !kolo.buffer<0>\n";
  const std::string toOther = "kolo.chan.put %s[] size [] -> %s[] size [] to %next : !kolo.buffer<0> -> "
                              "!kolo.buffer<0>\n";
  ParsedProgram parsed(program("all_to_all", 1, blocksIn + blocksOut + scratch + toScratch + toOther));
  expectContains(outcome(parsed, tabledCall((*parsed).getCollective(), 4, true), 7),
                 "no table of the rank says how long the chunks are that it moves here");
}
