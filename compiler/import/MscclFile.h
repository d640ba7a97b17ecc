// MSCCL's XML as it stands in a file: elements with their attributes and lines, each checked by itself. Used to make a
// schedule of it, and to write it again as RCCL's own reader takes it.
#pragma once

#include "compiler/import/ForeignText.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo::foreign {

/// The order of RCCL's kernel.
enum class MscclType : uint8_t {
  Send,
  Receive,
  ReceiveCopySend,
  ReceiveReduceSend,
  ReceiveReduceCopy,
  ReceiveReduceCopySend,
  Copy,
  Reduce,
  Nop
};

constexpr bool sends(MscclType type) {
  return type == MscclType::Send || type == MscclType::ReceiveCopySend || type == MscclType::ReceiveReduceSend ||
         type == MscclType::ReceiveReduceCopySend;
}
constexpr bool receives(MscclType type) {
  return type >= MscclType::Receive && type <= MscclType::ReceiveReduceCopySend;
}

struct MscclStep {
  int32_t line = 0;
  MscclType type = MscclType::Nop;
  Memory sourceMemory = Memory::Input, destinationMemory = Memory::Input;
  int32_t source = 0, destination = 0, count = 0, waitBlock = -1, waitStep = -1;
  bool hasDependents = false;
};

struct MscclBlock {
  int32_t line = 0, sendPeer = -1, receivePeer = -1, channel = 0;
  std::vector<MscclStep> steps;
};

struct MscclRank {
  int32_t line = 0, numInputChunks = 0, numOutputChunks = 0, numScratchChunks = 0;
  std::vector<MscclBlock> blocks; // by id
};

struct MscclFile {
  std::string name, protocol, collective;
  int32_t line = 0, numChannels = 0, numChunks = 0;
  bool runsInPlace = false, runsOutOfPlace = false;
  int64_t minBytes = 0, maxBytes = 0;
  std::vector<MscclRank> ranks; // by id
};

/// Refuses what is no XML, unknown elements, attributes and types, numbers out of range, ranks and blocks that are
/// missing, twice there or that do not exist. Takes memory in proportion to the text.
std::variant<MscclFile, Refusal> readMscclFile(const ForeignText &source);

/// One line per element, as RCCL's reader wants it.
std::string writeMscclFile(const MscclFile &file);

} // namespace kolo::foreign
