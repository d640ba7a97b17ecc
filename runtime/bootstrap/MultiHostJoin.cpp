#include "bootstrap/MultiHostJoin.h"

#include "base/Error.h"
#include "base/Variable.h"
#include "kolo/runtime/Door.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <unordered_map>

namespace kolo::runtime {
namespace {

bool hasNumber(const ifaddrs &entry) {
  return entry.ifa_addr && (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6) &&
         (entry.ifa_flags & IFF_UP);
}

/// IPv4 first, then IPv6 that is not of one link alone.
int preference(const ifaddrs &entry) {
  if (entry.ifa_addr->sa_family == AF_INET)
    return 2;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6 *>(entry.ifa_addr)->sin6_addr) ? 0 : 1;
}

} // namespace

Result<HostId> currentHost() {
  HostId id;
  if (const char *text = variable("KOLO_HOSTID")) {
    std::string_view given = text;
    if (given.empty() || given.size() >= hostNameBytes)
      return error(StatusCode::InvalidArgument, "KOLO_HOSTID has {} bytes, not between 1 and {}", given.size(),
                   hostNameBytes - 1);
    std::ranges::copy(given, id.text);
    return id;
  }
  static const std::string boot = [] {
    std::string read;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> read;
    return read;
  }();
  struct stat info = {};
  auto number = [&](const char *path) { return stat(path, &info) == 0 ? info.st_ino : 0; };
  // Who may look at another process decides by these.
  std::string text = fmt::format("{}/{:x}/{:x}/{:x}.{:x}", boot, number("/proc/self/ns/pid"),
                                 number("/proc/self/ns/user"), geteuid(), getegid());
  if (prctl(PR_GET_DUMPABLE) != 1 && geteuid() != 0)
    text += fmt::format("/{:x}", getpid());
  static_assert(sizeof(id.text) > 36 + 4 * 9 + 7);
  std::copy_n(text.data(), std::min(text.size(), sizeof(id.text) - 1), id.text);
  return id;
}

Result<uint64_t> hostNumber() {
  return guarded([]() -> Result<uint64_t> {
    Result<HostId> id = currentHost();
    if (!id.isOk())
      return id.status();
    uint64_t hash = 0xcbf29ce484222325;
    for (char each : id->text)
      hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    return hash ? hash : 1;
  });
}

std::string hostName() {
  if (const char *text = variable("KOLO_HOSTID"))
    return text;
  char name[hostNameBytes] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

bool isNamedByMachine() {
  constexpr ino_t firstNamespaceOfNames = 0xEFFFFFFE; // of the kernel: PROC_UTS_INIT_INO
  struct stat info = {};
  return !variable("KOLO_HOSTID") && stat("/proc/self/ns/uts", &info) == 0 && info.st_ino == firstNamespaceOfNames;
}

WorldNumber randomWorld() {
  WorldNumber world = {};
  fillRandomly(world);
  return world;
}

std::string localAddress(const Socket &socket) {
  sockaddr_storage own = {};
  socklen_t bytes = sizeof(own);
  bool isKnown = getsockname(socket.descriptor(), reinterpret_cast<sockaddr *>(&own), &bytes) == 0;
  return isKnown ? numeric(reinterpret_cast<const sockaddr *>(&own)) : "";
}

Result<std::string> addressOfInterface(const std::string &name) {
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return systemError("reading the network interfaces", errno);
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::string interface, names;
  for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
    std::string_view found = entry->ifa_name;
    if (found == name || (interface.empty() && found.starts_with(name)))
      interface = found;
    if (names.find(found) == std::string::npos)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", found);
  }
  if (interface.empty() || name.empty())
    return error(StatusCode::InvalidArgument, "KOLO_NETWORK_INTERFACE='{}' is no network interface of {}; it has {}",
                 name, hostName(), names);
  const ifaddrs *best = nullptr;
  for (const ifaddrs *entry = list; entry; entry = entry->ifa_next)
    if (interface == entry->ifa_name && hasNumber(*entry) && (!best || preference(*entry) > preference(*best)))
      best = entry;
  if (!best)
    return error(StatusCode::InvalidArgument, "KOLO_NETWORK_INTERFACE='{}': interface {} of {} has no address", name,
                 interface, hostName());
  return numeric(best->ifa_addr);
}

Result<std::string> addressTowards(const std::string &address) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (getaddrinfo(address.c_str(), "9", &hints, &found) != 0)
    return error(StatusCode::InvalidArgument, "'{}' is not a numeric address", address);
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  Socket opened(socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
  if (!opened.isOpen() || ::connect(opened.descriptor(), found->ai_addr, found->ai_addrlen) != 0) // sends nothing
    return systemError(fmt::format("{} has no way to {}", hostName(), address), errno);
  return localAddress(opened);
}

std::string likelyAddress() {
  if (const char *interface = variable("KOLO_NETWORK_INTERFACE"))
    if (Result<std::string> found = addressOfInterface(interface); found.isOk())
      return *found;
  constexpr const char *anywhere = "192.0.2.1"; // an address of documentation: by the default route, if there is one
  if (Result<std::string> found = addressTowards(anywhere); found.isOk())
    return *found;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return "127.0.0.1";
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  const ifaddrs *best = nullptr;
  for (const ifaddrs *entry = list; entry; entry = entry->ifa_next)
    if (hasNumber(*entry) && !(entry->ifa_flags & IFF_LOOPBACK) && (!best || preference(*entry) > preference(*best)))
      best = entry;
  return best ? numeric(best->ifa_addr) : "127.0.0.1";
}

HostMap mapHosts(std::span<const HostId> hosts, std::span<const std::string> names) {
  HostMap map;
  std::unordered_map<std::string_view, int> numbers;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    auto [found, isNew] = numbers.try_emplace(hosts[rank].text, map.numHosts());
    map.hostOf.push_back(found->second);
    if (isNew)
      map.names.push_back(names[rank]);
  }
  return map;
}

Arrival MultiHostJoin::listen(const std::string &address) {
  Arrival own;
  own.pid = getpid();
  const char *interface = variable("KOLO_NETWORK_INTERFACE");
  Result<std::string> listenAt = interface ? addressOfInterface(interface) : Result(address);
  own.refusal = listenAt.status();
  if (!own.refusal.isOk())
    return own;
  ControlOptions options;
  options.rank = place.rank;
  options.numRanks = place.numRanks;
  options.timeoutMs = settings.timeoutMs;
  options.connectMs = settings.connectMs;
  options.progress = settings.progress;
  options.world = world.number;
  options.key = world.key;
  options.listenAt = *listenAt;
  Result<std::unique_ptr<HostLinks>> made = HostLinks::listen(options);
  own.refusal = made.status();
  if (!own.refusal.isOk())
    return own;
  links = std::move(made).value();
  own.endpoint = links->endpoint();
  if (place.rank != place.leader)
    return own;
  Result<std::shared_ptr<ControlMemory>> created = createControl(RankKind::Processes, place.numRanks, place.numHere);
  own.refusal = created.status();
  if (!own.refusal.isOk())
    return own;
  control = *created;
  own.controlFd = control->memory.fd();
  own.controlBytes = control->memory.sizeBytes();
  return own;
}

Status MultiHostJoin::openSegment(const ControlPlace &leadersPlace) {
  if (control)
    return {};
  Result<std::shared_ptr<ControlMemory>> opened = openControl(leadersPlace, place.numRanks, place.numHere);
  if (!opened.isOk())
    return rankError(opened.status().code(), place.leader,
                     "rank {} cannot open the control segment of rank {} on this host: {}", place.rank, place.leader,
                     opened.status().message());
  control = *opened;
  return {};
}

Status MultiHostJoin::open(const Roster &roster) {
  std::vector<int> own = roster.map.ranksOf(roster.map.hostOf[static_cast<size_t>(place.rank)]);
  if (own.front() != place.leader || own.size() != static_cast<size_t>(place.numHere))
    return rankError(StatusCode::Mismatch, 0,
                     "rank 0 told rank {} that rank {} is the lowest of {} on its host, then rank {} of {}", place.rank,
                     place.leader, place.numHere, own.front(), own.size());
  const Arrival &leader = roster.arrivals[static_cast<size_t>(place.leader)];
  if (Status status = openSegment({leader.pid, leader.controlFd, leader.controlBytes}); !status.isOk())
    return status;
  for (size_t i = 0; i < own.size(); ++i)
    control->control.block(static_cast<int>(i)).pid.store(roster.arrivals[static_cast<size_t>(own[i])].pid);
  return {};
}

/// Its own number and its leader's are in memory before anybody waits for either, so that their ends are noticed.
Result<Meeting> MultiHostJoin::meetBy(const Guidance &guidance) {
  if (!guidance.refusal.isOk())
    return guidance.refusal;
  const std::vector<Neighbour> &here = guidance.guide.here;
  const bool isLeader = place.rank == place.leader;
  if (isLeader != !here.empty() ||
      (isLeader && (here.front().rank != place.rank || here.size() != static_cast<size_t>(place.numHere))))
    return rankError(StatusCode::Mismatch, 0,
                     "rank 0 told rank {} that rank {} is the lowest of {} on its host, and then of {} ranks there",
                     place.rank, place.leader, place.numHere, here.size());
  if (Status status = openSegment(guidance.control); !status.isOk())
    return status;
  for (size_t i = 0; i < here.size(); ++i)
    control->control.block(static_cast<int>(i)).pid.store(here[i].pid);
  if (!isLeader)
    control->control.block(0).pid.store(guidance.control.pid);
  const int timeoutMs = settings.connectMs ? settings.connectMs : settings.timeoutMs;
  Status status = links->connectBy(guidance.guide, {place.leader, control->control, control}, timeoutMs);
  return status.isOk() ? Result(Meeting{control, links}) : Result<Meeting>(status);
}

Result<Meeting> MultiHostJoin::connect(const Roster &roster) {
  std::vector<Endpoint> endpoints;
  for (const Arrival &other : roster.arrivals)
    endpoints.push_back(other.endpoint);
  if (Status status = links->connect(roster.map, endpoints, control->control); !status.isOk())
    return status;
  return Meeting{control, links};
}

} // namespace kolo::runtime
