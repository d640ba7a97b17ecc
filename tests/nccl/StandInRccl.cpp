// A stand-in for RCCL: the stand-in for NCCL behind a table of functions, which it offers in its first call as RCCL
// does through librocprofiler-register. Layout and protocol: see runtime/doors/nccl/Rccl.cpp.
#include "doors/nccl/Types.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>

using namespace kolo::nccl;

namespace {

constexpr std::string_view order[] = {"ncclAllGather",
                                      "ncclAllReduce",
                                      "ncclAllToAll",
                                      "ncclAllToAllv",
                                      "ncclBroadcast",
                                      "ncclGather",
                                      "ncclReduce",
                                      "ncclReduceScatter",
                                      "ncclScatter",
                                      "ncclSend",
                                      "ncclRecv",
                                      "ncclRedOpCreatePreMulSum",
                                      "ncclRedOpDestroy",
                                      "ncclGroupStart",
                                      "ncclGroupEnd",
                                      "ncclGetVersion",
                                      "ncclGetUniqueId",
                                      "ncclCommInitRank",
                                      "ncclCommInitAll",
                                      "ncclCommInitRankConfig",
                                      "ncclCommFinalize",
                                      "ncclCommDestroy",
                                      "ncclCommAbort",
                                      "ncclCommSplit",
                                      "ncclGetErrorString",
                                      "ncclGetLastError",
                                      "ncclCommGetAsyncError",
                                      "ncclCommCount",
                                      "ncclCommCuDevice",
                                      "ncclCommUserRank",
                                      "ncclMemAlloc",
                                      "ncclMemFree",
                                      "mscclLoadAlgo",
                                      "mscclRunAlgo",
                                      "mscclUnloadAlgo",
                                      "ncclCommRegister",
                                      "ncclCommDeregister",
                                      "ncclAllReduceWithBias",
                                      "ncclCommShrink",
                                      "ncclCommWindowRegister",
                                      "ncclCommWindowDeregister",
                                      "ncclAlltoAll",
                                      "ncclAlltoAllv",
                                      "ncclCommRevoke",
                                      "ncclCommSuspend",
                                      "ncclCommResume",
                                      "ncclCommMemStats",
                                      "ncclPutSignal",
                                      "ncclSignal",
                                      "ncclWaitSignal"};
constexpr size_t numKnown = std::size(order); // and one of a later release
static_assert(numKnown == 50);
constexpr size_t oldAllToAll = 2, oldAllToAllv = 3, newAllToAll = 41, newAllToAllv = 42;

struct Table {
  uint64_t sizeBytes = sizeof(Table);
  void *entries[numKnown + 1] = {};
  bool has(size_t number) const { return (number + 1) * sizeof(void *) < sizeBytes && entries[number]; }
};

/// The stand-in for NCCL has the newer names alone.
std::string newerName(std::string_view name) {
  return name.starts_with("ncclAllToAll") ? "ncclAlltoAll" + std::string(name.substr(12)) : std::string(name);
}

void *standIn(std::string_view name) {
  static void *library = dlopen(KOLO_TEST_NCCL, RTLD_NOW | RTLD_LOCAL);
  void *found = dlsym(library, newerName(name).c_str());
  return found ? found : dlsym(library, "standInLastRecord"); // of RCCL alone; nobody calls it
}

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What rocprofiler-register does: it asks nobody, unless a variable names a library.
void offer(Table &table) {
  const char *path = std::getenv("ROCPROFILER_REGISTER_LIBRARY");
  if (!path)
    return;
  using SetTable = int(const char *, uint64_t, uint64_t, void **, uint64_t);
  auto *set = reinterpret_cast<SetTable *>(dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table"));
  if (!set)
    set = reinterpret_cast<SetTable *>(dlsym(dlopen(path, RTLD_GLOBAL | RTLD_LAZY), "rocprofiler_set_api_table"));
  void *tables[] = {&table};
  void *const last = table.entries[numKnown];
  Table other = table;
  void *others[] = {&other};
  if (!set || set("hip", 60200, 0, others, 1) != 0 ||
      !std::equal(std::begin(other.entries), std::end(other.entries), std::begin(table.entries)))
    std::abort(); // a table of another library was changed
  if (set("rccl", setting("KOLO_STANDIN_RCCL_VERSION", 22809), 0, tables, 1) != 0 || table.entries[numKnown] != last)
    std::abort();
}

Table make() {
  Table made;
  made.sizeBytes = setting("KOLO_STANDIN_RCCL_BYTES", sizeof(Table));
  for (size_t number = 0; number <= numKnown; ++number)
    made.entries[number] = standIn(number < numKnown ? order[number] : "ncclCommGrow");
  if (made.has(newAllToAll))
    made.entries[oldAllToAll] = nullptr;
  if (made.has(newAllToAllv))
    made.entries[oldAllToAllv] = nullptr;
  if (setting("KOLO_STANDIN_RCCL_INSERTED", 0)) // as builds before 2.27.3 do with ncclCommShrink
    std::rotate(made.entries + 23, made.entries + 38, made.entries + 39);
  return made;
}

Table &table() {
  static Table only = make();
  static std::once_flag once;
  std::call_once(once, [] { offer(only); });
  return only;
}

void *find(std::string_view name);

/// RCCL's ncclBcast calls ncclBroadcast.
Code bcast(void *memory, size_t count, int type, int root, Comm comm, Stream stream) {
  using Broadcast = Code(const void *, void *, size_t, int, int, Comm, Stream);
  return reinterpret_cast<Broadcast *>(find("ncclBroadcast"))(memory, memory, count, type, root, comm, stream);
}

void *find(std::string_view name) {
  if (name == "ncclBcast")
    return reinterpret_cast<void *>(&bcast);
  auto known = std::ranges::find(order, name);
  auto number = static_cast<size_t>(known - std::begin(order));
  if ((number == newAllToAll || number == newAllToAllv) && !table().has(number))
    number -= newAllToAll - oldAllToAll;
  return number < numKnown && table().has(number) ? table().entries[number] : standIn(name);
}

} // namespace

#define KOLO_EXPORT __attribute__((visibility("default")))

extern "C" {

KOLO_EXPORT void standInSetDevice(int number) { reinterpret_cast<void (*)(int)>(standIn("standInSetDevice"))(number); }
KOLO_EXPORT int64_t standInNumCollectives() {
  return reinterpret_cast<int64_t (*)()>(standIn("standInNumCollectives"))();
}
KOLO_EXPORT int64_t standInNumTooEarly() { return reinterpret_cast<int64_t (*)()>(standIn("standInNumTooEarly"))(); }
KOLO_EXPORT int64_t standInNumAddresses() { return reinterpret_cast<int64_t (*)()>(standIn("standInNumAddresses"))(); }
KOLO_EXPORT void mscclLoadAlgo() { std::abort(); }
KOLO_EXPORT void hipGetDevice() { std::abort(); } // RCCL is linked with HIP

#define KOLO_UNPACK(...) __VA_ARGS__
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  KOLO_EXPORT result nccl##name parameters {                                                                           \
    return reinterpret_cast<result(*) parameters>(find("nccl" #name))(KOLO_UNPACK arguments);                          \
  }                                                                                                                    \
  KOLO_EXPORT result pnccl##name parameters __attribute__((alias("nccl" #name)));
#include "doors/nccl/Api.def"
KOLO_EXPORT decltype(ncclAlltoAllv) ncclAllToAllv __attribute__((alias("ncclAlltoAllv"))); // its older name
}
