#include "Ranks.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

namespace kolo::test {
namespace {

std::string join(const std::vector<std::string> &said) {
  std::string text;
  for (size_t rank = 0; rank < said.size(); ++rank)
    if (!said[rank].empty())
      text += "rank " + std::to_string(rank) + ": " + said[rank] + "\n";
  return text;
}

std::string runThreads(int numRanks, const CommunicatorOptions &options, const RankBody &body) {
  auto created = Communicator::createThreads(numRanks, options);
  if (!created.isOk())
    return created.status().message();
  std::vector<std::string> said(static_cast<size_t>(numRanks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < said.size(); ++rank)
    threads.emplace_back([&, rank, communicator = std::move((*created)[rank])]() mutable {
      Communicator own = std::move(communicator);
      said[rank] = body(own);
    });
  for (std::thread &thread : threads)
    thread.join();
  return join(said);
}

std::string enter(runtime::Result<Communicator> created, const RankBody &body) {
  return created.isOk() ? body(*created) : "not created: " + created.status().message();
}

struct Child {
  int pid;
  int pipe;
};

Child startChild(int rank, const ProcessBody &body) {
  int ends[2];
  if (pipe(ends) != 0)
    std::abort();
  int pid = fork();
  if (pid < 0)
    std::abort();
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  std::string said = body(rank);
  for (size_t at = 0; at < said.size();)
    at += static_cast<size_t>(std::max<ssize_t>(1, write(ends[1], said.data() + at, said.size() - at)));
  _exit(0);
}

std::string finishChild(const Child &child, std::chrono::steady_clock::time_point deadline) {
  std::string said;
  char buffer[512];
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry = {child.pipe, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) == 0) {
      kill(child.pid, SIGKILL);
      said += " [took too long]";
      break;
    }
    ssize_t got = read(child.pipe, buffer, sizeof(buffer));
    if (got <= 0)
      break;
    said.append(buffer, static_cast<size_t>(got));
  }
  close(child.pipe);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (WIFSIGNALED(status))
    said += "killed by signal " + std::to_string(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    said += "exited with " + std::to_string(WEXITSTATUS(status));
  return said;
}

} // namespace

std::ostream &operator<<(std::ostream &out, Launch kind) {
  return out << (kind == Launch::Threads ? "Threads" : kind == Launch::Forked ? "Forked" : "Environment");
}

std::vector<std::string> runProcesses(int numRanks, const ProcessBody &body,
                                      const std::function<void(const std::vector<int> &)> &meanwhile) {
  std::vector<Child> children;
  std::vector<int> pids;
  for (int rank = 0; rank < numRanks; ++rank) {
    children.push_back(startChild(rank, body));
    pids.push_back(children.back().pid);
  }
  if (meanwhile)
    meanwhile(pids);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<std::string> said;
  for (const Child &child : children)
    said.push_back(finishChild(child, deadline));
  return said;
}

std::string runRanks(Launch kind, int numRanks, const CommunicatorOptions &options, const RankBody &body) {
  if (kind == Launch::Threads)
    return runThreads(numRanks, options, body);
  if (kind == Launch::Environment) {
    int port = freePort();
    return join(runProcesses(numRanks, [&](int rank) {
      setRankEnvironment(rank, numRanks, port);
      return enter(Communicator::createFromEnvironment(options), body);
    }));
  }
  auto forked = runtime::ForkedRanks::create(numRanks);
  if (!forked.isOk())
    return forked.status().message();
  // In a thread, whose allocations lie in an arena of their own: each page of the parent's heap that is written is
  // copied.
  return join(runProcesses(numRanks, [&](int rank) {
    std::string said;
    std::thread([&] { said = enter(Communicator::createForked(*forked, rank, options), body); }).join();
    return said;
  }));
}

std::string onHosts(int numRanks, const HostOf &hostOf, const CommunicatorOptions &options, const RankBody &body,
                    const std::function<void(const std::vector<int> &)> &meanwhile) {
  int port = freePort();
  return join(runProcesses(
      numRanks,
      [&](int rank) {
        setenv("KOLO_HOSTID", hostOf(rank).c_str(), 1);
        setenv("KOLO_WAIT", "yield", 0); // the hosts share the cores of this machine
        setRankEnvironment(rank, numRanks, port);
        return enter(Communicator::createFromEnvironment(options), body);
      },
      meanwhile));
}

int freePort() {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr *>(&address), bytes) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    std::abort();
  close(fd);
  return ntohs(address.sin_port);
}

void setRankEnvironment(int rank, int worldSize, int port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(worldSize).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
}

std::string expectStatus(const Status &status, StatusCode code, const std::vector<std::string> &texts) {
  bool isRight = status.code() == code;
  for (const std::string &text : texts)
    isRight &= status.message().find(text) != std::string::npos;
  return isRight ? "" : std::string(runtime::toString(status.code())) + ": " + status.message();
}

std::string expectFailure(const Status &status, StatusCode code, const std::vector<std::string> &texts) {
  return expectStatus(status, status.code() == StatusCode::Aborted ? StatusCode::Aborted : code, texts);
}

int countDescriptors() {
  auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

int countSharedMemory() {
  auto entries = std::filesystem::directory_iterator("/dev/shm");
  return static_cast<int>(
      std::count_if(begin(entries), end(entries), [](const std::filesystem::directory_entry &entry) {
        const std::string name = entry.path().filename().string();
        return name.find("kolo") != name.npos && !name.starts_with("kolo-nccl-") && !name.starts_with("kolo-standin-");
      }));
}

namespace {

/// Of each mapping of the runtime's memory.
std::vector<int64_t> mappingSizes() {
  std::ifstream maps("/proc/self/maps");
  std::vector<int64_t> sizes;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (line.find("memfd:kolo ") != std::string::npos && std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
      sizes.push_back(static_cast<int64_t>(end - begin));
  }
  return sizes;
}

} // namespace

int countMappings() { return static_cast<int>(mappingSizes().size()); }

int64_t mappedBytes() {
  std::vector<int64_t> sizes = mappingSizes();
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
}

ScopedVariable::ScopedVariable(const char *variable, const char *value) : name(variable) { setenv(name, value, 1); }
ScopedVariable::~ScopedVariable() { unsetenv(name); }

} // namespace kolo::test
