// Ranks and the relations between them.
#pragma once

#include <kolo/dsl/Index.h>

#include <string>
#include <vector>

namespace kolo::dsl {

struct Recording; // dsl/Recording.h, private
struct Relation;  // dsl/Recording.h, private

/// One dimension of the mesh.
class Dim {
public:
  Dim() = default;
  Index size() const; ///< Number of ranks along it.
  int number() const { return dimNumber; }

private:
  friend class Choreography;
  explicit Dim(int number) : dimNumber(number) {}
  int dimNumber = -1;
};

/// A rank as seen from the rank that executes a statement: that rank itself, or the peers that a relation leads to.
///
/// Relations along different dimensions multiply: `me.next(node).others(gpu)` is every other gpu index of the next
/// node. Amounts may depend on loop indices, sizes and the root, not on coordinates: a relation must have an inverse.
class Rank {
public:
  /// The coordinate along a dimension. Of a peer, it may be used in the slices of statements that send to that peer.
  Index operator[](const Dim &dim) const;

  Rank next(const Dim &dim, const Index &distance = 1) const; ///< Rotated; wraps around.
  Rank flip(const Dim &dim, const Index &mask) const;     ///< Coordinate xor mask, which must be a coordinate again.
  Rank others(const Dim &dim) const;                      ///< Every other coordinate along dim: many peers.
  Rank at(const Dim &dim, const Index &coordinate) const; ///< One fixed coordinate: many senders, one receiver.
  Rank mapped(const Dim &dim, std::vector<int64_t> table) const; ///< Coordinate c goes to table[c], a permutation.

private:
  friend class Buffer;
  friend class Choreography;
  friend class Transfer;
  friend Condition operator==(const Rank &a, const Rank &b);
  Rank(Recording *recording, std::shared_ptr<const Relation> relation)
      : recording(recording), relation(std::move(relation)) {}
  Recording *recording;
  std::shared_ptr<const Relation> relation; // null: the executing rank
};

/// Whether both have the same coordinates in every dimension that the collective runs over.
Condition operator==(const Rank &a, const Rank &b);

} // namespace kolo::dsl
