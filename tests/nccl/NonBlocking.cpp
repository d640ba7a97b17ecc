// Non-blocking communicators, which the door leaves to the real library: what a program sees is what it says.
#include "Client.h"

namespace {

/// A rank for each call, in a group where the thread has several.
void beginEach(OwnRanks &here, const std::function<ncclResult_t(Rank &)> &call) {
  auto expectBegun = [](ncclResult_t code, const char *what) {
    if (code != ncclInProgress)
      expectCode(code, what);
  };
  if (here.ranks.size() > 1)
    NCCL(ncclGroupStart());
  for (Rank &rank : here.ranks) {
    makeCurrent(rank.device);
    expectBegun(call(rank), "a call");
  }
  if (here.ranks.size() > 1)
    expectBegun(ncclGroupEnd(), "the end of a group");
}

/// Waits as NCCL's documentation asks. Returns whether there was anything to wait for.
bool awaitEach(OwnRanks &here, const std::function<ncclComm_t(Rank &)> &commOf) {
  bool hasWaited = false;
  for (Rank &rank : here.ranks) {
    ncclResult_t state = ncclInProgress;
    NCCL(ncclCommGetAsyncError(commOf(rank), &state));
    for (; state == ncclInProgress; hasWaited = true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      NCCL(ncclCommGetAsyncError(commOf(rank), &state));
    }
    NCCL(state);
  }
  return hasWaited;
}

ncclResult_t reduce(Rank &rank, ncclComm_t comm) {
  return ncclAllReduce(rank.input, rank.output, 500, ncclInt, ncclSum, comm, rank.stream);
}

/// Whether all ranks have the sum: the stand-in for NCCL moves no data, so the door has carried the call.
bool isSum(OwnRanks &here) {
  here.synchronize();
  return std::ranges::all_of(here.ranks, [&](const Rank &rank) {
    const std::vector<int> output = read(rank.output, 500);
    for (size_t i = 0; i < output.size(); ++i)
      if (output[i] != here.sumAt(i))
        return false;
    return true;
  });
}

} // namespace

void runNonBlocking(OwnRanks &here, const ncclUniqueId &id, bool isBlocking, bool isChildBlocking) {
  auto own = [](Rank &r) { return r.comm; };
  std::vector<ncclComm_t> made(here.ranks.size());
  auto child = [&](Rank &r) -> ncclComm_t & { return made[static_cast<size_t>(&r - &here.ranks[0])]; };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = isBlocking;
  ncclConfig_t childConfig = NCCL_CONFIG_INITIALIZER;
  childConfig.blocking = isChildBlocking;
  int numWaits = 0, numSums = 0;

  beginEach(here, [&](Rank &r) { return ncclCommInitRankConfig(&r.comm, here.size, id, r.number, &config); });
  numWaits += awaitEach(here, own);
  here.fill();
  beginEach(here, [](Rank &r) { return reduce(r, r.comm); });
  numWaits += awaitEach(here, own);
  numSums += isSum(here);

  beginEach(here, [&](Rank &r) {
    return ncclCommSplit(r.comm, 0, r.number, &child(r), isChildBlocking ? nullptr : &childConfig);
  });
  numWaits += awaitEach(here, own);
  here.fill();
  beginEach(here, [&](Rank &r) { return reduce(r, child(r)); });
  numWaits += awaitEach(here, child);
  numSums += isSum(here);

  for (Rank &rank : here.ranks)
    NCCL(ncclCommDestroy(child(rank)));
  beginEach(here, [](Rank &r) { return ncclCommFinalize(r.comm); });
  numWaits += awaitEach(here, own);
  for (Rank &rank : here.ranks)
    NCCL(ncclCommDestroy(rank.comm));
  say("waits " + std::to_string(numWaits) + ", sums " + std::to_string(numSums) + ", too early " +
      std::to_string(standInNumTooEarly()) + ", last error '" + ncclGetLastError(nullptr) + "'");
}
