// A rank for hosts_test.py: makes random calls on its device until one fails, checks every element, and says what and
// when. Arguments: a seed, which is the same on all ranks, the number of calls, and plugins of one program each.
#include "kolo/runtime/Device.h"
#include "kolo/runtime/Plugin.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t mostCount = 100'000;

int valueAt(int rank, size_t index, int call) { return 1000 * rank + static_cast<int>(index % 977) + 7 * call; }

/// What a rank's output has. Nothing: the rank gets none.
struct Expected {
  CollectiveKind kind;
  int rank, size, root, call;
  size_t count;

  size_t number() const {
    if ((kind == CollectiveKind::Gather || kind == CollectiveKind::Reduce) && rank != root)
      return 0;
    const bool isWhole =
        kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll || kind == CollectiveKind::Gather;
    return isWhole ? count * static_cast<size_t>(size) : count;
  }
  int sumAt(size_t index) const {
    int sum = 0;
    for (int peer = 0; peer < size; ++peer)
      sum += valueAt(peer, index, call);
    return sum;
  }
  int at(size_t index) const {
    const size_t own = static_cast<size_t>(rank) * count;
    switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
      return sumAt(index);
    case CollectiveKind::ReduceScatter:
      return sumAt(own + index);
    case CollectiveKind::Broadcast:
      return valueAt(root, index, call);
    case CollectiveKind::Scatter:
      return valueAt(root, own + index, call);
    case CollectiveKind::AllToAll:
      return valueAt(static_cast<int>(index / count), own + index % count, call);
    default:
      return valueAt(static_cast<int>(index / count), index % count, call);
    }
  }
};

void say(const Status &status) {
  std::printf("%s %d %.6f %s\n", toString(status.code()), status.rank(),
              std::chrono::duration<double>(Clock::now().time_since_epoch()).count(), status.message().c_str());
  std::fflush(stdout);
}
/// Ends the process at a failure, without waiting for ranks that were stopped or cut off.
void check(const Status &status) {
  if (status.isOk())
    return;
  say(status);
  std::_Exit(0);
}
template <class Value> Value get(Result<Value> result) {
  check(result.status());
  return std::move(result).value();
}

/// The memory of one kind of call.
struct Buffers {
  DeviceBuffer input, output;
};

class Caller {
public:
  Caller(DeviceCommunicator &on, int ownRank, const std::vector<Plugin> &all, unsigned seed)
      : communicator(on), rank(ownRank), plugins(all), stream(get(on.createStream(ownRank))), random(seed) {
    for (int kind = 0; kind < 2; ++kind) // in windows, and not
      buffers.push_back({allocate(), allocate()});
    for (DeviceBuffer *each : {&buffers[0].input, &buffers[0].output}) {
      void *memory = each->data();
      check(communicator.registerWindow({&memory, 1}, each->sizeBytes()));
    }
  }

  /// A collective, once or some times in a row.
  void call(int number) {
    const Plugin &plugin = plugins[draw(plugins.size())];
    const ProgramInfo &info = plugin.programs().front();
    CallArguments arguments;
    arguments.program = info.name;
    arguments.mesh = meshOf(info);
    arguments.type = DataType::I32;
    arguments.count =
        static_cast<int64_t>(std::exp2(std::uniform_real_distribution<>(0, std::log2(mostCount))(random)));
    arguments.root = static_cast<int>(draw(static_cast<size_t>(communicator.size())));
    Buffers &memory = buffers[draw(2)];
    fill(memory, number);
    arguments.input = memory.input.data();
    arguments.output = memory.output.data();
    for (size_t repeat = 1 + draw(3); repeat > 0; --repeat)
      check(communicator.run(plugin, arguments, stream.handle()));
    check(communicator.synchronize());
    compare(memory,
            {info.collective, rank, communicator.size(), arguments.root, number, static_cast<size_t>(arguments.count)});
  }

private:
  size_t draw(size_t number) { return std::uniform_int_distribution<size_t>(0, number - 1)(random); }
  DeviceBuffer allocate() {
    return get(communicator.allocate(rank, mostCount * sizeof(int) * static_cast<size_t>(communicator.size())));
  }
  Mesh meshOf(const ProgramInfo &info) const {
    std::vector<MeshDim> dims;
    for (size_t dim = 0; dim < info.meshDims.size(); ++dim)
      dims.push_back({info.meshDims[dim], info.meshes.front()[dim]});
    return get(Mesh::create(std::move(dims)));
  }
  void fill(Buffers &memory, int number) {
    std::vector<int> elements(memory.input.sizeBytes() / sizeof(int));
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = valueAt(rank, i, number);
    check(memory.input.write(0, elements.data(), memory.input.sizeBytes()));
    std::ranges::fill(elements, -1);
    check(memory.output.write(0, elements.data(), memory.output.sizeBytes()));
  }
  static void compare(const Buffers &memory, const Expected &expected) {
    std::vector<int> elements(memory.output.sizeBytes() / sizeof(int));
    check(memory.output.read(0, elements.data(), memory.output.sizeBytes()));
    for (size_t i = 0; i < elements.size(); ++i)
      if (int right = i < expected.number() ? expected.at(i) : -1; elements[i] != right) {
        std::printf("wrong data: %s of %zu, element %zu of rank %d is %d, not %d\n", toString(expected.kind),
                    expected.count, i, expected.rank, elements[i], right);
        std::fflush(stdout);
        std::_Exit(1);
      }
  }

  DeviceCommunicator &communicator;
  int rank;
  const std::vector<Plugin> &plugins;
  DeviceStream stream;
  std::vector<Buffers> buffers;
  std::mt19937 random;
};

} // namespace

int main(int, char **argv) {
  const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
  const int numCalls = std::atoi(argv[2]);
  std::vector<Plugin> plugins;
  for (char **path = argv + 3; *path; ++path)
    plugins.push_back(get(Plugin::load(*path)));
  {
    Communicator host = get(Communicator::createFromEnvironment({20'000, 1}));
    const int rank = host.rank();
    DeviceCommunicator devices = get(DeviceCommunicator::create(std::move(host), std::atoi(std::getenv("LOCAL_RANK"))));
    Caller caller(devices, rank, plugins, seed);
    std::printf("joined\n");
    std::fflush(stdout);
    for (int call = 0; call < numCalls; ++call)
      caller.call(call);
  }
  say({});
  return 0;
}
