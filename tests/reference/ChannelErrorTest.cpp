// Deadlocks, unbalanced signals and bad operands are reported, naming ranks and locations.
#include "Support.h"

using namespace kolo::reference;

namespace {
std::string refusal(const std::string &collective, const std::string &body) {
  ParsedProgram parsed(program(collective, 1, body));
  return outcome(parsed, parsed.callOn({4}, 17), 7);
}
} // namespace

TEST(BadProgram, ADeadlockNamesWhoWaitsForWhom) {
  std::string text = refusal("all_gather", "kolo.chan.wait 0 from %prev\nkolo.chan.signal 0 to %next\n");
  expectContains(text, "deadlock");
  for (int rank = 0; rank < 4; ++rank)
    expectContains(text, "'kolo.chan.wait': rank " + std::to_string(rank) +
                             " lane 0: waits for signal number 1 of semaphore 0 from rank " +
                             std::to_string((rank + 3) % 4) + ", which sent 0");
  expectContains(text, "program.mlir:");
}

TEST(BadProgram, OneWaitTooManyIsADeadlock) {
  std::string wait = "kolo.chan.wait 0 from %prev\n";
  expectContains(refusal("all_gather", "kolo.chan.signal 0 to %next\n" + wait + wait),
                 "signal number 2 of semaphore 0");
}

TEST(BadProgram, SignalsThatNobodyWaitsForAreReported) {
  std::string text = refusal("all_gather", "kolo.chan.signal 0 to %next\n");
  expectContains(text, "unbalanced: rank 0 lane 0 signalled semaphore 0 of rank 1 1 times, which waited 0 times");
}

TEST(BadProgram, APeerThatDoesNotExistIsReported) {
  for (std::string op : {"kolo.chan.signal 0 to %n\n", "kolo.chan.wait 0 from %n\n",
                         "kolo.chan.put %out[%me] size [%c1] -> %out[%me] size [%c1] to %n : !kolo.buffer<1> -> "
                         "!kolo.buffer<1>\n",
                         "kolo.chan.get %out[%me] size [%c1] -> %out[%me] size [%c1] from %n : !kolo.buffer<1> -> "
                         "!kolo.buffer<1>\n"})
    expectContains(refusal("all_gather", wholeIn + blocksOut + op), "there is no rank 4 among 4");
}

TEST(BadProgram, APartThatDoesNotExistIsReported) {
  expectContains(refusal("all_gather", wholeIn + blocksOut +
                                           "kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %L of %L : "
                                           "!kolo.buffer<0> -> !kolo.buffer<1>\n"),
                 "part 1 of 1");
}

TEST(BadProgram, PuttingToAnOutputThatOnlyTheRootHasIsReported) {
  expectContains(refusal("gather", wholeIn + blocksOut +
                                       "kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %next : "
                                       "!kolo.buffer<0> -> !kolo.buffer<1>\n"),
                 "is not the root and has no output");
}

TEST(BadProgram, WritingAnInputIsReported) {
  expectContains(refusal("all_reduce", wholeIn + wholeOut +
                                           "kolo.chan.reduce %out[] size [] -> %in[] size [] from %next : "
                                           "!kolo.buffer<0> -> !kolo.buffer<0>\n"),
                 "writes an input");
}

TEST(BadProgram, ABufferThatDiffersBetweenRanksIsReported) {
  expectContains(refusal("all_reduce", "%s = kolo.buffer scratch \"s\" grid(%up) blocks 1 : !kolo.buffer<1>\n"),
                 "the buffer is not the same on every rank");
}

TEST(BadProgram, PairedChunksOfDifferentSizeAreReportedWhateverTheirParts) {
  expectContains(refusal("all_reduce", wholeIn + R"(
    %s = kolo.buffer scratch "s" grid(%n) blocks 0 : !kolo.buffer<1>
    kolo.chan.copy %in[] size [] -> %s[%c0] size [%c1] part %c0 of %n : !kolo.buffer<0> -> !kolo.buffer<1>
  )"),
                 "a chunk of 17 elements is paired with one of 4");
}

TEST(BadProgram, ArithmeticErrorsNameTheRank) {
  expectContains(refusal("all_gather", "%x = arith.divsi %n, %me : index\n"), "rank 0 lane 0: division by zero");
}

TEST(BadProgram, AnOpThatIsNotUnderstoodIsNamed) {
  expectContains(refusal("all_gather", "%t = arith.constant true\n"
                                       "scf.while : () -> () {\nscf.condition(%t)\n} do {\nscf.yield\n}\n"),
                 "'scf.while': rank");
}
