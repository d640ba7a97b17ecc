// How long the blocks of a call are that has block tables: by a law, or as a file says. Used by simulation.
#pragma once

#include "compiler/model/BlockLaw.h"
#include "ir/Kolo.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo {

/// The counts of all blocks of one call among `size` ranks.
class BlockCounts {
public:
  /// Of a collective that has blocks. `count`: of the vector that is cut: of an all-gather and a gather the output, of
  /// the others the input of a rank. Numbers of a file are scaled so that the longest vector has so many. Fails with
  /// the reason.
  static std::variant<BlockCounts, std::string> create(const BlockLaw &law, CollectiveKind kind, int64_t size,
                                                       int64_t count);
  /// Elements of a block of the input or output of the rank with this number in its group.
  int64_t of(BufferRole table, int64_t member, int64_t block) const;
  int64_t longest() const { return extremes().second; }
  int64_t shortest() const { return extremes().first; }

private:
  BlockCounts(const BlockLaw &law, CollectiveKind kind, int64_t size) : law(law), kind(kind), size(size) {}
  int64_t given(int64_t giver, int64_t taker) const;
  std::pair<int64_t, int64_t> extremes() const;
  double weight(int64_t giver, int64_t taker) const;
  bool isPair() const {
    return hasBlockPerMember(kind, BufferRole::Input) && hasBlockPerMember(kind, BufferRole::Output);
  }

  BlockLaw law;
  CollectiveKind kind;
  int64_t size;
  std::vector<double> scales; // elements of weight 1: by giver, of collectives that are no all-to-all one for all
};

} // namespace kolo
