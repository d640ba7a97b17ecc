// Call: one call of a collective, checked and worked out on this rank alone.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "loader/PluginState.h"
#include "transport/Control.h"

#include <cstdint>

namespace kolo::runtime {

struct Call {
  const ProgramInfo *info = nullptr;
  const KoloProgram *program = nullptr;
  CallKey key;
  int64_t dimSizes[KOLO_MAX_MESH_DIMS] = {1, 1, 1, 1};
  int64_t coordinates[KOLO_MAX_MESH_DIMS] = {};
  int64_t elementBytes = 0;
  int64_t root = 0;
  KoloReduceKernel reduce = nullptr;
  KoloDivideKernel divide = nullptr;

  // What this rank reads and writes; a size is 0 where the collective does not use the buffer on this rank.
  std::byte *input = nullptr;
  std::byte *output = nullptr;
  size_t inputBytes = 0;
  size_t outputBytes = 0;
  size_t scratchBytes = 0;
  bool mustCopyInput = false; // input and output overlap in a way that the program does not support
};

/// Checks everything that one rank can check. InvalidArgument, UnsupportedMesh, BadPlugin.
Result<Call> planCall(const PluginState &plugin, const CallArguments &arguments, int rank, int size);

} // namespace kolo::runtime
