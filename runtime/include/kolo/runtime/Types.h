// Element types, reductions, collectives and meshes: the vocabulary of a call. Used by every other header.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/PluginAbi.h"
#include "kolo/runtime/Status.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace kolo::runtime {

// Enumerators, numbers and names are those of the lists in PluginAbi.h: DataType::F32, Reduction::Sum.
#define KOLO_ENUMERATOR(CONSTANT, ENUMERATOR, ...) ENUMERATOR = KOLO_##CONSTANT,
enum class DataType : uint8_t { KOLO_FOR_EACH_TYPE(KOLO_ENUMERATOR) };
enum class Reduction : uint8_t { KOLO_FOR_EACH_REDUCTION(KOLO_ENUMERATOR) };
enum class CollectiveKind : uint8_t { KOLO_FOR_EACH_COLLECTIVE(KOLO_ENUMERATOR) };
#undef KOLO_ENUMERATOR

/// How much a collective reads and writes, from the list. Only for an enumerator.
struct CollectiveFacts {
  KoloExtent input, output;
  bool reduces;
};
KOLO_RUNTIME_API CollectiveFacts factsOf(CollectiveKind collective);

constexpr bool isAtRoot(KoloExtent extent) { return extent == KOLO_ROOT_BLOCK || extent == KOLO_ROOT_BLOCKS; }
constexpr bool isPerRank(KoloExtent extent) { return extent == KOLO_BLOCKS || extent == KOLO_ROOT_BLOCKS; }
inline bool hasRoot(CollectiveKind collective) {
  CollectiveFacts facts = factsOf(collective);
  return isAtRoot(facts.input) || isAtRoot(facts.output);
}

/// Bytes of one element; 0 for a value outside the enumeration.
KOLO_RUNTIME_API size_t sizeBytes(DataType type);

/// The names used on command lines and in manifests: "f32", "sum", "all_gather". "invalid" outside the enumeration.
KOLO_RUNTIME_API const char *toString(DataType type);
KOLO_RUNTIME_API const char *toString(Reduction reduction);
KOLO_RUNTIME_API const char *toString(CollectiveKind collective);

/// The inverse of toString; nothing for any other text.
KOLO_RUNTIME_API std::optional<DataType> parseDataType(std::string_view name);
KOLO_RUNTIME_API std::optional<Reduction> parseReduction(std::string_view name);
KOLO_RUNTIME_API std::optional<CollectiveKind> parseCollectiveKind(std::string_view name);

/// A reduction of the caller's own: of elements that Kolo has no type for, or by an operation that it has no name for.
/// On hosts, and by programs without codecs.
struct CustomReduction {
  // As the plugin's own kernels. Ranks and lanes call it at once, each from a thread of its own, on parts of a buffer;
  // it must not throw. A part may begin at any multiple of elementBytes. Ranks combine in different orders, so the
  // operation is associative; or the results differ as those of a sum of floating point do. The bits of `a op b` and
  // of `b op a` are the same, for all a and b. It may ignore `nonTemporal`. Null: there is no such reduction.
  KoloReduceKernel kernel = nullptr;
  int64_t elementBytes = 0; // 1, 2, 4, 8 or 16
  int32_t number = 0;       // not negative; the same on ranks that mean the same operation and elements
  bool operator==(const CustomReduction &) const = default;
  auto operator<=>(const CustomReduction &other) const {
    return std::tuple(number, elementBytes, reinterpret_cast<uintptr_t>(kernel)) <=>
           std::tuple(other.number, other.elementBytes, reinterpret_cast<uintptr_t>(other.kernel));
  }
};

/// The blocks of one buffer of a call that has a count for each, in elements. The caller owns both tables, and keeps
/// them until the call returns.
struct BlockTable {
  std::span<const int64_t> counts; // one for each block of the buffer on this rank; empty where it has no such buffer
  std::span<const int64_t> places; // from the buffer's beginning to each block; empty: blocks follow each other
};
struct BlockTables {
  BlockTable input, output;
};

/// Lists of rows for a call with block tables, whose blocks then are rows of its buffers in the order of the lists, as
/// a token goes to several experts. The tables number the rows of the lists, `elements` elements for each, so their
/// counts and places are multiples of that. The caller owns the lists, and keeps them until the call returns.
struct RowLists {
  int64_t elements = 0; // of one row
  // Which row of the buffer each is. Empty: the buffer's rows are those of the tables. No row of an output is in its
  // list twice.
  std::span<const int32_t> input, output;
  int64_t inputRows = 0, outputRows = 0; // that a buffer with a list has
  // Which row of the output of the rank that gets it each row of the list of the input becomes, as that rank's list of
  // its output says, too. Empty: those outputs have no lists. Mismatch if only one of the two is there for a block that
  // is not empty. Only the rank that gets the rows can tell if the two differ.
  std::span<const int32_t> landing;
};

struct MeshDim {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshDim &) const = default;
};

/// Named dimensions of ranks, slowest first; rank numbers are row-major. At most KOLO_MAX_MESH_DIMS dimensions.
class KOLO_RUNTIME_API Mesh {
public:
  /// No dimension: one rank.
  Mesh() = default;

  /// InvalidArgument: too many dimensions, an empty or repeated name, a size below 1, more than
  /// KOLO_MAX_MESH_RANKS ranks.
  static Result<Mesh> create(std::vector<MeshDim> dims);
  /// Reads "node=2,gpu=4". InvalidArgument as for create, or when the text has another form.
  static Result<Mesh> parse(std::string_view text);

  const std::vector<MeshDim> &dims() const { return meshDims; }
  int numRanks() const;
  /// One coordinate per dimension. Only for 0 <= rank < numRanks().
  std::vector<int64_t> coordinates(int rank) const;
  /// "node=2,gpu=4".
  std::string toString() const;
  bool operator==(const Mesh &) const = default;

private:
  std::vector<MeshDim> meshDims;
};

} // namespace kolo::runtime
