#include "StandInNccl.h"

#include "Recording.h"
#include "doors/nccl/Types.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace kolo::nccl;
using namespace kolo::test;

namespace kolo::nccl {

/// A communicator's end, by the name that its handle has.
struct OpaqueComm {
  std::string name;
  int rank = 0, size = 1, device = 0, numChildren = 0;
  bool isNonBlocking = false;
  int numGathered = 0;
  std::shared_ptr<std::atomic<int>> numInProgress = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<bool>> isAborted = std::make_shared<std::atomic<bool>>(false);
};

/// Null addresses: of ranks in other processes.
struct OpaqueWindow {
  std::vector<void *> addresses;
};

} // namespace kolo::nccl

namespace {

std::atomic<bool> isRecording = false;
std::atomic<int64_t> numCollectives = 0, numTooEarly = 0, numFinalized = 0, numAddresses = 0;
thread_local std::string lastRecord;
thread_local int currentDevice = 0, depth = 0;
thread_local Code groupFailure = Code::Success; // said at the end of a group

/// What happens at the end of a group.
struct Pending {
  Comm owner;
  std::function<void()> run;
};
thread_local std::vector<Pending> pending;

/// As NCCL: its variable goes before the configuration. KOLO_STANDIN_NONBLOCKING is like a file with NCCL's settings,
/// which programs do not see.
bool isNonBlocking(const Config *config, bool otherwise) {
  std::string_view text = std::getenv("NCCL_COMM_BLOCKING") ? std::getenv("NCCL_COMM_BLOCKING") : "";
  if (text == "0" || text == "1")
    return text == "0";
  if (std::getenv("KOLO_STANDIN_NONBLOCKING"))
    return true;
  return config ? config->blocking == 0 : otherwise;
}

/// At the end of a group: in the background where a communicator is non-blocking, and not at once.
Code runPending() {
  if (depth != 0)
    return Code::Success;
  auto now = std::exchange(pending, {});
  if (std::ranges::none_of(now, [](const Pending &each) { return each.owner->isNonBlocking; })) {
    for (const Pending &each : now)
      each.run();
    return Code::Success;
  }
  std::vector<std::shared_ptr<std::atomic<int>>> owners;
  for (const Pending &each : now)
    ++*owners.emplace_back(each.owner->numInProgress);
  std::thread([now = std::move(now), owners = std::move(owners)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const Pending &each : now)
      each.run();
    for (const auto &numInProgress : owners)
      --*numInProgress;
  }).detach();
  return Code::InProgress;
}

Code checkReady(Comm comm) {
  if (*comm->numInProgress == 0)
    return Code::Success;
  ++numTooEarly;
  return Code::InvalidArgument;
}

/// What the ranks of a new communicator share.
struct Meeting {
  static constexpr int most = 64;
  static constexpr size_t mostBytes = 512;
  std::atomic<int> numArrived;
  int colors[most], keys[most];     // or process numbers
  void *addresses[most];            // of a window
  std::byte bytes[most][mostBytes]; // of an all-gather
};

Meeting *openMeeting(const std::string &name) {
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0)
    std::abort();
  void *mapped = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return static_cast<Meeting *>(mapped);
}

/// Comes to the meeting now; `then` happens when all have come, which is awaited at the end of a group.
Code meet(Comm owner, const std::string &name, int rank, int size, int color, int key,
          std::function<void(Meeting &)> then) {
  Meeting *meeting = openMeeting(name);
  meeting->colors[rank] = color;
  meeting->keys[rank] = key;
  meeting->numArrived.fetch_add(1);
  auto run = [=, then = std::move(then)] {
    while (meeting->numArrived.load() < size)
      std::this_thread::yield();
    then(*meeting);
    shm_unlink(name.c_str());
    munmap(meeting, sizeof(Meeting));
  };
  pending.push_back({owner, std::move(run)});
  return runPending();
}

/// As an NCCL before 2.30.3, which refuses ranks of one node on one device, at the end of a group. Asked for by
/// KOLO_STANDIN_ALONE; processes that set NCCL_HOSTID are nodes of their own.
bool isRefused() { return std::getenv("KOLO_STANDIN_ALONE") && !std::getenv("NCCL_HOSTID"); }

Code initialize(Comm *made, int numRanks, const UniqueId &id, int rank, const Config *config) {
  if (numRanks < 1 || rank < 0 || rank >= numRanks)
    return Code::InvalidArgument;
  if (numRanks > 1 && isRefused()) {
    *made = nullptr;
    return depth == 0 ? Code::InvalidUsage : (groupFailure = Code::InvalidUsage, Code::Success);
  }
  std::string name = std::string("/kolo-standin-") + id.bytes;
  *made = new OpaqueComm{name, rank, numRanks, currentDevice, 0, isNonBlocking(config, false)};
  return meet(*made, name, rank, numRanks, 0, 0, [](Meeting &) {});
}

/// Ranks of one color, by their keys. As with NCCL, there is no communicator before it is ready.
Code divide(Comm comm, const std::string &how, int color, int key, int size, int position, Comm *made,
            const Config *config) {
  if (Code code = checkReady(comm); code != Code::Success)
    return code;
  std::string name = comm->name + how + std::to_string(comm->numChildren++);
  *made = nullptr;
  bool isChildNonBlocking = isNonBlocking(config, comm->isNonBlocking);
  return meet(comm, name, position, size, color, key, [=, parent = *comm](Meeting &meeting) {
    if (color < 0)
      return;
    auto *child = new OpaqueComm{name + "c" + std::to_string(color), 0, 0, parent.device, 0, isChildNonBlocking};
    for (int peer = 0; peer < size; ++peer) {
      child->size += meeting.colors[peer] == color;
      child->rank += meeting.colors[peer] == color &&
                     std::pair(meeting.keys[peer], peer) < std::pair(meeting.keys[position], position);
    }
    *made = child;
  });
}

/// A function of the driver that the door uses.
template <class... Arguments> Code callDriver(const char *name, Arguments... arguments) {
  const char *path = std::getenv("KOLO_CUDA_DRIVER");
  void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
  // Where the program has a stand-in for HIP, that one is built on this driver, too.
  auto *function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver ? driver : RTLD_DEFAULT, name));
  return function && function(arguments...) == 0 ? Code::Success : Code::UnhandledCudaError;
}

/// An all-gather of bytes, which its stream runs.
struct Gathering {
  std::string name;
  int rank, size;
  size_t sizeBytes;
  std::shared_ptr<std::atomic<bool>> isAborted;
  std::vector<std::byte> bytes; // of this rank, then of all

  void run() {
    Meeting *meeting = openMeeting(name);
    std::copy(bytes.begin(), bytes.end(), meeting->bytes[rank]);
    meeting->numArrived.fetch_add(1);
    while (meeting->numArrived.load() < size && !*isAborted)
      std::this_thread::yield();
    shm_unlink(name.c_str());
    bytes.resize(sizeBytes * static_cast<size_t>(size)); // in place: the copy that follows has its address
    for (int peer = 0; peer < size; ++peer)
      std::copy_n(meeting->bytes[peer], sizeBytes, bytes.data() + static_cast<size_t>(peer) * sizeBytes);
    munmap(meeting, sizeof(Meeting));
  }
};

/// Calls on the device of a communicator. Streams of HIP are those of this driver, too.
Code gather(Comm comm, const void *input, void *output, size_t sizeBytes, Stream stream) {
  auto all = sizeBytes * static_cast<size_t>(comm->size);
  auto *made = new Gathering{
      comm->name + "g" + std::to_string(comm->numGathered++), comm->rank, comm->size, sizeBytes, comm->isAborted, {}};
  made->bytes.reserve(all);
  made->bytes.resize(sizeBytes);
  void *context = nullptr;
  const Code codes[] = {callDriver("cuDevicePrimaryCtxRetain", &context, comm->device),
                        callDriver("cuCtxPushCurrent_v2", context),
                        callDriver("cuMemcpyAsync", static_cast<void *>(made->bytes.data()), input, sizeBytes, stream),
                        callDriver(
                            "cuLaunchHostFunc", stream, +[](void *data) { static_cast<Gathering *>(data)->run(); },
                            static_cast<void *>(made)),
                        callDriver("cuMemcpyAsync", output, static_cast<const void *>(made->bytes.data()), all, stream),
                        callDriver(
                            "cuLaunchHostFunc", stream, +[](void *data) { delete static_cast<Gathering *>(data); },
                            static_cast<void *>(made)),
                        callDriver("cuCtxPopCurrent_v2", &context)};
  auto failed = std::ranges::find_if(codes, [](Code each) { return each != Code::Success; });
  return failed == std::end(codes) ? Code::Success : *failed;
}

#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments) struct Of##name;
#include "doors/nccl/Api.def"

/// Functions that do something. All others answer as `answer` below.
template <class Function> struct Does;

template <class Answer> Answer answer(const char *name) {
  int number = isRecording ? answerOf(name) : 0;
  if constexpr (std::is_same_v<Answer, Code>)
    return static_cast<Code>(number);
  else if constexpr (std::is_same_v<Answer, Team>)
    return {number, number + 1, number + 2};
  else if constexpr (std::is_same_v<Answer, const char *>)
    return "an answer of the stand-in";
  else if constexpr (!std::is_void_v<Answer>)
    return number;
}

#define KOLO_DOES(name, ...)                                                                                           \
  template <> struct Does<Of##name> {                                                                                  \
    static Code call(__VA_ARGS__);                                                                                     \
  };                                                                                                                   \
  Code Does<Of##name>::call(__VA_ARGS__)

KOLO_DOES(GetVersion, int *version) { return *version = 22809, Code::Success; }
KOLO_DOES(GetUniqueId, UniqueId *id) {
  *id = {};
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    return Code::SystemError;
  std::snprintf(id->bytes, sizeof(id->bytes), "%016llx", static_cast<unsigned long long>(number));
  return Code::Success;
}
KOLO_DOES(CommInitRank, Comm *made, int numRanks, UniqueId id, int rank) {
  return initialize(made, numRanks, id, rank, nullptr);
}
KOLO_DOES(CommInitRankConfig, Comm *made, int numRanks, UniqueId id, int rank, Config *config) {
  return initialize(made, numRanks, id, rank, config);
}
KOLO_DOES(CommInitAll, Comm *made, int numDevices, const int *devices) {
  for (int rank = 0; rank < numDevices; ++rank)
    made[rank] = new OpaqueComm{"/kolo-standin-all" + std::to_string(getpid()), rank, numDevices,
                                devices ? devices[rank] : rank};
  return Code::Success;
}
KOLO_DOES(CommSplit, Comm comm, int color, int key, Comm *made, Config *config) {
  return divide(comm, "s", color, key, comm->size, comm->rank, made, config);
}
KOLO_DOES(CommShrink, Comm comm, int *excluded, int numExcluded, Comm *made, Config *config, int) {
  int position = comm->rank;
  for (int i = 0; i < numExcluded; ++i)
    position -= excluded[i] < comm->rank;
  return divide(comm, "r", 0, 0, comm->size - numExcluded, position, made, config);
}
KOLO_DOES(CommWindowRegister, Comm comm, void *memory, size_t, Window *made, int) {
  std::string name = comm->name + "w" + std::to_string(comm->numChildren++);
  auto *window = *made = new OpaqueWindow;
  Meeting *meeting = openMeeting(name);
  meeting->addresses[comm->rank] = memory;
  munmap(meeting, sizeof(Meeting));
  return meet(comm, name, comm->rank, comm->size, getpid(), 0, [=, size = comm->size](Meeting &all) {
    for (int peer = 0; peer < size; ++peer)
      window->addresses.push_back(all.colors[peer] == getpid() ? all.addresses[peer] : nullptr);
  });
}
KOLO_DOES(CommWindowDeregister, Comm, Window window) { return delete window, Code::Success; }
KOLO_DOES(GetPeerDevicePointer, Window window, size_t offset, int peer, void **address) {
  void *base = window->addresses[static_cast<size_t>(peer)];
  ++numAddresses;
  *address = base ? static_cast<char *>(base) + offset : nullptr;
  return Code::Success;
}
KOLO_DOES(MemAlloc, void **memory, size_t sizeBytes) { return callDriver("cuMemAlloc_v2", memory, sizeBytes); }
KOLO_DOES(MemFree, void *memory) { return memory ? callDriver("cuMemFree_v2", memory) : Code::Success; }
KOLO_DOES(CommFinalize, Comm comm) {
  ++numFinalized;
  pending.push_back({comm, [] {}});
  return runPending();
}
KOLO_DOES(CommDestroy, Comm comm) { return delete comm, Code::Success; }
KOLO_DOES(CommAbort, Comm comm) { return *comm->isAborted = true, delete comm, Code::Success; }
KOLO_DOES(CommCount, Comm comm, int *count) { return *count = comm->size, checkReady(comm); }
KOLO_DOES(CommUserRank, Comm comm, int *rank) { return *rank = comm->rank, checkReady(comm); }
KOLO_DOES(CommCuDevice, Comm comm, int *number) { return *number = comm->device, checkReady(comm); }
KOLO_DOES(CommGetAsyncError, Comm comm, Code *code) {
  return *code = *comm->numInProgress ? Code::InProgress : Code::Success, Code::Success;
}
KOLO_DOES(AllReduce, const void *, void *, size_t, int, int, Comm comm, Stream) {
  if (Code code = checkReady(comm); code != Code::Success || !comm->isNonBlocking)
    return code;
  pending.push_back({comm, [] {}});
  return depth == 0 ? runPending() : Code::InProgress;
}
/// Of the door, by which ranks of several hosts meet; programs of the tests gather no bytes.
KOLO_DOES(AllGather, const void *input, void *output, size_t count, int type, Comm comm, Stream stream) {
  if (type != typeUint8 || count > Meeting::mostBytes)
    return Code::Success;
  --numCollectives;
  return gather(comm, input, output, count, stream);
}
KOLO_DOES(RedOpCreatePreMulSum, int *operation, void *, int, int, Comm) { return *operation = 5, Code::Success; }
KOLO_DOES(GroupStart, ) { return ++depth, Code::Success; }
KOLO_DOES(GroupEnd, ) {
  if (depth == 0)
    return Code::InvalidUsage;
  --depth;
  if (depth == 0 && groupFailure != Code::Success)
    return pending.clear(), std::exchange(groupFailure, Code::Success);
  return runPending();
}

KOLO_DOES(GroupSimulateEnd, void *) { return --depth, Code::Success; }

template <class Function>
concept DoesSomething = requires { &Does<Function>::call; };

template <class Function, class Answer, class... Arguments> Answer perform(const char *name, Arguments... arguments) {
  if constexpr (DoesSomething<Function>)
    if (!isRecording)
      return Does<Function>::call(arguments...);
  return answer<Answer>(name);
}

constexpr bool isCollective(std::string_view name) {
  for (std::string_view each : {"AllReduce", "ReduceScatter", "Reduce", "Broadcast", "Bcast", "AllGather", "AlltoAll",
                                "AlltoAllv", "Gather", "Scatter", "Send", "Recv"})
    if (name == each || (name.ends_with("Config") && name.substr(0, name.size() - 6) == each))
      return true;
  return false;
}

} // namespace

#define KOLO_EXPORT __attribute__((visibility("default")))
#define KOLO_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

extern "C" {

KOLO_EXPORT void standInSetDevice(int number) { currentDevice = number; }
KOLO_EXPORT int64_t standInNumCollectives() { return numCollectives; }
KOLO_EXPORT int64_t standInNumTooEarly() { return numTooEarly; }
KOLO_EXPORT int64_t standInNumFinalized() { return numFinalized; }
KOLO_EXPORT int64_t standInNumAddresses() { return numAddresses; }
KOLO_EXPORT void standInRecord(int number) { isRecording = number != 0; }
KOLO_EXPORT const char *standInLastRecord() { return lastRecord.c_str(); }

#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  KOLO_EXPORT result nccl##name parameters {                                                                           \
    if (isRecording)                                                                                                   \
      lastRecord = recordOf("nccl" #name KOLO_UNPACK arguments);                                                       \
    else if constexpr (isCollective(#name))                                                                            \
      ++numCollectives;                                                                                                \
    return perform<Of##name, result>("nccl" #name KOLO_UNPACK arguments);                                              \
  }                                                                                                                    \
  KOLO_EXPORT result pnccl##name parameters __attribute__((alias("nccl" #name)));
#include "doors/nccl/Api.def"
}
