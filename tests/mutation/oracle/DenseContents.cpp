// The contents of chunks, and the contents that the collective asks for.
#include "tests/mutation/oracle/DenseContents.h"

using namespace mlir;

namespace kolo::oracle {

DenseContents::DenseContents(const RankGroup &group, uint32_t inputBuffer, bool tracksOrder, int64_t maxBytes)
    : group(group), inputBuffer(inputBuffer), tracksOrder(tracksOrder), maxBytes(maxBytes) {
  internRanks(BitVector(unsigned(group.numRanks())));
  intern({noCall});
}

DenseContents::Id DenseContents::intern(const Node &node) {
  uint64_t place = uint64_t(uint8_t(node.call)) << 40 | uint64_t(node.isDivided) << 32 | node.chunk;
  auto [number, isNew] = nodeNumbers.add({place, uint64_t(node.ranks) << 32 | node.order});
  if (isNew)
    nodes.push_back(node);
  return number;
}

DenseContents::Id DenseContents::makeMistake(std::string text, Operation *op) {
  mistakes.push_back({std::move(text), op});
  return intern({mistakeCall, false, uint32_t(mistakes.size() - 1)});
}

uint32_t DenseContents::internRanks(BitVector ranks) {
  uint64_t hash = llvm::hash_combine_range(ranks.getData().begin(), ranks.getData().end());
  hash &= INT64_MAX; // the largest keys are the map's own
  auto &candidates = rankSetsByHash[hash];
  for (uint32_t candidate : candidates)
    if (rankSets[candidate] == ranks)
      return candidate;
  numBytes += int64_t(ranks.getMemorySize());
  candidates.push_back(uint32_t(rankSets.size()));
  rankSets.push_back(std::move(ranks));
  return candidates.back();
}

uint32_t DenseContents::internOrder(uint32_t a, uint32_t b) {
  if (!tracksOrder)
    return 0;
  auto [number, isNew] = orderNumbers.add({a, b});
  if (isNew)
    orders.push_back({a, b});
  return number;
}

DenseContents::Id DenseContents::input(int64_t call, int64_t rank, int64_t chunk) {
  if (isFull())
    return undefined;
  BitVector ranks{unsigned(group.numRanks())};
  ranks.set(unsigned(rank));
  return intern(
      {int8_t(call), false, uint32_t(chunk), internRanks(std::move(ranks)), internOrder(UINT32_MAX, uint32_t(rank))});
}

DenseContents::Id DenseContents::combine(Id a, Id b, Operation *op) {
  if (isFull())
    return undefined;
  const Node left = nodes[a], right = nodes[b];
  if (left.call == mistakeCall || right.call == mistakeCall)
    return left.call == mistakeCall ? a : b;
  bool fits =
      left.call >= 0 && left.call == right.call && !left.isDivided && !right.isDivided && left.chunk == right.chunk;
  if (!fits)
    return makeMistake("combines " + describe(a) + " with " + describe(b), op);
  auto [known, isNew] = unions.try_emplace({left.ranks, right.ranks}, UINT32_MAX);
  if (isNew && !rankSets[left.ranks].anyCommon(rankSets[right.ranks])) {
    BitVector all = rankSets[left.ranks];
    all |= rankSets[right.ranks];
    known->second = internRanks(std::move(all));
  }
  if (known->second == UINT32_MAX)
    return makeMistake("counts a contribution twice: combines " + describe(a) + " with " + describe(b), op);
  return intern({left.call, false, left.chunk, known->second,
                 internOrder(std::min(left.order, right.order), std::max(left.order, right.order))});
}

DenseContents::Id DenseContents::divide(Id a, Operation *op) {
  Node node = nodes[a];
  if (node.call == mistakeCall)
    return a;
  if (node.call == noCall || node.isDivided)
    return makeMistake("divides " + describe(a), op);
  node.isDivided = true;
  return intern(node);
}

DenseContents::Id DenseContents::leaveSlot(Id a, int64_t numberInBlock, int64_t chunksPerBlock, Operation *op) {
  const Node &node = nodes[a];
  if (node.call < 0 || node.chunk % chunksPerBlock == numberInBlock)
    return a;
  return makeMistake("moves " + describe(a) + " from a slot to chunk " + std::to_string(numberInBlock) +
                         " of a block, whose size may differ",
                     op);
}

static std::pair<uint64_t, uint64_t> movedKey(int64_t element, bool isBack, uint32_t what) {
  return {uint64_t(element) << 1 | uint64_t(isBack), what};
}

DenseContents::Id DenseContents::translate(int64_t element, Id content, bool isBack) {
  Node node = nodes[content];
  if (node.call < 0)
    return content;
  auto [known, isNew] = movedNodes.try_emplace(movedKey(element, isBack, content), 0);
  if (!isNew)
    return known->second;
  node.chunk = uint32_t(isBack ? group.moveChunkBack(element, inputBuffer, node.chunk)
                               : group.moveChunk(element, inputBuffer, node.chunk));
  node.ranks = translateRanks(element, node.ranks, isBack);
  node.order = tracksOrder ? translateOrder(element, node.order, isBack) : 0;
  return known->second = intern(node);
}

uint32_t DenseContents::translateRanks(int64_t element, uint32_t ranks, bool isBack) {
  auto [known, isNew] = movedSets.try_emplace(movedKey(element, isBack, ranks), 0);
  if (!isNew)
    return known->second;
  BitVector moved{unsigned(group.numRanks())};
  for (unsigned rank : rankSets[ranks].set_bits())
    moved.set(unsigned(moveRank(element, rank, isBack)));
  return known->second = internRanks(std::move(moved));
}

uint32_t DenseContents::translateOrder(int64_t element, uint32_t order, bool isBack) {
  auto key = movedKey(element, isBack, order);
  if (auto found = movedOrders.find(key); found != movedOrders.end())
    return found->second;
  auto [a, b] = orders[order];
  uint32_t result;
  if (a == UINT32_MAX) {
    result = internOrder(a, uint32_t(moveRank(element, b, isBack)));
  } else {
    uint32_t left = translateOrder(element, a, isBack), right = translateOrder(element, b, isBack);
    result = internOrder(std::min(left, right), std::max(left, right));
  }
  return movedOrders[key] = result;
}

bool DenseContents::isWanted(Id content, const WantedContent &wanted, int64_t call,
                             const BitVector &groupMembers) const {
  const Node &node = nodes[content];
  if (node.call != call || node.chunk != wanted.inputChunk || node.isDivided != wanted.isDivided)
    return false;
  const BitVector &ranks = rankSets[node.ranks];
  return wanted.rank < 0 ? ranks == groupMembers : ranks.count() == 1 && ranks.test(unsigned(wanted.rank));
}

Operation *DenseContents::mistakeOf(Id content) const {
  const Node &node = nodes[content];
  return node.call == mistakeCall ? mistakes[node.chunk].op : nullptr;
}

std::string DenseContents::describe(Id content) const {
  const Node &node = nodes[content];
  if (node.call == noCall)
    return "nothing";
  if (node.call == mistakeCall)
    return "what " + mistakes[node.chunk].text;
  const BitVector &ranks = rankSets[node.ranks];
  std::string text = "input chunk " + std::to_string(node.chunk) + " of rank" + (ranks.count() == 1 ? "" : "s");
  for (unsigned rank : ranks.set_bits())
    text += " " + std::to_string(rank);
  if (node.call > 0)
    text += " in the " + ordinal(node.call) + " call";
  return text + (node.isDivided ? ", divided for an average" : "");
}

} // namespace kolo::oracle
