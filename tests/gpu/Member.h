// One rank of an algorithm with its own communicator, buffers and stream: for ranks in threads and in processes.
#pragma once

#include "../runtime/Ranks.h"
#include "Support.h"

#include <chrono>
#include <thread>

namespace kolo::test {

/// Throws what goes wrong; the functions that say what is wrong give "" when all is right.
class Member {
public:
  Member(Communicator host, const DeviceAlgorithm &algorithm, int64_t count,
         const runtime::DeviceOptions &options = {.lanes = 4, .timeoutMs = 8000},
         runtime::DeviceMemoryKind kind = runtime::DeviceMemoryKind::Plain)
      : plugin(algorithm.plugin), rank(host.rank()),
        call(algorithm.call(valueOf(runtime::Mesh::parse("rank=" + std::to_string(host.size()))), count)),
        communicator(make(std::move(host), options)),
        input(valueOf(communicator.allocate(rank, call.inputBytes(), kind))),
        output(valueOf(communicator.allocate(rank, call.outputBytes(), kind))),
        stream(valueOf(communicator.createStream(rank))) {}

  void fill(uint64_t turn) {
    inputs = taggedInputs(call, turn);
    Bytes poisoned(call.outputBytes(), poison);
    expectOk(input.write(0, inputs[size_t(rank)].data(), call.inputBytes()));
    expectOk(output.write(0, poisoned.data(), poisoned.size()));
  }

  Status start() {
    runtime::CallArguments arguments = argumentsOf(call);
    arguments.input = input.data();
    arguments.output = output.data();
    return communicator.run(plugin, arguments, stream.handle());
  }

  Status finish() { return communicator.synchronize(); }
  Status query() { return communicator.query(); }

  std::string check() const {
    Bytes found(call.outputBytes());
    expectOk(output.read(0, found.data(), found.size()));
    return checkOutput(call, inputs, rank, found);
  }

  std::string run(uint64_t turn) {
    fill(turn);
    Status status = start();
    if (status.isOk())
      status = finish();
    return status.isOk() ? check() : status.message();
  }

private:
  static runtime::DeviceCommunicator make(Communicator host, const runtime::DeviceOptions &options) {
    int device = host.rank() % valueOf(runtime::countDevices(runtime::DeviceKind::Cuda));
    return valueOf(runtime::DeviceCommunicator::create(std::move(host), device, options));
  }

  const runtime::Plugin &plugin;
  int rank;
  DeviceCall call;
  runtime::DeviceCommunicator communicator;
  runtime::DeviceBuffer input, output;
  std::vector<Bytes> inputs; // of all ranks

public:
  runtime::DeviceStream stream;
};

/// What a body says or throws.
template <class Body> std::string guarded(Body &&body) {
  try {
    return body();
  } catch (const std::exception &problem) {
    return problem.what();
  }
}

/// Starts the calls one after the other without waiting, each rank late in its turn; "" when the last one is right.
inline std::string runWithSkew(Member &member, int rank, int numRanks, int numCalls) {
  member.fill(1);
  for (int call = 0; call < numCalls; ++call) {
    if (call % numRanks == rank)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (Status status = member.start(); !status.isOk())
      return status.message();
  }
  Status status = member.finish();
  return status.isOk() ? member.check() : status.message();
}

} // namespace kolo::test
