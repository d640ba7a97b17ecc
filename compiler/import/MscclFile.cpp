#include "compiler/import/MscclFile.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

namespace kolo::foreign {

static constexpr std::array<std::string_view, 9> typeNames{"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"};
static constexpr std::string_view memoryNames = "ios";

namespace {

/// Ends at the first refusal, which is thrown inside this file only.
class Reader {
public:
  explicit Reader(const ForeignText &source) : source(source) {}
  MscclFile read();

private:
  [[noreturn]] void refuse(pugi::xml_node node, const std::string &message) const {
    throw Refusal{lineOf(node), message};
  }
  int32_t lineOf(pugi::xml_node node) const {
    return source.lineOf(size_t(std::max<ptrdiff_t>(node.offset_debug(), 0)));
  }
  std::string_view word(pugi::xml_node node, const char *name) const;
  int64_t number(pugi::xml_node node, const char *name, int64_t least, int64_t most) const;
  int32_t smallNumber(pugi::xml_node node, const char *name, int64_t least, int64_t most) const {
    return int32_t(number(node, name, least, most));
  }
  Memory memory(pugi::xml_node node, const char *name) const;
  void readHead(pugi::xml_node node, MscclFile &file) const;
  MscclRank readRank(pugi::xml_node node, int32_t rank) const;
  MscclBlock readBlock(pugi::xml_node node, int32_t rank) const;
  MscclStep readStep(pugi::xml_node node, size_t index) const;
  /// The elements inside by their ids, which are 0, 1, 2, ... in any order.
  std::vector<pugi::xml_node> byId(pugi::xml_node parent, const char *name, int64_t count) const;
  std::vector<pugi::xml_node> children(pugi::xml_node parent, std::string_view name) const;

  const ForeignText &source;
  int32_t numRanks = 0;
};

constexpr int64_t mostNumber = std::numeric_limits<int32_t>::max();
/// RCCL's own limits are lower; these keep what a file can make the program reserve in proportion to the file.
constexpr int64_t mostChunks = 1 << 20;

} // namespace

std::string_view Reader::word(pugi::xml_node node, const char *name) const {
  pugi::xml_attribute found = node.attribute(name);
  if (!found)
    refuse(node, fmt::format("<{}> has no attribute '{}'", node.name(), name));
  return found.value();
}

int64_t Reader::number(pugi::xml_node node, const char *name, int64_t least, int64_t most) const {
  std::string_view text = word(node, name);
  std::optional<int64_t> value = parseInteger(text);
  if (!value || *value < least || *value > most)
    refuse(node, fmt::format("{} is {}: it must be a number from {} to {}", name, quote(text), least, most));
  return *value;
}

Memory Reader::memory(pugi::xml_node node, const char *name) const {
  std::string_view text = word(node, name);
  size_t found = text.size() == 1 ? memoryNames.find(text[0]) : std::string_view::npos;
  if (found == std::string_view::npos)
    refuse(node, fmt::format("{} is {}: it must be i, o or s", name, quote(text)));
  return Memory(found);
}

std::vector<pugi::xml_node> Reader::children(pugi::xml_node parent, std::string_view name) const {
  std::vector<pugi::xml_node> found;
  for (pugi::xml_node child : parent.children()) {
    if (child.type() == pugi::node_pcdata)
      refuse(child, fmt::format("text inside <{}>", parent.name()));
    if (child.type() != pugi::node_element)
      continue;
    if (child.name() != name)
      refuse(child, fmt::format("<{}> inside <{}>, where only <{}> may be", quote(child.name()), parent.name(), name));
    found.push_back(child);
  }
  return found;
}

std::vector<pugi::xml_node> Reader::byId(pugi::xml_node parent, const char *name, int64_t count) const {
  std::vector<pugi::xml_node> all = children(parent, name);
  if (count >= 0 && int64_t(all.size()) != count)
    refuse(parent, fmt::format("{} elements <{}>, and ngpus is {}", all.size(), name, count));
  std::vector<pugi::xml_node> sorted(all.size());
  for (pugi::xml_node node : all) {
    pugi::xml_node &place = sorted[size_t(number(node, "id", 0, int64_t(all.size()) - 1))];
    if (place)
      refuse(node, fmt::format("another <{}> has the id {}, too: line {}", name, word(node, "id"), lineOf(place)));
    place = node;
  }
  return sorted;
}

MscclStep Reader::readStep(pugi::xml_node node, size_t index) const {
  MscclStep step;
  step.line = lineOf(node);
  if (pugi::xml_node inside = node.first_child())
    refuse(inside, "something inside <step>");
  if (int64_t known = number(node, "s", 0, mostNumber); known != int64_t(index))
    refuse(node,
           fmt::format("s is {}, and this is step {} of its block: RCCL counts them, so waits would be for others",
                       known, index));
  std::string_view type = word(node, "type");
  const auto *found = std::ranges::find(typeNames, type);
  if (found == typeNames.end())
    refuse(node, fmt::format("type is {}: it must be one of {}", quote(type), fmt::join(typeNames, ", ")));
  step.type = MscclType(found - typeNames.begin());
  step.sourceMemory = memory(node, "srcbuf");
  step.destinationMemory = memory(node, "dstbuf");
  step.source = smallNumber(node, "srcoff", -1, mostChunks);
  step.destination = smallNumber(node, "dstoff", -1, mostChunks);
  step.count = smallNumber(node, "cnt", 0, mostChunks);
  step.waitBlock = smallNumber(node, "depid", -1, mostNumber);
  step.waitStep = smallNumber(node, "deps", -1, mostNumber);
  step.hasDependents = number(node, "hasdep", 0, 1) == 1;
  return step;
}

MscclBlock Reader::readBlock(pugi::xml_node node, int32_t rank) const {
  MscclBlock block;
  block.line = lineOf(node);
  for (auto [name, peer] : {std::pair("send", &block.sendPeer), std::pair("recv", &block.receivePeer)}) {
    *peer = smallNumber(node, name, -1, mostNumber);
    if (*peer >= numRanks)
      refuse(node, fmt::format("{} is {}: there is no such rank among {}", name, *peer, numRanks));
    if (*peer == rank)
      refuse(node, fmt::format("{} is {}: the rank itself", name, *peer));
  }
  block.channel = smallNumber(node, "chan", -1, 1 << 16);
  for (pugi::xml_node step : children(node, "step"))
    block.steps.push_back(readStep(step, block.steps.size()));
  return block;
}

MscclRank Reader::readRank(pugi::xml_node node, int32_t rank) const {
  MscclRank result;
  result.line = lineOf(node);
  result.numInputChunks = smallNumber(node, "i_chunks", 0, mostChunks);
  result.numOutputChunks = smallNumber(node, "o_chunks", 0, mostChunks);
  result.numScratchChunks = smallNumber(node, "s_chunks", 0, mostChunks);
  for (pugi::xml_node block : byId(node, "tb", -1))
    result.blocks.push_back(readBlock(block, rank));
  return result;
}

void Reader::readHead(pugi::xml_node node, MscclFile &file) const {
  file.line = lineOf(node);
  file.name = word(node, "name");
  file.protocol = word(node, "proto");
  file.collective = word(node, "coll");
  file.numChannels = smallNumber(node, "nchannels", 1, mostNumber);
  file.numChunks = smallNumber(node, "nchunksperloop", 1, mostChunks);
  file.runsInPlace = number(node, "inplace", 0, 1) == 1;
  // MSCCL's first schedulers wrote no such attribute, and took a file for one kind of call.
  file.runsOutOfPlace = node.attribute("outofplace") ? number(node, "outofplace", 0, 1) == 1 : !file.runsInPlace;
  file.minBytes = node.attribute("minBytes") ? number(node, "minBytes", 0, INT64_MAX) : 0;
  file.maxBytes = node.attribute("maxBytes") ? number(node, "maxBytes", 0, INT64_MAX) : 0;
}

MscclFile Reader::read() {
  pugi::xml_document document;
  const std::string &text = source.text();
  pugi::xml_parse_result result =
      document.load_buffer(text.data(), text.size(), (pugi::parse_default | pugi::parse_doctype) & ~pugi::parse_escapes,
                           pugi::encoding_utf8);
  if (!result)
    throw Refusal{source.lineOf(size_t(std::max<ptrdiff_t>(result.offset, 0))),
                  fmt::format("is no XML: {}", result.description())};
  pugi::xml_node root;
  for (pugi::xml_node node : document.children()) {
    if (node.type() == pugi::node_doctype)
      refuse(node, "a document type: entities are not expanded, and no file of MSCCL has one");
    if (node.type() != pugi::node_element)
      continue;
    if (root || std::string_view(node.name()) != "algo")
      refuse(node, fmt::format("<{}>: a file of MSCCL has one element <algo>", node.name()));
    root = node;
  }
  if (!root)
    throw Refusal{1, "has no element <algo>, so it is no file of MSCCL"};
  MscclFile file;
  readHead(root, file);
  numRanks = smallNumber(root, "ngpus", 1, 1 << 20);
  for (pugi::xml_node rank : byId(root, "gpu", numRanks))
    file.ranks.push_back(readRank(rank, int32_t(file.ranks.size())));
  return file;
}

std::variant<MscclFile, Refusal> readMscclFile(const ForeignText &source) {
  try {
    return Reader(source).read();
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

static void writeStep(std::string &text, size_t number, const MscclStep &step) {
  text +=
      fmt::format("      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
                  "depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
                  number, typeNames[size_t(step.type)], memoryNames[size_t(step.sourceMemory)], step.source,
                  memoryNames[size_t(step.destinationMemory)], step.destination, step.count, step.waitBlock,
                  step.waitStep, int(step.hasDependents));
}

std::string writeMscclFile(const MscclFile &file) {
  std::string text = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\">\n",
      file.name, file.protocol, file.numChannels, file.numChunks, file.ranks.size(), file.collective,
      int(file.runsInPlace), int(file.runsOutOfPlace), file.minBytes, file.maxBytes);
  for (size_t rank = 0; rank < file.ranks.size(); ++rank) {
    const MscclRank &own = file.ranks[rank];
    text += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank, own.numInputChunks,
                        own.numOutputChunks, own.numScratchChunks);
    for (size_t number = 0; number < own.blocks.size(); ++number) {
      const MscclBlock &block = own.blocks[number];
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

} // namespace kolo::foreign
