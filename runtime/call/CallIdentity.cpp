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

std::string showType(const CallKey &key) {
  return key.type < KOLO_NUM_TYPES ? toString(static_cast<DataType>(key.type))
                                   : fmt::format("the caller's own, of {} bytes", key.type - KOLO_NUM_TYPES);
}

std::string showReduction(const CallKey &key) {
  return key.reduction < KOLO_NUM_REDUCTIONS
             ? toString(static_cast<Reduction>(key.reduction))
             : fmt::format("the caller's own, number {}", key.reduction - KOLO_NUM_REDUCTIONS);
}

constexpr Field fields[] = {
    {"plugin", [](const CallKey &key) { return fmt::format("{:016x}", key.plugin); }},
    {"program", [](const CallKey &key) { return fmt::format("number {}", key.program); }},
    {"mesh", showMesh},
    {"block tables", [](const CallKey &key) { return std::string(key.hasTables ? "some" : "none"); }},
    {"count", [](const CallKey &key) { return fmt::format("{}", key.count); }},
    {"type", showType},
    {"reduction", showReduction},
    {"root", [](const CallKey &key) { return fmt::format("{}", key.root); }},
};

bool isEqual(const CallKey &left, const CallKey &right) {
  return left.plugin == right.plugin && std::equal(left.mesh, left.mesh + KOLO_MAX_MESH_DIMS, right.mesh) &&
         left.count == right.count && left.program == right.program && left.type == right.type &&
         left.reduction == right.reduction && left.root == right.root && left.hasTables == right.hasTables;
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
