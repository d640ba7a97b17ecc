// What is peculiar to the transport by libfabric.
#include "FabricSupport.h"

#include "network/fabric/Arrivals.h"
#include "network/fabric/Letter.h"
#include "network/fabric/Providers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace kolo::test {
namespace {

using namespace fabric;

TEST(Arrivals, ASignalIsDueWhenItsIntervalAndAllEarlierOnesAreComplete) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    struct Step {
      bool isSignal;
      uint64_t interval;
    };
    constexpr uint64_t numIntervals = 40;
    std::vector<Step> steps;
    std::vector<uint64_t> numPuts(numIntervals), numArrived(numIntervals);
    for (uint64_t interval = 0; interval < numIntervals; ++interval) {
      numPuts[interval] = random() % 4;
      steps.insert(steps.end(), numPuts[interval], {false, interval});
      steps.push_back({true, interval});
    }
    std::ranges::shuffle(steps, random); // all at once: fewer than mostOpenIntervals
    uint64_t numRaised = 0;
    Arrivals arrivals;
    auto raise = [&](uint32_t lane, const RemoteSignal &signal) {
      EXPECT_EQ(lane, 5U);
      EXPECT_EQ(signal.count, ++numRaised);
      for (uint64_t interval = 0; interval < signal.count; ++interval)
        EXPECT_EQ(numArrived[interval], numPuts[interval]);
    };
    for (const Step &step : steps)
      if (step.isSignal) {
        arrivals.noteSignal({5, step.interval, numPuts[step.interval], {1, 0, step.interval + 1}}, raise);
      } else {
        ++numArrived[step.interval];
        arrivals.notePut(markOf(3, 5, step.interval), raise);
      }
    EXPECT_EQ(numRaised, numIntervals);
  }
}

TEST(Arrivals, IntervalsGoOnBeyondTheirEightBits) {
  Arrivals arrivals;
  uint64_t numRaised = 0;
  auto raise = [&](uint32_t, const RemoteSignal &signal) { EXPECT_EQ(signal.count, ++numRaised); };
  for (uint64_t interval = 0; interval < 1000; ++interval) {
    arrivals.noteSignal({0, interval, 1, {1, 0, interval + 1}}, raise);
    if (interval >= mostOpenIntervals - 1)
      arrivals.notePut(markOf(0, 0, interval - (mostOpenIntervals - 1)), raise);
  }
  EXPECT_EQ(numRaised, 1000 - (mostOpenIntervals - 1));
}

Letter sample(LetterKind kind) {
  Letter letter;
  letter.kind = kind;
  letter.provider = "cxi";
  letter.order = SignalOrder::Counted;
  letter.address = makeData(28, 1);
  letter.agreement = 77;
  letter.registered = {{{1, 2, 3}, {}, {7, UINT64_MAX, 9}}, {4, 5, 6}, 4, 12, true};
  letter.question = {true, true, 3, {}, 0, {9, 4, 11}};
  return letter;
}

TEST(FabricLetter, IsReadAsItWasWritten) {
  Result<Letter> address = parseLetter(write(sample(LetterKind::Address)));
  ASSERT_TRUE(address.isOk());
  EXPECT_EQ(address->provider, "cxi");
  EXPECT_EQ(address->order, SignalOrder::Counted);
  EXPECT_EQ(address->address, makeData(28, 1));
  Result<Letter> registered = parseLetter(write(sample(LetterKind::Registered)));
  ASSERT_TRUE(registered.isOk());
  EXPECT_EQ(registered->agreement, 77U);
  ASSERT_EQ(registered->registered.regions.size(), 3U);
  EXPECT_EQ(registered->registered.regions[2].address, UINT64_MAX);
  EXPECT_EQ(registered->registered.cells.key, 4U);
  EXPECT_EQ(registered->registered.numSemaphores, 12U);
  EXPECT_TRUE(registered->registered.isBySender);
  Result<Letter> question = parseLetter(write(sample(LetterKind::Question)));
  ASSERT_TRUE(question.isOk());
  EXPECT_TRUE(question->question.isOld);
  EXPECT_EQ(question->question.signal.semaphore, 4U);
  EXPECT_EQ(question->question.signal.count, 11U);
  EXPECT_EQ(parseLetter(write(sample(LetterKind::Released)))->agreement, 77U);
  EXPECT_TRUE(parseLetter(write(sample(LetterKind::Ready))).isOk());
}

TEST(FabricLetter, WhatNobodyWritesIsRefusedWhateverItsLength) {
  std::mt19937 random(8);
  for (LetterKind kind :
       {LetterKind::Address, LetterKind::Ready, LetterKind::Registered, LetterKind::Released, LetterKind::Question}) {
    std::vector<std::byte> bytes = write(sample(kind));
    for (size_t length = 0; length < bytes.size(); ++length) {
      bool mayEnd = kind == LetterKind::Address && length > 8 + 36; // its address is as long as the letter says
      EXPECT_EQ(parseLetter(std::span(bytes).first(length)).isOk(), mayEnd) << length;
    }
    for (int i = 0; i < 2000; ++i) { // never reads beyond its bytes: the sanitizers see that
      std::vector<std::byte> other = bytes;
      for (int change = 0; change < 3; ++change)
        other[random() % other.size()] = static_cast<std::byte>(random());
      (void)parseLetter(other);
    }
  }
  std::vector<std::byte> many = write(sample(LetterKind::Registered));
  many[8 + 8 + 3] = std::byte(0x80); // 2^31 regions
  EXPECT_FALSE(parseLetter(many).isOk());
}

TEST(Providers, WithoutRulesARefusalNamesTheProvider) {
  Result<const Library *> library = Library::open();
  ASSERT_TRUE(library.isOk()) << library.status().message();
  EXPECT_EQ(expectStatus(rulesFor(**library, "sockets").status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK=sockets: libfabric has this provider, but Kolo has no rules for it; it has "
                         "rules for cxi, verbs, efa, tcp;ofi_rxm"),
            "");
  EXPECT_EQ(expectStatus(rulesFor(**library, "quantum").status(), StatusCode::InvalidArgument, -1,
                         "KOLO_NETWORK=quantum: this is neither auto, nor tcp, nor a provider that Kolo has rules for"),
            "");
  EXPECT_EQ(expectStatus(findProvider(**library, *findProviderRules("cxi"), "").status(), StatusCode::SystemError, -1,
                         "KOLO_NETWORK=cxi: libfabric.so.1 finds no such provider on this host"),
            "");
}

} // namespace
} // namespace kolo::test
