// One rank of several threads or processes, with its communicator, its buffers and its stream.
#pragma once

#include "device/Support.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::test {

inline constexpr int numRanks = 3;
inline constexpr DeviceOptions smallOptions = {.lanes = 2, .internalBytes = size_t(64) << 10};
/// What crosses to another host at once.
inline constexpr int64_t chunkElements = 131072 / 4;

/// A rank that knows its communicator, its buffers and its stream.
struct Member {
  Member(Communicator &host, const Job &job, const DeviceOptions &options = {.lanes = 2, .internalBytes = littleMemory},
         DeviceMemoryKind kind = DeviceMemoryKind::Plain)
      : job(job), communicator(make(std::move(host), options)),
        rank(communicator, communicator.ranks().front(), job, kind),
        stream(std::move(*communicator.createStream(communicator.ranks().front()))) {}

  static DeviceCommunicator make(Communicator host, const DeviceOptions &options) {
    int device = host.rank() % 2;
    auto made = DeviceCommunicator::create(std::move(host), device, options);
    if (!made.isOk())
      throw std::runtime_error(made.status().message());
    return std::move(made).value();
  }
  /// Goes on with another job, in new buffers. Earlier ones are kept: to free memory waits for all kernels of the
  /// device, and those of other ranks on it may wait for calls that this rank makes after that.
  void changeJob(const Job &other, bool isInPlace = false) {
    job = other;
    earlier.push_back(
        std::exchange(rank, Rank(communicator, communicator.ranks().front(), job, DeviceMemoryKind::Plain, isInPlace)));
  }
  Status start() {
    CallArguments arguments = job.arguments();
    arguments.input = rank.buffers().input;
    arguments.output = rank.buffers().output;
    return communicator.run(plugin, arguments, stream.handle());
  }
  /// A call, and its end.
  Status finish() {
    Status status = start();
    return status.isOk() ? communicator.synchronize() : status;
  }
  std::string run(int numCalls) {
    for (int turn = 0; turn < numCalls; ++turn) {
      rank.fill(turn);
      if (Status status = start(); !status.isOk())
        return status.message();
      if (Status status = communicator.synchronize(); !status.isOk())
        return status.message();
      if (std::string wrong = rank.check(turn); !wrong.empty())
        return "call " + std::to_string(turn) + ": " + wrong;
    }
    return "";
  }

  Job job;
  Plugin plugin = devicePlugin();
  DeviceCommunicator communicator;
  Rank rank;
  std::vector<Rank> earlier;
  DeviceStream stream;
};

inline int rankOf(const Member &member) { return member.communicator.ranks().front(); }

/// Another call by the same rank: with a program, buffers and data of its own.
struct OtherCall {
  OtherCall(Member &member, const Job &job, int turn)
      : job(job), rank(member.communicator, member.communicator.ranks().front(), job), turn(turn) {
    rank.fill(turn);
  }
  Status start(Member &member, StreamHandle stream) const {
    CallArguments arguments = job.arguments();
    arguments.input = rank.buffers().input;
    arguments.output = rank.buffers().output;
    return member.communicator.run(member.plugin, arguments, stream);
  }
  std::string check() const { return rank.check(turn); }

  Job job;
  Rank rank;
  int turn;
};

/// What `query` reports at last, or what the call itself returned. Then the stream has nothing left to do.
inline Status queryUntilFailure(Member &member, Status status) {
  for (; status.isOk(); status = member.communicator.query())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int mark : {0, 1})
    EXPECT_EQ(member.stream.mark(mark).message(), "");
  EXPECT_TRUE(member.stream.elapsedMicroseconds().isOk());
  return status;
}

inline Job jobOf(const char *program, int64_t count = 1000) { return {program, count, numRanks}; }

/// What a body that throws says.
inline RankBody guardedBody(const RankBody &body) {
  return [body](Communicator &host) -> std::string {
    try {
      return body(host);
    } catch (const std::exception &problem) {
      return problem.what();
    }
  };
}

inline std::string inAll(Launch kind, const RankBody &body, int timeoutMs = 10000) {
  (void)devicePlugin();
  return runRanks(kind, numRanks, {.timeoutMs = timeoutMs}, guardedBody(body));
}

} // namespace kolo::test
