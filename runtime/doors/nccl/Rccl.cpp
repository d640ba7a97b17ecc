// RCCL's table of functions. RCCL hands it to the library that ROCPROFILER_REGISTER_LIBRARY names, through
// librocprofiler-register, in its own first call. All functions that it exports then go through that table.
//
// Layout: rcclApiFuncTable of RCCL's api_trace.h, from version 0.0 (ROCm 6.3) with 37 functions to 0.5 with 50. Some
// builds of RCCL before 2.27.3 have more than 38 in another order, and so rocprofiler-sdk refuses them, too
// (registration.cpp). The entry point: rocprofiler_set_api_table of rocprofiler-register's rocprofiler_register.cpp.
#include "Process.h"

#include <dlfcn.h>
#include <strings.h>

#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>

extern "C" const char koloNcclDoor[];

namespace kolo::nccl {
namespace {

// In RCCL's order: X(its name, the name in Api.def) for what Api.def has, Y(its name) for the rest. Every table has the
// functions of the first list. Later ones leave AllToAll and AllToAllv empty: AlltoAll and AlltoAllv take their places.
#define KOLO_RCCL_FIRST(X, Y)                                                                                          \
  X(AllGather, AllGather)                                                                                              \
  X(AllReduce, AllReduce)                                                                                              \
  X(AllToAll, AlltoAll)                                                                                                \
  X(AllToAllv, AlltoAllv)                                                                                              \
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
// These are there as far as the table's size says.
#define KOLO_RCCL_LATER(X, Y)                                                                                          \
  Y(AllReduceWithBias)                                                                                                 \
  X(CommShrink, CommShrink)                                                                                            \
  X(CommWindowRegister, CommWindowRegister)                                                                            \
  X(CommWindowDeregister, CommWindowDeregister)                                                                        \
  X(AlltoAll, AlltoAll)                                                                                                \
  X(AlltoAllv, AlltoAllv)                                                                                              \
  X(CommRevoke, CommRevoke)                                                                                            \
  X(CommSuspend, CommSuspend)                                                                                          \
  X(CommResume, CommResume)                                                                                            \
  X(CommMemStats, CommMemStats)                                                                                        \
  X(PutSignal, PutSignal)                                                                                              \
  X(Signal, Signal)                                                                                                    \
  X(WaitSignal, WaitSignal)
#define KOLO_RCCL_TABLE(X, Y) KOLO_RCCL_FIRST(X, Y) KOLO_RCCL_LATER(X, Y)

struct RcclTable {
  uint64_t sizeBytes; // of the table, with this field: what is after that is not there
#define KOLO_KNOWN(theirs, ours) decltype(RealFunctions::ours) theirs;
#define KOLO_OTHER(theirs) void *theirs;
  KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER) // NOLINT(readability-identifier-naming): RCCL's names
#undef KOLO_KNOWN
#undef KOLO_OTHER
};
constexpr size_t firstBytes = offsetof(RcclTable, AllReduceWithBias);
static_assert(firstBytes == sizeof(uint64_t) + 37 * sizeof(void *));
static_assert(sizeof(RcclTable) == sizeof(uint64_t) + 50 * sizeof(void *));

struct Offer {
  std::mutex mutex;
  std::unique_ptr<Real> offered;
  bool isLate = false; // the functions are found by their names, or a table was taken already
};
Offer &offer() {
  static auto *only = new Offer;
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

constexpr struct {
  const char *theirs, *ours; // null: not handled here
  size_t offset;
} entries[] = {
#define KOLO_KNOWN(theirs, ours) {"nccl" #theirs, "nccl" #ours, offsetof(RcclTable, theirs)},
#define KOLO_OTHER(theirs) {"nccl" #theirs, nullptr, offsetof(RcclTable, theirs)},
    KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER)
#undef KOLO_KNOWN
#undef KOLO_OTHER
};

/// A function of the table; null: it has none.
void *functionAt(const RcclTable &table, size_t offset) {
  return offset < table.sizeBytes ? *reinterpret_cast<void *const *>(reinterpret_cast<const char *>(&table) + offset)
                                  : nullptr;
}

/// Whether a symbol is of this function: "ncclAllReduce", "pncclAllReduce", "ncclAllReduce_impl", or such a C++ name.
bool isNameOf(std::string_view symbol, std::string_view function) {
  for (size_t begin = 0; begin + function.size() <= symbol.size(); ++begin)
    if (strncasecmp(symbol.data() + begin, function.data(), function.size()) == 0) {
      std::string_view rest = symbol.substr(begin + function.size());
      return rest.empty() || rest.starts_with("_impl");
    }
  return false;
}

/// The first function that is not where it is expected, as far as its library has symbols; "" when there is none.
std::string findMisplaced(const RcclTable &table) {
  for (const auto &entry : entries) {
    void *function = functionAt(table, entry.offset);
    Dl_info info = {};
    if (!entry.ours || !function || !dladdr(function, &info) || !info.dli_sname || info.dli_saddr != function)
      continue;
    if (!isNameOf(info.dli_sname, entry.theirs))
      return std::string(info.dli_sname) + " is in the place of " + entry.theirs;
  }
  return "";
}

/// "" when the table is one that this library knows.
std::string refuse(const RcclTable *table, uint64_t version, uint64_t instance, uint64_t numTables) {
  for (const auto &entry : entries)
    if (entry.ours && !ownFunction<void *>(entry.ours))
      return std::string("this library is not where it was loaded from: it cannot find its own ") + entry.ours;
  if (version / 10000 != 2)
    return "version " + std::to_string(version) + " is not 2.x";
  if (instance != 0)
    return "another RCCL is in this process already";
  if (numTables != 1 || !table)
    return "there are " + std::to_string(numTables) + " tables, not one";
  if (table->sizeBytes < firstBytes || table->sizeBytes % sizeof(void *) != 0)
    return "the table has " + std::to_string(table->sizeBytes) + " bytes, not " + std::to_string(firstBytes) +
           " or a multiple of 8 above";
  if (version < 22703 && table->sizeBytes > firstBytes + sizeof(void *))
    return "the table of version " + std::to_string(version) + " has " + std::to_string(table->sizeBytes) +
           " bytes, so its order is not known";
  const bool hasNewName = functionAt(*table, offsetof(RcclTable, AlltoAll));
  for (const auto &entry : entries)
    if (entry.ours && entry.offset < table->sizeBytes && !functionAt(*table, entry.offset) &&
        !(hasNewName &&
          (entry.offset == offsetof(RcclTable, AllToAll) || entry.offset == offsetof(RcclTable, AllToAllv))))
      return std::string("it has no ") + entry.theirs;
  return findMisplaced(*table);
}

/// The file that has RCCL's functions, before a profiler puts its own in their places.
std::string pathOf(const RcclTable &table) {
  Dl_info info = {};
  return dladdr(reinterpret_cast<const void *>(table.AllReduce), &info) && info.dli_fname ? info.dli_fname : "";
}

/// Functions that the table does not have, by their names.
void findOthers(RealFunctions &functions, const std::string &path) {
  void *library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!library)
    return;
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  if (!functions.name)                                                                                                 \
    functions.name = reinterpret_cast<result(*) parameters>(dlsym(library, "nccl" #name));
#include "Api.def"
}

/// Keeps the functions of the table, and puts this library's in their places. What follows them stays as it is.
std::unique_ptr<Real> replace(RcclTable &table, uint64_t version, std::string path) {
  auto kept = std::make_unique<Real>();
  kept->version = static_cast<int>(version);
  kept->kind = runtime::DeviceKind::Hip;
  kept->way = "its table of functions";
  kept->path = std::move(path);
#define KOLO_KNOWN(theirs, ours)                                                                                       \
  if (functionAt(table, offsetof(RcclTable, theirs))) {                                                                \
    kept->functions.ours = table.theirs;                                                                               \
    table.theirs = ownFunction<decltype(table.theirs)>("nccl" #ours);                                                  \
  }
#define KOLO_OTHER(theirs)
  KOLO_RCCL_TABLE(KOLO_KNOWN, KOLO_OTHER)
#undef KOLO_KNOWN
#undef KOLO_OTHER
  findOthers(kept->functions, kept->path);
  return kept;
}

} // namespace

std::unique_ptr<Real> takeTable() {
  std::scoped_lock lock(offer().mutex);
  offer().isLate = true;
  return std::move(offer().offered);
}

} // namespace kolo::nccl

/// A profiler that this library hides gets the table first, and so sees the calls that are forwarded.
extern "C" __attribute__((visibility("default"))) int
rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables, uint64_t numTables) {
  using namespace kolo::nccl;
  auto *next = reinterpret_cast<decltype(&rocprofiler_set_api_table)>(dlsym(RTLD_NEXT, "rocprofiler_set_api_table"));
  const bool isRccl = name && std::string_view(name) == "rccl";
  auto *table = isRccl && tables && numTables != 0 ? static_cast<RcclTable *>(tables[0]) : nullptr;
  const std::string why = isRccl ? refuse(table, version, instance, numTables) : "";
  std::string path = table && why.empty() ? pathOf(*table) : "";
  int code = next ? next(name, version, instance, tables, numTables) : 0;
  if (!isRccl)
    return code;
  std::scoped_lock lock(offer().mutex);
  if (offer().isLate)
    return code;
  if (why.empty()) {
    offer().offered = replace(*table, version, std::move(path));
    offer().isLate = true;
  } else {
    print("nothing of RCCL is intercepted: " + why);
  }
  return code;
}
