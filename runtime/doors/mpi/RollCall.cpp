#include "RollCall.h"

#include "LauncherStore.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace kolo::mpi {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

/// "1, 3 to 5 and 9"; at most so many of them.
std::string listOf(const std::vector<int> &ranks) {
  constexpr size_t mostShown = 8;
  std::vector<std::string> runs;
  for (size_t at = 0; at < ranks.size();) {
    size_t last = at;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    runs.push_back(std::to_string(ranks[at]) + (last > at ? " to " + std::to_string(ranks[last]) : ""));
    at = last + 1;
  }
  bool isCut = runs.size() > mostShown;
  runs.resize(std::min(runs.size(), mostShown));
  if (isCut)
    runs.emplace_back("others");
  std::string text = runs.front();
  for (size_t at = 1; at < runs.size(); ++at)
    text += (at + 1 < runs.size() ? ", " : " and ") + runs[at];
  return text;
}

/// The ranks of a communicator in MPI_COMM_WORLD; MPI_UNDEFINED for those of another one.
std::vector<int> worldRanks(MPI_Comm communicator) {
  MPI_Group members = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  PMPI_Comm_group(communicator, &members);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  PMPI_Group_size(members, &size);
  std::vector<int> ranks(static_cast<size_t>(size)), found(static_cast<size_t>(size), MPI_UNDEFINED);
  std::iota(ranks.begin(), ranks.end(), 0);
  PMPI_Group_translate_ranks(members, size, ranks.data(), world, found.data());
  PMPI_Group_free(&members);
  PMPI_Group_free(&world);
  return found;
}

} // namespace

RollCall::RollCall() = default;
RollCall::~RollCall() = default;

void RollCall::announce(const std::string &text) {
  ownTerms = text;
  store = openLauncherStore(noStore);
  if (!store)
    return;
  if (Status status = store->put(ownTerms); !status.isOk()) {
    noStore = "the launcher's store: " + status.message();
    store.reset();
  }
}

Status RollCall::hear(int rank, int size) {
  ownRank = rank;
  isHeard = true;
  terms.assign(static_cast<size_t>(size), "");
  if (store && store->rank() != rank) {
    noStore = "the launcher numbers the ranks otherwise than MPI";
    store.reset();
  }
  // A rank without a store has told nobody that it has the door, so all take it for one without.
  if (!store)
    return {};
  std::unique_ptr<LauncherStore> asked = std::move(store);
  for (int other = 0; other < size; ++other) {
    Result<std::optional<std::string>> text = asked->get(other);
    if (!text.isOk())
      return {StatusCode::SystemError,
              "cannot learn which ranks have Kolo's door: the launcher's store: " + text.status().message()};
    if (*text)
      terms[static_cast<size_t>(other)] = **text;
  }
  return {};
}

const char *RollCall::whyNot(MPI_Comm communicator) const {
  if (!isHeard)
    return "MPI_Init that the door did not see";
  if (terms[static_cast<size_t>(ownRank)].empty())
    return "launcher that does not say which ranks have the door";
  for (int rank : worldRanks(communicator)) {
    if (rank == MPI_UNDEFINED)
      return "ranks of another MPI_COMM_WORLD";
    if (terms[static_cast<size_t>(rank)].empty())
      return "ranks without the door";
    if (terms[static_cast<size_t>(rank)] != ownTerms)
      return "ranks with another door";
  }
  return nullptr;
}

bool RollCall::hasPeers() const { return !ownTerms.empty() && std::count(terms.begin(), terms.end(), ownTerms) > 1; }

bool RollCall::isFirst(int rank) const {
  auto first = std::find_if(terms.begin(), terms.end(), [](const std::string &each) { return !each.empty(); });
  return rank == (first == terms.end() ? 0 : first - terms.begin());
}

std::string RollCall::describeMissing() const {
  std::vector<int> missing, different;
  for (int rank = 0; rank < static_cast<int>(terms.size()); ++rank)
    if (const std::string &each = terms[static_cast<size_t>(rank)]; each != ownTerms)
      (each.empty() ? missing : different).push_back(rank);
  std::string text;
  if (!missing.empty())
    text = "of " + std::to_string(terms.size()) + " ranks, these lack the door: " + listOf(missing) +
           ". LD_PRELOAD does not reach them, or their programs call MPI_Init past it";
  if (!different.empty())
    text += (text.empty() ? "" : ". ") +
            std::string("these have the door of another version, or another KOLO_MPI_CARRY_FROM: ") + listOf(different);
  return text.empty() ? text : text + ". MPI alone serves communicators of ranks that differ in this";
}

std::string RollCall::notice() const {
  if (terms.size() < 2 || !isFirst(ownRank))
    return {};
  if (terms[static_cast<size_t>(ownRank)].empty())
    return "calls are forwarded: " + noStore + ", by which ranks learn which of them have the door";
  return describeMissing();
}

} // namespace kolo::mpi
