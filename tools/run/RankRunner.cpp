// Runs a plugin's program on real ranks, threads or processes, and measures it.
#include "tools/run/RankRunner.h"
#include "tools/run/DeviceRunner.h"
#include "tools/run/MemoryNeed.h"
#include "tools/run/RankMain.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <thread>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kolo::tools {

namespace {

/// Calls `atEnd` for every size that rank 0 has done since the last time.
class ProgressReporter {
public:
  ProgressReporter(const SharedReports &reports, const std::function<void(size_t)> &atEnd)
      : reports(reports), atEnd(atEnd) {}
  void update() {
    for (auto done = size_t(reports.report(0).sizesDone.load()); numDone < done;)
      atEnd(++numDone);
  }

private:
  const SharedReports &reports;
  const std::function<void(size_t)> &atEnd;
  size_t numDone = 0;
};

constexpr int pollMicroseconds = 2000;

void runThreads(const RankJob &job, const TaggedData &data, const SharedReports &reports, ProgressReporter &progress) {
  auto communicators = Communicator::createThreads(job.mesh.numRanks(), job.options);
  if (!communicators.isOk())
    throw ToolError(exitCodeOf(communicators.status().code()), communicators.status().message());
  std::vector<std::thread> threads;
  std::atomic<size_t> numEnded = 0;
  for (size_t rank = 0; rank < communicators->size(); ++rank)
    threads.emplace_back([&, rank] {
      RankMain(job, data, reports, (*communicators)[rank]).run();
      ++numEnded;
    });
  for (; numEnded < threads.size(); usleep(pollMicroseconds))
    progress.update();
  for (std::thread &thread : threads)
    thread.join();
  progress.update();
}

[[noreturn]] void runChild(const RankJob &job, const TaggedData &data, const SharedReports &reports,
                           const runtime::ForkedRanks &simulated, int rank) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  {
    auto communicator = Communicator::createForked(simulated, rank, job.options);
    if (communicator.isOk())
      RankMain(job, data, reports, *communicator).run();
    else
      reports.report(size_t(rank)).finish(int(communicator.status().code()), communicator.status().message());
  } // it leaves before its process ends: a rank that only ends is lost to the others
  std::_Exit(0);
}

/// The ranks' processes. Whichever are left when this goes are killed.
class Children {
public:
  ~Children() { killRest(); }
  Children(const Children &) = delete;
  Children &operator=(const Children &) = delete;
  Children(const RankJob &job, const TaggedData &data, const SharedReports &reports,
           const runtime::ForkedRanks &simulated)
      : reports(reports) {
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      pid_t child = fork();
      if (child == 0)
        runChild(job, data, reports, simulated, rank);
      if (child < 0) {
        int reason = errno;
        killRest(); // no destructor runs for what is not constructed
        throw ToolError(ExitCode::Failed, "cannot start rank " + std::to_string(rank) + ": " + std::strerror(reason));
      }
      ids.push_back(child);
    }
  }

  /// Notes who has ended since the last time; false once all have.
  bool update() {
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      int status = 0;
      if (ids[rank] <= 0 || waitpid(ids[rank], &status, WNOHANG) != ids[rank])
        continue;
      ids[rank] = 0;
      RankReport &report = reports.report(rank);
      std::string name = "rank " + std::to_string(rank);
      if (WIFSIGNALED(status))
        report.finish(RankReport::ended, name + " was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
                                             strsignal(WTERMSIG(status)) + ")");
      else if (report.code.load() == RankReport::running)
        report.finish(RankReport::ended, name + " ended without a report");
    }
    return std::ranges::any_of(ids, [](pid_t id) { return id > 0; });
  }

  bool hasFailed() const {
    for (size_t rank = 0; rank < ids.size(); ++rank)
      if (reports.report(rank).hasFailed())
        return true;
    return false;
  }

  /// Their reports stay `running`.
  void killRest() {
    for (pid_t &id : ids) {
      if (id <= 0)
        continue;
      kill(id, SIGKILL);
      waitpid(id, nullptr, 0);
      id = 0;
    }
  }

private:
  const SharedReports &reports;
  std::vector<pid_t> ids; // by rank; 0: has ended
};

void runProcesses(const RankJob &job, const TaggedData &data, const SharedReports &reports,
                  ProgressReporter &progress) {
  auto simulated = runtime::ForkedRanks::create(job.mesh.numRanks());
  if (!simulated.isOk())
    throw ToolError(exitCodeOf(simulated.status().code()), simulated.status().message());
  std::fflush(nullptr);
  // After one rank's failure the others fail by themselves, but for those that do not run at all: a stopped process
  // would be waited for in vain.
  constexpr int64_t graceNs = 2'000'000'000;
  int64_t failedAtNs = 0;
  Children children(job, data, reports, *simulated);
  while (children.update()) {
    progress.update();
    if (failedAtNs == 0 && children.hasFailed())
      failedAtNs = nowNs();
    if (failedAtNs != 0 && nowNs() - failedAtNs > graceNs)
      children.killRest();
    usleep(pollMicroseconds);
  }
  progress.update();
}

/// How well a report explains why the run failed: a lost or aborted rank is a consequence of another's failure.
int weight(const RankReport &report) {
  switch (report.code.load()) {
  case int(StatusCode::Ok):
  case RankReport::running:
    return 0;
  case int(StatusCode::Aborted):
    return 1;
  case int(StatusCode::PeerLost):
    return 2;
  case RankReport::ended:
    return 4;
  case RankReport::wrongData:
    return 5;
  default:
    return 3;
  }
}

/// Throws for the failure that explains the others.
void checkReports(const RankJob &job, const SharedReports &reports) {
  const RankReport *worst = nullptr;
  std::string silent; // whoever waited for it may have been waited for too, and timed out no earlier
  for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
    const RankReport &report = reports.report(size_t(rank));
    if (report.code.load() == RankReport::running)
      silent += "rank " + std::to_string(rank) + " does not respond; ";
    if (weight(report) > (worst ? weight(*worst) : 0))
      worst = &report;
  }
  if (!worst)
    return;
  bool isRefusal = worst->code.load() == RankReport::wrongData;
  if (worst->code.load() == int(StatusCode::Timeout))
    throw ToolError(ExitCode::Failed, silent + worst->message);
  bool hasEnded = worst->code.load() == RankReport::ended;
  ExitCode code = hasEnded ? ExitCode::Failed : exitCodeOf(StatusCode(worst->code.load()));
  throw ToolError(isRefusal ? ExitCode::Refused : code, worst->message);
}

} // namespace

std::optional<runtime::SelectedProgram> RankJob::selectFor(int64_t numBytes) const {
  return plugin.select(
      {*collective, mesh, numBytes, memoryKind(), type, reduction, options.tag, calls.allowLoss, calls.haveTables});
}

const runtime::ProgramInfo *RankJob::info() const {
  if (!collective)
    return plugin.findProgram(program);
  std::optional<runtime::SelectedProgram> selected = selectFor(0);
  return selected ? selected->info : nullptr;
}

const runtime::ProgramInfo *RankJob::programFor(const SizeJob &size) const {
  if (!size.program.empty() || !collective)
    return plugin.findProgram(size.program.empty() ? program : size.program);
  const CallBlocks blocks(*collective, mesh.numRanks(), size.count, size.tabled);
  std::optional<runtime::SelectedProgram> selected =
      selectFor(blocks.largestBuffer() * int64_t(runtime::sizeBytes(type)));
  return selected ? selected->info : nullptr;
}

std::vector<int64_t> RankJob::groupDims() const {
  if (!collective)
    return {info()->groupDims.begin(), info()->groupDims.end()};
  std::vector<int64_t> all(mesh.dims().size());
  std::iota(all.begin(), all.end(), int64_t(0));
  return all;
}

std::string RankJob::name() const { return collective ? runtime::toString(*collective) : program; }

runtime::MemoryKind RankJob::memoryKind() const {
  return useProcesses && !useWindows ? runtime::MemoryKind::Ordinary : runtime::MemoryKind::Windows;
}

runtime::CallArguments RankJob::argumentsFor(const SizeJob &size) const {
  runtime::CallArguments arguments;
  arguments.program = size.program.empty() ? program : size.program;
  arguments.collective = collective;
  arguments.mesh = mesh;
  arguments.count = size.count;
  arguments.type = type;
  arguments.reduction = reduction;
  arguments.root = root;
  arguments.allowsLoss = calls.allowLoss;
  return arguments;
}

int64_t groupSizeOf(const RankJob &job) {
  int64_t size = 1;
  for (int64_t dim : job.groupDims())
    size *= job.mesh.dims()[size_t(dim)].size;
  return size;
}

CallBlocks blocksOf(const RankJob &job, const SizeJob &size) {
  return {job.info()->collective, groupSizeOf(job), size.count, size.tabled};
}

std::vector<Timings> runRanks(const RankJob &job, const std::function<void(size_t)> &atEnd, Traffics *traffic) {
  if (job.device && !job.isLaunched)
    return runOnDevices(job, atEnd);
  bool hasCodecs = std::ranges::any_of(job.sizes, [&](const SizeJob &size) {
    const runtime::ProgramInfo *info = job.programFor(size);
    return info && !info->choreography.empty();
  });
  if (job.check && hasCodecs && !job.lossy && !job.device) {
    RankJob checked = job;
    checked.lossy = std::make_shared<LossyCalls>(job);
    return runRanks(checked, atEnd, traffic);
  }
  TaggedData data(job.info()->collective, job.groupDims(), job.mesh, job.type, job.reduction);
  checkMemoryNeed(job);
  SharedReports reports(job);
  ProgressReporter progress(reports, atEnd);
  if (job.isLaunched)
    runLaunched(job, data, reports);
  else if (job.useProcesses)
    runProcesses(job, data, reports, progress);
  else
    runThreads(job, data, reports, progress);
  checkReports(job, reports);
  for (int rank = 0; traffic && rank < job.mesh.numRanks(); ++rank)
    traffic->push_back(reports.report(size_t(rank)).traffic);
  std::vector<Timings> result;
  for (size_t size = 0; size < job.sizes.size(); ++size) {
    Timings &timings = result.emplace_back();
    for (size_t i = 0; i < size_t(job.sizes[size].iterations); ++i) {
      int64_t start = INT64_MAX, end = 0;
      for (size_t rank = 0; rank < size_t(job.mesh.numRanks()); ++rank) {
        start = std::min(start, reports.interval(size, i, rank).startNs);
        end = std::max(end, reports.interval(size, i, rank).endNs);
      }
      timings.push_back(double(end - start) / 1000.0);
    }
  }
  return result;
}

} // namespace kolo::tools
