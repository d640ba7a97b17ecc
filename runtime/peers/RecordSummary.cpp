#include "peers/RecordSummary.h"

#include <utility>

namespace kolo::runtime {
namespace {

constexpr Kept differences[] = {Kept::OtherOperation, Kept::OtherCall, Kept::OtherJoin};

bool areAlike(Kept why, const Record &left, const Record &right) {
  switch (why) {
  case Kept::OtherOperation:
    return left.operation == right.operation;
  case Kept::OtherCall:
    return left.call == right.call;
  default:
    return left.join == right.join;
  }
}

} // namespace

RecordSummary::RecordSummary(int rank, const Record &record, uint64_t numRepeated) {
  keep(Kept::First, rank, record);
  keep(Kept::Departed, rank, record);
  if (record.code != StatusCode::Ok)
    keep(Kept::Refusal, rank, record);
  own.hasNews = record.hasNews;
  own.staging.largest = record.staging;
  own.selectedBy.largest = record.selectedBy;
  own.longestBlock.largest = record.tables.longestBlock;
  own.largestBytes.largest = record.tables.largestBytes;
  own.sums.digests = record.tables.digests;
  std::copy_n(record.tables.counts, 2, own.sums.counts);
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
    own.largestBuffers[role] = record.buffers[role].sizeBytes;
  own.numRepeated = numRepeated;
}

void RecordSummary::add(const RecordSummary &other) {
  if (isEmpty() || other.isEmpty()) {
    *this = isEmpty() ? other : *this;
    return;
  }
  auto lower = [](const One &left, const One &right) {
    return right.rank >= 0 && (left.rank < 0 || right.rank < left.rank) ? right : left;
  };
  const RecordSummary before = *this;
  const bool isLower = before.rankOf(Kept::First) < other.rankOf(Kept::First);
  const RecordSummary &low = isLower ? before : other, &high = isLower ? other : before;
  const One first = low.one(Kept::First), second = high.one(Kept::First);
  one(Kept::First) = first;
  for (Kept why : differences)
    one(why) = lower(low.one(why), areAlike(why, *first.record, *second.record) ? high.one(why) : second);
  one(Kept::Refusal) = lower(before.one(Kept::Refusal), other.one(Kept::Refusal));
  if (std::pair(other.own.numRepeated, other.rankOf(Kept::Departed)) <
      std::pair(own.numRepeated, before.rankOf(Kept::Departed)))
    one(Kept::Departed) = other.one(Kept::Departed);
  own.numRepeated = std::min(own.numRepeated, other.own.numRepeated);
  own.hasNews |= other.own.hasNews;
  own.staging.add(other.own.staging);
  own.selectedBy.add(other.own.selectedBy);
  own.longestBlock.add(other.own.longestBlock);
  own.largestBytes.add(other.own.largestBytes);
  own.sums.add(other.own.sums);
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
    own.largestBuffers[role] = std::max(own.largestBuffers[role], other.own.largestBuffers[role]);
}

void RecordSummary::store(KeptRecords &memory) const {
  for (size_t i = 0; i < numKept; ++i) {
    memory.ranks[i] = kept[i].rank;
    if (kept[i].record)
      memory.records[i] = *kept[i].record;
  }
  memory.numbers = own;
}

RecordSummary RecordSummary::in(const KeptRecords &memory) {
  RecordSummary summary;
  for (size_t i = 0; i < numKept; ++i)
    if (memory.ranks[i] >= 0)
      summary.kept[i] = {memory.ranks[i], &memory.records[i]};
  summary.own = memory.numbers;
  return summary;
}

} // namespace kolo::runtime
