#include "peers/WatchedProcess.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <mutex>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace kolo::runtime {
namespace {

struct Watched {
  std::mutex mutex;
  std::map<pid_t, std::weak_ptr<const WatchedProcess>> processes;
};

// Not destroyed: communicators may end after static objects have.
Watched &watched() {
  static auto *only = new Watched;
  return *only;
}

} // namespace

std::shared_ptr<const WatchedProcess> WatchedProcess::watch(pid_t pid) {
  std::scoped_lock lock(watched().mutex);
  auto &processes = watched().processes;
  // One that has ended is another process than the one that has its number now.
  if (std::shared_ptr<const WatchedProcess> known = processes[pid].lock(); known && !known->hasEnded())
    return known;
  std::erase_if(processes, [](const auto &entry) { return entry.second.expired(); });
  int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    return nullptr;
  std::shared_ptr<const WatchedProcess> process(new WatchedProcess(fd));
  processes[pid] = process;
  return process;
}

WatchedProcess::~WatchedProcess() { close(descriptor); }

bool WatchedProcess::hasEnded() const {
  pollfd entry = {descriptor, POLLIN, 0}; // readable once the process has ended
  return poll(&entry, 1, 0) == 1;
}

} // namespace kolo::runtime
