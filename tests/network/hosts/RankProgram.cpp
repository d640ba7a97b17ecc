// A rank for kills_test.py: calls collectives until one fails, and says what and when. Arguments: traffic or idle, and
// the plugin of the runtime's tests. Idle ranks do something else for up to 150 ms between two barriers.
#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Plugin.h"

#include <chrono>
#include <cstdio>
#include <cstring>
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

} // namespace

int main(int, char **argv) {
  bool isIdle = std::strcmp(argv[1], "idle") == 0;
  Result<Communicator> created = Communicator::createFromEnvironment({20'000, 1});
  if (!created.isOk()) {
    std::printf("cannot join: %s\n", created.status().message().c_str());
    return 1;
  }
  Communicator communicator = std::move(created).value();
  Plugin plugin = std::move(Plugin::load(argv[2])).value();
  CallArguments arguments;
  arguments.program = "ringAllGather";
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(communicator.size()))).value();
  arguments.count = 20'000;
  arguments.type = DataType::I32;
  std::mt19937 random(static_cast<unsigned>(communicator.rank()));
  std::printf("joined\n");
  std::fflush(stdout);
  Status status;
  for (int call = 0; status.isOk(); ++call) {
    if (isIdle)
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    status = isIdle ? communicator.barrier() : gather(communicator, plugin, arguments, call);
  }
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("%s %d %.6f %s\n", toString(status.code()), status.rank(), std::chrono::duration<double>(now).count(),
              status.message().c_str());
  return 0;
}
