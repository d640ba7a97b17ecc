// The dialect's own lists of collectives and roles have the names of the C ABI's; Kinds.cpp ties the numbers.
#include "ir/Kolo.h"

#include "kolo/runtime/PluginAbi.h"

#include <gtest/gtest.h>

namespace kolo {

#define KOLO_NAME(CONSTANT, ENUMERATOR, NAME, ...) NAME,

TEST(Kinds, TheDialectNamesCollectivesAsTheAbiDoes) {
  int number = 0;
  for (const char *name : {KOLO_FOR_EACH_COLLECTIVE(KOLO_NAME)})
    EXPECT_EQ(stringifyCollectiveKind(CollectiveKind(number++)), name);
}

TEST(Kinds, TheDialectNamesRolesAsTheAbiDoes) {
  int number = 0;
  for (const char *name : {KOLO_FOR_EACH_BUFFER_ROLE(KOLO_NAME)})
    EXPECT_EQ(stringifyBufferRole(BufferRole(number++)), name);
}

} // namespace kolo
