// One call of a collective as every simulated rank sees it: shape, inputs, outputs. What tests hand to an interpreter.
#pragma once

#include "ir/Kolo.h"
#include "ir/reference/Element.h"
#include "ir/reference/Layout.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace kolo::reference {

using Bytes = std::vector<std::byte>;

/// What memory holds before anybody wrote it.
inline constexpr std::byte poison{0xdb};

/// Everything about a call but its data.
struct Call {
  CollectiveAttr collective;
  std::vector<int64_t> meshSizes; // slowest first
  int64_t count = 0;              // elements, as the collective counts them
  ElementType type = ElementType::F32;
  Reduction reduction = Reduction::Sum;
  int64_t root = 0;     // number inside the group
  int64_t numLanes = 1; // channel phase only
  /// Of a call with block tables, by rank: the elements of each block of its input and output, which follow each other.
  /// Ranks that are no root have tables, too. `count` is the longest. Both empty: all blocks have `count`.
  std::vector<std::vector<int64_t>> inputCounts = {}, outputCounts = {};
};

struct SimulatedCall : Call {
  std::vector<Bytes> inputs, outputs; // by rank
  int64_t numBefore = 0;              // calls before this one: what stochastic codecs draw by
};

/// A simulated with the buffers that the call needs: inputs of zeros, outputs poisoned. Rooted collectives have all
/// their buffers on every rank here; those that do not exist in the call (see `exists`) are errors to access.
SimulatedCall makeSimulatedCall(const Call &call);
void poisonOutputs(SimulatedCall &simulated);

/// An error unless the call makes sense for a program with this collective and this number of mesh dimensions, and
/// every buffer has the size that `makeSimulatedCall` gives it.
llvm::Error validate(const SimulatedCall &simulated, const ProgramShape &program);

int64_t numRanks(const Call &call);
std::vector<int64_t> coordinatesOf(const Call &call, int64_t rank);
int64_t rankAt(const Call &call, llvm::ArrayRef<int64_t> coordinates);

/// The ranks that `rank` collects with, itself included, in the order of their numbers inside the group.
std::vector<int64_t> groupOf(const Call &call, int64_t rank);
int64_t groupSize(const Call &call);
/// The number of `rank` inside its group.
int64_t memberNumber(const Call &call, int64_t rank);
/// Blocks of `count` elements in the input or output of a rank: 1 or the group's size.
int64_t numBlocks(const Call &call, BufferRole role);
/// Whether blocks have counts of their own.
inline bool hasTables(const Call &call) { return !call.inputCounts.empty(); }
/// Gives a call block tables. `given`: elements that one rank gives another of its group. Where inputs have one block,
/// it depends on the giver alone; where outputs have one, on the taker alone.
void setTables(Call &call, llvm::function_ref<int64_t(int64_t giver, int64_t taker)> given);
/// The elements of a block of a rank's input or output.
Range blockRange(const Call &call, BufferRole role, int64_t rank, int64_t block);
/// False for the output of reduce and gather, and the input of scatter, on every rank but the root. Likewise for the
/// output of exscan on the first rank of the group.
bool exists(const Call &call, BufferRole role, int64_t rank);

} // namespace kolo::reference
