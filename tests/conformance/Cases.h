// The calls that a compiled algorithm is tested with, their data, and one rank's part in one of them. Shared by the
// tests of this folder.
#pragma once

#include "../runtime/Ranks.h"
#include "tests/support/Algorithms.h"
#include "tests/support/PairwiseCover.h"

#include "ir/reference/Oracle.h"
#include "kolo/runtime/Communicator.h"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace kolo::conformance {

using test::Sizes;

inline constexpr int timeoutMs = 60000; // of ranks: generous, many run on few cores

/// Everything about one call but the algorithm and the mesh.
struct Case {
  reference::ElementType type = reference::ElementType::F32;
  int64_t count = 0;
  reference::Reduction reduction = reference::Reduction::Sum;
  int64_t root = 0;
  int lanes = 1;
  bool isInPlace = false;
  bool inWindow = false;   // else memory as malloc gives it
  test::Choices numbers{}; // of its choices in the space that it is of, if any

  std::string describe() const;
};

/// What the ranks are started for that make some calls one after the other.
struct Setup {
  Sizes mesh;
  test::Launch launch = test::Launch::Threads;
  std::string ordinaryMemory; // KOLO_ORDINARY_MEMORY; empty: not set
  int lanes = 1;
  bool inWindow = false;
  auto operator<=>(const Setup &) const = default;
};

/// What calls of one algorithm are chosen from. With the element types, three roots (the first member,
/// the last, any), and in place or not.
struct CaseSpace {
  std::vector<Sizes> meshes;
  std::vector<test::Launch> launches = {test::Launch::Threads};
  std::vector<std::string> ordinaryMemory = {""};
  std::vector<int> lanes = {1, 2, 3};
  std::vector<bool> windows = {false, true};
  std::function<std::vector<int64_t>(const Sizes &)> countsOf; // as many for every mesh
  std::function<int64_t(const Sizes &)> groupSizeOf;
  bool isRooted = false;
  llvm::ArrayRef<reference::Reduction> reductions = reference::allReductions;

  /// How many values each choice has; those of a setup come first.
  std::vector<size_t> extents() const;
  static constexpr size_t numOuter = 5;
};

/// Cases in which every pair of choices occurs, by what their ranks are started for.
std::map<Setup, std::vector<Case>> coverPairs(const CaseSpace &space, uint64_t seed);
/// The pairs that none of these cases has, as text; empty when there is none.
std::string missingPairs(const CaseSpace &space, const std::vector<test::Choices> &made);

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
  /// Of a plugin that has several.
  std::string program;

  /// Memory for all cases, in windows if the first one says so. Says what went wrong, or nothing.
  std::string allocate(llvm::ArrayRef<PreparedCase> cases);
  /// Makes the call and looks at every byte. Says what went wrong, or nothing.
  std::string call(const PreparedCase &prepared);
  /// Makes these calls one after the other, and waits for all ranks. Says what went wrong, or nothing.
  std::string callAll(llvm::ArrayRef<PreparedCase> cases);

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
