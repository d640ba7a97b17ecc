// Measures what small meshes cost, and predicts from their growth what larger ones will.
#include "compiler/check/MeshChoice.h"
#include "compiler/model/Unfold.h"

#include <numeric>

using namespace mlir;

namespace kolo {

/// Predictions are rough: a mesh that may need somewhat more than the budget is tried.
static constexpr double mostShare = 2;
/// What a mesh takes that tells well enough what larger ones take.
static constexpr double sureShare = 1.0 / 64;

static int64_t numRanksOf(ArrayRef<int64_t> mesh) {
  return std::accumulate(mesh.begin(), mesh.end(), int64_t(1), std::multiplies<>());
}

MeshChoice::MeshChoice(ArrayRef<int64_t> mesh, ArrayRef<bool> mayShrink, const CheckOptions &options, Check check)
    : options(options), standInPart(options.mayReplaceMesh ? options.standInPart : 1), check(check) {
  constexpr double probeWork = 1 << 16; // some milliseconds
  probePart = std::min(standInPart / 8, probeWork / double(options.maxWork));
  chain.emplace_back(mesh);
  for (SmallVector<int64_t> next(mesh); shrinkMesh(next, mayShrink);)
    chain.push_back(next);
}

/// From a small mesh up, until a mesh takes long enough to show how cost grows, or as far as a representative may go if
/// that says that the mesh itself takes too much. Stops where a mesh takes too much, or where the program is refuted:
/// that says nothing of larger meshes, but no smaller one may stand for them.
MeshChoice::Climb MeshChoice::climb() {
  constexpr int64_t maxRanksOfFirst = 64;
  size_t place = 0;
  while (place + 1 < chain.size() && numRanksOf(chain[place]) > maxRanksOfFirst)
    ++place;
  lowest = place;
  while (true) {
    Verdict verdict = check(chain[place], standInPart);
    if (!verdict.isProved() && place > 0) {
      if (verdict.refutation)
        last = std::move(verdict);
      break;
    }
    if (place == 0 && !verdict.tooLarge) {
      last = std::move(verdict);
      return Climb::ReachedWhole;
    }
    if (verdict.tooLarge)
      break;
    shares.push_back(verdict.share * standInPart);
    last = std::move(verdict);
    bool isKnown = shares.size() >= 3 && shares.back() >= probePart;
    bool isTooMuch = !options.mayReplaceMesh && shares.back() >= sureShare && predict(0) > mostShare;
    if (isKnown && (predict(0) <= 1 || predict(place - 1) > standInPart || isTooMuch))
      break;
    --place;
  }
  return shares.empty() ? Climb::Unknown : Climb::Measured;
}

/// The share of the budget that the mesh at a place takes, if what one more rank takes goes on to grow as it did from
/// mesh to mesh: by 1 where cost grows with the ranks, by 2 with their square, by less with their logarithm.
double MeshChoice::predict(size_t place) const {
  size_t number = lowest - place, top = shares.size() - 1;
  if (number <= top)
    return shares[number];
  auto numRanks = [&](size_t each) { return double(numRanksOf(chain[lowest - each])); };
  auto perRank = [&](size_t each) {
    return std::max(shares[each] - shares[each - 1], 0.0) / (numRanks(each) - numRanks(each - 1));
  };
  double more = top > 0 ? perRank(top) : shares[0] / numRanks(0);
  double growth = 2; // not known from fewer meshes: the square
  if (top > 1 && perRank(top - 1) > 0)
    growth = std::clamp(more / perRank(top - 1), 0.5, 4.0);
  double share = shares[top];
  for (size_t i = top + 1; i <= number; ++i)
    share += (more *= growth) * (numRanks(i) - numRanks(i - 1));
  return share;
}

/// The first mesh, from this place on, that a part of the budget suffices for. None smaller can replace the last one,
/// which may take more.
Verdict MeshChoice::checkStandIn(size_t place) {
  for (; place + 1 < chain.size(); ++place)
    if (Verdict verdict = check(chain[place], standInPart); !verdict.tooLarge)
      return verdict;
  return check(chain.back(), std::max(1.0, standInPart * budgetsOfSmallestMesh));
}

/// Small meshes show that the mesh would take so many times the budget.
Verdict MeshChoice::refuse(double share) const {
  Verdict verdict;
  verdict.mesh.assign(chain[0].begin(), chain[0].end());
  verdict.checkedOn = verdict.mesh;
  double numBytes = std::min(share * double(options.maxBytes) * 1.1, double(largestBudget));
  verdict.tooLarge = "would take too much, as smaller meshes show: about --budget " + std::to_string(int64_t(numBytes));
  return verdict;
}

Verdict MeshChoice::run() { return options.mayReplaceMesh ? runOnStandIn() : runOnItself(); }

Verdict MeshChoice::runOnItself() {
  Climb result = climb();
  if (result == Climb::ReachedWhole)
    return *std::move(last);
  if (result == Climb::Measured && predict(0) > mostShare)
    return refuse(predict(0));
  return check(chain[0], 1);
}

Verdict MeshChoice::runOnStandIn() {
  Climb result = climb();
  if (result == Climb::ReachedWhole)
    return *std::move(last);
  if (result == Climb::Unknown) { // even small meshes are refuted, or take too much for a stand-in
    Verdict verdict = check(chain[0], 1);
    return verdict.tooLarge && chain.size() > 1 ? checkStandIn(1) : verdict;
  }
  if (predict(0) <= mostShare)
    if (Verdict verdict = check(chain[0], 1); !verdict.tooLarge)
      return verdict;
  size_t place = 1, measured = lowest + 1 - shares.size();
  while (place < measured && predict(place) > standInPart)
    ++place;
  return place < measured ? checkStandIn(place) : *std::move(last);
}

} // namespace kolo
