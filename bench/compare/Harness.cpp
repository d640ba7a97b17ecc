#include "Harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <vector>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace kolo::bench {
namespace {

constexpr int64_t leastIterations = 3;

int64_t nowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct Buffers {
  float *input;
  float *output;
};

/// One rank's measurement of one cell.
class Measurement {
public:
  Measurement(System &measured, Board &sharedBoard, const Command &request, const Buffers &memory)
      : system(measured), board(sharedBoard), command(request), buffers(memory),
        cell(shapeOf(request, sharedBoard.numRanks(), sharedBoard.rank())) {}

  /// Returns the number of timed iterations, whose intervals are then on the board.
  int64_t run() {
    system.prepare(command);
    poisonOutput(cell, buffers.input, buffers.output, board.rank());
    int64_t numIterations = warmUp();
    operate(numIterations);
    if (system.hasResult())
      check();
    return numIterations;
  }

private:
  void operate(int64_t numIterations) {
    Interval *intervals = board.memory().intervals[board.rank()];
    for (int64_t at = 0; at < numIterations; ++at) {
      board.barrier();
      int64_t startNs = nowNs();
      system.run(cell, buffers.input, buffers.output);
      intervals[at] = {startNs, nowNs()};
    }
    board.barrier();
  }

  /// Runs until a tenth of the budget is used, and from that decides how many iterations fill it. The very first
  /// operation, in which systems register and map memory, only counts when it alone takes longer than the budget.
  int64_t warmUp() {
    for (int64_t numTried = 1, attempt = 0;; ++attempt) {
      int64_t startNs = nowNs();
      operate(numTried);
      if (board.rank() == 0)
        board.memory().numIterations = decide(numTried, 1e-9 * static_cast<double>(nowNs() - startNs), attempt == 0);
      board.barrier();
      if (int64_t decided = board.memory().numIterations; decided > 0)
        return decided;
      numTried = attempt == 0 ? 1 : numTried * 4;
    }
  }

  /// 0 when it is too early to tell.
  int64_t decide(int64_t numTried, double seconds, bool isFirst) const {
    if (seconds < (isFirst ? 1 : 0.1) * command.budgetSeconds && numTried < maxIterations / 16)
      return 0;
    double wanted = command.budgetSeconds * static_cast<double>(numTried) / std::max(seconds, 1e-9);
    return std::clamp(static_cast<int64_t>(wanted), leastIterations, maxIterations);
  }

  /// After the timed operations, which have left every state behind that they can.
  void check() {
    poisonOutput(cell, buffers.input, buffers.output, board.rank());
    board.barrier();
    system.run(cell, buffers.input, buffers.output);
    if (std::optional<std::string> mistake = findMistake(cell, buffers.output, board.rank(), board.numRanks()))
      throw Failure(*mistake);
    board.barrier();
  }

  System &system;
  Board &board;
  const Command &command;
  const Buffers &buffers;
  Cell cell;
};

/// One operation takes from the first start to the last end.
std::vector<double> durationsUs(Board &board, int64_t numIterations) {
  std::vector<double> durations;
  for (int64_t at = 0; at < numIterations; ++at) {
    Interval whole = board.memory().intervals[0][at];
    for (int rank = 1; rank < board.numRanks(); ++rank) {
      const Interval &interval = board.memory().intervals[rank][at];
      whole.startNs = std::min(whole.startNs, interval.startNs);
      whole.endNs = std::max(whole.endNs, interval.endNs);
    }
    durations.push_back(1e-3 * static_cast<double>(whole.endNs - whole.startNs));
  }
  std::sort(durations.begin(), durations.end());
  return durations;
}

void report(Board &board, int64_t numIterations) {
  std::vector<double> sorted = durationsUs(board, numIterations);
  size_t last = sorted.size() - 1;
  double median = (sorted[last / 2] + sorted[(last + 1) / 2]) / 2;
  std::printf("ok %.3f %.3f %.3f %.3f %zu\n", sorted[0], median, sorted[(last * 9 + 5) / 10], sorted[last],
              sorted.size());
  std::fflush(stdout);
}

Command parseCommand(const std::string &line) {
  std::istringstream words(line);
  std::string collective, plugin;
  Command command;
  words >> collective >> command.sizeBytes >> command.budgetSeconds >> plugin;
  const size_t colon = collective.find(':');
  std::optional<Collective> parsed = parseCollective(collective.substr(0, colon));
  std::optional<Distribution> distribution =
      colon == std::string::npos ? Distribution::None : parseDistribution(collective.substr(colon + 1));
  if (!parsed || !distribution || command.sizeBytes <= 0 || command.budgetSeconds <= 0 ||
      plugin.size() >= sizeof(command.plugin))
    throw Failure("not a command: " + line);
  command.collective = *parsed;
  command.distribution = *distribution;
  std::copy(plugin.begin(), plugin.end(), command.plugin);
  return command;
}

Command nextCommand(Board &board) {
  if (board.rank() != 0)
    return board.await();
  Command command;
  std::string line;
  if (std::getline(std::cin, line))
    command = parseCommand(line);
  else
    command.isLast = true;
  board.post(command);
  return command;
}

void announce(Board &board) {
  board.barrier();
  if (board.rank() != 0)
    return;
  std::printf("ready");
  for (int rank = 0; rank < board.numRanks(); ++rank)
    std::printf(" %d", board.memory().pids[rank]);
  std::printf("\n");
  std::fflush(stdout);
}

void serveCommands(System &system, Board &board, const HarnessOptions &options) {
  auto sizeBytes = static_cast<size_t>(options.maxBytes);
  Buffers buffers = {static_cast<float *>(system.allocate(sizeBytes)),
                     static_cast<float *>(system.allocate(sizeBytes))};
  fillInput(buffers.input, options.maxBytes / static_cast<int64_t>(sizeof(float)), board.rank());
  announce(board);
  while (true) {
    Command command = nextCommand(board);
    if (command.isLast)
      return;
    const Cell cell = shapeOf(command, board.numRanks(), board.rank());
    if (std::max(cell.numInput, cell.numOutput) * 4 > options.maxBytes)
      throw Failure("a vector larger than --max-bytes");
    int64_t numIterations = Measurement(system, board, command, buffers).run();
    if (board.rank() == 0)
      report(board, numIterations);
  }
}

/// A launcher ends all ranks when one ends, so rank 0 speaks first.
void reportFailure(Board &board) {
  BoardMemory &memory = board.memory();
  if (board.rank() == 0) {
    std::printf("failed %s\n", memory.failure);
    std::fflush(stdout);
    usleep(200'000); // for the launcher to pass it on
    memory.isReported.store(1);
  }
  for (int tenths = 0; tenths < 30 && !memory.isReported.load(); ++tenths)
    usleep(100'000);
}

int64_t parseNumber(const std::string &text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= 0)
    throw Failure("not a positive number: " + text);
  return number;
}

} // namespace

HarnessOptions parseOptions(int argc, char **argv) {
  HarnessOptions options;
  for (int at = 1; at < argc; ++at) {
    std::string name = argv[at];
    auto value = [&]() -> std::string {
      if (++at >= argc)
        throw Failure("no value for " + name);
      return argv[at];
    };
    if (name == "--max-bytes")
      options.maxBytes = std::max<int64_t>(parseNumber(value()), 4096);
    else if (name == "--huge-pages")
      options.pages = Pages::Huge;
    else if (name == "--pin")
      options.isPinned = true;
    else if (name == "--ranks")
      options.numRanks = static_cast<int>(parseNumber(value()));
    else if (name == "--board")
      options.boardPath = value();
    else if (name == "--ordinary-memory")
      options.usesWindows = false;
    else
      throw Failure("no such option: " + name);
  }
  return options;
}

constexpr size_t hugePageBytes = size_t(2) << 20;

/// Memory that begins where a huge page can. The kernel gets the advice about its pages, then they are touched.
static char *mapAligned(size_t sizeBytes, int flags, int advice) {
  constexpr int onlyAddresses = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *reserved = mmap(nullptr, sizeBytes + hugePageBytes, PROT_NONE, onlyAddresses, -1, 0);
  if (reserved == MAP_FAILED)
    throw Failure(std::string("reserving addresses: ") + std::strerror(errno));
  auto address = (reinterpret_cast<uintptr_t>(reserved) + hugePageBytes - 1) / hugePageBytes * hugePageBytes;
  void *mapped = mmap(reinterpret_cast<void *>(address), sizeBytes, PROT_READ | PROT_WRITE,
                      flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED)
    throw Failure(std::string("mmap: ") + std::strerror(errno));
  (void)madvise(mapped, sizeBytes, advice);
  std::memset(mapped, 1, sizeBytes);
  return static_cast<char *>(mapped);
}

void *allocatePages(size_t sizeBytes, Pages pages) {
  return mapAligned(sizeBytes, MAP_PRIVATE, pages == Pages::Huge ? MADV_HUGEPAGE : MADV_NORMAL);
}

void *allocateShared(size_t sizeBytes) {
  char *begin = mapAligned(sizeBytes, MAP_SHARED, MADV_HUGEPAGE);
  if (size_t wholeBytes = sizeBytes / hugePageBytes * hugePageBytes; wholeBytes > 0)
    (void)madvise(begin, wholeBytes, MADV_COLLAPSE);
  return begin;
}

int serve(System &system, Board &board, const HarnessOptions &options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // whoever launched the ranks takes them along
  signal(SIGPIPE, SIG_IGN);         // without a driver the input ends too, and with it all ranks
  try {
    serveCommands(system, board, options);
    return 0;
  } catch (const std::exception &failure) {
    board.fail(failure.what());
  }
  reportFailure(board);
  return 1;
}

} // namespace kolo::bench
