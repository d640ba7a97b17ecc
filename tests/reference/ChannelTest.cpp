// Correct channel programs are right in every interleaving; each kind of missing synchronisation is caught by some
// seed.
#include "Support.h"

using namespace kolo;
using namespace kolo::reference;

namespace {
constexpr uint64_t numSeeds = 100;

/// What is wrong in the first bad interleaving of several invocations back to back, empty if none is bad. Between two
/// of them the application overwrites its input with new data and its output with poison.
std::string firstFailure(ParsedProgram &parsed, const SimulatedCall &start, int64_t numInvocations) {
  std::vector<SimulatedCall> calls;
  for (int64_t invocation = 0; invocation < numInvocations; ++invocation) {
    calls.push_back(start);
    tagInput(calls.back(), uint64_t(invocation));
  }
  for (uint64_t seed = 0; seed < numSeeds; ++seed) {
    SimulatedCall simulated = calls.front();
    std::string failure;
    ChannelOptions options;
    options.numInvocations = numInvocations;
    options.atEnd = [&](int64_t rank, int64_t invocation, const Bytes &output) {
      std::string wrong = messageOf(checkOutput(calls[invocation], rank, output));
      if (failure.empty() && !wrong.empty())
        failure = "seed " + std::to_string(seed) + ", invocation " + std::to_string(invocation) + ": " + wrong;
    };
    options.beforeNext = [&](int64_t rank, int64_t invocation, Bytes &input, Bytes &output) {
      input = calls[invocation].inputs[rank];
      std::fill(output.begin(), output.end(), poison);
    };
    std::string error = messageOf(interpretChannel(*parsed, simulated, seed, options));
    if (!failure.empty() || !error.empty())
      return failure + error;
  }
  return "";
}

std::string channelRingAllGather(const std::string &credit, const std::string &step, const std::string &end) {
  return program("all_gather", 2,
                 wholeIn + blocksOut + credit +
                     "kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %l of %L : !kolo.buffer<0> -> "
                     "!kolo.buffer<1>\n"
                     "scf.for %s = %c0 to %n1 step %c1 {\n%i = arith.subi %me, %s : index\n" +
                     step + "}\n" + end);
}
const std::string entryCredit = "kolo.chan.signal 1 to %prev\nkolo.chan.wait 1 from %next\n";
const std::string putStep = "kolo.chan.put %out[%i] size [%c1] -> %out[%i] size [%c1] to %next part %l of %L : "
                            "!kolo.buffer<1> -> !kolo.buffer<1>\n";
const std::string signalStep = "kolo.chan.signal 0 to %next\n", waitStep = "kolo.chan.wait 0 from %prev\n";
const std::string flush = "kolo.chan.flush\n";

/// Every step lands in one scratch slot, from which the receiver copies.
std::string stagedAllGather(const std::string &beforePut, const std::string &afterCopy) {
  return program("all_gather", 2, wholeIn + blocksOut + R"(
    %slot = kolo.buffer scratch "slot" grid() blocks 0 : !kolo.buffer<0>
    kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 1 to %prev
    scf.for %s = %c0 to %n1 step %c1 {
      %i = arith.subi %me, %s : index
      %j = arith.subi %i, %c1 : index
      )" + beforePut + R"(
      kolo.chan.put %out[%i] size [%c1] -> %slot[] size [] to %next : !kolo.buffer<1> -> !kolo.buffer<0>
      kolo.chan.signal 0 to %next
      kolo.chan.wait 0 from %prev
      kolo.chan.copy %slot[] size [] -> %out[%j] size [%c1] : !kolo.buffer<0> -> !kolo.buffer<1>
      )" + afterCopy + "}\nkolo.chan.flush\n");
}

/// Every block is copied to one staging buffer and put from there.
std::string stagedAllToAll(const std::string &flushOrNot) {
  return program("all_to_all", 1, blocksIn + blocksOut + R"(
    %stage = kolo.buffer scratch "stage" grid() blocks 0 : !kolo.buffer<0>
    scf.for %d = %c0 to %n step %c1 {
      %sum = arith.addi %me, %d : index
      %peer = arith.remsi %sum, %n : index
      kolo.chan.copy %in[%peer] size [%c1] -> %stage[] size [] : !kolo.buffer<1> -> !kolo.buffer<0>
      kolo.chan.put %stage[] size [] -> %out[%me] size [%c1] to %peer : !kolo.buffer<0> -> !kolo.buffer<1>
      kolo.chan.signal 0 to %peer
      )" + flushOrNot + R"(
    }
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %peer
    })");
}

/// Everybody reads everybody's input and adds it up, in chunks; nobody leaves before all have read.
const std::string pullAllReduce = program("all_reduce", 2, R"(
    %in = kolo.buffer input "in" grid(%n) blocks 0 : !kolo.buffer<1>
    %out = kolo.buffer output "out" grid(%n) blocks 0 : !kolo.buffer<1>
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.signal 0 to %peer
    }
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %peer
      %isFirst = arith.cmpi eq, %peer, %c0 : index
      scf.if %isFirst {
        kolo.chan.get %in[%c0] size [%n] -> %out[%c0] size [%n] from %peer part %l of %L : !kolo.buffer<1> -> !kolo.buffer<1>
      } else {
        kolo.chan.reduce %in[%c0] size [%n] -> %out[%c0] size [%n] from %peer part %l of %L : !kolo.buffer<1> -> !kolo.buffer<1>
      }
    }
    kolo.chan.divide %out[%c0] size [%n] part %l of %L : !kolo.buffer<1>
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.signal 1 to %peer
    }
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.wait 1 from %peer
    })");
/// Every block goes to the next rank chunk by chunk, through one slot that holds them all in turn.
const std::string allGatherThroughASlot = program("all_gather", 2, R"(
    %c3 = arith.constant 3 : index
    %in = kolo.buffer input "in" grid(%c3) blocks 0 : !kolo.buffer<1>
    %out = kolo.buffer output "out" grid(%n, %c3) blocks 1 : !kolo.buffer<2>
    %slot = kolo.buffer scratch "slot" grid() blocks 0 cut %c3 : !kolo.buffer<0>
    kolo.chan.copy %in[%c0] size [%c3] -> %out[%me, %c0] size [%c1, %c3] part %l of %L
      : !kolo.buffer<1> -> !kolo.buffer<2>
    scf.for %i = %c0 to %c3 step %c1 {
      kolo.chan.signal 1 to %prev
      kolo.chan.wait 1 from %next
      kolo.chan.put %in[%i] size [%c1] -> %slot[] size [] to %next part %l of %L : !kolo.buffer<1> -> !kolo.buffer<0>
      kolo.chan.signal 0 to %next
      kolo.chan.wait 0 from %prev
      kolo.chan.copy %slot[] size [] -> %out[%prev, %i] size [%c1, %c1] part %l of %L
        : !kolo.buffer<0> -> !kolo.buffer<2>
    }
    kolo.chan.flush)");
} // namespace

TEST(Channel, LanesDoNotMeetInASlotThatChunksOfUnequalLengthPassThrough) {
  ParsedProgram shift(allGatherThroughASlot);
  for (int64_t count : {0, 1, 45, 100, 200, 317}) // 200 of f32 are cut into 64, 68 and 68
    for (ElementType type : {ElementType::I8, ElementType::F32, ElementType::F64})
      for (int64_t numLanes : {1, 2, 3}) {
        SimulatedCall simulated = shift.callOn({2}, count, type);
        simulated.numLanes = numLanes;
        EXPECT_EQ(firstFailure(shift, simulated, 2), "") << numLanes << " lanes, count " << count;
      }
}

TEST(Channel, ACorrectRingIsRightInEveryInterleaving) {
  ParsedProgram ring(channelRingAllGather("", putStep + signalStep + waitStep, ""));
  for (int64_t numRanks : {1, 2, 5})
    for (int64_t numLanes : {1, 3})
      for (int64_t count : {0, 1, 17}) {
        SimulatedCall simulated = ring.callOn({numRanks}, count, ElementType::BF16);
        simulated.numLanes = numLanes;
        EXPECT_EQ(firstFailure(ring, simulated, 1), "")
            << numRanks << " ranks, " << numLanes << " lanes, count " << count;
      }
}

TEST(Channel, EveryTypeMovesThroughTheRing) {
  ParsedProgram ring(channelRingAllGather("", putStep + signalStep + waitStep, ""));
  for (ElementType type : allElementTypes)
    EXPECT_EQ(outcome(ring, ring.callOn({4}, 17, type), 1), "");
}

TEST(Channel, AMissingWaitIsCaught) {
  ParsedProgram ring(
      channelRingAllGather("", putStep + signalStep, "scf.for %s = %c0 to %n1 step %c1 {\n" + waitStep + "}\n"));
  EXPECT_NE(firstFailure(ring, ring.callOn({4}, 17), 1), "");
}

TEST(Channel, APutAfterItsSignalIsCaught) {
  ParsedProgram ring(channelRingAllGather("", signalStep + putStep + waitStep, ""));
  EXPECT_NE(firstFailure(ring, ring.callOn({4}, 17), 1), "");
}

TEST(Channel, ARingWithAnEntryCreditServesInvocationsBackToBack) {
  ParsedProgram ring(channelRingAllGather(entryCredit, putStep + signalStep + waitStep, flush));
  SimulatedCall simulated = ring.callOn({4}, 17);
  simulated.numLanes = 2;
  EXPECT_EQ(firstFailure(ring, simulated, 3), "");
}

TEST(Channel, AMissingEntryCreditIsCaughtAcrossInvocationsOnly) {
  ParsedProgram ring(channelRingAllGather("", putStep + signalStep + waitStep, flush));
  EXPECT_EQ(firstFailure(ring, ring.callOn({4}, 17), 1), "");
  EXPECT_NE(firstFailure(ring, ring.callOn({4}, 17), 3), "");
}

TEST(Channel, EndingIsNoFlush) {
  ParsedProgram ring(channelRingAllGather(entryCredit, putStep + signalStep + waitStep, ""));
  EXPECT_NE(firstFailure(ring, ring.callOn({4}, 17), 3), "");
}

TEST(Channel, ASlotWithACreditIsNeverOverwrittenTooEarly) {
  std::string credit =
      "%isInner = arith.cmpi slt, %s, %n2 : index\nscf.if %isInner {\nkolo.chan.signal 1 to %prev\n}\n";
  ParsedProgram staged(stagedAllGather("kolo.chan.wait 1 from %next", credit));
  EXPECT_EQ(firstFailure(staged, staged.callOn({5}, 17), 3), "");
}

TEST(Channel, AMissingCreditForASlotIsCaught) {
  std::string entry = "%isFirst = arith.cmpi eq, %s, %c0 : index\nscf.if %isFirst {\nkolo.chan.wait 1 from %next\n}\n";
  ParsedProgram staged(stagedAllGather(entry, ""));
  EXPECT_NE(firstFailure(staged, staged.callOn({5}, 17), 1), "");
}

TEST(Channel, ASourceThatIsReusedAfterAFlushIsRight) {
  ParsedProgram staged(stagedAllToAll(flush));
  EXPECT_EQ(firstFailure(staged, staged.callOn({4}, 17), 1), "");
}

TEST(Channel, ASourceThatIsReusedWithoutAFlushIsCaught) {
  ParsedProgram staged(stagedAllToAll(""));
  EXPECT_NE(firstFailure(staged, staged.callOn({4}, 17), 1), "");
}

TEST(Channel, GetsAndRemoteReducesWithDivisionAreRightForEveryReduction) {
  ParsedProgram pull(pullAllReduce);
  for (Reduction reduction : allReductions) {
    SimulatedCall simulated = pull.callOn({3}, 17, ElementType::F16, reduction);
    simulated.numLanes = 2;
    EXPECT_EQ(firstFailure(pull, simulated, 2), "") << nameOf(reduction).str();
  }
}

TEST(Channel, TheSameSeedGivesTheSameInterleaving) {
  ParsedProgram staged(stagedAllToAll(""));
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(outcome(staged, staged.callOn({4}, 17), seed), outcome(staged, staged.callOn({4}, 17), seed));
}
