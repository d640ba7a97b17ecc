#include "Ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

class EveryChannel : public testing::TestWithParam<Launch> {};

std::string pingPong(Communicator &communicator) {
  auto window = communicator.allocate(64 * sizeof(uint64_t));
  auto remote = communicator.exchange(*window);
  if (!remote.isOk())
    return remote.status().message();
  int me = communicator.rank(), peer = 1 - me;
  Channel channel = communicator.channel(peer, 3);
  auto *data = static_cast<uint64_t *>(window->data());
  for (uint64_t round = 0; round < 3000; ++round) {
    if (me == static_cast<int>(round % 2)) {
      uint64_t value = round * 17 + 1;
      if (!channel.put((*remote)[static_cast<size_t>(peer)], (round % 64) * 8, &value, sizeof(value)).isOk() ||
          !channel.signal().isOk() || !channel.flush().isOk())
        return "put failed";
    } else if (Status status = channel.wait(); !status.isOk()) {
      return status.message();
    } else if (data[round % 64] != round * 17 + 1) {
      return "wrong value";
    }
  }
  return expectStatus(communicator.barrier(), StatusCode::Ok);
}

} // namespace

TEST_P(EveryChannel, DeliversWhatWasPutBeforeTheSignal) { EXPECT_EQ(runRanks(GetParam(), 2, {}, pingPong), ""); }

TEST_P(EveryChannel, WakesARankThatSleeps) {
  ScopedVariable wait("KOLO_WAIT", "sleep");
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       Channel channel = communicator.channel(1 - communicator.rank(), 0);
                       std::string wrong;
                       for (int round = 0; round < 40; ++round) {
                         if (round % 2 != communicator.rank()) {
                           wrong += expectStatus(channel.wait(), StatusCode::Ok);
                           continue;
                         }
                         std::this_thread::sleep_for(std::chrono::milliseconds(5)); // the peer is asleep by now
                         wrong += expectStatus(channel.signal(), StatusCode::Ok);
                       }
                       return wrong;
                     }),
            "");
  // 40 times 5 ms; each lost wake-up would make it 50.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1200));
}

TEST_P(EveryChannel, RefusesWhatDoesNotExist) {
  EXPECT_EQ(runRanks(GetParam(), 2, {},
                     [](Communicator &communicator) {
                       auto window = communicator.allocate(100);
                       auto remote = communicator.exchange(*window);
                       int me = communicator.rank(), peer = 1 - me;
                       const RemoteWindow &theirs = (*remote)[static_cast<size_t>(peer)];
                       const RemoteWindow &own = (*remote)[static_cast<size_t>(me)];
                       char byte = 0;
                       auto code = StatusCode::InvalidArgument;
                       return expectStatus(communicator.channel(2, 0).signal(), code, {"rank 2"}) +
                              expectStatus(communicator.channel(-1, 0).wait(), code, {"rank -1"}) +
                              expectStatus(communicator.channel(peer, 8).signal(), code, {"channel 8"}) +
                              expectStatus(communicator.channel(peer, 0).put(own, 0, &byte, 1), code, {"window is"}) +
                              expectStatus(communicator.channel(peer, 0).put(theirs, 100, &byte, 1), code, {"at 100"}) +
                              expectStatus(communicator.channel(peer, 0).put(theirs, 1, &byte, SIZE_MAX), code) +
                              expectStatus(communicator.channel(peer, 0).put(theirs, 99, &byte, 1), StatusCode::Ok) +
                              expectStatus(communicator.barrier(), StatusCode::Ok);
                     }),
            "");
}

TEST_P(EveryChannel, AWaitThatNobodyAnswersTimesOutByName) {
  EXPECT_EQ(runRanks(GetParam(), 2, {200, 1},
                     [](Communicator &communicator) {
                       if (communicator.rank() == 1) {
                         std::this_thread::sleep_for(std::chrono::milliseconds(600));
                         return expectStatus(communicator.channel(0, 1).signal(), StatusCode::Aborted, {"channel 5"});
                       }
                       return expectStatus(communicator.channel(1, 5).wait(), StatusCode::Timeout,
                                           {"rank 0 waited", "signal of rank 1 on channel 5", "timed out"});
                     }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, EveryChannel, testing::Values(Launch::Threads, Launch::Forked, Launch::Environment));
