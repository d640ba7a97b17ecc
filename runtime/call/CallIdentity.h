// What makes two calls the same: to the plans of this rank, on the host and on devices, and to the peers.
#pragma once

#include "kolo/runtime/Communicator.h"
#include "peers/Control.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::runtime {

/// Owns block tables, and the numbers that they refer to.
class KeptTables {
public:
  explicit KeptTables(const BlockTables &given) : tables(given) {
    keep(tables.input.counts, numbers[0]);
    keep(tables.input.places, numbers[1]);
    keep(tables.output.counts, numbers[2]);
    keep(tables.output.places, numbers[3]);
  }
  KeptTables(const KeptTables &) = delete;
  KeptTables &operator=(const KeptTables &) = delete;
  const BlockTables &get() const { return tables; }

private:
  static void keep(std::span<const int64_t> &table, std::vector<int64_t> &numbers) {
    numbers.assign(table.begin(), table.end());
    table = numbers;
  }
  BlockTables tables;
  std::vector<int64_t> numbers[4];
};

/// Whether two calls have the same block tables. The first has some.
inline bool areEqual(const BlockTables *left, const BlockTables *right) {
  auto areSame = [](const BlockTable &one, const BlockTable &other) {
    return std::ranges::equal(one.counts, other.counts) && std::ranges::equal(one.places, other.places);
  };
  return right && areSame(left->input, right->input) && areSame(left->output, right->output);
}

/// Whether two calls are the same but for plugin and buffers, and for what some programs ignore: reduction and root. A
/// call with row lists is the same as no other one: their numbers change from call to call.
inline bool areAlike(const CallArguments &left, const CallArguments &right) {
  return !left.rows && !right.rows &&
         (left.blocks ? areEqual(left.blocks, right.blocks) : !right.blocks && left.count == right.count) &&
         left.custom == right.custom && (left.custom.kernel || left.type == right.type) &&
         left.collective == right.collective && left.allowsLoss == right.allowsLoss && left.lanes == right.lanes &&
         left.program == right.program && left.mesh == right.mesh;
}

/// A call without its buffers. Two calls are the same exactly when these are equal. A view: the arguments must outlive
/// it.
struct CallIdentity {
  uint64_t pluginLoad; // PluginState::load
  const CallArguments &arguments;

  bool operator==(const CallIdentity &other) const {
    const CallArguments &left = arguments, &right = other.arguments;
    return pluginLoad == other.pluginLoad && left.reduction == right.reduction && left.root == right.root &&
           areAlike(left, right);
  }
};

/// A call that a plan keeps. Owns the text and the block tables that its arguments refer to.
class KeptCall {
public:
  KeptCall(uint64_t load, const CallArguments &arguments)
      : pluginLoad(load), program(arguments.program),
        blocks(arguments.blocks ? std::make_unique<KeptTables>(*arguments.blocks) : nullptr), copy(arguments) {
    copy.program = program;
    copy.blocks = blocks ? &blocks->get() : nullptr;
  }
  KeptCall(const KeptCall &) = delete;
  KeptCall &operator=(const KeptCall &) = delete;

  CallIdentity identity() const { return {pluginLoad, copy}; }
  const CallArguments &arguments() const { return copy; }
  /// Whether another call may be the same. Of row lists, only that there were some is kept.
  bool isRepeatable() const { return !copy.rows; }
  /// Whether the call is the same to the peers, by whatever load of the plugin.
  bool isRepeatedBy(const CallArguments &call) const {
    return (!usesReduction || copy.reduction == call.reduction) && (!usesRoot || copy.root == call.root) &&
           areAlike(copy, call);
  }
  /// What the program does not ignore.
  void setUse(bool ofReduction, bool ofRoot) {
    usesReduction = ofReduction;
    usesRoot = ofRoot;
  }
  uint64_t load() const { return pluginLoad; }
  void setLoad(uint64_t load) { pluginLoad = load; }
  void setPointers(const CallArguments &from) {
    copy.input = from.input;
    copy.output = from.output;
  }

private:
  uint64_t pluginLoad;
  std::string program;
  std::unique_ptr<const KeptTables> blocks; // null: it has none
  CallArguments copy;
  bool usesReduction = true, usesRoot = true;
};

/// Mismatch when the calls of these two ranks differ: the message names the first difference.
Status compareCalls(const CallKey &first, const CallKey &other, std::pair<int, int> ranks);

} // namespace kolo::runtime
