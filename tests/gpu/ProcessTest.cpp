// One rank per process, on as many devices as there are: memory is mapped across processes, and a rank that is killed
// is missed.
#include "Support.h"

#include "../runtime/Ranks.h"
#include "targets/gpu/DeviceFunctions.h"

#include <csignal>

using namespace kolo::test;
using kolo::runtime::CallArguments;
using kolo::runtime::DataType;
using kolo::runtime::DeviceBuffer;
using kolo::runtime::DeviceCommunicator;
using kolo::runtime::DeviceStream;
using kolo::runtime::Plugin;

namespace {

constexpr int numRanks = 4;
constexpr int64_t count = 5000;

/// A rank of a ring all-gather of i32.
class Member {
public:
  Member(Communicator host, const Plugin &program)
      : plugin(program), rank(host.rank()), communicator(make(std::move(host))),
        input(valueOf(communicator.allocate(rank, count * 4))),
        output(valueOf(communicator.allocate(rank, numRanks * count * 4))),
        stream(valueOf(communicator.createStream(rank))) {}

  /// "" when all is right.
  std::string run(int turn) {
    std::vector<int32_t> content(count), found(numRanks * count, -1);
    for (int64_t index = 0; index < count; ++index)
      content[size_t(index)] = elementOf(rank, index, turn);
    Status status = input.write(0, content.data(), count * 4);
    if (status.isOk())
      status = output.write(0, found.data(), found.size() * 4);
    if (status.isOk())
      status = start();
    if (status.isOk())
      status = communicator.synchronize();
    if (status.isOk())
      status = output.read(0, found.data(), found.size() * 4);
    if (!status.isOk())
      return status.message();
    for (int64_t index = 0; index < numRanks * count; ++index)
      if (found[size_t(index)] != elementOf(int(index / count), index % count, turn))
        return "element " + std::to_string(index) + " is wrong in call " + std::to_string(turn);
    return "";
  }

  Status start() {
    CallArguments arguments{"", *kolo::runtime::Mesh::parse("rank=" + std::to_string(numRanks)), count, DataType::I32};
    arguments.input = input.data();
    arguments.output = output.data();
    return communicator.run(plugin, arguments, stream.handle());
  }

  Status finish() { return communicator.synchronize(); }

private:
  template <class T> static T valueOf(kolo::runtime::Result<T> result) {
    if (!result.isOk())
      throw std::runtime_error(result.status().message());
    return std::move(result).value();
  }
  static DeviceCommunicator make(Communicator host) {
    int device = host.rank() % valueOf(kolo::runtime::countDevices(kolo::runtime::DeviceKind::Cuda));
    return valueOf(DeviceCommunicator::create(std::move(host), device, {.lanes = 4}));
  }
  static int32_t elementOf(int of, int64_t index, int turn) { return of * 100000 + int32_t(index) + turn * 7; }

  const Plugin &plugin;
  int rank;
  DeviceCommunicator communicator;
  DeviceBuffer input, output;
  DeviceStream stream;
};

/// What every rank said, each in a process that touched no device before; nothing where there is none.
std::vector<std::string> inProcesses(const std::function<std::string(int rank, Communicator host)> &body) {
  auto simulated = kolo::runtime::ForkedRanks::create(numRanks);
  return runProcesses(numRanks, [&](int rank) -> std::string {
    if (std::string why = whyNoDevice(); !why.empty())
      return "no device: " + why;
    try {
      auto host = Communicator::createForked(*simulated, rank, {.timeoutMs = 15000});
      return host.isOk() ? body(rank, std::move(*host)) : host.status().message();
    } catch (const std::exception &problem) {
      return problem.what();
    }
  });
}

} // namespace

TEST(DeviceProcesses, RanksReachEachOthersMemoryUntilOneIsKilled) {
  DeviceAlgorithm algorithm("ringAllGather", {{KOLO_I32}, {KOLO_SUM}, kolo::Accumulation::F32}, "sm_70");
  std::vector<std::string> said = inProcesses([&](int rank, Communicator host) {
    Member member(std::move(host), *algorithm.plugin);
    std::string wrong;
    for (int turn = 0; turn < 5; ++turn)
      wrong += member.run(turn);
    // Whoever begins another call has seen all others end theirs; that one may end before it is missed that somebody is
    // gone.
    Status status = member.start();
    if (rank == 2)
      raise(SIGKILL);
    for (int call = 0; call < 3 && status.isOk(); ++call) {
      status = member.finish();
      if (status.isOk())
        status = member.start();
    }
    bool isKnown = status.code() == StatusCode::PeerLost || status.code() == StatusCode::Aborted;
    return wrong +
           (isKnown && status.message().find("rank 2") != std::string::npos ? "" : "not missed: " + status.message());
  });
  if (said[0].starts_with("no device"))
    GTEST_SKIP() << said[0];
  EXPECT_EQ(said, (std::vector<std::string>{"", "", "killed by signal 9", ""}));
}

TEST(DeviceProcesses, SendLinesUnlessSomeDevicesHaveNoNvlink) {
  if (!isStandIn())
    GTEST_SKIP() << "its devices are made up";
  DeviceAlgorithm algorithm("ringAllGather", {{KOLO_I32}, {KOLO_SUM}, kolo::Accumulation::F32}, "sm_70",
                            {.protocol = kolo::Protocol::LL128});
  StandInThreads threads(kolo::gpu::threadsPerLine);
  auto body = [&](int, Communicator host) {
    Member member(std::move(host), *algorithm.plugin);
    std::string wrong = member.run(0);
    return wrong.empty() ? member.run(1) + member.run(2) : wrong;
  };
  EXPECT_EQ(inProcesses(body), std::vector<std::string>(numRanks));
  ScopedVariable none("KOLO_STANDIN_NVLINK", "0");
  std::vector<std::string> said = inProcesses(body);
  for (const std::string &text : said)
    EXPECT_NE(text.find("program 'ringAllGather' uses protocol ll128, whose lines arrive whole only inside a device "
                        "and over NVLink"),
              std::string::npos)
        << text;
}
