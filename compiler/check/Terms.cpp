// Terms: interned trees of inputs, combinations and roundings.
#include "compiler/check/Terms.h"

using namespace mlir;

namespace kolo {

BufferCodecs::BufferCodecs(const Code &code, bool isFollowed) {
  for (const BufferInfo &buffer : code.buffers) {
    codec::Codec codec = isFollowed ? codecOf(BufferOp(buffer.op).getResult()) : dsl::none();
    auto known = llvm::find(codecs, codec);
    ofBuffer.push_back(uint32_t(known - codecs.begin()));
    if (known == codecs.end())
      codecs.push_back(codec);
  }
}

/// A cast to f32, which every value that is computed with fits.
static bool isWide(const codec::Codec &codec) {
  return codec.element() == dsl::Element::F32 && !codec::isScaled(codec);
}

Terms::Terms(const RankGroup &group, const BufferCodecs &codecs, Detail detail)
    : group(group), codecs(codecs), detail(detail) {
  internLoss({});
  if (detail == Detail::Nothing)
    nodes.push_back({inputKind, 0, 0, 0, nullptr});
}

uint32_t Terms::internLoss(const Loss &loss) {
  auto [entry, isNew] = lossNumbers.try_emplace(loss, uint32_t(losses.size()));
  if (isNew)
    losses.push_back(loss);
  return entry->second;
}

Terms::Id Terms::intern(Node node, llvm::function_ref<uint32_t()> makeLoss) {
  auto [entry, isNew] = numbers.try_emplace({uint64_t(node.kind) << 32 | node.a, node.b}, uint32_t(nodes.size()));
  if (!isNew)
    return entry->second;
  node.loss = makeLoss();
  if (detail == Detail::Losses) {
    auto [alike, isFirst] = termsByLoss.try_emplace(node.loss, entry->second);
    if (!isFirst)
      return entry->second = alike->second;
  }
  nodes.push_back(node);
  return entry->second;
}

Terms::Id Terms::input(int64_t rank) {
  if (detail == Detail::Nothing)
    return 0;
  return intern({inputKind, tellsRanksApart() ? uint32_t(rank) : 0, 0, 0, nullptr}, [&] {
    return codecs.isAny() ? internLoss({1, 0, true, std::vector<int64_t>(codecs.codecs.size())}) : 0;
  });
}

Terms::Id Terms::place(const Origin &origin) {
  return intern({originKind + origin.buffer, uint32_t(origin.rank), uint32_t(origin.chunk), 0, nullptr},
                [] { return 0; });
}

Terms::Id Terms::combine(Id a, Id b, const Origin &origin, uint32_t time) {
  if (detail == Detail::Nothing)
    return 0;
  Node node{combineKind, std::min(a, b), std::max(a, b), 0, nullptr};
  if (detail == Detail::Origins) {
    node.a = place(origin);
    node.b = time;
  }
  return intern(node, [&] {
    if (!codecs.isAny())
      return uint32_t(0);
    Loss sum = lossOf(a);
    const Loss &other = lossOf(b);
    sum.numContributions += other.numContributions;
    sum.numEncodings = std::max(sum.numEncodings, other.numEncodings);
    sum.isOfCallType = false;
    for (auto [factor, more] : llvm::zip_equal(sum.factors, other.factors))
      factor += more;
    return internLoss(sum);
  });
}

Terms::Id Terms::store(Id term, uint32_t number, const Origin &origin, Operation *op) {
  const codec::Codec &codec = codecs.codecs[number];
  if (detail == Detail::Nothing || !codecs.isAny() || isWide(codec) || (number == 0 && lossOf(term).isOfCallType))
    return term;
  uint32_t drawn = UINT32_MAX;
  if (codec.isStochastic() && tellsRanksApart())
    drawn = place(origin);
  return intern({firstStoreKind + number, term, drawn, 0, op}, [&] {
    Loss loss = lossOf(term);
    loss.isOfCallType = number == 0;
    loss.factors[number] += loss.numContributions;
    loss.numEncodings += number != 0;
    return internLoss(loss);
  });
}

Terms::Id Terms::move(int64_t element, Id term, bool isBack) {
  if (!tellsRanksApart())
    return term;
  Pair key{uint64_t(element) << 1 | uint64_t(isBack), term};
  if (auto found = moved.find(key); found != moved.end())
    return found->second;
  Node node = nodes[term];
  auto moveRank = [&](uint32_t rank) {
    return uint32_t(isBack ? group.moveBack(element, rank) : group.move(element, rank));
  };
  if (node.kind == inputKind) {
    node.a = moveRank(node.a);
  } else if (node.kind == combineKind && detail == Detail::Origins) {
    node.a = move(element, node.a, isBack);
  } else if (node.kind == combineKind) {
    uint32_t a = move(element, node.a, isBack), b = move(element, node.b, isBack);
    node.a = std::min(a, b);
    node.b = std::max(a, b);
  } else if (node.kind >= originKind) {
    uint32_t buffer = node.kind - originKind;
    node.a = moveRank(node.a);
    node.b = uint32_t(isBack ? group.moveChunkBack(element, buffer, node.b) : group.moveChunk(element, buffer, node.b));
  } else {
    node.a = move(element, node.a, isBack);
    node.b = node.b == UINT32_MAX ? node.b : move(element, node.b, isBack);
  }
  return moved[key] = intern(node, [&] { return node.loss; });
}

Operation *Terms::lastEncoding(Id term) const {
  while (nodes[term].kind == firstStoreKind)
    term = nodes[term].a;
  bool isEncoded = nodes[term].kind > firstStoreKind && nodes[term].kind < originKind;
  return isEncoded ? nodes[term].op : nullptr;
}

} // namespace kolo
