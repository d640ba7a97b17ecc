// RankMain: what one rank of kolo run and kolo bench does, and how it reports. Used by RankRunner and LaunchedRank.
#pragma once

#include "tools/run/Data.h"
#include "tools/run/Lossy.h"
#include "tools/run/RankRunner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace kolo::tools {

using runtime::Communicator;
using runtime::Status;
using runtime::StatusCode;

inline int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Interval {
  int64_t startNs, endNs;
};

/// What a rank reports to the process that started it.
struct RankReport {
  static constexpr int running = -1, wrongData = 1000, ended = 1001; // ended: by a signal, or without a report

  std::atomic<int> code{running}; // one of these, or a StatusCode
  std::atomic<int> sizesDone{0};
  runtime::Traffic traffic = {}; // of the last size's last call
  char message[1000] = "";

  bool hasFailed() const { return code.load() != running && code.load() != int(StatusCode::Ok); }
  void finish(int newCode, const std::string &text) {
    std::strncpy(message, text.c_str(), sizeof(message) - 1);
    code.store(newCode);
  }
};

/// Memory shared with forked ranks; it disappears with the last process.
class SharedReports {
public:
  explicit SharedReports(const RankJob &job) : numRanks(size_t(job.mesh.numRanks())) {
    for (const SizeJob &size : job.sizes) {
      firstInterval.push_back(numIntervals);
      numIntervals += size_t(size.iterations) * numRanks;
    }
    numBytes = numRanks * sizeof(RankReport) + numIntervals * sizeof(Interval);
    memory = mmap(nullptr, numBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw ToolError(ExitCode::Failed,
                      "cannot allocate " + std::to_string(numBytes) + " bytes for the ranks' reports");
    for (size_t rank = 0; rank < numRanks; ++rank)
      new (&report(rank)) RankReport;
  }
  ~SharedReports() { munmap(memory, numBytes); }
  SharedReports(const SharedReports &) = delete;
  SharedReports &operator=(const SharedReports &) = delete;

  RankReport &report(size_t rank) const { return static_cast<RankReport *>(memory)[rank]; }
  Interval &interval(size_t size, size_t iteration, size_t rank) const {
    auto intervals = reinterpret_cast<Interval *>(static_cast<RankReport *>(memory) + numRanks);
    return intervals[firstInterval[size] + iteration * numRanks + rank];
  }

private:
  size_t numRanks, numIntervals = 0, numBytes = 0;
  std::vector<size_t> firstInterval;
  void *memory;
};

/// One rank's memory for all sizes: in windows or as malloc gives it.
class RankMemory {
public:
  Status allocate(Communicator &communicator, size_t numBytes, const RankJob &job) {
    if (!job.useWindows) {
      size_t pageBytes = size_t(job.wantsHugePages ? 2048 : 4) << 10;
      size_t wholeBytes = (std::max<size_t>(numBytes, 1) + pageBytes - 1) / pageBytes * pageBytes;
      ordinary.reset(std::aligned_alloc(pageBytes, wholeBytes));
      if (!ordinary)
        return Status(StatusCode::OutOfMemory, "cannot allocate " + std::to_string(numBytes) + " bytes");
      if (job.wantsHugePages)
        (void)madvise(ordinary.get(), wholeBytes, MADV_HUGEPAGE);
      return Status();
    }
    auto allocated = communicator.allocate(std::max<size_t>(numBytes, 1));
    if (!allocated.isOk())
      return allocated.status();
    window = std::move(allocated).value();
    return Status();
  }
  std::byte *data() const { return static_cast<std::byte *>(window ? window->data() : ordinary.get()); }

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::optional<runtime::Window> window;
  std::unique_ptr<void, Free> ordinary;
};

/// What one rank does.
class RankMain {
public:
  RankMain(const RankJob &job, const TaggedData &data, const SharedReports &reports, Communicator &communicator)
      : job(job), data(data), reports(reports), communicator(communicator), rank(communicator.rank()) {}

  void run() {
    RankReport &report = reports.report(size_t(rank));
    std::string wrong;
    Status status = allocate();
    // What was never written has no memory of its own yet, and would be read too fast.
    if (status.isOk() && !(job.check && std::ranges::all_of(job.sizes, &SizeJob::check)))
      prepareData(*std::ranges::max_element(job.sizes, {}, &SizeJob::count));
    for (size_t size = 0; status.isOk() && wrong.empty() && size < job.sizes.size(); ++size) {
      status = runSize(size, wrong);
      report.sizesDone.store(int(size) + 1);
    }
    if (wrong.empty())
      report.finish(int(status.code()), status.message());
    else
      report.finish(RankReport::wrongData, wrong);
  }

private:
  Status allocate() {
    BufferSizes elements{0, 0};
    for (const SizeJob &size : job.sizes) {
      BufferSizes own = sizesOf(size);
      elements.inputElements = std::max(elements.inputElements, own.inputElements);
      elements.outputElements = std::max(elements.outputElements, own.outputElements);
      tables.push_back(std::make_unique<RankTables>(blocksOf(job, size), data.memberNumber(rank),
                                                    data.hasInput(rank, job.root), data.hasOutput(rank, job.root)));
    }
    size_t elementBytes = runtime::sizeBytes(job.type);
    size_t inputBytes = size_t(elements.inputElements) * elementBytes,
           outputBytes = size_t(elements.outputElements) * elementBytes;
    Status status = input.allocate(communicator, job.isInPlace ? std::max(inputBytes, outputBytes) : inputBytes, job);
    if (!status.isOk() || job.isInPlace)
      return status;
    return output.allocate(communicator, outputBytes, job);
  }

  BufferSizes sizesOf(const SizeJob &size) const { return blocksOf(job, size).sizes(data.memberNumber(rank)); }

  /// As in NCCL, this rank's block of the buffer that has a block for each rank is the other buffer.
  void placeInside(const SizeJob &size, std::byte *&in, std::byte *&out) const {
    const CallBlocks blocks = blocksOf(job, size);
    const bool isInputInside = blocks.numBlocks(BufferSide::Input) < blocks.numBlocks(BufferSide::Output);
    if (blocks.numBlocks(BufferSide::Input) == blocks.numBlocks(BufferSide::Output))
      return;
    const int64_t self = data.memberNumber(rank);
    const int64_t place = blocks.place(isInputInside ? BufferSide::Output : BufferSide::Input, self, self);
    (isInputInside ? in : out) += place * int64_t(runtime::sizeBytes(job.type));
  }

  runtime::CallArguments argumentsFor(const SizeJob &size) {
    runtime::CallArguments arguments = job.argumentsFor(size);
    std::byte *in = input.data(), *out = job.isInPlace ? in : output.data();
    if (job.isInPlace)
      placeInside(size, in, out);
    arguments.input = data.hasInput(rank, job.root) ? in : nullptr;
    arguments.output = data.hasOutput(rank, job.root) ? out : nullptr;
    if (size.tabled)
      arguments.blocks = &tables[size_t(&size - job.sizes.data())]->tables;
    return arguments;
  }

  bool isLossy(size_t size) const { return job.lossy && job.lossy->isFor(size); }

  void prepareData(const SizeJob &size) {
    runtime::CallArguments arguments = argumentsFor(size);
    auto number = size_t(&size - job.sizes.data());
    if (!job.isInPlace && arguments.output)
      data.poisonOutput(arguments.output, sizesOf(size).outputElements);
    if (arguments.input && isLossy(number))
      job.lossy->fillInput(number, rank, const_cast<void *>(arguments.input));
    else if (arguments.input)
      data.fillInput(rank, blocksOf(job, size), const_cast<void *>(arguments.input));
  }

  Status runSize(size_t number, std::string &wrong) {
    const SizeJob &size = job.sizes[number];
    runtime::CallArguments arguments = argumentsFor(size);
    if (job.check && size.check) {
      prepareData(size);
      Status status = communicator.run(job.plugin, arguments);
      if (!status.isOk())
        return status;
      auto problem = isLossy(number) ? job.lossy->check(number, rank, arguments.output)
                                     : data.check(rank, job.root, blocksOf(job, size), arguments.output);
      if (problem)
        wrong = (size.program.empty() ? job.name() : size.program) + ": " + *problem + " (count " +
                std::to_string(size.count) + ")";
    }
    for (int i = -size.warmUps; i < size.iterations; ++i) {
      runtime::Traffic before = communicator.traffic();
      Status status = communicator.barrier();
      if (!status.isOk())
        return status;
      Interval interval{nowNs(), 0};
      status = communicator.run(job.plugin, arguments);
      interval.endNs = nowNs();
      if (!status.isOk())
        return status;
      runtime::Traffic after = communicator.traffic();
      reports.report(size_t(rank)).traffic = {after.sentBytes - before.sentBytes,
                                              after.fetchedBytes - before.fetchedBytes};
      if (i >= 0)
        reports.interval(number, size_t(i), size_t(rank)) = interval;
    }
    return Status();
  }

  const RankJob &job;
  const TaggedData &data;
  const SharedReports &reports;
  Communicator &communicator;
  int rank;
  RankMemory input, output;
  std::vector<std::unique_ptr<RankTables>> tables; // by size
};

/// Runs one rank of a launcher, which variables of the environment name, and gives it the times of all: see runRanks.
/// Fills the reports. Throws ToolError (Usage): the launcher started another number of ranks than the mesh has.
void runLaunched(const RankJob &job, const TaggedData &data, const SharedReports &reports);

} // namespace kolo::tools
