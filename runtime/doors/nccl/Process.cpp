#include "Process.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace kolo::nccl {

using runtime::Door;
using runtime::LogLevel;

thread_local bool hasOwnError = false;

namespace {

thread_local std::string lastError;
std::atomic<bool> isReporter = false;

struct OpenedDoor {
  std::optional<Door> door;
  runtime::Status failure;
};

OpenedDoor openDoor() {
  OpenedDoor result;
  runtime::Result<Door> opened = Door::open("nccl");
  result.failure = opened.status();
  if (opened.isOk())
    result.door.emplace(std::move(opened).value());
  return result;
}

// Not destroyed: programs call NCCL from destructors.
OpenedDoor &openedDoor() {
  static auto *only = new OpenedDoor(openDoor());
  return *only;
}

[[gnu::destructor]] void printStatistics() {
  if (isReporter && door()->wantsStatistics())
    print(door()->statistics());
}

} // namespace

Door *door() { return openedDoor().door ? &*openedDoor().door : nullptr; }
const runtime::Status &doorFailure() { return openedDoor().failure; }

void print(const std::string &text) {
  std::string line = (text.starts_with("kolo nccl:") ? "" : "kolo nccl: ") + text + "\n";
  // One write, so that the lines of several ranks do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

Code fail(Code code, const std::string &message) {
  lastError = "kolo: " + message;
  hasOwnError = true;
  print(message);
  return code;
}

const std::string &ownError() {
  static const std::string none;
  return hasOwnError ? lastError : none;
}

static void describeMissing(const char *name) {
  static std::atomic<bool> isSaid = false;
  const Real &library = real();
  if (!library.failure.empty()) {
    lastError = "kolo: " + library.failure;
    if (!isSaid.exchange(true))
      print(library.failure);
  } else {
    lastError = std::string("kolo: ") + library.path + ", which is " + library.title() + ", has no " + name;
  }
  hasOwnError = true;
}

template <> Code answerMissing<Code>(const char *name) {
  describeMissing(name);
  return real().failure.empty() ? Code::InvalidUsage : Code::SystemError;
}
template <> int answerMissing<int>(const char *name) {
  describeMissing(name);
  return -1;
}
template <> Team answerMissing<Team>(const char *name) {
  describeMissing(name);
  return {};
}
template <> const char *answerMissing<const char *>(const char *name) {
  describeMissing(name);
  return lastError.c_str();
}
template <> void answerMissing<void>(const char *name) { describeMissing(name); }

void sayLoaded(const Real &library) {
  if (!secure_getenv("KOLO_DEBUG") || !door() || door()->logLevel() == LogLevel::Off)
    return;
  std::string plugins;
  for (const runtime::Plugin &plugin : door()->plugins())
    plugins += (plugins.empty() ? "" : ", ") + runtime::Door::describe(plugin);
  std::string target = library.path + ", " + library.title() + " (" + library.way + ")";
  print("intercepts collectives for " + plugins + "; forwards all other calls to " +
        (library.failure.empty() ? target : "nothing: " + library.failure));
}

namespace {

struct Aside {
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<int> running; // how long to wait for each
};

// Not destroyed: a thread may outlive the wait for it.
Aside &aside() {
  static auto *only = new Aside;
  return *only;
}

void awaitAllAside() {
  auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(aside().mutex);
  std::cv_status status = std::cv_status::no_timeout;
  while (!aside().running.empty() && status == std::cv_status::no_timeout)
    status = aside().changed.wait_until(lock, begin + std::chrono::milliseconds(*aside().running.rbegin()));
}

} // namespace

void runAside(std::function<void()> work, int mostMs) {
  // Registered after what the driver has registered, and so called before it.
  [[maybe_unused]] static const int registered = std::atexit(awaitAllAside);
  std::unique_lock lock(aside().mutex);
  std::thread([work = std::move(work), mostMs]() mutable {
    work();
    work = nullptr; // destroys what it holds
    std::scoped_lock ended(aside().mutex);
    aside().running.extract(mostMs);
    aside().changed.notify_all();
  }).detach();
  aside().running.insert(mostMs);
}

void awaitAside(int mostMs) {
  std::unique_lock lock(aside().mutex);
  aside().changed.wait_for(lock, std::chrono::milliseconds(mostMs),
                           [&] { return aside().running.empty() || *aside().running.begin() > mostMs; });
}

void wantStatistics() { isReporter = true; }
void countForwarded(const char *reason) {
  if (Door *opened = door())
    opened->countForwarded(reason);
}

} // namespace kolo::nccl
