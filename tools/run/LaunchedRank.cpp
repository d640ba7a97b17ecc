// One rank of a launcher. The others are other processes, on this host or on others, so they share no memory and no
// clock.
#include "tools/run/DeviceRunner.h"
#include "tools/run/RankMain.h"

#include "kolo/runtime/Door.h"

#include <cmath>

namespace kolo::tools {
namespace {

[[noreturn]] void fail(const Status &status) { throw ToolError(exitCodeOf(status.code()), status.message()); }

/// Every rank puts what its iterations took into a window of every other one, behind each other by size.
void gatherTimes(const RankJob &job, const SharedReports &reports, Communicator &communicator) {
  size_t numTimes = 0;
  for (const SizeJob &size : job.sizes)
    numTimes += size_t(size.iterations);
  const size_t rowBytes = numTimes * sizeof(int64_t);
  auto rank = size_t(communicator.rank());
  auto window = communicator.allocate(std::max<size_t>(rowBytes * size_t(communicator.size()), 1));
  if (!window.isOk())
    fail(window.status());
  auto windows = communicator.exchange(*window);
  if (!windows.isOk())
    fail(windows.status());
  std::vector<int64_t> own;
  for (size_t size = 0; size < job.sizes.size(); ++size)
    for (size_t i = 0; i < size_t(job.sizes[size].iterations); ++i) {
      const Interval &interval = reports.interval(size, i, rank);
      own.push_back(interval.endNs - interval.startNs);
    }
  auto check = [](const Status &status) {
    if (!status.isOk())
      fail(status);
  };
  std::memcpy(static_cast<std::byte *>(window->data()) + rank * rowBytes, own.data(), rowBytes);
  for (int distance = 1; distance < communicator.size(); ++distance) {
    int peer = (communicator.rank() + distance) % communicator.size();
    runtime::Channel channel = communicator.channel(peer, 0);
    check(channel.put((*windows)[size_t(peer)], rank * rowBytes, own.data(), rowBytes));
    check(channel.signal());
  }
  for (int distance = 1; distance < communicator.size(); ++distance)
    check(communicator.channel((communicator.rank() + distance) % communicator.size(), 0).wait());
  const auto *times = static_cast<const int64_t *>(window->data());
  for (size_t peer = 0; peer < size_t(communicator.size()); ++peer)
    for (size_t size = 0; size < job.sizes.size(); ++size)
      for (size_t i = 0; i < size_t(job.sizes[size].iterations); ++i)
        reports.interval(size, i, peer) = {0, *times++};
}

/// Its failures are thrown, not reported.
void runOnDevice(const RankJob &job, const SharedReports &reports, Communicator &communicator) {
  const auto rank = size_t(communicator.rank());
  const std::vector<Timings> timings = runLaunchedOnDevice(job, communicator);
  for (size_t size = 0; size < timings.size(); ++size)
    for (size_t i = 0; i < timings[size].size(); ++i)
      reports.interval(size, i, rank) = {0, std::llround(timings[size][i] * 1000)};
  reports.report(rank).finish(int(StatusCode::Ok), "");
}

} // namespace

void runLaunched(const RankJob &job, const TaggedData &data, const SharedReports &reports) {
  auto place = runtime::readLaunchedRank();
  if (!place.isOk())
    throw ToolError(ExitCode::Usage, "--ranks-as launched: " + place.status().message());
  if (place->size != job.mesh.numRanks())
    throw ToolError(ExitCode::Usage, "--mesh: " + job.mesh.toString() + " has " + std::to_string(job.mesh.numRanks()) +
                                         " ranks, but the launcher started " + std::to_string(place->size) + " (" +
                                         place->variables + ")");
  auto communicator = Communicator::createFromEnvironment(job.options);
  if (!communicator.isOk())
    fail(communicator.status());
  if (job.device)
    runOnDevice(job, reports, *communicator);
  else
    RankMain(job, data, reports, *communicator).run();
  for (int rank = 0; rank < place->size; ++rank)
    if (rank != place->rank)
      reports.report(size_t(rank)).finish(int(StatusCode::Ok), ""); // each speaks for itself
  if (!reports.report(size_t(place->rank)).hasFailed())
    gatherTimes(job, reports, *communicator);
}

bool RankJob::isSilent() const {
  if (!isLaunched)
    return false;
  auto place = runtime::readLaunchedRank();
  return place.isOk() && place->rank != 0;
}

} // namespace kolo::tools
