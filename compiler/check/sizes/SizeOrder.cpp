// The order of a run's steps: signals and waits, what ranks know, and when puts are over.
#include "compiler/check/sizes/SizeRun.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kolo::sizes {

/// Puts a run behind all others, but for those of which every place lies behind it. So runs that have a place in common
/// stay in the order in which they came.
template <typename Value> static void append(Runs<Value> &runs, Run<Value> run, const Decisions &decisions) {
  size_t place = runs.size();
  while (place > 0 && decisions.region.isAtLeast(runs[place - 1].begin - run.end, 0))
    --place;
  runs.insert(runs.begin() + std::ptrdiff_t(place), std::move(run));
  normalise(runs);
}

/// Takes one place out of the first run that has it.
template <typename Value>
static std::optional<Value> take(Runs<Value> &runs, const Affine &place, Decisions &decisions) {
  for (size_t i = 0; i < runs.size() && !decisions.hasFailed(); ++i) {
    if (decisions.isLess(place, runs[i].begin) || !decisions.isLess(place, runs[i].end))
      continue;
    Value value = valueAt(runs[i], place);
    Run<Value> after{place + 1, runs[i].end, runs[i].value};
    bool hasAfter = decisions.isLess(after.begin, after.end), hasBefore = decisions.isLess(runs[i].begin, place);
    runs[i].end = place;
    if (hasAfter)
      runs.insert(runs.begin() + std::ptrdiff_t(i) + 1, std::move(after));
    if (!hasBefore)
      runs.erase(runs.begin() + std::ptrdiff_t(i));
    normalise(runs);
    return value;
  }
  return std::nullopt;
}

static bool dependsOn(Value value, Value other) {
  llvm::SetVector<Value> seen; // parts of an expression may be shared
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == other)
      return true;
    if (Operation *definition = seen[i].getDefiningOp())
      seen.insert(definition->operand_begin(), definition->operand_end());
  }
  return false;
}

/// A rank's number, as a place relative to this rank and an orbit.
std::optional<SizeRun::Peer> SizeRun::peerOf(Value rank, int64_t orbit) {
  if (!rank)
    return Peer{0, orbit};
  Index index = tables[size_t(orbit)].at(rank);
  int64_t outer = index.rest.size / inner, within = index.rest.constant;
  bool isPlace = index.isKnown() && index.scale == inner && index.rest.round == 0 && index.rest.size % inner == 0 &&
                 outer >= 0 && outer < numOrbits / inner && within >= 0 && within < inner;
  if (!isPlace) {
    fail("a peer is not at the same distance from every rank along the dimension");
    return std::nullopt;
  }
  return Peer{decisions.reduce(index.part), outer * inner + within};
}

bool SizeRun::signal(SignalOp op, int64_t orbit) {
  std::optional<Peer> peer = peerOf(op.getRank(), orbit);
  if (!peer)
    return false;
  // To ranks that differ from iteration to iteration goes what this rank knew before the loop: those signals are alike.
  bool isOfLoop = growingLoop && dependsOn(op.getRank(), growingLoop.getInductionVar());
  const Knowledge &knowledge = *(isOfLoop ? beforeLoop : state.knowledge)[size_t(orbit)];
  Signal signal{state.now, -1, 0, std::make_shared<Knowledge>(knowledge), {}};
  if (std::optional<int64_t> phase = setting.few ? setting.few->phaseAt(op) : std::nullopt) {
    signal.phase = *phase;
    signal.slice = currentRound - *phase;
  }
  Runs<Puts> &uncovered = state.uncovered[{orbit, peer->orbit}].change();
  while (std::optional<Puts> puts = take(uncovered, peer->place, decisions))
    signal.puts.push_back(*puts);
  if (uncovered.empty())
    state.uncovered.erase({orbit, peer->orbit});
  append(state.signals[{int64_t(op.getSemaphore()), orbit, peer->orbit}].change(),
         {peer->place, peer->place + 1, signal}, decisions);
  return true;
}

bool SizeRun::wait(WaitOp op, int64_t orbit) {
  std::optional<Peer> peer = peerOf(op.getRank(), orbit);
  if (!peer)
    return false;
  auto found = state.signals.find({int64_t(op.getSemaphore()), peer->orbit, orbit});
  std::optional<Signal> signal;
  if (found != state.signals.end())
    signal = take(found->second.change(), decisions.reduce(peer->place * -1), decisions);
  if (!signal)
    return fail("a wait is for a signal that comes later in the program, or goes elsewhere");
  if (found->second->empty())
    state.signals.erase(found);
  std::optional<int64_t> phase = setting.few ? setting.few->phaseAt(op) : std::nullopt;
  bool isMatched = phase ? signal->phase >= 0 && signal->phase <= *phase && signal->slice == currentRound - *phase
                         : signal->phase < 0;
  if (!isMatched)
    return fail("a wait is for a signal of another slice");
  join(op, orbit, *peer, *signal);
  if (forgottenSide)
    forget(*forgottenSide, orbit);
  for (const Puts &puts : signal->puts) {
    Runs<Time> &waited = state.families[size_t(puts.family)].change().waited;
    Affine known = waited.empty() ? Affine(0) : waited.back().end;
    if (known != puts.first) // what comes out of order is not known to be over, which is on the safe side
      continue;
    waited.push_back({puts.first, puts.end, {state.now}});
    normalise(waited);
  }
  return true;
}

/// Each function becomes the larger of the two, as far as that can be told: to know less is on the safe side.
static void joinRuns(Runs<Time> &ours, Runs<Time> theirs, Decisions attempt) {
  Runs<Time> result = ours;
  for (size_t i = 0; i < theirs.size() && !attempt.hasFailed(); ++i)
    cutAt(result, theirs[i].begin, attempt);
  for (size_t i = 0; i < result.size() && !attempt.hasFailed(); ++i)
    cutAt(theirs, result[i].begin, attempt);
  for (size_t i = 0; i < result.size() && !attempt.hasFailed(); ++i) {
    Run<Time> &run = result[i];
    const Time &more = theirs[i].value;
    Affine difference = more.time - run.value.time;
    if (run.value.isAlways || (!more.isAlways && attempt.region.isAtLeast(difference * -1, 0, run.begin, run.end)))
      continue;
    if (more.isAlways || attempt.region.isAtLeast(difference, 0, run.begin, run.end)) {
      run.value = more;
      continue;
    }
    // The two may cross at a place.
    Affine rest = difference.at(0);
    int64_t slope = difference.place;
    bool isPlace = slope != 0 && rest.constant % slope == 0 && rest.size % slope == 0 && rest.round % slope == 0;
    if (!isPlace)
      continue;
    Affine crossing(rest.constant / -slope, rest.size / -slope, rest.round / -slope);
    bool isInside =
        attempt.region.isAtLeast(crossing - run.begin, 1) && attempt.region.isAtLeast(run.end - crossing, 1);
    if (!isInside)
      continue;
    cutAt(result, crossing, attempt);
    cutAt(theirs, crossing, attempt);
    --i; // both parts again
  }
  if (attempt.hasFailed())
    return;
  normalise(result);
  ours = std::move(result);
}

/// A rank knows no more than that the steps of all others are over up to a time, and in the other views no news.
void SizeRun::know(int64_t orbit, const Time &before, const Time &nothing) {
  Knowledge &knowledge = state.knowledge[size_t(orbit)].change();
  for (auto [view, ofOrbits] : llvm::enumerate(knowledge.views)) {
    const Time &time = view == Knowledge::Others ? before : nothing;
    ofOrbits.clear();
    for (int64_t other = 0; other < numOrbits; ++other)
      if (other == orbit)
        ofOrbits.push_back({{0, 1, Time::always()}, {1, Affine::n(), time}});
      else
        ofOrbits.push_back({{0, Affine::n(), time}});
  }
}

/// From now on this rank knows what the sender knew.
void SizeRun::join(WaitOp op, int64_t orbit, const Peer &sender, const Signal &signal) {
  const Affine &place = sender.place;
  bool isFixed = !growingLoop || !dependsOn(op.getRank(), growingLoop.getInductionVar());
  bool isNext = isFixed && place.isConstant() && place.constant > 0;
  bool isBefore = isFixed && place.size == 1 && place.round == 0 && place.constant < 0;
  size_t news = isNext ? Knowledge::FromNext : isBefore ? Knowledge::FromBefore : Knowledge::Others;
  for (size_t view = 0; view < Knowledge::numViews; ++view)
    for (int64_t other = 0; other < numOrbits; ++other) {
      Runs<Time> theirs = signal.knowledge->views[view][size_t(other)];
      if (other == sender.orbit) { // the sender itself
        if (cutAt(theirs, 1, decisions) != 1)
          return;
        theirs.front().value = view == news ? Time{signal.time} : Time{-1};
      }
      joinRuns(state.knowledge[size_t(orbit)].change().views[view][size_t(other)],
               rotate(std::move(theirs), place, decisions), decisions);
    }
}

/// Of news from one side, a rank keeps only those of its neighbour: to know less is on the safe side. Credits of slots
/// that are used in turn take a place in two iterations, so that how far they come is not affine in n.
void SizeRun::forget(Knowledge::View side, int64_t orbit) {
  Affine place = side == Knowledge::FromNext ? Affine(1) : Affine::n() - 1;
  for (int64_t other = 0; other < numOrbits; ++other) {
    Runs<Time> &runs = state.knowledge[size_t(orbit)].change().views[side][size_t(other)];
    std::optional<Runs<Time>> neighbour = compose(runs, place, 0, 1, decisions);
    runs = beforeLoop[size_t(orbit)]->views[side][size_t(other)];
    size_t number = cutAt(runs, place, decisions);
    cutAt(runs, place + 1, decisions);
    if (hasFailed() || !neighbour)
      return;
    runs[number].value = neighbour->front().value;
    normalise(runs);
  }
}

void SizeRun::flush(int64_t orbit) {
  for (Shared<PutFamily> &each : state.families) {
    Affine done = each->flushed.empty() ? Affine(0) : each->flushed.back().end;
    if (each->orbit != orbit || done == each->number || !decisions.isLess(done, each->number))
      continue;
    PutFamily &family = each.change();
    family.flushed.push_back({done, family.number, {state.now}});
    normalise(family.flushed);
  }
}

/// All ranks know then what every rank did before.
bool SizeRun::enter(const Mask &mask) {
  if (growingLoop || llvm::is_contained(mask, false))
    return fail("not all ranks enter together");
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit)
    know(orbit, {state.now - 1}, {-1});
  return true;
}

Arrival SizeRun::arrivalTo(int64_t orbit, const Peer &target) const {
  // Two ranks that differ along the dimension as far as these do.
  SmallVector<int64_t, 4> mesh(setting.mesh);
  mesh[setting.dim] = 2;
  auto rankOf = [&](int64_t each, int64_t place) {
    int64_t rank = 0;
    for (auto [meshDim, size] : llvm::enumerate(mesh))
      rank = rank * size + (meshDim == setting.dim ? place : coordinates[size_t(each)][meshDim]);
    return rank;
  };
  return setting.transport.arrivalBetween(mesh, rankOf(orbit, 0),
                                          rankOf(target.orbit, target.place == Affine() ? 0 : 1));
}

/// A put of this op, in a family of its own unless the growing loop at hand took it before. The family's number.
int64_t SizeRun::addPut(PutOp op, int64_t orbit, const Peer &target) {
  if (target.place != Affine() && !decisions.isLess(0, target.place))
    fail("a put may be to the rank itself");
  auto [known, isNew] = familyOf.try_emplace({op, orbit, iterations}, int64_t(state.families.size()));
  Arrival arrival = arrivalTo(orbit, target);
  if (isNew) {
    PutFamily family;
    family.orbit = orbit;
    family.targetOrbit = target.orbit;
    family.target = target.place.modSize();
    family.areOrderedBySignals = arrival.isBeforeSignals;
    family.areOverWithFlush = arrival.isBeforeFlush;
    state.families.push_back(std::move(family));
  }
  PutFamily &family = state.families[size_t(known->second)].change();
  if (family.targetOrbit != target.orbit || family.areOrderedBySignals != arrival.isBeforeSignals ||
      family.areOverWithFlush != arrival.isBeforeFlush)
    fail("the puts of a loop go along different dimensions");
  // The second put shows how targets follow each other; those after it are compared with that.
  const Affine wanted = target.place.modSize();
  if (family.number == Affine(1)) {
    Affine slope = wanted - family.target;
    if (slope.isConstant())
      family.target = family.target + Affine::k() * slope.constant;
  }
  if ((family.target.at(family.number) - wanted).modSize() != Affine())
    fail("the puts of a loop go to ranks that do not follow each other");
  return known->second;
}

/// Whether this rank knows that the steps of another one are over up to a time, for all k in a range.
bool SizeRun::knows(int64_t orbit, int64_t otherOrbit, const Affine &rank, const Affine &time, const Affine &begin,
                    const Affine &end) {
  return llvm::any_of(state.knowledge[size_t(orbit)]->views,
                      [&](const auto &view) { return knowsInView(view[size_t(otherOrbit)], rank, time, begin, end); });
}

bool SizeRun::knowsInView(const Runs<Time> &view, const Affine &rank, const Affine &time, const Affine &begin,
                          const Affine &end) {
  Decisions attempt = decisions;
  Affine place = (end - begin == Affine(1) ? rank.at(begin) : rank).modSize();
  auto isKnownFrom = [&](const Affine &of, const Affine &first, const Affine &last) {
    std::optional<Runs<Time>> pieces = compose(view, of, first, last, attempt);
    return pieces && !attempt.hasFailed() && llvm::all_of(*pieces, [&](const Run<Time> &piece) {
             return piece.value.isAlways ||
                    attempt.region.isAtLeast(piece.value.time - time, 0, piece.begin, piece.end);
           });
  };
  if (place.place == 0) {
    Affine reduced = attempt.reduce(place);
    return !attempt.hasFailed() && isKnownFrom(reduced, begin, end);
  }
  if (place.place != 1 && place.place != -1)
    return false;
  Affine covered = 0;
  for (int64_t turns = -2; turns <= 2; ++turns) { // of the circle
    Affine of = place + Affine::n() * turns, rest = of.at(0);
    Affine first = place.place == 1 ? rest * -1 : rest - Affine::n() + 1;
    Affine last = place.place == 1 ? Affine::n() - rest : rest + 1;
    first = attempt.larger(first, begin);
    last = attempt.smaller(last, end);
    if (!attempt.isLess(first, last))
      continue;
    if (attempt.hasFailed() || !isKnownFrom(of, first, last))
      return false;
    covered = covered + last - first;
  }
  return !attempt.hasFailed() && covered == end - begin;
}

/// Whether this rank knows the moments at which puts from `first` on were marked: one for each k, or all from `begin`
/// to before `end`.
bool SizeRun::isMarkKnown(int64_t orbit, const Runs<Time> &marks, int64_t otherOrbit, const Affine &rank,
                          const Affine &first, bool isOne, const Affine &begin, const Affine &end) {
  Decisions attempt = decisions;
  std::optional<Runs<Time>> pieces = compose(marks, isOne ? first : Affine::k(), begin, end, attempt);
  return pieces && !attempt.hasFailed() && llvm::all_of(*pieces, [&](const Run<Time> &piece) {
           return knows(orbit, otherOrbit, rank, piece.value.time, piece.begin, piece.end);
         });
}

/// Whether this rank knows that an access to chunks of an owner is over, at the places from `begin` to before `end`.
bool SizeRun::isOver(int64_t orbit, const Peer &owner, const Epoch &epoch, bool isWrite, const Affine &begin,
                     const Affine &end) {
  Affine rank = owner.place + epoch.rank;
  if (epoch.put < 0)
    return knows(orbit, epoch.orbit, rank, epoch.time, begin, end);
  const PutFamily &family = *state.families[size_t(epoch.put)];
  bool isOne = epoch.endPut - epoch.firstPut == Affine(1), isPoint = end - begin == Affine(1);
  Affine first = epoch.firstPut, from = begin, to = end;
  if (!isOne) { // several puts: all numbers k between these, for one place
    if (!isPoint)
      return false;
    rank = rank.at(begin);
    from = epoch.firstPut.at(begin);
    to = epoch.endPut.at(begin);
  } else if (isPoint) {
    rank = rank.at(begin);
    first = first.at(begin);
  }
  Affine target = rank + family.target.at(isOne ? first : Affine::k());
  bool isFlushed = isMarkKnown(orbit, family.flushed, epoch.orbit, rank, first, isOne, from, to);
  if (isFlushed && (!isWrite || setting.transport.arrival.isBeforeFlush || family.areOverWithFlush))
    return true;
  bool isWaited = isMarkKnown(orbit, family.waited, family.targetOrbit, target, first, isOne, from, to);
  return isWaited && (family.areOrderedBySignals || isFlushed);
}

} // namespace kolo::sizes
