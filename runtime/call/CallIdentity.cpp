#include "call/CallIdentity.h"

#include "base/Error.h"
#include "kolo/runtime/Types.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// What must be equal, in the order in which a difference is reported.
struct Field {
  const char *name;
  std::string (*show)(const CallKey &key);
};

std::string showMesh(const CallKey &key) {
  std::string text;
  for (int64_t size : key.mesh)
    if (size != 0)
      text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  return text;
}

constexpr Field fields[] = {
    {"plugin", [](const CallKey &key) { return fmt::format("{:016x}", key.plugin); }},
    {"program", [](const CallKey &key) { return fmt::format("number {}", key.program); }},
    {"mesh", showMesh},
    {"count", [](const CallKey &key) { return fmt::format("{}", key.count); }},
    {"type", [](const CallKey &key) { return std::string(toString(static_cast<DataType>(key.type))); }},
    {"reduction", [](const CallKey &key) { return std::string(toString(static_cast<Reduction>(key.reduction))); }},
    {"root", [](const CallKey &key) { return fmt::format("{}", key.root); }},
};

bool isEqual(const CallKey &left, const CallKey &right) {
  return left.plugin == right.plugin && std::equal(left.mesh, left.mesh + KOLO_MAX_MESH_DIMS, right.mesh) &&
         left.count == right.count && left.program == right.program && left.type == right.type &&
         left.reduction == right.reduction && left.root == right.root;
}

} // namespace

Status compareCalls(const CallKey &first, const CallKey &other, std::pair<int, int> ranks) {
  if (isEqual(first, other))
    return {};
  for (const Field &field : fields)
    if (field.show(first) != field.show(other))
      return rankError(StatusCode::Mismatch, ranks.second,
                       "ranks disagree on {}: rank {} called with {}, rank {} with {}", field.name, ranks.first,
                       field.show(first), ranks.second, field.show(other));
  return {};
}

} // namespace kolo::runtime
