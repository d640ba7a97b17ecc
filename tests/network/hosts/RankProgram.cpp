// A rank for kills_test.py, faults_test.py and many_test.py: calls collectives until one fails, and says what and when.
// Arguments: how, and a plugin:
//   traffic   all-gathers, with the plugin of the runtime's tests
//   idle      barriers; up to 150 ms between two of them
//   away      likewise, and 5 s
//   count     six all-reduces with a plugin of one program; says how many messages and new connections five of them
//   cost,
//             and how many connections there are
#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Plugin.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

/// Gathers numbers that name rank, place and call. Returns what `run` returns; ends the process if a number is wrong.
Status gather(Communicator &communicator, const Plugin &plugin, CallArguments arguments, int call) {
  auto valueAt = [&](int rank, size_t index) { return 1000 * rank + static_cast<int>(index % 977) + 7 * call; };
  auto count = static_cast<size_t>(arguments.count);
  std::vector<int> input(count), output(count * static_cast<size_t>(communicator.size()));
  for (size_t i = 0; i < count; ++i)
    input[i] = valueAt(communicator.rank(), i);
  arguments.input = input.data();
  arguments.output = output.data();
  Status status = communicator.run(plugin, arguments);
  for (size_t i = 0; status.isOk() && i < output.size(); ++i)
    if (output[i] != valueAt(static_cast<int>(i / count), i % count)) {
      std::printf("wrong data\n");
      std::exit(1);
    }
  return status;
}

/// Sums numbers that name rank, place and call. Returns as gather.
Status reduce(Communicator &communicator, const Plugin &plugin, CallArguments arguments, int call) {
  auto valueAt = [&](int rank, size_t index) { return 1000 * rank + static_cast<int>(index % 977) + 7 * call; };
  static std::vector<int> input(static_cast<size_t>(arguments.count)), output(input.size()); // a call is repeated
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = valueAt(communicator.rank(), i);
    output[i] = -1;
  }
  arguments.input = input.data();
  arguments.output = output.data();
  Status status = communicator.run(plugin, arguments);
  for (size_t i = 0; status.isOk() && i < output.size(); ++i) {
    int sum = 0;
    for (int rank = 0; rank < communicator.size(); ++rank)
      sum += valueAt(rank, i);
    if (output[i] != sum) {
      std::printf("wrong data\n");
      std::exit(1);
    }
  }
  return status;
}

Status count(Communicator &communicator, const Plugin &plugin, const CallArguments &arguments) {
  constexpr int numCalls = 5;
  Traffic before;
  for (int call = 0; call <= numCalls; ++call) {
    if (Status status = reduce(communicator, plugin, arguments, call); !status.isOk())
      return status;
    if (call == 0)
      before = communicator.traffic();
  }
  Traffic after = communicator.traffic();
  std::printf("messages %ld new %ld connections %ld\n", static_cast<long>(after.messages - before.messages),
              static_cast<long>(after.connections - before.connections), static_cast<long>(after.connections));
  return communicator.barrier();
}

} // namespace

int main(int, char **argv) {
  const std::string mode = argv[1];
  Result<Communicator> created = Communicator::createFromEnvironment({20'000, 1});
  if (!created.isOk()) {
    std::printf("cannot join: %s\n", created.status().message().c_str());
    return 1;
  }
  Communicator communicator = std::move(created).value();
  Plugin plugin = std::move(Plugin::load(argv[2])).value();
  CallArguments arguments;
  arguments.program = mode == "count" ? "" : "ringAllGather";
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(communicator.size()))).value();
  arguments.count = mode == "count" ? 1000 : 20'000;
  arguments.type = DataType::I32;
  std::mt19937 random(static_cast<unsigned>(communicator.rank()));
  std::printf("joined\n");
  std::fflush(stdout);
  Status status;
  if (mode == "count")
    status = count(communicator, plugin, arguments);
  for (int call = 0; status.isOk() && mode != "count"; ++call) {
    if (mode != "traffic")
      std::this_thread::sleep_for(std::chrono::milliseconds(mode == "away" ? 5000 : random() % 150));
    status = mode == "traffic" ? gather(communicator, plugin, arguments, call) : communicator.barrier();
  }
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("%s %d %.6f %s\n", toString(status.code()), status.rank(), std::chrono::duration<double>(now).count(),
              status.message().c_str());
  return 0;
}
