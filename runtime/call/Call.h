// Call: one call of a collective, as this rank alone checks and resolves it.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "loader/PluginState.h"
#include "memory/Segments.h"
#include "peers/Control.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kolo::runtime {

/// How input and output overlap.
enum class Overlap : uint8_t {
  None,
  InPlace, // at the one offset that the collective defines
  Other,
};

/// Sizes of the buffers, in multiples of count.
struct Extent {
  int64_t input = 0;
  int64_t output = 0;
};

/// Whether all members of a group have a collective's buffer of a role, KOLO_INPUT or KOLO_OUTPUT. The root has some
/// alone, and the first member of an exscan has no output.
bool isEverywhere(CollectiveKind collective, size_t role);
/// Whether the member with this number has it. `root` counts where there is one.
bool isAtMember(CollectiveKind collective, size_t role, int64_t member, int64_t root);
/// Whether each output combines another number of inputs. Such a collective has no average.
constexpr bool isPrefixReduction(CollectiveKind collective) {
  return collective == CollectiveKind::Scan || collective == CollectiveKind::Exscan;
}

/// Where a rank stands in the mesh that the program runs on.
struct CallPlace {
  Mesh mesh;
  int64_t dimSizes[KOLO_MAX_MESH_DIMS] = {1, 1, 1, 1};
  int64_t coordinates[KOLO_MAX_MESH_DIMS] = {};
  int64_t root = 0;
  bool isProved = false; // on this mesh
  int rank = 0;          // of the communicator
};

/// What is computed with.
struct CallElements {
  int64_t elementBytes = 0;
  int32_t computedType = 0; // KoloType: the call's own, or f32 (WideAverage.h), which the buffers then hold, too
  KoloReduceKernel reduce = nullptr;
  KoloAverageKernel average = nullptr;
  KoloReduceKernel reduceNumbers = nullptr; // of f32, for programs with codecs
};

/// Of KOLO_INPUT and KOLO_OUTPUT, in messages.
inline constexpr const char *roleNames[] = {"input", "output"};

/// The block tables of a call on this rank, by role.
struct CallTables {
  std::vector<int64_t> counts[2], places[2];      // elements
  int64_t numElements[2] = {};                    // of all blocks together
  int64_t numBytes[2] = {};                       // of the buffer, to the end of its last block
  int64_t longest = 0;                            // of all counts
  std::optional<int64_t> inPlaceElements;         // of the input in the output when in place; nothing: it cannot be
  bool hasLanding = false, hasOutputList = false; // of the call's row lists
};

/// The row lists of a call on this rank: see RowLists. They are the caller's, who keeps them while the call runs.
struct CallRows {
  int64_t rowBytes = 0;
  const int32_t *lists[2] = {}; // by role; null: none
  const int32_t *landing = nullptr;
};

/// The caller's buffers. A size is 0 if the collective does not use the buffer on this rank.
struct CallBuffers {
  std::byte *input = nullptr;
  std::byte *output = nullptr;
  size_t inputBytes = 0;
  size_t outputBytes = 0;
  Extent extent;                            // of this rank
  Extent largest;                           // of any rank
  int64_t inPlaceOffset = 0;                // of the input in the output when in place, in multiples of count
  int64_t largestBytes = 0;                 // of the largest buffer of any rank, as the ranks agreed
  std::shared_ptr<const CallTables> tables; // null: all blocks have `count` elements, and follow each other
  CountDigests digests;                     // if there are tables
  std::optional<CallRows> rows;             // nothing: blocks lie where the tables say
  MemoryKind memory = MemoryKind::Windows;  // where this rank's buffers are, if the program was selected

  void setPointers(const CallArguments &arguments) {
    // The runtime never writes the input; generated code takes the type without const.
    input = static_cast<std::byte *>(const_cast<void *>(arguments.input));
    output = static_cast<std::byte *>(arguments.output);
  }
  /// InvalidArgument: a buffer that this rank uses is null.
  Status checkPointers() const;
  /// Where the buffers that this rank uses are.
  MemoryKind memoryKind(const SegmentTable &segments) const;
};

struct Call : CallPlace, CallElements, CallBuffers {
  const ProgramInfo *info = nullptr;
  const KoloProgram *program = nullptr;
  CallKey key;
  size_t scratchBytes = 0;
  bool publishes = false;
  bool hasPackets = false;
  bool takesRows = false; // the call has block tables, and any rank may have row lists, too
  int64_t numLanes = 1;   // of every rank; the caller of planCall sets it
  int tableLanes = 0;     // on devices, as the entry says that selected the program; 0: none does

  int64_t unitBytes() const { return key.count * elementBytes; }
  bool isWidened() const { return computedType != key.type; }
  /// Elements of a block of this rank's buffer, which the collective uses.
  int64_t countOf(size_t role, int64_t block) const {
    return tables ? tables->counts[role][static_cast<size_t>(block)] : key.count;
  }
  /// Bytes from the beginning of this rank's buffer to a block.
  int64_t bytesToBlock(size_t role, int64_t block) const {
    return (tables ? tables->places[role][static_cast<size_t>(block)] : block * key.count) * elementBytes;
  }
  Overlap overlap() const;
  /// Bytes of input and output together; bytes that belong to both count once.
  size_t accessedBytes() const;
  /// Whether input and output overlap in a way that the program does not support.
  bool mustCopyInput() const;
  /// Whether peers access input or output.
  bool isShared() const { return info->sharesInput || info->sharesOutput; }
  /// Bytes that a call of `count` elements needs; a negative number is an error of the plugin. Packets: of one turn.
  int64_t scratchBytesFor(int64_t count) const;
  int64_t publishedBytesFor(int64_t count) const;
  /// Whether that are more bytes than an announcement holds.
  bool publishesMuch() const {
    return publishes && publishedBytesFor(key.count) > static_cast<int64_t>(Announcement::maxPublishedBytes);
  }
  int64_t packetBytesFor(int64_t count) const;
  KoloShape shapeFor(int64_t count) const;
};

/// The rank that plans a call.
struct Planner {
  int rank = 0;
  int size = 1;
  MemoryKind least = MemoryKind::Windows; // Ordinary: a peer's buffers are there, which decides the selection
  // Of a call with block tables, of any rank, as far as known.
  int64_t longestBlock = 0, largestBytes = 0;
  bool ignoresCounts = false; // of block tables, for an answer that is the same on all ranks
  std::string_view tag = {};  // of the communicator
  bool isForDevices = false;
  // Of a call with block tables: CallArguments::count is as long as the longest block of any rank, unless all ranks
  // have the tables of all.
  bool countIsBound = false;
};

/// Checks everything that one rank can check, and selects the program if the arguments name none. A selection without
/// an entry for windows gives the one for ordinary memory. Blocks on nothing. InvalidArgument, UnsupportedMesh,
/// BadPlugin.
Result<Call> planCall(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
                      const Planner &planner);

} // namespace kolo::runtime
