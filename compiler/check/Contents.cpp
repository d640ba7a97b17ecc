// The contents of chunks, and the contents that the collective asks for.
#include "compiler/check/Contents.h"
#include "compiler/check/ChunkState.h"
#include "ir/Members.h"

using namespace mlir;

namespace kolo {

WantedContent wantedContent(const Tracer &tracer, int64_t rank, int64_t outputChunk) {
  const Grid &output = tracer.grids()[*tracer.bufferOf(BufferRole::Output)];
  int64_t cut = output.chunksPerBlock, block = outputChunk / cut, inner = outputChunk % cut;
  CollectiveKind kind = tracer.program().program.getCollective().getKind();
  int64_t sent = inner + (hasBlockPerMember(kind, BufferRole::Input) ? tracer.numberInGroup(rank) * cut : 0);
  if (isReduction(kind))
    return {sent, isPrefixReduction(kind) ? WantedContent::firstOfGroup : WantedContent::wholeGroup, mayAverage(kind)};
  int64_t giver = memberOfGroup(tracer, rank, isAtRoot(kind, BufferRole::Input) ? tracer.rootNumber() : block);
  return {sent, giver, false};
}

RankSet combinedRanks(const Tracer &tracer, const RankRows &rows, int64_t rank) {
  CollectiveAttr collective = tracer.program().program.getCollective();
  ArrayRef<int64_t> groupDims = collective.getGroupDims();
  if (!isPrefixReduction(collective.getKind()))
    return RankSet::group(rows, {tracer.mesh().data(), tracer.mesh().size()}, {groupDims.data(), groupDims.size()},
                          rank);
  std::vector<int64_t> members;
  for (int64_t number = 0; number < numCombined(collective.getKind(), tracer.numberInGroup(rank), 0); ++number)
    members.push_back(memberOfGroup(tracer, rank, number));
  return RankSet::of(rows, members);
}

Contents::Contents(const RankGroup &group, GroupMoves &moves, uint32_t inputBuffer, const BufferCodecs &codecs,
                   Terms::Detail detail, int64_t maxBytes)
    : group(group), moves(moves), inputBuffer(inputBuffer), terms(group, codecs, detail), maxBytes(maxBytes) {
  internRanks({});
  intern({noCall});
}

Contents::Id Contents::intern(const Node &node) {
  uint64_t stage = uint64_t(uint8_t(node.call)) << 1 | uint64_t(node.isDivided);
  auto [number, isNew] = nodeNumbers.add({stage, uint64_t(node.ranks) << 32 | node.term});
  if (isNew)
    nodes.push_back(node);
  return Id(node.chunk) << 32 | number;
}

Contents::Id Contents::makeMistake(std::string text, Operation *op) {
  mistakes.push_back({std::move(text), op});
  return intern({mistakeCall, false, uint32_t(mistakes.size() - 1)});
}

uint32_t Contents::internRanks(RankSet ranks) {
  uint64_t hash = ranks.hash() & INT64_MAX; // the largest keys are the map's own
  auto &candidates = rankSetsByHash[hash];
  for (uint32_t candidate : candidates)
    if (rankSets[candidate] == ranks)
      return candidate;
  numBytes += ranks.numBytes();
  candidates.push_back(uint32_t(rankSets.size()));
  rankSets.push_back(std::move(ranks));
  return candidates.back();
}

Contents::Id Contents::input(int64_t call, int64_t rank, int64_t chunk) {
  if (isFull())
    return undefined;
  return intern(
      {int8_t(call), false, uint32_t(chunk), internRanks(RankSet::single(moves.rows, rank)), terms.input(rank)});
}

Contents::Id Contents::combine(Id a, Id b, Operation *op, const Terms::Origin &origin, uint32_t time) {
  if (isFull())
    return undefined;
  const Node left = nodeOf(a), right = nodeOf(b);
  if (left.call == mistakeCall || right.call == mistakeCall)
    return left.call == mistakeCall ? a : b;
  bool fits =
      left.call >= 0 && left.call == right.call && !left.isDivided && !right.isDivided && left.chunk == right.chunk;
  if (!fits)
    return makeMistake("combines " + describe(a) + " with " + describe(b), op);
  auto [known, isNew] = unions.try_emplace({left.ranks, right.ranks}, UINT32_MAX);
  if (isNew)
    if (std::optional<RankSet> all = rankSets[left.ranks].uniteDisjoint(rankSets[right.ranks]))
      known->second = internRanks(std::move(*all));
  if (known->second == UINT32_MAX)
    return makeMistake("counts a contribution twice: combines " + describe(a) + " with " + describe(b), op);
  return intern({left.call, false, left.chunk, known->second, terms.combine(left.term, right.term, origin, time)});
}

Contents::Id Contents::divide(Id a, Operation *op) {
  Node node = nodeOf(a);
  if (node.call == mistakeCall)
    return a;
  if (node.call == noCall || node.isDivided)
    return makeMistake("divides " + describe(a), op);
  node.isDivided = true;
  return intern(node);
}

Contents::Id Contents::store(Id a, uint32_t codec, const Terms::Origin &origin, Operation *op) {
  Node node = nodeOf(a);
  if (node.call < 0)
    return a;
  node.term = terms.store(node.term, codec, origin, op);
  return intern(node);
}

Contents::Id Contents::leaveSlot(Id a, int64_t numberInBlock, int64_t chunksPerBlock, Operation *op) {
  const Node node = nodeOf(a);
  if (node.call < 0 || node.chunk % chunksPerBlock == numberInBlock)
    return a;
  return makeMistake("moves " + describe(a) + " from a slot to chunk " + std::to_string(numberInBlock) +
                         " of a block, whose size may differ",
                     op);
}

static std::pair<uint64_t, uint64_t> movedKey(int64_t element, bool isBack, uint32_t what) {
  return {uint64_t(element) << 1 | uint64_t(isBack), what};
}

Contents::Id Contents::translate(int64_t element, Id content, bool isBack) {
  Node node = nodeOf(content);
  if (node.call < 0)
    return content;
  int64_t chunk = isBack ? group.moveChunkBack(element, inputBuffer, node.chunk)
                         : group.moveChunk(element, inputBuffer, node.chunk);
  Pair key = movedKey(element, isBack, uint32_t(content));
  if (key != lastMoved.first) {
    auto [known, isNew] = movedNodes.try_emplace(key, 0);
    if (isNew) {
      node.ranks = translateRanks(element, node.ranks, isBack);
      node.term = terms.move(element, node.term, isBack);
      known->second = uint32_t(intern(node));
    }
    lastMoved = *known;
  }
  return ofChunk(lastMoved.second, chunk);
}

uint32_t Contents::translateRanks(int64_t element, uint32_t ranks, bool isBack) {
  auto [known, isNew] = movedSets.try_emplace(movedKey(element, isBack, ranks), 0);
  if (!isNew)
    return known->second;
  return known->second = internRanks(rankSets[ranks].moved(moves.rows, moves.move(element, isBack)));
}

bool Contents::isWanted(Id content, const WantedContent &wanted, int64_t call, const RankSet &combined) const {
  const Node node = nodeOf(content);
  if (node.call != call || node.chunk != wanted.inputChunk || node.isDivided != wanted.isDivided)
    return false;
  const RankSet &ranks = rankSets[node.ranks];
  return wanted.rank < 0 ? ranks == combined : ranks.isSingle(moves.rows, wanted.rank);
}

Operation *Contents::mistakeOf(Id content) const {
  const Node node = nodeOf(content);
  return node.call == mistakeCall ? mistakes[node.chunk].op : nullptr;
}

std::string ordinal(int64_t call) { return call == 0 ? "first" : call == 1 ? "second" : "third"; }

std::string Contents::describe(Id content) const {
  const Node node = nodeOf(content);
  if (node.call == noCall)
    return "nothing";
  if (node.call == mistakeCall)
    return "what " + mistakes[node.chunk].text;
  std::string text = describeInputs(node.chunk, rankSets[node.ranks].members(moves.rows));
  if (node.call > 0)
    text += " in the " + ordinal(node.call) + " call";
  return text + (node.isDivided ? ", divided for an average" : "");
}

std::string Contents::describe(const WantedContent &wanted, int64_t call, const RankSet &combined) const {
  std::string text = wanted.rank == WantedContent::wholeGroup
                         ? "input chunk " + std::to_string(wanted.inputChunk) + " of all ranks in the group"
                         : describeInputs(wanted.inputChunk, wanted.rank < 0 ? combined.members(moves.rows)
                                                                             : std::vector<int64_t>{wanted.rank});
  return text + (call == 0 ? "" : " in the " + ordinal(call) + " call") +
         (wanted.isDivided ? ", divided for an average" : "");
}

} // namespace kolo
