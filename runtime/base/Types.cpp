#include "kolo/runtime/Types.h"

namespace kolo::runtime {
namespace {

#define KOLO_NAME(CONSTANT, ENUMERATOR, NAME, ...) NAME,
constexpr const char *typeNames[] = {KOLO_FOR_EACH_TYPE(KOLO_NAME)};
constexpr const char *reductionNames[] = {KOLO_FOR_EACH_REDUCTION(KOLO_NAME)};
constexpr const char *collectiveNames[] = {KOLO_FOR_EACH_COLLECTIVE(KOLO_NAME)};
#undef KOLO_NAME
#define KOLO_SIZE(CONSTANT, ENUMERATOR, NAME, SIZE, ...) SIZE,
constexpr size_t typeSizes[] = {KOLO_FOR_EACH_TYPE(KOLO_SIZE)};
#undef KOLO_SIZE
#define KOLO_FACTS(CONSTANT, ENUMERATOR, NAME, INPUT, OUTPUT, REDUCES) {INPUT, OUTPUT, REDUCES},
constexpr CollectiveFacts collectiveFacts[] = {KOLO_FOR_EACH_COLLECTIVE(KOLO_FACTS)};
#undef KOLO_FACTS
static_assert(KOLO_INPUT == 0 && KOLO_OUTPUT == 1, "KoloInvocation.blockElements has entries for these two");
constexpr const char *codeNames[] = {"Ok",          "InvalidArgument", "Mismatch",  "Timeout",         "PeerLost",
                                     "Aborted",     "OutOfMemory",     "BadPlugin", "UnsupportedMesh", "UnsupportedCpu",
                                     "SystemError", "DeviceError"};

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

CollectiveFacts factsOf(CollectiveKind collective) { return collectiveFacts[static_cast<size_t>(collective)]; }

size_t sizeBytes(DataType type) {
  auto index = static_cast<size_t>(type);
  return index < KOLO_NUM_TYPES ? typeSizes[index] : 0;
}

const char *toString(DataType type) { return nameOf(typeNames, type); }
const char *toString(Reduction reduction) { return nameOf(reductionNames, reduction); }
const char *toString(CollectiveKind collective) { return nameOf(collectiveNames, collective); }

std::optional<DataType> parseDataType(std::string_view name) { return find<DataType>(typeNames, name); }
std::optional<Reduction> parseReduction(std::string_view name) { return find<Reduction>(reductionNames, name); }
std::optional<CollectiveKind> parseCollectiveKind(std::string_view name) {
  return find<CollectiveKind>(collectiveNames, name);
}

} // namespace kolo::runtime
