#include "kolo/runtime/Types.h"

#include <array>
#include <iterator>

namespace kolo::runtime {
namespace {

struct TypeEntry {
  const char *name;
  size_t bytes;
};

// In the order of the enumerators.
constexpr TypeEntry typeTable[] = {{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"i8", 1},
                                   {"u8", 1},  {"i32", 4},  {"u32", 4}, {"i64", 8}, {"u64", 8}};
constexpr const char *reductionNames[] = {"sum", "product", "min", "max", "average"};
constexpr const char *collectiveNames[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast",
                                           "reduce",     "gather",         "scatter",    "all_to_all"};
constexpr const char *codeNames[] = {"Ok",          "InvalidArgument", "Mismatch",  "Timeout",         "PeerLost",
                                     "Aborted",     "OutOfMemory",     "BadPlugin", "UnsupportedMesh", "UnsupportedCpu",
                                     "SystemError", "DeviceError"};
static_assert(std::size(typeTable) == KOLO_NUM_TYPES && std::size(reductionNames) == KOLO_NUM_REDUCTIONS);

template <class Enum, size_t N> const char *nameOf(const char *const (&names)[N], Enum value) {
  auto index = static_cast<size_t>(value);
  return index < N ? names[index] : "invalid";
}

template <class Enum, size_t N> std::optional<Enum> find(const char *const (&names)[N], std::string_view name) {
  for (size_t index = 0; index < N; ++index)
    if (name == names[index])
      return static_cast<Enum>(index);
  return std::nullopt;
}

} // namespace

const char *toString(StatusCode code) { return nameOf(codeNames, code); }

size_t sizeBytes(DataType type) {
  auto index = static_cast<size_t>(type);
  return index < KOLO_NUM_TYPES ? typeTable[index].bytes : 0;
}

const char *toString(DataType type) {
  auto index = static_cast<size_t>(type);
  return index < KOLO_NUM_TYPES ? typeTable[index].name : "invalid";
}
const char *toString(Reduction reduction) { return nameOf(reductionNames, reduction); }
const char *toString(CollectiveKind collective) { return nameOf(collectiveNames, collective); }

std::optional<DataType> parseDataType(std::string_view name) {
  for (size_t index = 0; index < KOLO_NUM_TYPES; ++index)
    if (name == typeTable[index].name)
      return static_cast<DataType>(index);
  return std::nullopt;
}
std::optional<Reduction> parseReduction(std::string_view name) { return find<Reduction>(reductionNames, name); }
std::optional<CollectiveKind> parseCollectiveKind(std::string_view name) {
  return find<CollectiveKind>(collectiveNames, name);
}

} // namespace kolo::runtime
