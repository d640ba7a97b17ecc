// A program that knows NCCL and CUDA's driver alone. Its ranks are on one device.
#pragma once

#include "Driver.h"

#include "tests/nccl/Collectives.h"

#include <atomic>
#include <set>

namespace kolo::test {

// The name that cuda.h makes of a function's, with its version.
#define KOLO_NAME_OF(function) #function
#define KOLO_DRIVER_NAME(function) KOLO_NAME_OF(function)
#define CUDA(function, ...)                                                                                            \
  expectDriver(driverFunction<decltype(function)>(KOLO_DRIVER_NAME(function))(__VA_ARGS__), #function)

/// Throws with NCCL's last error.
void expectNccl(ncclResult_t code, const char *what);
#define NCCL(call) expectNccl(call, #call)

/// A line of JSON, in one write, so that the lines of several ranks do not mix.
void printLine(const std::string &fields);
std::string quoted(const std::string &text);

/// What all ranks share, be they threads or processes.
struct Shared {
  int ranksPerProcess = 1;
  std::atomic<int> hasId = 0, numWrong = 0;
  ncclUniqueId id = {};
};

/// NCCL makes no communicator of these ranks.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The ranks that this thread calls for. Functions throw what NCCL or the driver refuses; wrong results are printed.
class NcclClient {
public:
  /// `kinds`: the collectives that the door carries.
  NcclClient(Shared &shared, std::set<std::string> kinds, int first, int number, int size);
  /// All checks; then says how many calls the door should have carried and
  /// forwarded for the ranks of this process.
  void run();

private:
  static constexpr size_t mostElements = 3000 * 8; // of a buffer
  static constexpr int poison = -7;

  bool isFirst() const { return ranks.front().number == 0; }
  bool has(const char *kind) const { return kinds.contains(kind); }
  void connect();
  /// Calls for every rank; in a group when it calls for several, as NCCL asks.
  void each(const std::function<ncclResult_t(Rank &)> &call);
  void copy(const Rank &rank, void *dst, const void *src, size_t number) const;
  void fill() const;
  void finish() const;
  void check(const Collective &collective);
  void check(const std::vector<Collective> &collectives);
  /// Everything is compared bit by bit.
  void compare(const Collective &collective);
  /// "" is right.
  void say(const std::string &check, const std::string &wrong) const;
  void skip(const std::string &check, const std::string &why) const;

  void checkFloats();
  void checkGroup();
  void checkGraph();
  void checkWindows();
  void meet();
  void checkSplit();
  void checkForwarded();

  Shared &shared;
  const std::set<std::string> kinds;
  const int numRanks;
  bool isStandIn = false; // NCCL moves no data then
  std::vector<Rank> ranks;
  int numCarried = 0, numForwarded = 0; // calls of a rank
};

} // namespace kolo::test
