// Every change only takes order away. The checker decides about each, and about many at once where it can.
#include "compiler/sync/Settling.h"
#include "compiler/sync/MoveEnds.h"
#include "compiler/sync/PipelinePhases.h"

#include <numeric>

using namespace mlir;

namespace kolo {

MeshChecks::MeshChecks(ProgramOp program, const CheckOptions &options) : options(options), soon(options) {
  soon.endsAtRefutation = true;
  for (auto mesh : program.getMeshes().getAsRange<DenseI64ArrayAttr>())
    meshes.emplace_back(mesh.asArrayRef());
  auto numRanks = [](ArrayRef<int64_t> mesh) {
    return std::accumulate(mesh.begin(), mesh.end(), int64_t(1), std::multiplies<>());
  };
  llvm::sort(meshes,
             [&](const auto &a, const auto &b) { return std::pair(numRanks(a), a) < std::pair(numRanks(b), b); });
}

std::optional<Verdict> MeshChecks::findUnproved(ProgramOp program, const CheckOptions &wanted) {
  for (ArrayRef<int64_t> mesh : meshes)
    if (Verdict verdict = checkProgram(program, mesh, wanted); !verdict.isProved()) {
      isFollowed &= !verdict.tooLarge;
      return verdict;
    }
  return std::nullopt;
}

ReducibleProgram MeshChecks::reduce(ProgramOp program) {
  ReducibleProgram reducible(program, meshes, soon);
  isFollowed &= reducible.isFollowed();
  return reducible;
}

void replaceBody(ProgramOp program, ProgramOp other) {
  program.getBody().takeBody(other.getBody());
  program.setSemaphores(other.getSemaphores());
}

namespace {

/// Makes as many changes as are accepted, one after the other, each of which only takes order away. So changes that are
/// accepted together are accepted one by one, and one that is refused is so together with others: many are tried at
/// once. `refuse` hears of a change that is refused by itself.
class ChangesInTurn {
public:
  using Accept = function_ref<bool(size_t first, size_t last)>; // makes all of these, or none
  ChangesInTurn(Accept accept, function_ref<void(size_t)> refuse) : accept(accept), refuse(refuse) {}

  void run(size_t number, size_t numAtOnce) {
    for (size_t first = 0, last; first < number; first = last) {
      last = std::min(first + numAtOnce, number);
      numAtOnce = make(first, last, false) ? 2 * numAtOnce : 1;
    }
  }

private:
  /// Whether all of them were accepted.
  bool make(size_t first, size_t last, bool isRefused) {
    if (!isRefused && accept(first, last))
      return true;
    if (last - first == 1) {
      refuse(first);
      return false;
    }
    size_t middle = first + (last - first) / 2;
    bool isLeft = make(first, middle, false);
    make(middle, last, /*isRefused=*/isLeft);
    return false;
  }

  Accept accept;
  function_ref<void(size_t)> refuse;
};

} // namespace

void Settling::run(WaitsMove order) {
  if (numSlices(program))
    return runPipeline();
  if (order == WaitsMove::First)
    numMoved += moveEnds(laterWaits);
  elide();
  // Only statements that touch arriving data wait for it; a rank says at once that its data is ready.
  moveEnds(earlierSignals);
  numMoved += moveEnds(laterWaits);
}

/// What travels while others wait counts for more than one flush per call: without that flush, waits between the slices
/// would say that what a rank sent has been read. So it goes last, and so do signals that the moved waits may need.
void Settling::runPipeline() {
  elideFlushes(/*keepsLast=*/true);
  numMoved += moveEnds(laterWaits);
  numMoved += deferWaits();
  reorderPhases();
  elideSignals();
  elideFlushes(/*keepsLast=*/false);
  moveEnds(earlierSignals);
}

/// A signal may make a flush redundant, and the other way round. Packets show their own arrival, so with them signals
/// are the cost, and the first to go.
void Settling::elide() {
  bool hasPackets = llvm::any_of(program.getBody().getOps<BufferOp>(),
                                 [](BufferOp buffer) { return buffer.getRole() == BufferRole::Packets; });
  if (hasPackets)
    elideSignals();
  elideFlushes(/*keepsLast=*/false);
  if (!hasPackets)
    elideSignals();
}

/// Erases what the checker proves the program without, part by part: the first ones at once, if it can. Says which.
SmallVector<bool> Settling::elideParts(ArrayRef<Part> parts, size_t numAtOnce) {
  ReducibleProgram reducible = checks.reduce(program);
  llvm::SmallPtrSet<Operation *, 16> gone;
  SmallVector<bool> isGone(parts.size(), true);
  ChangesInTurn(
      [&](size_t first, size_t last) {
        auto more = gone;
        for (const Part &part : parts.slice(first, last - first))
          more.insert(part.begin(), part.end());
        if (reducible.isRefutedWithout(more))
          return false;
        gone = std::move(more);
        return true;
      },
      [&](size_t number) { isGone[number] = false; })
      .run(parts.size(), numAtOnce);
  for (Operation *op : gone)
    eraseWithEmptyNest(op);
  return isGone;
}

void Settling::elideFlushes(bool keepsLast) {
  SmallVector<Part> flushes;
  program.walk([&](FlushOp flush) { flushes.push_back({flush}); });
  if (flushes.empty())
    return;
  size_t numOthers = flushes.size(); // most programs need none of these
  // One at the very end may do for all.
  OpBuilder builder(&program.getBody().front(), endBeforeDivision(program));
  if (auto last = FlushOp::create(builder, program.getLoc()); !keepsLast)
    flushes.push_back({last});
  elideParts(flushes, numOthers);
}

void Settling::elideSignals() {
  SmallVector<Part> ends(program.getSemaphores());
  auto addEnds = [&](Operation *op) {
    if (auto signal = dyn_cast<SignalOp>(op))
      ends[signal.getSemaphore()].push_back(op);
    else if (auto wait = dyn_cast<WaitOp>(op))
      ends[wait.getSemaphore()].push_back(op);
  };
  program.walk(addEnds);
  SmallVector<bool> isGone = elideParts(ends, 1);
  SmallVector<uint64_t> numbers;
  uint64_t semaphores = 0;
  for (bool isErased : isGone)
    numbers.push_back(isErased ? semaphores : semaphores++);
  program.walk([&](Operation *op) {
    if (auto signal = dyn_cast<SignalOp>(op))
      signal.setSemaphore(numbers[signal.getSemaphore()]);
    else if (auto wait = dyn_cast<WaitOp>(op))
      wait.setSemaphore(numbers[wait.getSemaphore()]);
  });
  program.setSemaphores(semaphores);
}

/// Lets `change` change a copy, and keeps that if the checker proves it. True also if nothing changed.
bool Settling::tryChange(function_ref<bool(ProgramOp changed)> change) {
  OwningOpRef<ProgramOp> copy(program.clone());
  if (!change(*copy))
    return true;
  if (!checks.isProved(*copy))
    return false;
  replaceBody(program, *copy);
  return true;
}

/// Tries one end of every transfer at other places, the best first. Gives the number of those that it moved.
size_t Settling::moveEnds(const EndPlaces &places) {
  size_t numSoFar = 0, numTransfers = findTransfers(program).size();
  auto moveToBest = [&](size_t first, size_t last) {
    size_t numChanged = 0;
    auto move = [&](ProgramOp changed) {
      for (size_t number = first; number < last; ++number)
        if (ProjectedTransfer transfer = findTransfers(changed)[number]; places.count(transfer) > 0) {
          places.move(transfer, 0);
          ++numChanged;
        }
      return numChanged > 0;
    };
    bool isProved = tryChange(move);
    numSoFar += isProved ? numChanged : 0;
    return isProved;
  };
  auto moveElsewhere = [&](size_t number) {
    size_t refused = 0, proved = places.count(findTransfers(program)[number]), count = proved;
    OwningOpRef<ProgramOp> best;
    while (proved - refused > 1) {
      size_t place = refused + (proved - refused) / 2;
      OwningOpRef<ProgramOp> copy(program.clone());
      places.move(findTransfers(*copy)[number], place);
      bool isProved = checks.isProved(*copy);
      (isProved ? proved : refused) = place;
      if (isProved)
        best = std::move(copy);
    }
    if (proved == count)
      return;
    replaceBody(program, *best);
    ++numSoFar;
  };
  ChangesInTurn(moveToBest, moveElsewhere).run(numTransfers, numTransfers);
  return numSoFar;
}

/// In a pipeline, the next phase of a slice comes one round later. Its ranks wait only then. Gives the number of waits
/// that it moved.
size_t Settling::deferWaits() {
  size_t numDeferred = 0, numTransfers = findTransfers(program).size();
  auto defer = [&](size_t first, size_t last) {
    size_t numChanged = 0;
    auto change = [&](ProgramOp changed) {
      for (size_t number = first; number < last; ++number)
        numChanged += deferWait(findTransfers(changed)[number]);
      return numChanged > 0;
    };
    bool isProved = tryChange(change);
    numDeferred += isProved ? numChanged : 0;
    return isProved;
  };
  ChangesInTurn(defer, [&](size_t) { keepsWaits = true; }).run(numTransfers, numTransfers);
  return numDeferred;
}

/// With earlier phases first in a round, the rank waits for what others sent in the round before while what it sends
/// itself travels. Where a phase waits between its moves, it does so for data of its own round, which would be delayed.
void Settling::reorderPhases() { tryChange(putEarlierPhasesFirst); }

} // namespace kolo
