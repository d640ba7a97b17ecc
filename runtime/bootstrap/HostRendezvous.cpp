// Rank 0's side of the rendezvous.
#include "Error.h"
#include "bootstrap/Rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

namespace kolo::runtime {
namespace {

/// A connection that is sending its Hello, or has sent it and waits for the answer.
struct Guest {
  Socket socket;
  Hello hello;
  size_t received = 0;
  bool hasSaidHello() const { return received == sizeof(Hello); }
};

class Host {
public:
  Host(const RankEnvironment &ownEnvironment, const Settings &settings)
      : environment(ownEnvironment), timeoutMs(settings.timeoutMs), start(Clock::now()),
        deadline(start + std::chrono::milliseconds(settings.timeoutMs)),
        pids(static_cast<size_t>(ownEnvironment.worldSize), 0) {}

  Result<std::shared_ptr<ControlMemory>> run();

private:
  Status gather();
  void answerLatecomers(const Welcome &refusal);
  void acceptAll();
  bool listenOnce(Clock::time_point until);
  bool readFrom(Guest &guest);
  Status admit(const Guest &guest);
  Status missing() const;
  void answer(const Welcome &welcome);
  bool isComplete() const {
    return std::all_of(pids.begin(), pids.end(), [](int pid) { return pid != 0; });
  }

  const RankEnvironment &environment;
  int timeoutMs;
  Clock::time_point start, deadline;
  Socket listener;
  std::vector<Guest> guests;
  std::vector<int> pids; // by rank; 0: not here yet
  int numStrangers = 0;
  Status refusal;
};

/// Receives what has arrived. False: the connection was closed, or does not speak Kolo's protocol.
bool Host::readFrom(Guest &guest) {
  auto *bytes = reinterpret_cast<char *>(&guest.hello);
  while (!guest.hasSaidHello()) {
    ssize_t got = recv(guest.socket.descriptor(), bytes + guest.received, sizeof(Hello) - guest.received, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (got <= 0)
      return false;
    guest.received += static_cast<size_t>(got);
  }
  return std::memcmp(bytes, helloMagic, std::min(guest.received, sizeof(helloMagic))) == 0;
}

Status Host::admit(const Guest &guest) {
  const Hello &hello = guest.hello;
  if (hello.version != rendezvousVersion)
    return error(StatusCode::Mismatch, "a rank speaks version {} of the rendezvous, rank 0 speaks {}", hello.version,
                 rendezvousVersion);
  if (hello.worldSize != environment.worldSize)
    return rankError(StatusCode::Mismatch, hello.rank, "ranks disagree on WORLD_SIZE: rank 0 has {}, rank {} has {}",
                     environment.worldSize, hello.rank, hello.worldSize);
  if (hello.rank < 0 || hello.rank >= environment.worldSize)
    return error(StatusCode::Mismatch, "RANK {} is not below WORLD_SIZE {}", hello.rank, environment.worldSize);
  int &pid = pids[static_cast<size_t>(hello.rank)];
  if (pid != 0)
    return rankError(StatusCode::Mismatch, hello.rank, "two processes have RANK={}: {} and {}", hello.rank, pid,
                     hello.pid);
  if (hello.host != currentHost())
    return rankError(
        StatusCode::SystemError, hello.rank,
        "rank {} runs on another host, or in another container, than rank 0: there is no network transport",
        hello.rank);
  pid = hello.pid;
  return {};
}

void Host::acceptAll() {
  while (true) {
    Socket accepted(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.isOpen())
      return;
    guests.push_back({std::move(accepted), {}, 0});
  }
}

/// Waits until something arrives, and receives it. The first error becomes `refusal`. False when the time is over.
bool Host::listenOnce(Clock::time_point until) {
  std::vector<pollfd> entries{{listener.descriptor(), POLLIN, 0}};
  for (const Guest &guest : guests)
    entries.push_back({guest.hasSaidHello() ? -1 : guest.socket.descriptor(), POLLIN, 0});
  if (poll(entries.data(), entries.size(), millisecondsUntil(until)) == 0)
    return false;
  for (size_t index = guests.size(); index-- > 0;) { // backwards, because of the erasure
    if (entries[index + 1].revents == 0)
      continue;
    Guest &guest = guests[index];
    if (!readFrom(guest)) {
      ++numStrangers;
      guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    if (!guest.hasSaidHello())
      continue;
    if (Status status = admit(guest); !status.isOk() && refusal.isOk())
      refusal = status;
  }
  acceptAll();
  return Clock::now() < until;
}

Status Host::missing() const {
  std::string ranks;
  int first = -1;
  for (size_t rank = 0; rank < pids.size(); ++rank)
    if (pids[rank] == 0) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
      first = first < 0 ? static_cast<int>(rank) : first;
    }
  std::string strangers =
      numStrangers ? fmt::format("; connections that did not speak Kolo's protocol: {}", numStrangers) : std::string();
  return rankError(StatusCode::Timeout, first, "rank 0 waited {} ms at {}:{} for rank {}: timed out{}", timeoutMs,
                   environment.master.host, environment.master.port, ranks, strangers);
}

Status Host::gather() {
  while (!isComplete() && refusal.isOk())
    if (!listenOnce(deadline) && !isComplete() && refusal.isOk())
      return missing();
  return refusal;
}

void Host::answer(const Welcome &welcome) {
  for (Guest &guest : guests)
    if (guest.hasSaidHello()) // the join notices a rank that ended meanwhile
      (void)guest.socket.sendAll(&welcome, sizeof(welcome), Clock::now() + std::chrono::seconds(1));
  std::erase_if(guests, [](const Guest &guest) { return guest.hasSaidHello(); });
}

/// Answers ranks that come after an error. Without an answer they would try again until their timeout.
void Host::answerLatecomers(const Welcome &welcome) {
  Clock::time_point until = std::min(deadline, Clock::now() + std::chrono::seconds(1));
  answer(welcome);
  while (!isComplete() && listenOnce(until))
    answer(welcome);
}

Result<std::shared_ptr<ControlMemory>> Host::run() {
  pids[0] = getpid();
  Result<Socket> listening = listenAt(environment.master);
  if (!listening.isOk())
    return listening.status();
  listener = std::move(listening).value();
  Status status = gather();
  Result<std::shared_ptr<ControlMemory>> shared = createControl(RankKind::Processes, environment.worldSize);
  if (status.isOk())
    status = shared.status();
  Welcome welcome;
  std::memcpy(welcome.magic, welcomeMagic, sizeof(welcomeMagic));
  if (!status.isOk()) {
    welcome.code = status.code();
    welcome.culprit = status.rank();
    std::copy_n(status.message().data(), std::min(status.message().size(), sizeof(welcome.message) - 1),
                welcome.message);
    answerLatecomers(welcome);
    return status;
  }
  for (int rank = 0; rank < environment.worldSize; ++rank)
    (*shared)->control.block(rank).pid.store(pids[static_cast<size_t>(rank)]);
  welcome.rootPid = getpid();
  welcome.controlFd = (*shared)->memory.fd();
  welcome.controlBytes = (*shared)->memory.sizeBytes();
  answer(welcome);
  return shared;
}

} // namespace

HostId currentHost() {
  HostId id;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::copy_n(boot.data(), std::min(boot.size(), sizeof(id.boot) - 1), id.boot);
  struct stat info = {};
  if (stat("/proc/self/ns/pid", &info) == 0)
    id.pidNamespace = info.st_ino;
  return id;
}

Result<std::shared_ptr<ControlMemory>> hostRendezvous(const RankEnvironment &environment, const Settings &settings) {
  return Host(environment, settings).run();
}

} // namespace kolo::runtime
