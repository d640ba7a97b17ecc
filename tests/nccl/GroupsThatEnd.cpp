// Groups of sends and receives whose communicator ends meanwhile, or a rank.
#include "GroupSteps.h"

namespace {

/// The last rank receives one element less from rank 0 than that rank sends.
void checkOtherCount(OwnRanks &here) {
  Callers callers(here);
  Step step = fullStep(1, here.size);
  for (Caller &each : callers.all)
    each.prepare(step);
  Rank &rank = here.ranks[0];
  step.counts[0][static_cast<size_t>(here.size - 1)] -= rank.number == here.size - 1;
  NCCL(ncclGroupStart());
  callers.all[0].callAll(step);
  ncclResult_t code = ncclGroupEnd();
  while (code == ncclSuccess) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    NCCL(ncclCommGetAsyncError(rank.comm, &code));
  }
  say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(rank.comm));
}

/// This rank waits for the others, which do not come, until another thread aborts its communicator.
void abortWaitingGroup(OwnRanks &here, int waiting) {
  Rank &rank = here.ranks[0];
  Callers callers(here);
  if (rank.number != waiting)
    return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    NCCL(ncclCommAbort(rank.comm));
  });
  const Step step = fullStep(1, here.size);
  callers.all[0].prepare(step);
  const auto begin = std::chrono::steady_clock::now();
  NCCL(ncclGroupStart());
  callers.all[0].callAll(step);
  ncclResult_t code = ncclGroupEnd();
  const auto took = std::chrono::steady_clock::now() - begin;
  say("rank " + std::to_string(waiting) + ": " + std::to_string(code) + " " + ncclGetLastError(nullptr));
  if (took > std::chrono::seconds(5))
    wrong("the wait did not end with the communicator");
  other.join();
}

/// The last rank is killed; the others give their group to NCCL when they have waited for it.
void endBeforeGroup(OwnRanks &here) {
  Callers callers(here);
  if (here.ranks.back().number == here.size - 1)
    raise(SIGKILL);
  const Step step = fullStep(1, here.size);
  callers.start(step);
  callers.finish(step, false);
}

/// Rank 0 is killed while the others wait for it.
void loseRank0(OwnRanks &here) {
  Callers callers(here);
  const Rank &rank = here.ranks[0];
  if (rank.number == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    raise(SIGKILL);
  }
  callers.all[0].prepare(fullStep(1, here.size));
  NCCL(ncclGroupStart());
  callers.all[0].callAll(fullStep(1, here.size));
  const ncclResult_t code = ncclGroupEnd();
  say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(nullptr));
}

} // namespace

bool runGroupsThatEnd(OwnRanks &here, const std::string &name) {
  if (name == "count")
    checkOtherCount(here);
  else if (name == "abort" || name == "abort of rank 1")
    abortWaitingGroup(here, name == "abort" ? 0 : 1);
  else if (name == "death")
    endBeforeGroup(here);
  else if (name == "death of rank 0")
    loseRank0(here);
  else
    return false;
  return true;
}
