// RowRouting: which rows of a rank go to which other ranks of its group, and where they land there.
#pragma once

#include "kolo/runtime/Communicator.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// The all-to-all of one of some plugins among ranks that differ in one dimension of a mesh.
class GroupAllToAll {
public:
  /// The first that there is, with or without codecs; or nothing.
  static std::optional<GroupAllToAll> find(Communicator &communicator, const std::vector<const Plugin *> &plugins,
                                           const Mesh &mesh, int dim, bool hasCodecs);

  int64_t size() const { return numMembers; }
  int64_t self() const { return member; }
  /// `count` elements for each member.
  Status exchange(const void *input, void *output, int64_t count, DataType type) const;
  /// `rows` may be null.
  Status exchange(const void *input, void *output, DataType type, const BlockTables &blocks,
                  const RowLists *rows) const;

private:
  Communicator *communicator = nullptr;
  const Plugin *plugin = nullptr;
  CallArguments arguments; // what is the same in all calls; names a program of the plugin
  int64_t numMembers = 1, member = 0;
};

/// A row that goes to a bucket of a member of the group. A member has the same number of buckets as any other.
struct RowTarget {
  int32_t row, member, bucket;
};

/// What the members of a group tell each other before rows move: how many rows come for which bucket.
class RowRouting {
public:
  /// Where the rows of a bucket begin in the output of a member, for all members or for each bucket that this rank
  /// takes.
  struct BucketPlaces {
    // Known to all: of the rows that this rank gives to a member's bucket, and of those that it takes from a member.
    std::function<int64_t(int64_t member, int64_t bucket)> given, taken;
    // Otherwise: from the counts of rows that this rank takes, [member][bucket], those of `taken`, which it then tells.
    std::function<std::vector<int64_t>(std::span<const int64_t> counts)> decide;
  };
  /// What a rank says of itself beside its counts, and hears of all members together.
  struct RouteReport {
    int64_t numDropped = 0;
    bool isRefused = false;
  };

  /// `targets` in the order in which rows of one bucket shall follow each other. Collective in the group.
  Status route(const GroupAllToAll &group, std::span<const RowTarget> targets, int64_t numBuckets,
               const BucketPlaces &placement, RouteReport &report);

  /// The place of a target among all rows that this rank gives.
  int64_t positionOf(size_t target) const { return positions[target]; }
  int64_t numGiven() const { return static_cast<int64_t>(givenRows.size()); }
  int64_t numToOthers(const GroupAllToAll &group) const {
    return numGiven() - givenTo[static_cast<size_t>(group.self())];
  }
  int64_t numTaken() const { return static_cast<int64_t>(takenRows.size()); }
  std::span<const int64_t> takenCounts() const { return taken; }      // [member][bucket]
  std::span<const int64_t> takenFirst() const { return takenPlaces; } // likewise: row of the first
  /// Which row of this rank's input is given at each position.
  std::span<const int32_t> given() const { return givenRows; }

  /// Moves rows of `elements` elements from `input`, of `inputRows` rows, to the outputs of the members. The group may
  /// be another one than that of `route`, of the same members.
  Status forward(const GroupAllToAll &group, const void *input, int64_t inputRows, void *output, int64_t outputRows,
                 int64_t elements, DataType type) const;
  /// Moves rows from `output`, as `forward` left them, back: to their positions.
  Status backward(const GroupAllToAll &group, const void *output, int64_t outputRows, void *positioned,
                  int64_t elements, DataType type) const;
  /// Moves data that lies by positions, `elements` elements for each row, to the members: it arrives in the order of
  /// members and buckets.
  Status forwardPacked(const GroupAllToAll &group, const void *input, void *output, int64_t elements,
                       DataType type) const;

private:
  void sortTargets(std::span<const RowTarget> targets, int64_t numMembers, int64_t numBuckets);
  Status exchangeCounts(const GroupAllToAll &group, int64_t numBuckets, RouteReport &report);

  std::vector<int64_t> positions;          // by target
  std::vector<int32_t> givenRows, landing; // by position
  std::vector<int32_t> takenRows;          // by member and bucket
  std::vector<int64_t> givenTo, takenFrom; // rows, by member
  std::vector<int64_t> givenCounts, taken; // [member][bucket]
  std::vector<int64_t> givenPlaces, takenPlaces;
};

} // namespace kolo::runtime
