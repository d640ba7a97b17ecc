// The store of launchers that speak PMIx, as those of Open MPI, PRRTE and Slurm. The library counts who initialises it,
// so MPI and this share one connection. It is opened while the program runs: a door must load without it.
#include "LauncherStore.h"

#if KOLO_HAS_PMIX
#include <pmix.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>
#endif

namespace kolo::mpi {

#if KOLO_HAS_PMIX
namespace {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

constexpr const char *key = "kolo.mpi";

/// The functions of the PMIx that the process has, or else of the system's.
struct PmixFunctions {
  decltype(&PMIx_Init) initialize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Error_string) describe = nullptr;

  bool load() {
    void *library = RTLD_DEFAULT; // a null pointer
    if (!dlsym(library, "PMIx_Init") && !(library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL)))
      return false;
    find(library, "PMIx_Init", initialize);
    find(library, "PMIx_Put", put);
    find(library, "PMIx_Commit", commit);
    find(library, "PMIx_Get", get);
    find(library, "PMIx_Finalize", finalize);
    find(library, "PMIx_Error_string", describe);
    return initialize && put && commit && get && finalize && describe;
  }

private:
  template <class Function> static void find(void *library, const char *name, Function &to) {
    to = reinterpret_cast<Function>(dlsym(library, name));
  }
};

class PmixStore final : public LauncherStore {
public:
  ~PmixStore() override {
    if (isOpen)
      functions.finalize(nullptr, 0); // MPI has its own count
  }

  bool open(std::string &why) {
    if (!functions.load()) {
      why = "the launcher speaks PMIx, and there is no libpmix.so.2";
      return false;
    }
    pmix_status_t code = functions.initialize(&own, nullptr, 0);
    isOpen = code == PMIX_SUCCESS;
    if (!isOpen)
      why = std::string("the launcher's PMIx: ") + functions.describe(code);
    return isOpen;
  }

  int rank() const override { return static_cast<int>(own.rank); }

  Status put(const std::string &text) override {
    std::string copy = text;
    pmix_value_t value = {};
    value.type = PMIX_STRING;
    value.data.string = copy.data();
    pmix_status_t code = functions.put(PMIX_GLOBAL, key, &value);
    if (code == PMIX_SUCCESS)
      code = functions.commit();
    return code == PMIX_SUCCESS ? Status() : Status(StatusCode::SystemError, functions.describe(code));
  }

  Result<std::optional<std::string>> get(int rank) override {
    pmix_proc_t other = own;
    other.rank = static_cast<pmix_rank_t>(rank);
    pmix_info_t atOnce = {}; // the server does not wait for a rank that puts nothing
    std::strncpy(atOnce.key, PMIX_IMMEDIATE, sizeof(atOnce.key) - 1);
    atOnce.value.type = PMIX_BOOL;
    atOnce.value.data.flag = true;
    pmix_value_t *value = nullptr;
    pmix_status_t code = functions.get(&other, key, &atOnce, 1, &value);
    if (code == PMIX_ERR_NOT_FOUND)
      return std::optional<std::string>();
    if (code != PMIX_SUCCESS || !value)
      return Status(StatusCode::SystemError, functions.describe(code));
    bool isText = value->type == PMIX_STRING && value->data.string;
    std::string text = isText ? value->data.string : "";
    if (isText)
      std::free(value->data.string);
    std::free(value);
    return std::optional(text);
  }

private:
  PmixFunctions functions;
  pmix_proc_t own = {};
  bool isOpen = false;
};

} // namespace

std::unique_ptr<LauncherStore> openPmixStore(std::string &why) {
  if (!secure_getenv("PMIX_NAMESPACE")) {
    why = "the launcher offers no PMIx";
    return nullptr;
  }
  auto store = std::make_unique<PmixStore>();
  if (!store->open(why))
    return nullptr;
  return store;
}
#else
std::unique_ptr<LauncherStore> openPmixStore(std::string &why) {
  why = "this library was built without PMIx";
  return nullptr;
}
#endif

std::unique_ptr<LauncherStore> openLauncherStore(std::string &why) {
#if !KOLO_MPI_IS_OPENMPI
  if (std::unique_ptr<LauncherStore> store = openPmiStore(why))
    return store;
  std::string first = why;
  std::unique_ptr<LauncherStore> store = openPmixStore(why);
  why = first + ", and " + why;
  return store;
#else
  return openPmixStore(why);
#endif
}

} // namespace kolo::mpi
