// Litmus tests of synchronisation: messages, calls back to back, transports, what signals and flushes order.
#include "Litmus.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::mutation;

namespace {

/// An all-gather over two ranks.
std::string message(std::initializer_list<std::string> parts) {
  return program("all_gather", 4, wholeIn + blocksOut + oneSlot + ownCopy + lines(parts));
}

} // namespace

//===--- Messages -------------------------------------------------------------------------------------------------===//

TEST(MessagePassing, WithPutSignalAndWaitIsProved) {
  expectProved(message({entryCredit, putToSlot, dataSignal, dataWait, readSlot, flush}), {2});
}

TEST(MessagePassing, WithoutTheSignalIsUnbalanced) {
  expectRefuted(message({entryCredit, putToSlot, dataWait + mark, readSlot, flush}), {2}, Property::Balance);
}

TEST(MessagePassing, WithoutTheWaitIsUnbalanced) {
  expectRefuted(message({entryCredit, putToSlot, dataSignal + mark, readSlot, flush}), {2}, Property::Balance);
}

TEST(MessagePassing, WithoutBothIsARace) {
  expectRefuted(message({entryCredit, putToSlot + mark, readSlot + mark, flush}), {2}, Property::Race);
}

TEST(MessagePassing, WithTheSignalBeforeThePutIsARace) {
  expectRefuted(message({entryCredit, dataSignal, putToSlot + mark, dataWait, readSlot + mark, flush}), {2},
                Property::Race);
}

TEST(MessagePassing, WithTheReadBeforeTheWaitIsARace) {
  expectRefuted(message({entryCredit, putToSlot + mark, dataSignal, readSlot + mark, dataWait, flush}), {2},
                Property::Race);
}

TEST(MessagePassing, WithTheSignalToTheWrongNumberIsUnbalanced) {
  expectRefuted(message({entryCredit, putToSlot, "kolo.chan.signal 2 to %next", dataWait + mark, readSlot, flush}), {2},
                Property::Balance);
}

TEST(MessagePassing, ThatWaitsForALaterSignalFirstNeverEnds) {
  expectRefuted(message({entryCredit, putToSlot, "kolo.chan.wait 2 from %prev" + mark, dataSignal,
                         "kolo.chan.signal 2 to %next", dataWait, readSlot, flush}),
                {2}, Property::Deadlock);
}

TEST(MessagePassing, WithASignalTooManyIsUnbalanced) {
  expectRefuted(
      message({entryCredit, putToSlot, dataSignal, dataWait, readSlot, flush, "kolo.chan.signal 2 to %next" + mark}),
      {2}, Property::Balance);
}

TEST(MessagePassing, ThatWaitsTwiceIsUnbalanced) {
  expectRefuted(message({entryCredit, putToSlot, dataSignal, dataWait, dataWait + mark, readSlot, flush}), {2},
                Property::Balance);
}

TEST(MessagePassing, InWhichEveryoneWaitsBeforeSignallingNeverEnds) {
  expectRefuted(message({"kolo.chan.wait 1 from %next" + mark, "kolo.chan.signal 1 to %prev", putToSlot, dataSignal,
                         dataWait, readSlot, flush}),
                {2}, Property::Deadlock);
}

TEST(MessagePassing, ThatReadsASlotThatNobodyWritesGivesAWrongResult) {
  std::string text = message({entryCredit, dataSignal, dataWait, readSlot, flush});
  expectRefuted(text.insert(text.find('\n'), mark), {2}, Property::Result); // the program as a whole
}

//===--- Two calls back to back -----------------------------------------------------------------------------------===//

TEST(BackToBackCalls, WithoutAnEntryCreditReuseASlotTooEarly) {
  expectRefuted(message({putToSlot + mark, dataSignal, dataWait, readSlot + mark, flush}), {2}, Property::Invocations);
}

TEST(BackToBackCalls, WithoutAFlushLetTheApplicationOverwriteASource) {
  expectRefuted(message({entryCredit, putToSlot + mark, dataSignal, dataWait, readSlot}), {2}, Property::Invocations);
}

TEST(BackToBackCalls, NeedNoFlushAfterAnAcknowledgement) {
  expectProved(message({entryCredit, putToSlot, dataSignal, dataWait, readSlot, acknowledgement}), {2});
}

TEST(BackToBackCalls, NeedNoEntryCreditAfterAnAcknowledgement) {
  expectProved(message({putToSlot, dataSignal, dataWait, readSlot, acknowledgement}), {2});
}

TEST(BackToBackCalls, AreNotOrderedByAnAcknowledgementBeforeTheRead) {
  expectRefuted(message({putToSlot + mark, dataSignal, dataWait, "kolo.chan.signal 2 to %prev", readSlot + mark,
                         "kolo.chan.wait 2 from %next"}),
                {2}, Property::Invocations);
}

TEST(BackToBackCalls, ThatPutStraightIntoTheOutputNeedAnEntryCredit) {
  const std::string direct = "kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %next part %l of %L : "
                             "!kolo.buffer<0> -> !kolo.buffer<1>";
  expectProved(message({entryCredit, direct, dataSignal, dataWait, flush}), {2});
  expectRefuted(message({direct + mark, dataSignal, dataWait, flush}), {2}, Property::Invocations);
}

//===--- Transports -----------------------------------------------------------------------------------------------===//

TEST(StripedPuts, MayArriveAfterTheirSignal) {
  std::string text = message({entryCredit, putToSlot + mark, dataSignal, dataWait, readSlot + mark, flush});
  expectRefuted(text, {2}, Property::PutOrder, "network:nics=2");
  expectProved(text, {2}, "network");
  expectProved(text, {2}, "peer");
}

TEST(StripedPuts, AreOrderedByAFlush) {
  expectProved(message({entryCredit, putToSlot, flush, dataSignal, dataWait, readSlot}), {2}, "network:nics=2");
}

//===--- The memory model: what a signal orders -------------------------------------------------------------------===//

namespace {

/// Over three ranks: everybody's input goes into the next rank's slot, and straight to the output of the one before.
/// The rank before also forwards the news of the slot: A puts to B and signals C, C signals B, B reads.
std::string forwarded(const std::string &betweenPutAndSignal, const std::string &marked) {
  return program("all_gather", 4,
                 wholeIn + blocksOut + oneSlot + ownCopy + R"(
    kolo.chan.signal 3 to %next
    kolo.chan.signal 3 to %prev
    kolo.chan.wait 3 from %next
    kolo.chan.wait 3 from %prev
)" + lines({putToSlot + marked, betweenPutAndSignal}) +
                     R"(
    kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %prev part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %prev
    kolo.chan.wait 0 from %next
    kolo.chan.signal 1 to %prev
    kolo.chan.wait 1 from %next
)" + lines({readSlot + marked, flush}));
}

} // namespace

TEST(Signals, OrderNoPutToAnotherRank) { expectRefuted(forwarded("", mark), {3}, Property::Race); }

TEST(Signals, PassOnWhatWasFlushed) { expectProved(forwarded(flush, ""), {3}); }

TEST(Signals, DoNotPassOnWhatANetworkIsStillBringing) {
  // The flush has freed the source; the news of it may be faster than the data.
  expectRefuted(forwarded(flush, mark), {3}, Property::PutOrder, "network");
}

TEST(Signals, PassOnWhatTheirSenderWaitedFor) {
  // The next rank puts to me, I signal the one before, which gets it from me.
  std::string text = program("all_gather", 4, wholeIn + blocksOut + oneSlot + ownCopy + R"(
    kolo.chan.signal 3 to %next
    kolo.chan.signal 3 to %prev
    kolo.chan.wait 3 from %next
    kolo.chan.wait 3 from %prev
    kolo.chan.put %in[] size [] -> %slot[] size [] to %prev part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.signal 0 to %prev
    kolo.chan.wait 0 from %next
    kolo.chan.signal 1 to %prev
    kolo.chan.copy %slot[] size [] -> %out[%next] size [%c1] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.wait 1 from %next
    kolo.chan.get %slot[] size [] -> %out[%prev] size [%c1] from %next part %l of %L
      : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 2 to %next
    kolo.chan.wait 2 from %prev
)" + flush + "\n");
  expectProved(text, {3});
}

TEST(Signals, OfTwoSendersOnOneNumberAreCountedApart) {
  const std::string start = wholeIn + blocksOut + ownCopy + R"(
    kolo.chan.signal 1 to %next
    kolo.chan.signal 1 to %prev
    kolo.chan.wait 1 from %next
    kolo.chan.wait 1 from %prev
    kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %next part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 0 to %next
    kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %prev part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>
)",
                    end = lines({"kolo.chan.wait 0 from %prev", flush});
  const std::string other = "kolo.chan.signal 0 to %prev";
  expectProved(program("all_gather", 2, start + lines({other, "kolo.chan.wait 0 from %next"}) + end), {3});
  expectRefuted(program("all_gather", 2, start + lines({other + mark}) + end), {3}, Property::Balance);
}

namespace {

/// An all-gather over four ranks that puts to all peers behind a barrier of `rounds`.
std::string behindBarrier(const std::string &rounds, const std::string &marked) {
  return program("all_gather", 3,
                 wholeIn + blocksOut + rounds +
                     R"(
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.put %in[] size [] -> %out[%me] size [%c1] to %peer part %l of %L : !kolo.buffer<0> -> )"
                     "!kolo.buffer<1>" +
                     marked + R"(
      kolo.chan.signal 0 to %peer
    }
    scf.for %peer = %c0 to %n step %c1 {
      kolo.chan.wait 0 from %peer
    }
)" + lines({flush}));
}
const std::string nearRound = "kolo.chan.signal 1 to %next\nkolo.chan.wait 1 from %prev\n";
const std::string farRound = R"(
    %twoUp = arith.addi %me, %c2 : index
    %opposite = arith.remsi %twoUp, %n : index
    kolo.chan.signal 2 to %opposite
    kolo.chan.wait 2 from %opposite
)";

} // namespace

TEST(Barriers, OfTwoRoundsLetFourRanksKnowOfEachOther) {
  expectProved(behindBarrier(nearRound + farRound, ""), {4});
  expectProved(behindBarrier(farRound + nearRound, ""), {4});
}

TEST(Barriers, OfOneRoundDoNot) {
  expectRefuted(behindBarrier(nearRound, mark), {4}, Property::Invocations);
  expectRefuted(behindBarrier(farRound, mark), {4}, Property::Invocations);
  expectProved(behindBarrier(nearRound, ""), {2});
}

//===--- Puts -----------------------------------------------------------------------------------------------------===//

namespace {

const std::string putPacked =
    "kolo.chan.put %packed[] size [] -> %slot[] size [] to %next part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>";
std::string putIn(const std::string &block) {
  return "kolo.chan.put %in[" + block +
         "] size [%c1] -> %slot[] size [] to %next part %l of %L : !kolo.buffer<1> -> !kolo.buffer<0>";
}
const std::string ownBlock = copyBlock("%in[%me]", "%out[%me]"), pack = copyBlock("%in[%next]", "%packed[]"),
                  packOwn = copyBlock("%in[%me]", "%packed[]"), unpackOwn = copyBlock("%packed[]", "%out[%me]");

/// Puts a packed block, then packs another one into the same place.
std::string repacked(const std::string &between, const std::string &marked, const std::string &end) {
  return exchange({pack, entryCredit, putPacked + marked, dataSignal, between, packOwn + marked, unpackOwn, end});
}

/// Puts the wrong block, then the right one, to the same place.
std::string putTwice(const std::string &between, const std::string &marked) {
  return exchange({ownBlock, entryCredit, putIn("%me") + marked, between, putIn("%next") + marked, dataSignal, dataWait,
                   readSlot, flush});
}

} // namespace

TEST(SourcesOfPuts, MayBeReusedAfterAFlush) { expectProved(repacked(flush, "", lines({dataWait, readSlot})), {2}); }

TEST(SourcesOfPuts, MayBeReusedAfterAnAcknowledgementOfTheirSignal) {
  expectProved(repacked(lines({dataWait, acknowledgement}), "", readSlot), {2});
}

TEST(SourcesOfPuts, MayNotBeReusedBefore) {
  expectRefuted(repacked(dataWait, mark, lines({readSlot, flush})), {2}, Property::Race);
}

TEST(PutsToOnePlace, AreOrderedByAFlush) { expectProved(putTwice(flush, ""), {2}); }

TEST(PutsToOnePlace, AreOrderedByAnAcknowledgement) {
  expectProved(putTwice("kolo.chan.signal 3 to %next\nkolo.chan.wait 3 from %prev\n" + acknowledgement, ""), {2});
}

TEST(PutsToOnePlace, AreNotOrderedByTheirOwnOrder) { expectRefuted(putTwice("", mark), {2}, Property::Race); }

TEST(PutsToOnePlace, AreNotOrderedByASignalThatTheLaterOneMayOvertake) {
  expectRefuted(putTwice("kolo.chan.signal 3 to %next\nkolo.chan.wait 3 from %prev", mark), {2}, Property::Race);
}

TEST(PutsToOneself, NeedASignalOrAFlushLikeAllOthers) {
  const std::string putOwn = "kolo.chan.put %in[%me] size [%c1] -> %packed[] size [] to %me part %l of %L : "
                             "!kolo.buffer<1> -> !kolo.buffer<0>";
  auto text = [&](const std::string &between, const std::string &marked) {
    return exchange({putOwn + marked, between, unpackOwn + marked, entryCredit, putIn("%next"), dataSignal, dataWait,
                     readSlot, flush});
  };
  expectProved(text(flush, ""), {2});
  expectProved(text("kolo.chan.signal 2 to %me\nkolo.chan.wait 2 from %me", ""), {2});
  expectRefuted(text("", mark), {2}, Property::Race);
}
