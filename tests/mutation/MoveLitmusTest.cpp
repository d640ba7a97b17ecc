// Litmus tests of what programs move: slices that wrap, gets, pulled reduces, slots, lanes; and of balance and bounds.
#include "Litmus.h"

#include <gtest/gtest.h>

using namespace kolo;
using namespace kolo::mutation;

//===--- Slices that wrap -----------------------------------------------------------------------------------------===//

namespace {

/// An all-to-all over two ranks. Two blocks, from input block `first` on, go to the peer's slots 3 and, wrapping, 0;
/// while they are on their way, the peer writes the two slots from `local` on, and then reads slot `used`.
std::string wrapping(const std::string &first, int local, int used, const std::string &marked) {
  auto number = [](const std::string &name, int value) {
    return name + " = arith.constant " + std::to_string(value) + " : index\n";
  };
  return program("all_to_all", 2,
                 blocksIn + blocksOut + number("%four", 4) + number("%local", local) + number("%used", used) +
                     "%slots = kolo.buffer scratch \"slots\" grid(%four) blocks 1 : !kolo.buffer<1>\n" + entryCredit +
                     "kolo.chan.put %in[" + first +
                     "] size [%c2] -> %slots[%c3] size [%c2] to %next part %l of %L : !kolo.buffer<1> -> "
                     "!kolo.buffer<1>" +
                     marked +
                     "\nkolo.chan.copy %in[%me] size [%c2] -> %slots[%local] size [%c2] part %l of %L : "
                     "!kolo.buffer<1> -> !kolo.buffer<1>" +
                     marked + "\n" +
                     lines({dataSignal, dataWait, copyBlock("%in[%me]", "%out[%me]"),
                            copyBlock("%slots[%used]", "%out[%prev]"), flush}));
}

} // namespace

TEST(WrappingSlices, ThatShareNoChunkMayBeWrittenAtTheSameTime) {
  expectProved(wrapping("%next", 1, 3, ""), {2});
  expectProved(wrapping("%me", 1, 4, ""), {2});
}

TEST(WrappingSlices, ThatShareTheirFirstChunkRace) {
  expectRefuted(wrapping("%next", 2, 3, mark), {2}, Property::Race);
}

TEST(WrappingSlices, ThatShareTheChunkBehindTheWrapRace) {
  expectRefuted(wrapping("%me", 0, 4, mark), {2}, Property::Race);
}

//===--- Gets and pulled reduces ----------------------------------------------------------------------------------===//

namespace {

/// Every rank offers a block in its slot, and gets the peer's.
const std::string ownBlockMoved = copyBlock("%in[%me]", "%out[%me]");
const std::string offer = copyBlock("%in[%next]", "%slot[]");
const std::string getSlot = "kolo.chan.get %slot[] size [] -> %out[%prev] size [%c1] from %prev part %l of %L : "
                            "!kolo.buffer<0> -> !kolo.buffer<1>";

const std::string wholeOut = "%out = kolo.buffer output \"out\" grid() blocks 0 : !kolo.buffer<0>\n";
/// Moves all of a buffer to the output; `peer` is empty or such as "from %prev".
std::string moveToOut(const std::string &op, const std::string &from, const std::string &peer) {
  return "kolo.chan." + op + " " + from + "[] size [] -> %out[] size [] " + peer +
         " part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>";
}
const std::string divide = "kolo.chan.divide %out[] size [] part %l of %L : !kolo.buffer<0>";
/// An all-reduce over two ranks, in which each pulls from the other.
std::string pulled(const std::string &pull, const std::string &end) {
  return program("all_reduce", 4,
                 wholeIn + wholeOut + lines({moveToOut("copy", "%in", ""), dataSignal, dataWait, pull, end, divide}));
}

} // namespace

TEST(Gets, AfterASignalAndBeforeAnAcknowledgementAreProved) {
  expectProved(exchange({ownBlockMoved, offer, dataSignal, dataWait, getSlot, acknowledgement}), {2});
}

TEST(Gets, WhileTheOwnerWritesRace) {
  expectRefuted(exchange({ownBlockMoved, offer + mark, getSlot + mark, dataSignal, dataWait}), {2}, Property::Race);
}

TEST(Gets, WithoutAnAcknowledgementMeetTheNextCall) {
  expectRefuted(exchange({ownBlockMoved, offer + mark, dataSignal, dataWait, getSlot + mark}), {2},
                Property::Invocations);
}

TEST(Gets, OfAnInputNeedAnAcknowledgementToo) {
  const std::string getIn = "kolo.chan.get %in[%me] size [%c1] -> %out[%prev] size [%c1] from %prev part %l of %L : "
                            "!kolo.buffer<1> -> !kolo.buffer<1>";
  expectProved(exchange({ownBlockMoved, dataSignal, dataWait, getIn, acknowledgement}), {2});
  expectRefuted(exchange({ownBlockMoved, dataSignal, dataWait, getIn + mark}), {2}, Property::Invocations);
}

TEST(PulledReduces, OfAnInputAreProved) {
  expectProved(pulled(moveToOut("reduce", "%in", "from %prev"), acknowledgement), {2});
}

TEST(PulledReduces, OfWhatTheOwnerReducesIntoRace) {
  expectRefuted(pulled(moveToOut("reduce", "%out", "from %prev") + mark, acknowledgement), {2}, Property::Race);
}

TEST(PulledReduces, ThatRunTwiceGiveAWrongResult) {
  std::string pull = moveToOut("reduce", "%in", "from %prev");
  expectRefuted(pulled(pull + "\n" + pull + mark, acknowledgement), {2}, Property::Result);
}

//===--- Roots, and calls in place --------------------------------------------------------------------------------===//

namespace {

/// A broadcast in which all ranks but one get the root's input, which the root copies.
std::string broadcastToAllBut(const std::string &rank) {
  return program("broadcast", 2,
                 wholeIn + wholeOut + "%root = kolo.root\n%gets = arith.cmpi ne, %me, " + rank + " : index" + R"(
    %isRoot = arith.cmpi eq, %me, %root : index
    scf.if %isRoot {
)" + moveToOut("copy", "%in", "") +
                     R"(
      scf.for %peer = %c0 to %n step %c1 {
        kolo.chan.signal 0 to %peer
      }
    }
    kolo.chan.wait 0 from %root
    scf.if %gets {
)" + moveToOut("get", "%in", "from %root") +
                     R"(
    }
    kolo.chan.signal 1 to %root
    scf.if %isRoot {
      scf.for %peer = %c0 to %n step %c1 {
        kolo.chan.wait 1 from %peer
      }
    }
)");
}

} // namespace

TEST(Roots, AreAllLookedAt) {
  std::string wrong = broadcastToAllBut("%c0"); // right where rank 0 is the root
  wrong.insert(wrong.find('\n'), mark);         // the program as a whole
  for (int64_t numRanks : {2, 3, 4}) {
    expectProved(broadcastToAllBut("%root"), {numRanks});
    expectRefuted(wrong, {numRanks}, Property::Result);
  }
}

TEST(CallsInPlace, AreLookedAtWhereTheProgramSaysThatItMayRunInPlace) {
  std::string text = pulled(moveToOut("reduce", "%in", "from %prev") + mark, acknowledgement);
  expectProved(text, {2});
  const std::string start = "semaphores 4";
  text.insert(text.find(start) + start.size(), " in_place direct");
  expectRefutedInPlace(text, {2}, Property::Race);
}

//===--- Lag credits ----------------------------------------------------------------------------------------------===//

namespace {

/// A ring all-gather in which every step lands in the next of two slots. `lag` steps may be ahead of the receiver's
/// copy.
std::string twoSlotRing(int lag, const std::string &marked) {
  return program("all_gather", 3,
                 wholeIn + blocksOut + "%lag = arith.constant " + std::to_string(lag) + " : index\n" +
                     R"(
    %slots = kolo.buffer scratch "slots" grid(%c2) blocks 1 : !kolo.buffer<1>
    %lastCredit = arith.subi %n1, %lag : index
    kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>
    kolo.chan.signal 2 to %prev
    kolo.chan.wait 2 from %next
    scf.for %s = %c0 to %n1 step %c1 {
      %sent = arith.subi %me, %s : index
      %arrived = arith.subi %prev, %s : index
      %needsCredit = arith.cmpi sge, %s, %lag : index
      scf.if %needsCredit {
        kolo.chan.wait 1 from %next
      }
      kolo.chan.put %out[%sent] size [%c1] -> %slots[%s] size [%c1] to %next part %l of %L : !kolo.buffer<1> -> )"
                     "!kolo.buffer<1>" +
                     marked + R"(
      kolo.chan.signal 0 to %next
      kolo.chan.wait 0 from %prev
      kolo.chan.copy %slots[%s] size [%c1] -> %out[%arrived] size [%c1] part %l of %L
        : !kolo.buffer<1> -> !kolo.buffer<1>
      %givesCredit = arith.cmpi slt, %s, %lastCredit : index
      scf.if %givesCredit {
        kolo.chan.signal 1 to %prev
      }
    }
    kolo.chan.flush
)");
}

} // namespace

TEST(LagCredits, AsManyAsSlotsAreProved) {
  for (int64_t numRanks : {2, 3, 5, 6})
    expectProved(twoSlotRing(2, ""), {numRanks});
}

TEST(LagCredits, OneTooGenerousRace) { expectRefuted(twoSlotRing(3, mark), {6}, Property::Race); }

TEST(LagCredits, OneTooGenerousAreEnoughWhereTheRingIsAsShort) { expectProved(twoSlotRing(3, ""), {3}); }

//===--- Balance, deadlock, bounds --------------------------------------------------------------------------------===//

namespace {

/// An all-reduce over two ranks that is right, and then something else.
std::string bare(std::initializer_list<std::string> parts) {
  return program("all_reduce", 4,
                 wholeIn + wholeOut +
                     "%other = kolo.buffer scratch \"other\" grid(%n) blocks 0 : "
                     "!kolo.buffer<1>\n" +
                     lines({moveToOut("copy", "%in", ""), dataSignal, dataWait,
                            moveToOut("reduce", "%in", "from %prev"), acknowledgement, divide}) +
                     lines(parts));
}

} // namespace

TEST(Waits, InACircleOfThreeNeverEnd) {
  std::string text = program("all_gather", 4, wholeIn + blocksOut + ownCopy + lines({dataWait + mark, dataSignal}));
  expectRefuted(text, {3}, Property::Deadlock);
}

TEST(Waits, OfOneRankForASignalOfAllAreUnbalanced) {
  const std::string isFirst = "%isFirst = arith.cmpi eq, %me, %c0 : index";
  expectProved(bare({isFirst, "kolo.chan.signal 3 to %c0", "scf.if %isFirst {", "kolo.chan.wait 3 from %c0",
                     "kolo.chan.wait 3 from %c1", "}"}),
               {2});
  expectRefuted(
      bare({isFirst, "kolo.chan.signal 3 to %c0" + mark, "scf.if %isFirst {", "kolo.chan.wait 3 from %c0", "}"}), {2},
      Property::Balance);
}

TEST(Bounds, APeerMustExist) {
  expectRefuted(bare({"kolo.chan.signal 3 to %up" + mark}), {2}, Property::Bounds);
  expectRefuted(bare({moveToOut("get", "%in", "from %n") + mark}), {2}, Property::Bounds);
}

TEST(Bounds, AnInputMustNotBeWritten) {
  expectRefuted(bare({"kolo.chan.copy %out[] size [] -> %in[] size [] part %l of %L : "
                      "!kolo.buffer<0> -> !kolo.buffer<0>" +
                      mark}),
                {2}, Property::Bounds);
}

TEST(Bounds, ChunksThatArePairedMustHaveOneSize) {
  expectRefuted(bare({"kolo.chan.copy %out[] size [] -> %other[%c0] size [%c1] part %l of %L : "
                      "!kolo.buffer<0> -> !kolo.buffer<1>" +
                      mark}),
                {2}, Property::Bounds);
}

TEST(Bounds, SlicesMustHaveOneShape) {
  expectRefuted(bare({"kolo.chan.copy %other[%c0] size [%n] -> %other[%c0] size [%n1] part %l of %L : "
                      "!kolo.buffer<1> -> !kolo.buffer<1>" +
                      mark}),
                {2}, Property::Bounds);
}

TEST(Bounds, ABufferMayBeEmptyWhereNothingUsesIt) {
  const std::string copy = "kolo.chan.copy %none[%c0] size [%c1] -> %other[%c0] size [%c1] part %l of %L : "
                           "!kolo.buffer<1> -> !kolo.buffer<1>";
  const std::string none = "%none = kolo.buffer scratch \"none\" grid(%c0) blocks 1 : !kolo.buffer<1>";
  expectProved(bare({none, "scf.for %s = %c1 to %n1 step %c1 {", copy, "}"}), {2});
  expectRefuted(bare({none, "scf.for %s = %c0 to %n1 step %c1 {", copy + mark, "}"}), {2}, Property::Bounds);
}

TEST(Bounds, ASliceMustFitItsBuffer) {
  expectRefuted(bare({"kolo.chan.copy %other[%c0] size [%c3] -> %other[%c0] size [%c3] part %l of %L : "
                      "!kolo.buffer<1> -> !kolo.buffer<1>" +
                      mark}),
                {2}, Property::Bounds);
}
