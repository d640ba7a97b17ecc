// What the door for NCCL costs on the host, per call, over stand-ins for NCCL and for CUDA's driver: the same functions
// of the door and of the library behind it, in turns. Two ranks in this process: made by one thread, or by two.
//   usage: kolo-bench-nccl DOOR NCCL PLUGIN, with KOLO_CUDA_DRIVER and KOLO_NCCL_LIB=NCCL
#include "kolo/runtime/Device.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int rounds = 21;
using Clock = std::chrono::steady_clock;
using Comm = void *;

double nanosecondsPerCall(int number, const std::function<void()> &call) {
  Clock::time_point start = Clock::now();
  for (int i = 0; i < number; ++i)
    call();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / number;
}

struct Times {
  std::vector<double> all;
  std::string text() {
    std::sort(all.begin(), all.end());
    char line[64];
    std::snprintf(line, sizeof(line), "%.0f [%.0f-%.0f] ns", all[all.size() / 2], all.front(), all.back());
    return line;
  }
};

void compare(const char *what, int number, const std::function<void()> &door, const std::function<void()> &plain) {
  Times through, beside;
  for (int round = 0; round < rounds; ++round) {
    through.all.push_back(nanosecondsPerCall(number, door));
    beside.all.push_back(nanosecondsPerCall(number, plain));
  }
  std::string first = through.text(), second = beside.text();
  double added = through.all[rounds / 2] - beside.all[rounds / 2];
  std::printf("| %s | %s | %s | %.0f ns |\n", what, first.c_str(), second.c_str(), added);
}

void *open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return library;
}

template <class Function> Function *find(void *library, const char *name) {
  return reinterpret_cast<Function *>(dlsym(library, name));
}

template <class Value> Value valueOf(Result<Value> result) {
  if (result.isOk())
    return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().message().c_str());
  std::exit(1);
}

void expect(bool isRight, const char *what) {
  if (isRight)
    return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

using AllReduce = int(const void *, void *, size_t, int, int, Comm, void *);

constexpr int ncclInt = 2, ncclSum = 0, ncclFloat8 = 10;

void measureForwarded(void *door, void *nccl, Comm comm) {
  int version = 0;
  auto *viaDoor = find<int(int *)>(door, "ncclGetVersion");
  auto *plain = find<int(int *)>(nccl, "ncclGetVersion");
  compare("`ncclGetVersion`", 200000, [&] { viaDoor(&version); }, [&] { plain(&version); });
  auto *reduceViaDoor = find<AllReduce>(door, "ncclAllReduce");
  auto *reducePlain = find<AllReduce>(nccl, "ncclAllReduce");
  std::array<char, 64> memory = {};
  auto call = [&](AllReduce *function) {
    function(memory.data(), memory.data(), 1, ncclFloat8, ncclSum, comm, nullptr); // no type of Kolo
  };
  compare("`ncclAllReduce`, forwarded", 200000, [&] { call(reduceViaDoor); }, [&] { call(reducePlain); });
}

/// Two streams whose work goes into a graph, so that nothing runs meanwhile and the host's own time is what is
/// measured.
class Capture {
public:
  explicit Capture(std::span<const StreamHandle> of) : streams(of) {
    for (StreamHandle stream : streams)
      expect(find<int(void *, int)>(driver(), "cuStreamBeginCapture_v2")(stream, threadLocal) == 0,
             "no capture begins");
  }
  ~Capture() {
    for (StreamHandle stream : streams) {
      void *graph = nullptr;
      expect(find<int(void *, void **)>(driver(), "cuStreamEndCapture")(stream, &graph) == 0, "no capture ends");
      find<int(void *)>(driver(), "cuGraphDestroy")(graph);
    }
  }
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;

private:
  static constexpr int threadLocal = 1;
  static void *driver() {
    static void *library = open(std::getenv("KOLO_CUDA_DRIVER"));
    return library;
  }
  std::span<const StreamHandle> streams;
};

/// Both ranks in one group, and the same call without the door.
void measureCarried(void *door, const std::array<Comm, 2> &comms, const Plugin &plugin) {
  const std::array<int, 2> devices = {0, 1};
  DeviceCommunicator beside = valueOf(DeviceCommunicator::createLocal(devices));
  std::vector<DeviceBuffer> inputs, outputs;
  std::vector<DeviceStream> streams;
  std::vector<RankBuffers> buffers;
  std::vector<StreamHandle> handles;
  for (int rank : {0, 1}) {
    inputs.push_back(valueOf(beside.allocate(rank, 4096)));
    outputs.push_back(valueOf(beside.allocate(rank, 4096)));
    streams.push_back(valueOf(beside.createStream(rank)));
    buffers.push_back({inputs.back().data(), outputs.back().data()});
    handles.push_back(streams.back().handle());
  }
  auto *groupStart = find<int()>(door, "ncclGroupStart");
  auto *groupEnd = find<int()>(door, "ncclGroupEnd");
  auto *reduce = find<AllReduce>(door, "ncclAllReduce");
  CallArguments arguments{plugin.programs().front().name, valueOf(Mesh::parse("rank=2")), 16, DataType::I32};
  arguments.collective = CollectiveKind::AllReduce;
  auto throughDoor = [&] {
    groupStart();
    int code = 0;
    for (size_t rank : {0, 1})
      code += reduce(buffers[rank].input, buffers[rank].output, 16, ncclInt, ncclSum, comms[rank], handles[rank]);
    code += groupEnd();
    expect(code == 0, "a carried call fails");
  };
  auto plain = [&] { expect(beside.run(plugin, arguments, buffers, handles).isOk(), "a call fails"); };
  throughDoor();
  plain();
  expect(beside.synchronize().isOk(), "waiting fails");
  for (DeviceStream &stream : streams) // the door's calls have ended, too
    if (!stream.mark(0).isOk() || !stream.mark(1).isOk() || !stream.elapsedMicroseconds().isOk())
      expect(false, "a stream does not end");
  Capture capture(handles);
  compare("a group of `ncclAllReduce` for two ranks, carried", 500, throughDoor, plain);
}

/// A communicator for each of two ranks, made by a thread each.
template <class Made> std::array<Made, 2> makeInThreads(const std::function<Made(int)> &make) {
  std::array<std::optional<Made>, 2> made;
  std::thread first([&] { made[0].emplace(make(0)); }), second([&] { made[1].emplace(make(1)); });
  first.join();
  second.join();
  return {std::move(*made[0]), std::move(*made[1])};
}

/// Each rank for itself, as in threads or processes of their own, and the same calls without the door.
void measureEachRank(void *door, void *nccl, const Plugin &plugin) {
  struct UniqueId {
    char bytes[128];
  } id;
  expect(find<int(UniqueId *)>(door, "ncclGetUniqueId")(&id) == 0, "there is no identifier");
  auto comms = makeInThreads<Comm>([&](int rank) {
    find<void(int)>(nccl, "standInSetDevice")(rank);
    Comm comm = nullptr;
    expect(find<int(Comm *, int, UniqueId, int)>(door, "ncclCommInitRank")(&comm, 2, id, rank) == 0, "no communicator");
    return comm;
  });
  auto hosts = valueOf(Communicator::createThreads(2));
  auto beside = makeInThreads<DeviceCommunicator>(
      [&](int rank) { return valueOf(DeviceCommunicator::create(std::move(hosts[static_cast<size_t>(rank)]), rank)); });
  std::vector<DeviceBuffer> memory;
  std::vector<DeviceStream> streams;
  std::vector<StreamHandle> handles;
  CallArguments arguments{plugin.programs().front().name, valueOf(Mesh::parse("rank=2")), 16, DataType::I32};
  arguments.collective = CollectiveKind::AllReduce;
  for (int rank : {0, 1}) {
    memory.push_back(valueOf(beside[static_cast<size_t>(rank)].allocate(rank, 8192)));
    streams.push_back(valueOf(beside[static_cast<size_t>(rank)].createStream(rank)));
    handles.push_back(streams.back().handle());
  }
  auto outputOf = [&](size_t rank) { return static_cast<char *>(memory[rank].data()) + 4096; };
  auto *reduce = find<AllReduce>(door, "ncclAllReduce");
  auto throughDoor = [&] {
    for (size_t rank : {0, 1})
      expect(reduce(memory[rank].data(), outputOf(rank), 16, ncclInt, ncclSum, comms[rank], handles[rank]) == 0,
             "a carried call fails");
  };
  auto plain = [&] {
    for (size_t rank : {0, 1}) {
      arguments.input = memory[rank].data();
      arguments.output = outputOf(rank);
      expect(beside[rank].run(plugin, arguments, handles[rank]).isOk(), "a call fails");
    }
  };
  auto *groupStart = find<int()>(door, "ncclGroupStart");
  auto *groupEnd = find<int()>(door, "ncclGroupEnd");
  auto inGroups = [&] {
    for (size_t rank : {0, 1}) {
      expect(groupStart() == 0, "no group begins");
      expect(reduce(memory[rank].data(), outputOf(rank), 16, ncclInt, ncclSum, comms[rank], handles[rank]) == 0 &&
                 groupEnd() == 0,
             "a carried call in a group fails");
    }
  };
  throughDoor();
  plain();
  for (DeviceStream &stream : streams)
    if (!stream.mark(0).isOk() || !stream.mark(1).isOk() || !stream.elapsedMicroseconds().isOk())
      expect(false, "a stream does not end");
  {
    Capture capture(handles);
    compare("`ncclAllReduce` by each of two ranks, carried", 500, throughDoor, plain);
    compare("a group of one `ncclAllReduce` by each of two ranks, carried", 500, inGroups, plain);
  }
  std::thread other([last = std::move(beside[0])]() mutable { DeviceCommunicator ended = std::move(last); });
  {
    DeviceCommunicator ended = std::move(beside[1]);
  }
  other.join();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4)
    return std::fprintf(stderr, "usage: kolo-bench-nccl DOOR NCCL PLUGIN\n"), 2;
  setenv("KOLO_NCCL_LIB", argv[2], 1);
  setenv("KOLO_PLUGIN_PATH", argv[3], 1);
  void *nccl = open(argv[2]), *door = open(argv[1]);
  std::array<Comm, 2> comms = {};
  const std::array<int, 2> devices = {0, 1};
  expect(find<int(Comm *, int, const int *)>(door, "ncclCommInitAll")(comms.data(), 2, devices.data()) == 0,
         "no communicator can be made");
  std::printf("| call | through the door | without it | added |\n|---|---|---|---|\n");
  measureForwarded(door, nccl, comms[0]);
  measureCarried(door, comms, valueOf(Plugin::load(argv[3])));
  measureEachRank(door, nccl, valueOf(Plugin::load(argv[3])));
  return 0;
}
