// An algorithm as the XML that RCCL's MSCCL reads, for one range of its versions. No MLIR.
#pragma once

#include "compiler/export/ThreadBlocks.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo::msccl {

/// What a version of RCCL runs.
struct Profile {
  std::string name;
  bool mayReceiveAndReduce = false; // rrc; the kernels of ROCm 6.1 and later run s, r, cpy, re and nop alone
};

/// "rccl-6.1", "rccl-6.0"; of other versions, a message that says which profile serves them or why there is none.
std::variant<Profile, std::string> parseProfile(const std::string &text);

struct XmlOptions {
  Profile profile;
  Protocol protocol = Protocol::Simple;
  int64_t lanes = 1;                  // 1 to maxChannels
  bool isInPlace = false;             // false: for calls whose input and output do not overlap
  int64_t minBytes = 0, maxBytes = 0; // of calls, as RCCL counts them; maxBytes 0: no limit
};

struct Xml {
  std::string text;
  // What the text has, for messages.
  int64_t numRanks = 0, lanes = 0, chunksPerBlock = 0, mostBlocks = 0, mostSteps = 0;
};

/// Refuses moves that do not give the collective's result in such a call, and what exceeds a limit of RCCL.
std::variant<Xml, Mistake> makeXml(const Moves &moves, const XmlOptions &options);

/// What some versions of RCCL that read the file do wrong with it, one line each: data that is corrupted in silence.
std::vector<std::string> knownFaults(const XmlOptions &options);

} // namespace kolo::msccl
