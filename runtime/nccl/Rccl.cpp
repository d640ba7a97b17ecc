// RCCL's table of functions. RCCL hands it to the library that ROCPROFILER_REGISTER_LIBRARY names, through
// librocprofiler-register, in its own first call. All functions that it exports then go through that table.
//
// Layout: rcclApiFuncTable of rocprofiler-sdk's rccl/details/api_trace.h, version 0.0 (ROCm 6.3), to which later
// releases append. The entry point: rocprofiler_set_api_table of rocprofiler-register's rocprofiler_register.cpp.
#include "Process.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

extern "C" const char koloNcclDoor[];

namespace kolo::nccl {
namespace {

// In RCCL's order: X(its name, the name in Api.def) for what Api.def has, Y(its name) for the rest.
#define KOLO_RCCL_TABLE(X, Y)                                                                                          \
  X(AllGather, AllGather)                                                                                              \
  X(AllReduce, AllReduce)                                                                                              \
  X(AllToAll, AlltoAll)                                                                                                \
  Y(AllToAllv)                                                                                                         \
  X(Broadcast, Broadcast)                                                                                              \
  X(Gather, Gather)                                                                                                    \
  X(Reduce, Reduce)                                                                                                    \
  X(ReduceScatter, ReduceScatter)                                                                                      \
  X(Scatter, Scatter)                                                                                                  \
  X(Send, Send)                                                                                                        \
  X(Recv, Recv)                                                                                                        \
  X(RedOpCreatePreMulSum, RedOpCreatePreMulSum)                                                                        \
  X(RedOpDestroy, RedOpDestroy)                                                                                        \
  X(GroupStart, GroupStart)                                                                                            \
  X(GroupEnd, GroupEnd)                                                                                                \
  X(GetVersion, GetVersion)                                                                                            \
  X(GetUniqueId, GetUniqueId)                                                                                          \
  X(CommInitRank, CommInitRank)                                                                                        \
  X(CommInitAll, CommInitAll)                                                                                          \
  X(CommInitRankConfig, CommInitRankConfig)                                                                            \
  X(CommFinalize, CommFinalize)                                                                                        \
  X(CommDestroy, CommDestroy)                                                                                          \
  X(CommAbort, CommAbort)                                                                                              \
  X(CommSplit, CommSplit)                                                                                              \
  X(GetErrorString, GetErrorString)                                                                                    \
  X(GetLastError, GetLastError)                                                                                        \
  X(CommGetAsyncError, CommGetAsyncError)                                                                              \
  X(CommCount, CommCount)                                                                                              \
  X(CommCuDevice, CommCuDevice)                                                                                        \
  X(CommUserRank, CommUserRank)                                                                                        \
  X(MemAlloc, MemAlloc)                                                                                                \
  X(MemFree, MemFree)                                                                                                  \
  Y(mscclLoadAlgo)                                                                                                     \
  Y(mscclRunAlgo)                                                                                                      \
  Y(mscclUnloadAlgo)                                                                                                   \
  X(CommRegister, CommRegister)                                                                                        \
  X(CommDeregister, CommDeregister)

struct RcclTable {
  uint64_t sizeBytes; // of the table, with this field
#define KOLO_KNOWN(theirs, ours) decltype(RealFunctions::ours) theirs;
#define KOLO_OTHER(theirs) void *theirs;
  KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER)
#undef KOLO_KNOWN
#undef KOLO_OTHER
};
static_assert(sizeof(RcclTable) == sizeof(uint64_t) + 37 * sizeof(void *));

struct State {
  std::mutex mutex;
  std::unique_ptr<Real> offered;
  bool isLate = false; // the functions are found by their names, or a table was taken already
};
State &state() {
  static auto *only = new State;
  return *only;
}

/// This library's function of that name, whichever other library has one of the same name.
template <class Function> Function ownFunction(const char *name) {
  static void *self = [] {
    Dl_info info = {};
    return dladdr(&koloNcclDoor, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  return reinterpret_cast<Function>(self ? dlsym(self, name) : nullptr);
}

/// "" when the table is one that this library knows.
std::string refuse(const RcclTable *table, uint64_t version, uint64_t instance, uint64_t numTables) {
  if (!ownFunction<void *>("ncclAllReduce"))
    return "this library is not where it was loaded from";
  if (version / 10000 != 2)
    return "version " + std::to_string(version) + " is not 2.x";
  if (instance != 0)
    return "another RCCL is in this process already";
  if (numTables != 1 || !table)
    return "there are " + std::to_string(numTables) + " tables, not one";
  if (table->sizeBytes < sizeof(RcclTable) || table->sizeBytes % sizeof(void *) != 0)
    return "the table has " + std::to_string(table->sizeBytes) + " bytes, not " + std::to_string(sizeof(RcclTable)) +
           " or a multiple of 8 above";
#define KOLO_KNOWN(theirs, ours)                                                                                       \
  if (!table->theirs)                                                                                                  \
    return "it has no nccl" #theirs;
#define KOLO_OTHER(theirs)
  KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER)
#undef KOLO_KNOWN
#undef KOLO_OTHER
  return "";
}

/// Keeps the functions of the table, and puts this library's in their places. What follows them stays as it is.
std::unique_ptr<Real> replace(RcclTable &table, uint64_t version) {
  auto kept = std::make_unique<Real>();
  kept->version = static_cast<int>(version);
  kept->kind = runtime::DeviceKind::Hip;
  kept->way = "its table of functions";
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void *>(table.AllReduce), &info) && info.dli_fname)
    kept->path = info.dli_fname;
#define KOLO_KNOWN(theirs, ours)                                                                                       \
  kept->functions.ours = table.theirs;                                                                                 \
  table.theirs = ownFunction<decltype(table.theirs)>("nccl" #ours);
#define KOLO_OTHER(theirs)
  KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER)
#undef KOLO_KNOWN
#undef KOLO_OTHER
  return kept;
}

} // namespace

std::unique_ptr<Real> takeTable() {
  std::scoped_lock lock(state().mutex);
  state().isLate = true;
  return std::move(state().offered);
}

} // namespace kolo::nccl

/// A profiler that this library hides gets the table first, and so sees the calls that are forwarded.
extern "C" __attribute__((visibility("default"))) int
rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables, uint64_t numTables) {
  using namespace kolo::nccl;
  auto *next = reinterpret_cast<decltype(&rocprofiler_set_api_table)>(dlsym(RTLD_NEXT, "rocprofiler_set_api_table"));
  int code = next ? next(name, version, instance, tables, numTables) : 0;
  if (!name || std::string(name) != "rccl")
    return code;
  std::scoped_lock lock(state().mutex);
  if (state().isLate)
    return code;
  auto *table = tables ? static_cast<RcclTable *>(tables[0]) : nullptr;
  std::string why = refuse(table, version, instance, numTables);
  if (why.empty()) {
    state().offered = replace(*table, version);
    state().isLate = true;
  } else {
    print("nothing of RCCL is intercepted: " + why);
  }
  return code;
}
