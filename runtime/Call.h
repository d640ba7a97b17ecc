// Call: one call of a collective, checked and worked out on this rank alone.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "loader/PluginState.h"
#include "memory/Segments.h"
#include "transport/Control.h"

#include <cstdint>

namespace kolo::runtime {

/// How the input lies to the output.
enum class Overlap : uint8_t {
  None,
  InPlace, // in the one place that the collective defines
  Other,
};

/// Buffers in multiples of count.
struct Extent {
  int64_t input = 0;
  int64_t output = 0;
};

struct Call {
  const ProgramInfo *info = nullptr;
  const KoloProgram *program = nullptr;
  CallKey key;
  int64_t dimSizes[KOLO_MAX_MESH_DIMS] = {1, 1, 1, 1};
  int64_t coordinates[KOLO_MAX_MESH_DIMS] = {};
  int64_t elementBytes = 0;
  int64_t root = 0;
  KoloReduceKernel reduce = nullptr;
  KoloAverageKernel average = nullptr;

  Extent extent;                           // of this rank
  Extent largest;                          // of any rank
  int64_t inPlaceOffset = 0;               // of the input in the output, in multiples of count, when a call is in place
  bool isProved = false;                   // on this mesh
  MemoryKind memory = MemoryKind::Windows; // that it was selected by, if it was

  // What this rank reads and writes; a size is 0 where the collective does not use the buffer on this rank.
  std::byte *input = nullptr;
  std::byte *output = nullptr;
  size_t inputBytes = 0;
  size_t outputBytes = 0;
  size_t scratchBytes = 0;
  bool publishes = false;
  bool hasPackets = false;
  int64_t numLanes = 1; // of every rank; set by who plans

  int64_t unitBytes() const { return key.count * elementBytes; }
  void setPointers(const CallArguments &arguments) {
    // The runtime never writes to the input; the type is that of the generated code's interface.
    input = static_cast<std::byte *>(const_cast<void *>(arguments.input));
    output = static_cast<std::byte *>(arguments.output);
  }
  Overlap overlap() const;
  /// Of input and output together; what is both counts once.
  size_t accessedBytes() const;
  /// Where what this rank uses lies.
  MemoryKind memoryKind(const SegmentTable &segments) const;
  /// Whether input and output overlap in a way that the program does not support.
  bool mustCopyInput() const;
  /// Whether peers access the caller's own memory.
  bool isShared() const { return info->sharesInput || info->sharesOutput; }
  /// Bytes of scratch memory of a call of `count` elements; negative when the plugin is at fault.
  int64_t scratchBytesFor(int64_t count) const;
  int64_t publishedBytesFor(int64_t count) const;
  int64_t packetBytesFor(int64_t count) const; // in one turn

private:
  KoloShape shapeFor(int64_t count) const;
};

/// Checks everything that one rank can check, and selects the program where the arguments leave that to the plugin.
/// InvalidArgument, UnsupportedMesh, BadPlugin.
Result<Call> planCall(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments, int rank,
                      int size);

} // namespace kolo::runtime
