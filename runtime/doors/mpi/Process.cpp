#include "Process.h"

#include "Carrier.h"
#include "PageHeap.h"
#include "RollCall.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace kolo::mpi {
namespace {

using runtime::Door;
using runtime::Result;

struct State {
  RollCall rollCall;
  std::optional<Door> door;
  std::optional<int> carryFrom;
  bool isWatched = false; // MPI_Finalize is
  int rank = 0;           // in MPI_COMM_WORLD
  int probedTag = 32767;  // no program is likely to use it
  int keyval = MPI_KEYVAL_INVALID;
  std::mutex mutex;
  std::set<Carrier *> carriers; // of communicators that were not freed yet
  std::string shortage;         // for lack of which the door has no plugins
  bool hasPageHeap = false;
  PageHeap pageHeap;
};

// Not destroyed: MPI may call back after static objects are gone.
State &state() {
  static auto *only = new State;
  return *only;
}
std::atomic<bool> isFinalized = false;
std::atomic<uint64_t> numFreed = 0; // communicators that had a carrier; a freed handle may be used again
thread_local int depth = 0;

struct LastCarrier {
  uint64_t communicator = 0;
  Carrier *carrier = nullptr;
  uint64_t numFreed = 0;
};
thread_local LastCarrier last;

[[noreturn]] void giveUp(const std::string &why) {
  print(why);
  PMPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

int onCommunicatorFreed(MPI_Comm, int, void *value, void *) {
  auto *carrier = static_cast<Carrier *>(value);
  {
    std::scoped_lock lock(state().mutex);
    state().carriers.erase(carrier);
  }
  numFreed.fetch_add(1);
  delete carrier;
  return MPI_SUCCESS;
}

/// One that is still there; null: none is. MPI may free a communicator, and so delete its carrier, while one is closed.
Carrier *takeCarrier() {
  std::scoped_lock lock(state().mutex);
  if (state().carriers.empty())
    return nullptr;
  return state().carriers.extract(state().carriers.begin()).value();
}

/// MPI_Finalize frees the attributes of MPI_COMM_SELF before it does anything else: the last one that was set first.
/// The callbacks of the program's own attributes may still call collectives. So this attribute is set in MPI_Init,
/// before the program can set one: then it is the last on all ranks.
int onFinalize(MPI_Comm, int, void *, void *) {
  isFinalized = true;
  while (Carrier *carrier = takeCarrier())
    carrier->close();
  if (state().door && state().door->wantsStatistics() && rollCall().isFirst(state().rank))
    print(state().door->statistics());
  return MPI_SUCCESS;
}

/// Returns whether KOLO_MPI_CARRY_FROM is right.
bool readCarryFrom() {
  const char *text = secure_getenv("KOLO_MPI_CARRY_FROM");
  if (!text || !*text)
    return true;
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (end == text || *end || value < 1 || value > 1000000)
    return false;
  state().carryFrom = static_cast<int>(value);
  return true;
}

/// KOLO_MPI_WINDOWS; nothing: it is bad.
std::optional<bool> readWantsWindows() {
  const char *text = secure_getenv("KOLO_MPI_WINDOWS");
  if (!text || !*text || std::strcmp(text, "1") == 0)
    return true;
  return std::strcmp(text, "0") == 0 ? std::optional(false) : std::nullopt;
}

void watchFinalize() {
  if (state().isWatched)
    return;
  state().isWatched = true;
  int key = MPI_KEYVAL_INVALID;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, onFinalize, &key, nullptr) != MPI_SUCCESS ||
      PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) != MPI_SUCCESS)
    giveUp("MPI gives MPI_COMM_SELF no attribute, by which the door learns of MPI_Finalize");
}

/// Before the first collective of the program goes on.
bool attach() {
  OwnCalls own;
  PMPI_Comm_rank(MPI_COMM_WORLD, &state().rank);
  watchFinalize();
  int hasTag = 0;
  int *mostTag = nullptr;
  PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &mostTag, &hasTag);
  if (hasTag)
    state().probedTag = *mostTag;
  if (!rollCall().isMade() && state().rank == 0)
    print(
        "calls are forwarded: this program was initialised past the door, so ranks do not know which of them have it");
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, onCommunicatorFreed, &state().keyval, nullptr) != MPI_SUCCESS)
    giveUp("MPI gives no attributes, on which Kolo's communicators hang");
  auto isSet = [](const char *name) {
    const char *text = secure_getenv(name);
    return text && *text;
  };
  if (std::ranges::any_of(std::array{"KOLO_PLUGIN_PATH", "KOLO_STATS", "KOLO_DEBUG"}, isSet))
    (void)door();
  return true;
}

std::atomic<Door *> opened = nullptr;

Door *openDoor() {
  OwnCalls own;
  Result<Door> result = Door::open("mpi");
  if (result.status().code() == runtime::StatusCode::OutOfMemory) {
    state().shortage = result.status().message();
    result = Door::openEmpty("mpi");
  }
  if (!result.isOk())
    giveUp(result.status().message());
  Door &door = state().door.emplace(std::move(result).value());
  if (rollCall().isFirst(state().rank) && !door.notice().empty())
    print(door.notice());
  if (door.logLevel() != runtime::LogLevel::Off)
    for (const runtime::Plugin &plugin : door.plugins())
      print("plugin " + Door::describe(plugin) + " with " + std::to_string(plugin.programs().size()) + " programs");
  opened.store(&door, std::memory_order_release);
  return &door;
}

/// Null: it has none. Nothing: MPI does not know the communicator.
std::optional<Carrier *> findCarrier(MPI_Comm communicator) {
  void *found = nullptr;
  int hasFound = 0;
  if (PMPI_Comm_get_attr(communicator, state().keyval, static_cast<void *>(&found), &hasFound) != MPI_SUCCESS)
    return std::nullopt;
  return hasFound ? static_cast<Carrier *>(found) : nullptr;
}

Carrier *attachCarrier(MPI_Comm communicator) {
  std::optional<Carrier *> found = findCarrier(communicator);
  if (!found || *found)
    return found.value_or(nullptr);
  auto *made = new Carrier(communicator);
  if (PMPI_Comm_set_attr(communicator, state().keyval, made) != MPI_SUCCESS) {
    delete made;
    return nullptr;
  }
  std::scoped_lock lock(state().mutex);
  state().carriers.insert(made);
  return made;
}

} // namespace

int initialize(const std::function<int()> &initializeMpi) {
  OwnCalls own;
  int wasInitialized = 0;
  PMPI_Initialized(&wasInitialized);
  if (wasInitialized)
    return initializeMpi(); // MPI says what is wrong with that
  const bool isCarryFromRight = readCarryFrom();
  state().rollCall.announce("kolo-" KOLO_VERSION "/" + std::to_string(carryFrom().value_or(0)));
  if (int code = initializeMpi(); code != MPI_SUCCESS)
    return code;
  int size = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &state().rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!isCarryFromRight)
    giveUp("KOLO_MPI_CARRY_FROM='" + std::string(secure_getenv("KOLO_MPI_CARRY_FROM")) +
           "' is not a number from 1 to 1000000");
  if (runtime::Status status = state().rollCall.hear(state().rank, size); !status.isOk())
    giveUp(status.message());
  std::optional<bool> wantsWindows = readWantsWindows();
  if (!wantsWindows)
    giveUp("KOLO_MPI_WINDOWS='" + std::string(secure_getenv("KOLO_MPI_WINDOWS")) + "' is neither 0 nor 1");
  state().hasPageHeap = *wantsWindows && rollCall().hasPeers();
  watchFinalize();
  if (std::string notice = rollCall().notice(); !notice.empty())
    print(notice);
  return MPI_SUCCESS;
}

bool wasSeen() { return rollCall().isMade() || state().isWatched; }

const RollCall &rollCall() { return state().rollCall; }
runtime::Door &door() {
  static Door *const only = openDoor();
  return *only;
}
const std::string &shortage() {
  (void)door();
  return state().shortage;
}
std::optional<int> carryFrom() { return state().carryFrom; }

bool mayCarry() {
  if (depth != 0 || isFinalized.load(std::memory_order_relaxed))
    return false;
  static std::atomic<bool> isAttached = false;
  if (isAttached.load(std::memory_order_acquire)) [[likely]]
    return true;
  int isInitialized = 0;
  PMPI_Initialized(&isInitialized);
  if (!isInitialized)
    return false;
  static const bool attached = attach();
  isAttached.store(attached, std::memory_order_release);
  return attached;
}

void countForwarded(const char *reason) {
  if (Door *door = opened.load(std::memory_order_acquire))
    door->countForwarded(reason);
}

OwnCalls::OwnCalls() { ++depth; }
OwnCalls::~OwnCalls() { --depth; }

Carrier *carrierOf(MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL)
    return nullptr;
  uint64_t handle = bitsOf(communicator), freed = numFreed.load(std::memory_order_acquire);
  if (last.carrier && last.communicator == handle && last.numFreed == freed) [[likely]]
    return last.carrier;
  OwnCalls own;
  last = {handle, attachCarrier(communicator), freed};
  return last.carrier;
}

void prepareToFree(MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL || state().keyval == MPI_KEYVAL_INVALID || isFinalized)
    return;
  OwnCalls own;
  if (std::optional<Carrier *> found = findCarrier(communicator); found && *found)
    (*found)->endNaming();
}

std::vector<Carrier *> allCarriers() {
  std::scoped_lock lock(state().mutex);
  return {state().carriers.begin(), state().carriers.end()};
}

void *allocateMemory(MPI_Aint sizeBytes, MPI_Info info) {
  bool isMpis = !state().hasPageHeap || info != MPI_INFO_NULL || isFinalized.load(std::memory_order_relaxed);
  return isMpis || sizeBytes < 0 ? nullptr : state().pageHeap.allocate(static_cast<size_t>(sizeBytes));
}

PageHeap &pageHeap() { return state().pageHeap; }

void driveMpi() {
  int isThere = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, state().probedTag, MPI_COMM_WORLD, &isThere, MPI_STATUS_IGNORE);
}

void print(const std::string &text) {
  bool isNamed = text.starts_with("kolo mpi:"); // the statistics of a door
  std::string line = (isNamed ? "" : "kolo mpi: rank " + std::to_string(state().rank) + ": ") + text + "\n";
  // One write, so that the lines of several ranks do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

} // namespace kolo::mpi
