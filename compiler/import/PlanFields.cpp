#include "compiler/import/PlanFields.h"

#include <fmt/format.h>

#include <string_view>

namespace kolo::foreign::plan {

void refuse(const PlanNode &node, const std::string &message) { throw Refusal{node.line, message}; }

const PlanNode &member(const PlanNode &node, const char *name, PlanNode::Kind kind) {
  const PlanNode *found = node.find(name);
  if (!found || found->kind != kind)
    refuse(node, fmt::format("'{}' {}", name, found ? "has another type than in a plan" : "is missing"));
  return *found;
}

const std::string &text(const PlanNode &node, const char *name) {
  return member(node, name, PlanNode::Kind::Text).text;
}

bool truth(const PlanNode &node, const char *name) { return member(node, name, PlanNode::Kind::Truth).number != 0; }

std::span<const PlanNode> list(const PlanNode &node, const char *name) {
  return node.find(name) ? member(node, name, PlanNode::Kind::Array).elements : std::span<const PlanNode>();
}

Memory memory(const PlanNode &node, const char *name) {
  const std::string &letter = text(node, name);
  size_t found = letter.size() == 1 ? std::string_view("ios").find(letter) : std::string_view::npos;
  if (found == std::string_view::npos)
    refuse(node, fmt::format("'{}' is {}: it must be i, o or s", name, quote(letter)));
  return Memory(found);
}

std::optional<ChannelType> channelType(const PlanNode &node, const char *name) {
  const std::string &word = text(node, name);
  if (word == "switch")
    return std::nullopt;
  if (word != "memory" && word != "port")
    refuse(node, fmt::format("'{}' is {}: it must be memory, port or switch", name, quote(word)));
  return word == "memory" ? ChannelType::Memory : ChannelType::Port;
}

int32_t number(const PlanNode &value, const std::string &what, int64_t most) {
  if (value.kind != PlanNode::Kind::Number || value.number < 0 || value.number > most)
    refuse(value, fmt::format("{} must be a number from 0 to {}", what, most));
  return int32_t(value.number);
}

int32_t number(const PlanNode &node, const char *name, int64_t least, int64_t most) {
  const PlanNode &value = member(node, name, PlanNode::Kind::Number);
  if (value.number < least || value.number > most)
    refuse(value, fmt::format("'{}' is {}: it must be from {} to {}", name, value.number, least, most));
  return int32_t(value.number);
}

} // namespace kolo::foreign::plan
