// The calls that a compiled algorithm is tested with, their data, and one rank's part in one of them. Shared by the
// tests of this folder.
#pragma once

#include "ir/reference/Oracle.h"
#include "kolo/runtime/Communicator.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kolo::conformance {

using Sizes = std::vector<int64_t>; // of a mesh, slowest dimension first

/// Everything about one call but the algorithm and the mesh.
struct Case {
  reference::ElementType type = reference::ElementType::F32;
  int64_t count = 0;
  reference::Reduction reduction = reference::Reduction::Sum;
  int64_t root = 0;
  int lanes = 1;
  bool isInPlace = false;
  bool inWindow = false; // else memory as malloc gives it

  std::string describe() const;
};

/// Draws the choices that are not given, so that all pairs of choices soon occurred.
class CaseDealer {
public:
  CaseDealer(uint64_t seed, int64_t groupSize, bool isRooted)
      : random(seed), groupSize(groupSize), isRooted(isRooted) {}
  void setGroup(int64_t newSize) { groupSize = newSize; }

  Case deal(reference::ElementType type, size_t countNumber, int64_t count);
  /// Pairs of choices that no case had so far, as text; empty once all occurred.
  std::string missingPairs(size_t numCounts) const;

private:
  static constexpr size_t numChoices = 7; // type, count, reduction, root, lanes, in place, memory
  using Choices = std::array<size_t, numChoices>;
  using Pair = std::array<size_t, 4>; // a choice and its value, twice
  static std::array<size_t, numChoices> extents(size_t numCounts, bool isRooted);
  static std::vector<Pair> pairsOf(const Choices &choices);

  std::mt19937_64 random;
  int64_t groupSize;
  bool isRooted;
  std::set<Pair> seen;
};

/// A case with its inputs and the outputs that belong to them.
struct PreparedCase {
  Case choices;
  reference::SimulatedCall simulated;
  std::vector<std::optional<reference::Bytes>> expected; // by rank; none: the output stays as it is
};
PreparedCase prepare(const Case &choices, CollectiveAttr collective, const Sizes &mesh, uint64_t salt);

/// One rank that makes calls one after the other in the same memory, with guards around every buffer, anywhere in
/// memory that the element type allows.
class Caller {
public:
  Caller(runtime::Communicator &communicator, const runtime::Plugin &plugin, const runtime::Mesh &mesh, uint64_t seed)
      : communicator(communicator), plugin(plugin), mesh(mesh), random(seed + uint64_t(communicator.rank())) {}

  /// Not empty: calls name this collective only, and the plugin selects the program.
  std::optional<runtime::CollectiveKind> selected;

  /// Memory for all cases, in windows if the first one says so. Says what went wrong, or nothing.
  std::string allocate(llvm::ArrayRef<PreparedCase> cases);
  /// Makes the call and looks at every byte. Says what went wrong, or nothing.
  std::string call(const PreparedCase &prepared);

private:
  struct Region {
    size_t begin = 0, size = 0; // inside the memory, without the guards
    reference::Bytes before;    // guards included
  };
  struct Memory {
    std::optional<runtime::Window> window;
    reference::Bytes heap;
    size_t sizeBytes() const { return window ? window->sizeBytes() : heap.size(); }
    std::byte *data() { return window ? static_cast<std::byte *>(window->data()) : heap.data(); }
  };
  /// A region with guards before and after it, filled with poison.
  Region place(Memory &memory, size_t size, size_t elementBytes);
  void remember(Memory &memory, Region &region);
  std::string compare(Memory &memory, const Region &region, const char *name);
  bool flipCoin() { return random() & 1; }

  runtime::Communicator &communicator;
  const runtime::Plugin &plugin;
  const runtime::Mesh &mesh;
  std::mt19937_64 random;
  Memory first, second;
};

} // namespace kolo::conformance
