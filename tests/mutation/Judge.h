// Whether a channel program does harm: runs it in the reference interpreter, interleaving after interleaving. Used by
// the tests of this folder.
#pragma once

#include "tests/support/Algorithms.h"

#include "ir/reference/Interpreter.h"

#include <map>
#include <optional>
#include <string>

namespace kolo::mutation {

using test::Sizes;

/// Whether the collective has a root.
bool isRooted(CollectiveKind kind);

/// An interleaving in which a program went wrong.
struct Harm {
  uint64_t seed = 0; // the judge's
  int64_t interleaving = 0;
  std::string call; // mesh, count, type, ...
  std::string what; // the interpreter's error, or the first wrong element
  std::string text() const;
};

/// Runs programs of one collective on one mesh. Every interleaving is of two or three calls back to back with arbitrary
/// skew; as soon as a rank ends one, its application reads the output, and, before it starts the next one, reads it
/// again, writes new inputs and poisons the output. Counts, element types, reductions, roots and numbers of lanes
/// change from one interleaving to the next.
class Judge {
public:
  Judge(CollectiveAttr collective, Sizes mesh, uint64_t seed)
      : collective(collective), mesh(std::move(mesh)), seed(seed) {}

  /// Stops at the first harm. Nothing: the program was right in all these interleavings.
  std::optional<Harm> firstHarm(ProgramOp program, int64_t numInterleavings);

private:
  /// What the applications of all ranks do with one kind of call.
  struct Calls {
    std::vector<reference::SimulatedCall> simulated;                    // by invocation
    std::vector<std::vector<std::optional<reference::Bytes>>> expected; // by invocation, rank
  };
  const Calls &callsNumber(int64_t number);
  std::string run(ProgramOp program, const Calls &calls, uint64_t interleavingSeed, int64_t numInvocations);

  CollectiveAttr collective;
  Sizes mesh;
  uint64_t seed;
  std::map<int64_t, Calls> known;
};

} // namespace kolo::mutation
