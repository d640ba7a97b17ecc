// Bad programs and bad calls end in a message, never in a crash or a silent result.
#include "Support.h"

using namespace kolo::reference;

namespace {
/// Expects that an all-gather with this body, on 4 ranks and count 17, is refused with this message.
void expectRefused(const std::string &body, const std::string &message, const std::string &collective = "all_gather",
                   const std::string &buffers = wholeIn + blocksOut) {
  ParsedChoreography parsed(choreography(collective, buffers + body));
  std::string text = outcome(parsed, parsed.callOn({4}, 17));
  EXPECT_NE(text.find(message), std::string::npos) << text;
  EXPECT_NE(text.find("program.mlir:"), std::string::npos) << text;
}

std::string copyInToOut(const std::string &slices, const std::string &before = "") {
  return "kolo.copy %in -> %out {\n^bb0(%me: index):\n" + before + "\nkolo.slices " + slices +
         "\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n";
}
} // namespace

TEST(BadChoreography, DivisionByZeroIsReported) {
  expectRefused("%x = arith.divsi %n, %c0 : index\n", "'arith.divsi': division by zero");
  expectRefused("%x = arith.remsi %n, %c0 : index\n", "division by zero");
  expectRefused("%m = arith.constant -9223372036854775808 : index\n%y = arith.constant -1 : index\n"
                "%x = arith.floordivsi %m, %y : index\n",
                "division overflows");
}

TEST(BadChoreography, AShiftByTheWidthIsReported) {
  expectRefused("%w = arith.constant 64 : index\n%x = arith.shli %n, %w : index\n", "shift by the width");
}

TEST(BadChoreography, ALookupOutsideItsTableIsReported) {
  expectRefused("%x = kolo.lookup %n in [1, 2]\n", "index 4 in a table of 2 entries");
}

TEST(BadChoreography, ASliceLargerThanTheGridIsReportedWithItsSender) {
  expectRefused(copyInToOut("from [] size [] to [%me] size [%c1]") +
                    "kolo.copy %out -> %out {\n^bb0(%me: index):\n%z = arith.addi %n, %me : index\n"
                    "kolo.slices from [%c0] size [%z] to [%c0] size [%z]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n",
                "a slice of 5 chunks in a grid dimension of 4, at sender 1");
}

TEST(BadChoreography, ANegativeSliceIsReported) {
  expectRefused("kolo.copy %out -> %out {\n^bb0(%me: index):\n%z = arith.subi %c0, %c1 : index\n"
                "kolo.slices from [%c0] size [%z] to [%c0] size [%z]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n",
                "a slice of -1 chunks");
}

TEST(BadChoreography, PairedSlicesOfDifferentShapeAreReported) {
  expectRefused("kolo.copy %out -> %out {\n^bb0(%me: index):\n"
                "kolo.slices from [%c0] size [%c2] to [%c0] size [%n]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n",
                "different shapes");
}

TEST(BadChoreography, PairedChunksOfDifferentSizeAreReported) {
  expectRefused("%half = kolo.buffer scratch \"half\" grid(%c2) blocks 0 : !kolo.buffer<1>\n"
                "kolo.copy %in -> %half {\n^bb0(%me: index):\n"
                "kolo.slices from [] size [] to [%c0] size [%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n",
                "a chunk of 17 elements is paired with one of 8");
}

TEST(BadChoreography, ASlotForOtherChunksIsReported) {
  expectRefused("%slots = kolo.buffer scratch \"slots\" grid(%c2) blocks 1 cut %c2 : !kolo.buffer<1>\n"
                "kolo.copy %in -> %slots {\n^bb0(%me: index):\n"
                "kolo.slices from [] size [] to [%c0] size [%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n",
                "a chunk of a block cut into 1 is paired with a slot for chunks of blocks cut into 2");
}

TEST(BadChoreography, MoreSlotsThanThereAreAreReported) {
  expectRefused("%slots = kolo.buffer scratch \"slots\" grid(%c2) blocks 1 cut %c1 : !kolo.buffer<1>\n"
                "kolo.copy %slots -> %out {\n^bb0(%me: index):\n"
                "kolo.slices from [%c0] size [%n] to [%c0] size [%n]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n",
                "a slice of 4 chunks in a grid dimension of 2");
}

TEST(BadChoreography, TwoSendersThatOverwriteTheSameElementsAreReported) {
  expectRefused("kolo.transfer %in -> %out to [others] {\n^bb0(%me: index, %peer: index):\n"
                "kolo.slices from [] size [] to [%c0] size [%c1]\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n",
                "ranks 1 and 2 write the same elements of rank 0");
}

TEST(BadChoreography, WritingAnInputIsReported) {
  expectRefused("kolo.transfer %in -> %in to [next %c1] {\n^bb0(%me: index, %peer: index):\n"
                "kolo.slices from [] size [] to [] size []\n} : !kolo.buffer<0> -> !kolo.buffer<0>\n",
                "writes an input, of rank 1");
}

TEST(BadChoreography, WritingAnOutputThatOnlyTheRootHasIsReported) {
  expectRefused(copyInToOut("from [] size [] to [%me] size [%c1]"), "rank 1 is not the root and has no output",
                "gather");
}

TEST(BadChoreography, AReceiverOutsideTheMeshMattersOnlyIfItTakesPart) {
  std::string end = "\n} : !kolo.buffer<0> -> !kolo.buffer<1>\n";
  for (const char *step : {"flip", "at"}) {
    std::string start =
        std::string("kolo.transfer %in -> %out to [") + step + " %n] {\n^bb0(%me: index, %peer: index):\n";
    expectRefused(start + "kolo.slices from [] size [] to [%me] size [%c1]" + end,
                  "sends to coordinate 4 in a mesh dimension of 4, at sender 0");
    ParsedChoreography guarded(
        choreography("all_gather", wholeIn + blocksOut + start + "%is = arith.cmpi slt, %peer, %n : index\n" +
                                       "kolo.slices from [] size [] to [%me] size [%c1] when %is" + end));
    SimulatedCall simulated = guarded.callOn({4}, 17);
    EXPECT_EQ(messageOf(interpretChoreography(*guarded, simulated)), "");
  }
}

TEST(BadChoreography, AnOpThatIsNotUnderstoodIsNamed) {
  expectRefused("%t = arith.constant true\nscf.while : () -> () {\nscf.condition(%t)\n} do {\nscf.yield\n}\n",
                "'scf.while': cannot be interpreted in a choreography");
}

TEST(BadChoreography, ALoopStepThatIsNotPositiveIsReported) {
  ParsedChoreography parsed(choreography("all_gather", wholeIn + blocksOut + "scf.for %i = %c0 to %n step %c1 {\n}\n"));
  (*parsed).walk([](mlir::scf::ForOp loop) { loop.getStepMutable().assign(loop.getLowerBound()); }); // unverified
  SimulatedCall simulated = parsed.callOn({4}, 17);
  EXPECT_NE(messageOf(interpretChoreography(*parsed, simulated)).find("a loop's step must be positive"),
            std::string::npos);
}

TEST(BadChoreography, ALoopThatGoesOnAndOnIsReported) {
  expectRefused("%many = arith.constant 1099511627776 : index\nscf.for %i = %c0 to %many step %c1 {\n" +
                    copyInToOut("from [] size [] to [%me] size [%c1]") + "}\n",
                "the program seems to loop for ever");
}

TEST(BadChoreography, AnOutputThatIsNotTheCallsIsReported) {
  expectRefused("", "buffer 'out' has 1 blocks, the call's has 4", "all_gather", wholeIn + chunksOut);
}

TEST(BadCall, EveryMismatchWithTheProgramIsReported) {
  ParsedChoreography parsed(choreography("reduce", wholeIn + wholeOut));
  auto refusal = [&](auto change) {
    SimulatedCall simulated = parsed.callOn({4}, 17);
    change(simulated);
    return messageOf(interpretChoreography(*parsed, simulated));
  };
  EXPECT_EQ(refusal([](SimulatedCall &) {}), "");
  EXPECT_NE(refusal([](SimulatedCall &simulated) { simulated.meshSizes = {2, 2}; }).find("mesh dimensions"),
            std::string::npos);
  EXPECT_NE(refusal([](SimulatedCall &simulated) { simulated.root = 4; }).find("no member 4"), std::string::npos);
  EXPECT_NE(
      refusal([](SimulatedCall &simulated) { simulated.inputs[1].pop_back(); }).find("inputs do not have the size"),
      std::string::npos);
  EXPECT_NE(refusal([](SimulatedCall &simulated) { simulated.count = -1; }).find("negative count"), std::string::npos);
}
