// The place of this process by the variables of whoever launched it.
#include "base/Environment.h"
#include "base/Error.h"
#include "base/Variable.h"
#include "bootstrap/LaunchedRanks.h"
#include "kolo/runtime/Door.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace kolo::runtime {
namespace {

struct Launcher {
  const char *rank, *size;
};

/// RANK first, because who sets it means Kolo or torch; a launcher sets its own variables for everything it starts.
constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

Result<int> readNumber(const char *name, int least, int most, const char *what) {
  const char *text = variable(name);
  if (!text)
    return error(StatusCode::InvalidArgument, "{} is not set", name);
  if (std::optional<int> value = parseInt(text, least, most))
    return *value;
  return error(StatusCode::InvalidArgument, "{}='{}' is not {}", name, text, what);
}

Result<LaunchedRank> readRank(const Launcher &launcher) {
  Result<int> size = readNumber(launcher.size, 1, maxRanks, "a number of ranks from 1 to 131072");
  Result<int> rank = readNumber(launcher.rank, 0, std::numeric_limits<int>::max(), "a rank");
  std::string problems = size.isOk() ? "" : size.status().message();
  if (!rank.isOk())
    problems += (problems.empty() ? "" : "; ") + rank.status().message();
  if (problems.empty() && *rank >= *size)
    problems = fmt::format("{}={} is not below {}={}", launcher.rank, *rank, launcher.size, *size);
  if (!problems.empty())
    return Status(StatusCode::InvalidArgument, problems);
  return LaunchedRank{*rank, *size, fmt::format("{} and {}", launcher.rank, launcher.size)};
}

} // namespace

Result<LaunchedRank> readLaunchedRank() {
  return guarded([]() -> Result<LaunchedRank> {
    for (const Launcher &launcher : launchers)
      if (variable(launcher.rank) || (&launcher == launchers && variable(launcher.size)))
        return readRank(launcher);
    return readRank(launchers[0]);
  });
}

size_t launchedRanksHere() {
  int most = 0;
  for (const char *name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (const char *text = variable(name))
      most = std::max(most, parseInt(text, 0, maxRanksOfHost).value_or(0));
  return static_cast<size_t>(most);
}

} // namespace kolo::runtime
