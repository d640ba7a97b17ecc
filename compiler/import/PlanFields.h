// PlanFields: the fields of a plan of MSCCL++, each with the type and the range that it must have. Refuses others by
// throwing a Refusal that names the line.
#pragma once

#include "compiler/import/ForeignText.h"
#include "compiler/import/PlanText.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kolo::foreign::plan {

enum class ChannelType : uint8_t { Memory, Port };

inline constexpr int64_t mostChunks = 1 << 20;
inline constexpr int32_t mostPieces = 1024;

[[noreturn]] void refuse(const PlanNode &node, const std::string &message);

const PlanNode &member(const PlanNode &node, const char *name, PlanNode::Kind kind);
const std::string &text(const PlanNode &node, const char *name);
bool truth(const PlanNode &node, const char *name);
/// Empty: the field is missing.
std::span<const PlanNode> list(const PlanNode &node, const char *name);
Memory memory(const PlanNode &node, const char *name);
/// Nothing: a switch channel, which only operations use that are refused.
std::optional<ChannelType> channelType(const PlanNode &node, const char *name);
int32_t number(const PlanNode &node, const char *name, int64_t least, int64_t most);
/// From 0. `what`: for the message.
int32_t number(const PlanNode &value, const std::string &what, int64_t most);

} // namespace kolo::foreign::plan
