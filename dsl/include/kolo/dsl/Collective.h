// Which collective a choreography implements, and on which mesh.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kolo::dsl {

enum class CollectiveKind {
  AllGather,
  ReduceScatter,
  AllReduce,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  AllToAll,
  Scan,
  Exscan
};

/// A collective among all ranks of the mesh, or, with `over`, among every set of ranks that differ only in some
/// dimensions. The ranks of a set are numbered row-major over these dimensions, in the order in which `over` names
/// them.
struct Collective {
  CollectiveKind kind;
  std::vector<std::string> dims = {}; ///< Names of the dimensions it runs over, slowest first; none: all of the mesh.

  template <class... Names> Collective over(Names... names) const { return {kind, {std::string(names)...}}; }
};

inline const Collective AllGather{CollectiveKind::AllGather};
inline const Collective ReduceScatter{CollectiveKind::ReduceScatter};
inline const Collective AllReduce{CollectiveKind::AllReduce};
inline const Collective Broadcast{CollectiveKind::Broadcast};
inline const Collective Reduce{CollectiveKind::Reduce};
inline const Collective Gather{CollectiveKind::Gather};
inline const Collective Scatter{CollectiveKind::Scatter};
inline const Collective AllToAll{CollectiveKind::AllToAll};
/// Of every rank, the combination of its own input with those of the ranks before it; Exscan leaves its own out.
inline const Collective Scan{CollectiveKind::Scan};
inline const Collective Exscan{CollectiveKind::Exscan};

/// The dimensions of the ranks, slowest first. Sizes are given when the collective is compiled.
struct Mesh {
  std::vector<std::string> dims;

  template <class... Names> explicit Mesh(Names... names) : dims{std::string(names)...} {}
};

} // namespace kolo::dsl
