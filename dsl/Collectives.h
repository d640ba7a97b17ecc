// What the language knows of each collective. Used by recordings, their checks and printed source;
// tools/compile/Kinds.cpp ties it to the lists of the dialect and of the C ABI.
#pragma once

#include "kolo/dsl/Collective.h"

#include <array>
#include <cstddef>

namespace kolo::dsl {

struct CollectiveTraits {
  const char *name;                       // of the constant in the language
  bool hasInputPerRank, hasOutputPerRank; // a block for each rank of the group, not one
  bool isInputAtRoot, isOutputAtRoot;     // alone
  bool reduces;

  constexpr bool hasRoot() const { return isInputAtRoot || isOutputAtRoot; }
};

inline constexpr std::array<CollectiveTraits, 10> collectiveTraits{{{"AllGather", false, true, false, false, false},
                                                                    {"ReduceScatter", true, false, false, false, true},
                                                                    {"AllReduce", false, false, false, false, true},
                                                                    {"Broadcast", false, false, true, false, false},
                                                                    {"Reduce", false, false, false, true, true},
                                                                    {"Gather", false, true, false, true, false},
                                                                    {"Scatter", true, false, true, false, false},
                                                                    {"AllToAll", true, true, false, false, false},
                                                                    {"Scan", false, false, false, false, true},
                                                                    {"Exscan", false, false, false, false, true}}};

constexpr const CollectiveTraits &traitsOf(CollectiveKind kind) { return collectiveTraits[size_t(kind)]; }

} // namespace kolo::dsl
