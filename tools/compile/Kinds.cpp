// Ties the lists of the language and of the dialect to those of the C ABI: only this layer sees all three.
#include "tools/compile/Kinds.h"

#include "dsl/Collectives.h"
#include "ir/Kolo.h"
#include "ir/Limits.h"

#include "llvm/Support/ErrorHandling.h"

#include <string_view>

namespace kolo::tools {

// The dialect's enumerators have the numbers of the lists, which targets and EmitChoreography rely on.
#define KOLO_TIE(CONSTANT, ENUMERATOR, NAME, INPUT, OUTPUT, REDUCES)                                                   \
  static_assert(int(dsl::CollectiveKind::ENUMERATOR) == int(kolo::CollectiveKind::ENUMERATOR));                        \
  static_assert(int(kolo::CollectiveKind::ENUMERATOR) == KOLO_##CONSTANT);                                             \
  static_assert(isAtRoot(kolo::CollectiveKind::ENUMERATOR, BufferRole::Input) == runtime::isAtRoot(INPUT));            \
  static_assert(isAtRoot(kolo::CollectiveKind::ENUMERATOR, BufferRole::Output) == runtime::isAtRoot(OUTPUT));          \
  static_assert(hasBlockPerMember(kolo::CollectiveKind::ENUMERATOR, BufferRole::Input) == runtime::isPerRank(INPUT));  \
  static_assert(hasBlockPerMember(kolo::CollectiveKind::ENUMERATOR, BufferRole::Output) ==                             \
                runtime::isPerRank(OUTPUT));                                                                           \
  static_assert(isReduction(kolo::CollectiveKind::ENUMERATOR) == bool(REDUCES));                                       \
  static_assert(std::string_view(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).name) == #ENUMERATOR);                 \
  static_assert(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).hasInputPerRank == runtime::isPerRank(INPUT));          \
  static_assert(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).hasOutputPerRank == runtime::isPerRank(OUTPUT));        \
  static_assert(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).isInputAtRoot == runtime::isAtRoot(INPUT));             \
  static_assert(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).isOutputAtRoot == runtime::isAtRoot(OUTPUT));           \
  static_assert(dsl::traitsOf(dsl::CollectiveKind::ENUMERATOR).reduces == bool(REDUCES));
KOLO_FOR_EACH_COLLECTIVE(KOLO_TIE)
#undef KOLO_TIE
static_assert(getMaxEnumValForCollectiveKind() + 1 == KOLO_NUM_COLLECTIVES);
static_assert(dsl::collectiveTraits.size() == KOLO_NUM_COLLECTIVES);

#define KOLO_TIE(CONSTANT, ENUMERATOR, ...) static_assert(int(BufferRole::ENUMERATOR) == KOLO_##CONSTANT);
KOLO_FOR_EACH_BUFFER_ROLE(KOLO_TIE)
#undef KOLO_TIE
// An inbox lies in scratch memory.
static_assert(getMaxEnumValForBufferRole() == KOLO_NUM_BUFFER_ROLES && int(BufferRole::Inbox) == KOLO_NUM_BUFFER_ROLES);

static_assert(maxMeshRanks == KOLO_MAX_MESH_RANKS);

runtime::CollectiveKind kindOf(const dsl::Collective &collective) {
  switch (collective.kind) {
#define KOLO_CASE(CONSTANT, ENUMERATOR, ...)                                                                           \
  case dsl::CollectiveKind::ENUMERATOR:                                                                                \
    return runtime::CollectiveKind::ENUMERATOR;
    KOLO_FOR_EACH_COLLECTIVE(KOLO_CASE)
#undef KOLO_CASE
  }
  llvm_unreachable("every collective is handled");
}

} // namespace kolo::tools
