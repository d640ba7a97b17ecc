// RecordSummary: what the records of some ranks say together. All that ranks decide by records follows from the summary
// of all, so hosts tell each other summaries, and no rank needs memory for the records of other hosts.
#pragma once

#include "peers/Control.h"

namespace kolo::runtime {

/// Of all records, it keeps that of the lowest rank, and for each reason for which ranks may fail the record of the
/// lowest rank to which it applies:
///
/// | Kept           | the record                                                            |
/// |----------------|-----------------------------------------------------------------------|
/// | First          | of the lowest rank                                                    |
/// | OtherOperation | of another operation than that of First; likewise OtherCall, OtherJoin |
/// | Refusal        | of a rank that refuses                                                |
/// | Departed       | of a rank that repeated the fewest calls before                       |
///
/// The order in which summaries are added does not matter, nor whether a rank is in several of them: but for the sums.
class RecordSummary {
public:
  RecordSummary() = default;
  /// Of one rank, which repeated so many calls before. The record must outlive the summary.
  RecordSummary(int rank, const Record &record, uint64_t numRepeated);

  bool isEmpty() const { return !has(Kept::First); }
  /// Adds the summary of other ranks. What that keeps must outlive this one.
  void add(const RecordSummary &other);

  bool has(Kept why) const { return one(why).rank >= 0; }
  /// Require `has`.
  int rankOf(Kept why) const { return one(why).rank; }
  const Record &recordOf(Kept why) const { return *one(why).record; }
  const SummaryNumbers &numbers() const { return own; }

  /// Copies all that is kept to shared memory, and finds it there.
  void store(KeptRecords &memory) const;
  static RecordSummary in(const KeptRecords &memory);

  // For Mail.
  void keep(Kept why, int rank, const Record &record) { one(why) = {rank, &record}; }
  SummaryNumbers &numbers() { return own; }

private:
  struct One {
    int rank = -1;
    const Record *record = nullptr;
  };
  One &one(Kept why) { return kept[static_cast<size_t>(why)]; }
  const One &one(Kept why) const { return kept[static_cast<size_t>(why)]; }

  One kept[numKept];
  SummaryNumbers own;
};

} // namespace kolo::runtime
