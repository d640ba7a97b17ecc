// The text. RCCL's reader takes less than XML: one line per tag, one space between attributes, double quotes.
#include "compiler/export/MscclXml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace kolo::msccl {

std::variant<Profile, std::string> parseProfile(const std::string &text) {
  if (text == "rccl-6.1")
    return Profile{text, false};
  if (text == "rccl-6.0")
    return Profile{text, true};
  int major = 0, minor = 0, length = 0;
  if (std::sscanf(text.c_str(), "rccl-%d.%d%n", &major, &minor, &length) != 2 || size_t(length) != text.size() ||
      major < 0 || minor < 0)
    return text + " is none of rccl-6.1, rccl-6.0";
  auto isBefore = [&](int otherMajor, int otherMinor) {
    return std::pair(major, minor) < std::pair(otherMajor, otherMinor);
  };
  if (isBefore(5, 6))
    return text + ": RCCL reads XML from ROCm 5.6 on";
  if (isBefore(6, 1))
    return text + ": rccl-6.0 serves ROCm 5.6 to 6.0";
  if (isBefore(7, 3))
    return text + ": rccl-6.1 serves ROCm 6.1 to 7.2";
  if (isBefore(7, 13))
    return text + ": RCCL is built without MSCCL after ROCm 7.2, so it reads no XML";
  return text + ": RCCL has no MSCCL from ROCm 7.13 on, so it reads no XML";
}

static const char *nameOf(Collective collective) {
  static constexpr std::array names{"allgather", "allreduce", "alltoall", "reducescatter"};
  return names[size_t(collective)];
}

static const char *nameOf(Protocol protocol) {
  static constexpr std::array names{"Simple", "LL", "LL128"};
  return names[size_t(protocol)];
}

static const char *nameOf(StepKind kind) {
  static constexpr std::array names{"s", "r", "rrc", "cpy", "re", "nop"};
  return names[size_t(kind)];
}

static char nameOf(Memory memory) { return "ios"[size_t(memory)]; }

static void writeStep(std::string &text, size_t number, const Step &step) {
  bool isNop = step.kind == StepKind::Nop;
  // What receives and combines, combines with its source, which is the destination.
  ChunkId source = step.kind == StepKind::ReceiveReduceCopy ? step.destination : step.source;
  text += fmt::format(
      "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
      "depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
      number, nameOf(step.kind), nameOf(source.memory), isNop ? -1 : source.chunk, nameOf(step.destination.memory),
      isNop ? -1 : step.destination.chunk, step.numChunks, step.block, step.step, int(step.hasDependents));
}

static std::string write(const Moves &moves, const Blocks &blocks, const XmlOptions &options) {
  std::string text = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\">\n",
      moves.name, nameOf(options.protocol), blocks.lanes,
      std::max(moves.numInputBlocks(), moves.numOutputBlocks()) * blocks.chunksPerBlock, moves.numRanks,
      nameOf(moves.collective), int(options.isInPlace), int(!options.isInPlace), options.minBytes, options.maxBytes);
  for (size_t rank = 0; rank < blocks.ranks.size(); ++rank) {
    const RankBlocks &own = blocks.ranks[rank];
    text += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank,
                        moves.numInputBlocks() * blocks.chunksPerBlock, moves.numOutputBlocks() * blocks.chunksPerBlock,
                        own.numScratchChunks);
    for (size_t number = 0; number < own.blocks.size(); ++number) {
      const ThreadBlock &block = own.blocks[number];
      text += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", number, block.sendPeer,
                          block.receivePeer, block.channel);
      for (size_t step = 0; step < block.steps.size(); ++step)
        writeStep(text, step, block.steps[step]);
      text += "    </tb>\n";
    }
    text += "  </gpu>\n";
  }
  return text + "</algo>\n";
}

/// Of the whole algorithm; the limits of blocks and steps are seen where they are made.
static std::string findMistake(const Moves &moves, const Blocks &blocks) {
  int64_t numChunks = std::max(moves.numInputBlocks(), moves.numOutputBlocks()) * blocks.chunksPerBlock;
  for (size_t rank = 0; rank < blocks.ranks.size(); ++rank) {
    const RankBlocks &own = blocks.ranks[rank];
    int64_t largest = std::max(numChunks, own.numScratchChunks);
    if (largest > maxChunkNumber)
      return fmt::format("a buffer of rank {} is cut into {} chunks, and RCCL counts to {}", rank, largest,
                         maxChunkNumber);
    int64_t numNodes = 1 + moves.numRanks + int64_t(own.blocks.size());
    for (const ThreadBlock &block : own.blocks)
      numNodes += int64_t(block.steps.size());
    if (numNodes > maxNodesPerRank)
      return fmt::format("rank {} would read {} elements of XML, and RCCL reads {}", rank, numNodes, maxNodesPerRank);
  }
  return "";
}

/// RCCL's reader takes the name as it is.
static bool isName(const std::string &name) {
  return !name.empty() && name.size() <= 200 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; });
}

static std::string findMistake(const Moves &moves, bool isInPlace) {
  if (!isName(moves.name))
    return "'" + moves.name + "' is no name for RCCL: letters, digits, '_', '.' and '-', 200 at most";
  if (moves.numRanks < 2)
    return moves.name + " runs on one rank, which has nobody to send to";
  if (!givesResult(moves, false))
    return moves.name + " does not give the result of its collective on this mesh";
  if (isInPlace && !givesResult(moves, true))
    return moves.name + " overwrites input that it still needs when input and output are the same memory; export it " +
           "without --in-place";
  return "";
}

std::vector<std::string> knownFaults(const XmlOptions &options) {
  std::vector<std::string> faults;
  if (options.profile.mayReceiveAndReduce)
    faults.emplace_back(
        "before ROCm 6.1.0, MSCCL tells a block of a step before its data is visible, on memory that is "
        "cached (rccl #1014): results may be wrong");
  if (options.protocol == Protocol::LL)
    faults.emplace_back(
        "before ROCm 7.1.1, MSCCL with LL corrupts data on MI350X and MI355X (rccl #1960): AMD saw 2 % of "
        "all-reduces below 512 KiB; --protocol simple is not affected");
  return faults;
}

std::variant<Xml, Mistake> makeXml(const Moves &moves, const XmlOptions &options) {
  if (std::string mistake = findMistake(moves, options.isInPlace); !mistake.empty())
    return Mistake{moves.line, mistake};
  auto made = makeThreadBlocks(moves, {.protocol = options.protocol,
                                       .lanes = options.lanes,
                                       .isInPlace = options.isInPlace,
                                       .mayReceiveAndReduce = options.profile.mayReceiveAndReduce});
  if (auto *mistake = std::get_if<Mistake>(&made))
    return std::move(*mistake);
  const auto &blocks = std::get<Blocks>(made);
  if (std::string mistake = findMistake(moves, blocks); !mistake.empty())
    return Mistake{moves.line, moves.name + " does not fit RCCL: " + mistake};
  Xml xml{.text = write(moves, blocks, options),
          .numRanks = moves.numRanks,
          .lanes = blocks.lanes,
          .chunksPerBlock = blocks.chunksPerBlock};
  for (const RankBlocks &own : blocks.ranks) {
    xml.mostBlocks = std::max(xml.mostBlocks, int64_t(own.blocks.size()));
    for (const ThreadBlock &block : own.blocks)
      xml.mostSteps = std::max(xml.mostSteps, int64_t(block.steps.size()));
  }
  return xml;
}

} // namespace kolo::msccl
