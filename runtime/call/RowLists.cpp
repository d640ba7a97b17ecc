#include "call/RowLists.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

Status checkMultiples(const CallTables &tables, int64_t rowElements) {
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    for (size_t block = 0; block < tables.counts[role].size(); ++block)
      if (tables.counts[role][block] % rowElements != 0 || tables.places[role][block] % rowElements != 0)
        return error(StatusCode::InvalidArgument,
                     "block {} of the {} has {} elements at {}; rows of {} elements have multiples of that", block,
                     roleNames[role], tables.counts[role][block], tables.places[role][block], rowElements);
  return {};
}

/// `visit` for each number of a list that the blocks of a table name, until it says that something is wrong.
template <class Visit>
Status forEachRow(const CallTables &tables, size_t role, int64_t rowElements, std::span<const int32_t> list,
                  const char *name, Visit visit) {
  for (size_t block = 0; block < tables.counts[role].size(); ++block) {
    const int64_t first = tables.places[role][block] / rowElements;
    const int64_t end = first + tables.counts[role][block] / rowElements;
    if (end > first && end > static_cast<int64_t>(list.size()))
      return error(StatusCode::InvalidArgument, "the list of {} has {} rows, and block {} ends with row {}", name,
                   list.size(), block, end);
    for (int64_t row = first; row < end; ++row)
      if (Status status = visit(row, list[static_cast<size_t>(row)]); !status.isOk())
        return status;
  }
  return {};
}

Status checkInput(const RowLists &given, const CallTables &tables) {
  return forEachRow(tables, KOLO_INPUT, given.elements, given.input, "the input", [&](int64_t at, int32_t row) {
    return row >= 0 && row < given.inputRows
               ? Status()
               : error(StatusCode::InvalidArgument, "row {} of the list of the input is {}; the input has {} rows", at,
                       row, given.inputRows);
  });
}

Status checkOutput(const RowLists &given, const CallTables &tables) {
  std::vector<bool> isTaken(static_cast<size_t>(given.outputRows));
  return forEachRow(tables, KOLO_OUTPUT, given.elements, given.output, "the output", [&](int64_t at, int32_t row) {
    if (row < 0 || row >= given.outputRows)
      return error(StatusCode::InvalidArgument, "row {} of the list of the output is {}; the output has {} rows", at,
                   row, given.outputRows);
    if (isTaken[static_cast<size_t>(row)])
      return error(StatusCode::InvalidArgument, "the list of the output names row {} twice", row);
    isTaken[static_cast<size_t>(row)] = true;
    return Status();
  });
}

/// Only the peers know how many rows their outputs have: see moveRows in Services.cpp.
Status checkLanding(const RowLists &given, const CallTables &tables) {
  constexpr int64_t mostElements = INT64_MAX >> 5; // of 16 bytes at most, so that no place in bytes wraps
  return forEachRow(tables, KOLO_INPUT, given.elements, given.landing, "landing rows", [&](int64_t at, int32_t row) {
    return row >= 0 && row < mostElements / given.elements
               ? Status()
               : error(StatusCode::InvalidArgument, "row {} of the list of landing rows is {}", at, row);
  });
}

/// Bytes of so many rows. InvalidArgument.
Result<size_t> bytesOfRows(const char *role, int64_t numRows, int64_t rowBytes) {
  int64_t sizeBytes = 0;
  if (numRows < 0 || __builtin_mul_overflow(numRows, rowBytes, &sizeBytes))
    return error(StatusCode::InvalidArgument, "the {} has {} rows of {} bytes", role, numRows, rowBytes);
  return static_cast<size_t>(sizeBytes);
}

bool doOverlap(const Call &call) {
  const std::byte *inputEnd = call.input + call.inputBytes, *outputEnd = call.output + call.outputBytes;
  return call.inputBytes > 0 && call.outputBytes > 0 && call.input < outputEnd && call.output < inputEnd;
}

RowRange rangeIn(const int32_t *list, int64_t rowBytes, int64_t offsetBytes, int64_t sizeBytes) {
  const int64_t row = offsetBytes / rowBytes, inRow = offsetBytes % rowBytes;
  return {list[row] * rowBytes + inRow, std::min(sizeBytes, rowBytes - inRow)};
}

} // namespace

Status takeRows(const RowLists &given, Call &call) {
  const CallTables &tables = *call.tables;
  int64_t rowBytes = 0;
  if (given.elements < 1 || __builtin_mul_overflow(given.elements, call.elementBytes, &rowBytes))
    return error(StatusCode::InvalidArgument, "rows have {} elements", given.elements);
  if (Status status = checkMultiples(tables, given.elements); !status.isOk())
    return status;
  Status (*const checks[])(const RowLists &, const CallTables &) = {checkInput, checkOutput, checkLanding};
  const std::span<const int32_t> lists[] = {given.input, given.output, given.landing};
  const std::pair<int64_t, size_t CallBuffers::*> sizes[] = {{given.inputRows, &CallBuffers::inputBytes},
                                                             {given.outputRows, &CallBuffers::outputBytes}};
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    if (!lists[role].empty()) {
      Result<size_t> sizeBytes = bytesOfRows(roleNames[role], sizes[role].first, rowBytes);
      if (!sizeBytes.isOk())
        return sizeBytes.status();
      call.*sizes[role].second = *sizeBytes;
    }
  for (size_t i = 0; i < std::size(checks); ++i)
    if (!lists[i].empty())
      if (Status status = checks[i](given, tables); !status.isOk())
        return status;
  if (doOverlap(call))
    return error(StatusCode::InvalidArgument, "input and output of a call with row lists overlap");
  auto pointerTo = [](std::span<const int32_t> list) { return list.empty() ? nullptr : list.data(); };
  call.rows = CallRows{rowBytes, {pointerTo(given.input), pointerTo(given.output)}, pointerTo(given.landing)};
  return call.checkPointers();
}

RowRange rangeOf(const CallRows &rows, size_t role, int64_t offsetBytes, int64_t sizeBytes) {
  const int32_t *list = rows.lists[role];
  return list ? rangeIn(list, rows.rowBytes, offsetBytes, sizeBytes) : RowRange{offsetBytes, sizeBytes};
}

RowRange landingOf(const CallRows &rows, int64_t offsetBytes, int64_t sizeBytes, int64_t identity) {
  return rows.landing ? rangeIn(rows.landing, rows.rowBytes, offsetBytes, sizeBytes) : RowRange{identity, sizeBytes};
}

} // namespace kolo::runtime
