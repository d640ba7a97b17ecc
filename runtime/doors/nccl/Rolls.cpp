#include "Rolls.h"

#include "Carrier.h"
#include "Process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

namespace kolo::nccl {

using runtime::Result;
using runtime::RollAddress;
using runtime::RollKeeper;

namespace {

constexpr size_t at = sizeof(UniqueId) - sizeof(RollAddress);

/// The address at which the real library itself waits for ranks: a socket address after eight random bytes. "": there
/// is none.
std::string addressIn(const UniqueId &id) {
  sockaddr_in6 ipv6 = {};
  std::memcpy(&ipv6, id.bytes + sizeof(uint64_t), sizeof(ipv6));
  sockaddr_in ipv4 = {};
  std::memcpy(&ipv4, id.bytes + sizeof(uint64_t), sizeof(ipv4));
  char text[INET6_ADDRSTRLEN] = {};
  if (ipv4.sin_family == AF_INET)
    return inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text)) ? text : "";
  if (ipv6.sin6_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr))
    return inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof(text)) ? text : "";
  return "";
}

struct OwnKeeper {
  std::mutex mutex;
  std::unique_ptr<RollKeeper> keeper;
  pid_t pid = 0;
};

// Not destroyed: programs call NCCL from destructors.
OwnKeeper &ownKeeper() {
  static auto *only = new OwnKeeper;
  return *only;
}

/// At the end of the process, or when the program unloads this library.
[[gnu::destructor]] void endKeeper() {
  std::unique_lock lock(ownKeeper().mutex, std::try_to_lock);
  if (lock)
    ownKeeper().keeper.reset();
}

/// Opens a roll of this process's keeper; the first call makes that.
Result<RollAddress> openRoll(const std::string &address) {
  OwnKeeper &own = ownKeeper();
  std::scoped_lock lock(own.mutex);
  if (own.pid != getpid()) // in a forked child, the parent's keeper ends without its thread
    own.keeper.reset();
  own.pid = getpid();
  if (!own.keeper) {
    Result<RollKeeper> made = RollKeeper::create(address);
    if (!made.isOk())
      return made.status();
    own.keeper = std::make_unique<RollKeeper>(std::move(made).value());
  }
  return own.keeper->open();
}

} // namespace

void addRoll(UniqueId &id) {
  if (!std::all_of(id.bytes + at, std::end(id.bytes), [](char byte) { return byte == 0; }))
    return;
  const Result<RollAddress> opened = openRoll(addressIn(id));
  if (opened.isOk())
    std::memcpy(id.bytes + at, opened->data(), opened->size());
  else if (secure_getenv("KOLO_DEBUG"))
    print("a unique id names no roll, so calls of ranks on several hosts are forwarded: " + opened.status().message());
}

std::optional<RollAddress> rollOf(const UniqueId &id) {
  RollAddress address = {};
  std::memcpy(address.data(), id.bytes + at, address.size());
  return address == RollAddress() ? std::nullopt : std::optional(address);
}

int rollMs() { return std::min(timeoutMs(), 5000); }

} // namespace kolo::nccl
