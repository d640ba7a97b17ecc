// RowLists: a call whose blocks are rows of the caller's buffers, as lists choose them.
#pragma once

#include "call/Call.h"

namespace kolo::runtime {

/// Checks the lists of a call that has its tables, and sets the sizes of its buffers. InvalidArgument.
Status takeRows(const RowLists &given, Call &call);

/// A contiguous range of the caller's buffer.
struct RowRange {
  int64_t offsetBytes, sizeBytes;
};
/// Where the bytes of a call's input or output lie that its tables number so, as far as they lie in one row. Without a
/// list they follow each other.
RowRange rangeOf(const CallRows &rows, size_t role, int64_t offsetBytes, int64_t sizeBytes);
/// Where bytes of this rank's input, which its tables number so, land in the output of the rank whose block they are
/// of. `identity`: where the tables of that rank say that they land.
RowRange landingOf(const CallRows &rows, int64_t offsetBytes, int64_t sizeBytes, int64_t identity);

} // namespace kolo::runtime
