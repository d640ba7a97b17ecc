#include "peers/Mail.h"

#include "base/Environment.h"
#include "base/Error.h"
#include "network/Cursor.h"

#include <algorithm>
#include <array>

namespace kolo::runtime {
namespace {

constexpr size_t headBytes = 8, entryHeadBytes = 8;
constexpr size_t callBytes = 8 + 8 * KOLO_MAX_MESH_DIMS + 8 + 4 * 4;
constexpr size_t tableBytes = 6 * 8;
constexpr size_t recordBytes = 4 + 4 + 12 + tableBytes + callBytes;
constexpr size_t numbersBytes = 8 + (7 + KOLO_NUM_BUFFER_ROLES) * 8;
constexpr size_t abortBytes = 8 + sizeof(AbortRecord::message);
constexpr int maxRounds = 31;
constexpr uint32_t slotUnit = Control::slotBytesFor(1);

void writeRecord(Writer &writer, const Record &record) {
  writer.put(static_cast<uint8_t>(record.operation));
  writer.put(static_cast<uint8_t>(record.staging));
  writer.put(static_cast<uint8_t>(record.selectedBy));
  writer.put(
      static_cast<uint8_t>((record.hasNews ? 1 : 0) | (record.can.attach ? 2 : 0) | (record.call.hasTables ? 4 : 0)));
  writer.put(static_cast<int32_t>(record.code));
  writer.put(record.join.lanes);
  writer.put(record.join.ordinaryMemory);
  writer.put(record.join.timeoutMs);
  for (int64_t number : {record.tables.longestBlock, record.tables.largestBytes})
    writer.put(number);
  for (uint64_t digest : {record.tables.digests.given, record.tables.digests.taken})
    writer.put(digest);
  for (int64_t count : record.tables.counts)
    writer.put(count);
  writer.put(record.call.plugin);
  for (int64_t size : record.call.mesh)
    writer.put(size);
  writer.put(record.call.count);
  for (int32_t number : {record.call.program, record.call.type, record.call.reduction, record.call.root})
    writer.put(number);
  if (record.code != StatusCode::Ok)
    writer.putText(record.message, sizeof(record.message));
}

bool isCode(int32_t code) { return code >= 0 && code <= static_cast<int32_t>(StatusCode::DeviceError); }

/// Whether a record says why its rank refuses.
bool hasMessage(const Record &record) { return record.code != StatusCode::Ok; }

/// False: a field is out of range.
bool readRecord(Reader &reader, Record &record) {
  auto operation = reader.get<uint8_t>(), staging = reader.get<uint8_t>(), selectedBy = reader.get<uint8_t>(),
       flags = reader.get<uint8_t>();
  auto code = reader.get<int32_t>();
  record.join.lanes = reader.get<int32_t>();
  record.join.ordinaryMemory = reader.get<uint32_t>();
  record.join.timeoutMs = reader.get<int32_t>();
  if (record.join.ordinaryMemory > static_cast<uint32_t>(OrdinaryMemory::Staged) ||
      operation > static_cast<uint8_t>(Operation::Confirm) || staging > static_cast<uint8_t>(Staging::Whole) ||
      selectedBy > static_cast<uint8_t>(MemoryKind::Ordinary) || flags > 7 || !isCode(code))
    return false;
  record.operation = static_cast<Operation>(operation);
  record.staging = static_cast<Staging>(staging);
  record.selectedBy = static_cast<MemoryKind>(selectedBy);
  record.hasNews = flags & 1;
  record.can.attach = flags & 2;
  record.call.hasTables = flags & 4;
  record.code = static_cast<StatusCode>(code);
  for (int64_t *number : {&record.tables.longestBlock, &record.tables.largestBytes})
    *number = reader.get<int64_t>();
  for (uint64_t *digest : {&record.tables.digests.given, &record.tables.digests.taken})
    *digest = reader.get<uint64_t>();
  for (int64_t &count : record.tables.counts)
    count = reader.get<int64_t>();
  record.call.plugin = reader.get<uint64_t>();
  for (int64_t &size : record.call.mesh)
    size = reader.get<int64_t>();
  record.call.count = reader.get<int64_t>();
  for (int32_t *number : {&record.call.program, &record.call.type, &record.call.reduction, &record.call.root})
    *number = reader.get<int32_t>();
  return true;
}

void writeNumbers(Writer &writer, const SummaryNumbers &numbers) {
  for (bool flag : {numbers.hasNews, numbers.staging.areDifferent, numbers.selectedBy.areDifferent,
                    numbers.longestBlock.areDifferent, numbers.largestBytes.areDifferent})
    writer.put(static_cast<uint8_t>(flag ? 1 : 0));
  writer.put(static_cast<uint8_t>(numbers.staging.largest));
  writer.put(static_cast<uint8_t>(numbers.selectedBy.largest));
  writer.put(uint8_t(0));
  writer.put(numbers.longestBlock.largest);
  writer.put(numbers.largestBytes.largest);
  writer.put(numbers.sums.digests.given);
  writer.put(numbers.sums.digests.taken);
  for (int64_t count : numbers.sums.counts)
    writer.put(count);
  for (uint64_t sizeBytes : numbers.largestBuffers)
    writer.put(sizeBytes);
  writer.put(numbers.numRepeated);
}

bool readNumbers(Reader &reader, SummaryNumbers &numbers) {
  bool areFlags = true;
  for (bool *flag : {&numbers.hasNews, &numbers.staging.areDifferent, &numbers.selectedBy.areDifferent,
                     &numbers.longestBlock.areDifferent, &numbers.largestBytes.areDifferent}) {
    auto byte = reader.get<uint8_t>();
    areFlags &= byte <= 1;
    *flag = byte == 1;
  }
  auto staging = reader.get<uint8_t>(), selectedBy = reader.get<uint8_t>(), zero = reader.get<uint8_t>();
  numbers.staging.largest = static_cast<Staging>(staging);
  numbers.selectedBy.largest = static_cast<MemoryKind>(selectedBy);
  numbers.longestBlock.largest = reader.get<int64_t>();
  numbers.largestBytes.largest = reader.get<int64_t>();
  numbers.sums.digests.given = reader.get<uint64_t>();
  numbers.sums.digests.taken = reader.get<uint64_t>();
  for (int64_t &count : numbers.sums.counts)
    count = reader.get<int64_t>();
  for (uint64_t &sizeBytes : numbers.largestBuffers)
    sizeBytes = reader.get<uint64_t>();
  numbers.numRepeated = reader.get<uint64_t>();
  return areFlags && staging <= static_cast<uint8_t>(Staging::Whole) &&
         selectedBy <= static_cast<uint8_t>(MemoryKind::Ordinary) && zero == 0;
}

using KeptRanks = std::array<int32_t, numKept>; // -1: there is none

KeptRanks ranksOf(const RecordSummary &summary) {
  KeptRanks ranks;
  for (size_t why = 0; why < numKept; ++why)
    ranks[why] = summary.has(Kept(why)) ? summary.rankOf(Kept(why)) : -1;
  return ranks;
}

/// The first reason for which the record of this rank is kept. It is written there alone.
size_t firstWith(const KeptRanks &ranks, int32_t rank) {
  return static_cast<size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

void writeSummary(Writer &writer, const RecordSummary &summary) {
  writeNumbers(writer, summary.numbers());
  const KeptRanks ranks = ranksOf(summary);
  for (int32_t rank : ranks)
    writer.put(rank);
  for (size_t why = 0; why < numKept; ++why)
    if (ranks[why] >= 0 && firstWith(ranks, ranks[why]) == why)
      writeRecord(writer, summary.recordOf(Kept(why)));
}

/// Requires that so many bytes are left in `body`. False: it is none that `write` makes.
bool readSummary(Reader &reader, size_t sizeBytes, Mail &mail) {
  const size_t end = reader.position() + sizeBytes;
  if (sizeBytes < numbersBytes + sizeof(KeptRanks) || !readNumbers(reader, mail.summary.numbers()))
    return false;
  KeptRanks ranks;
  for (int32_t &rank : ranks)
    rank = reader.get<int32_t>();
  for (size_t why = 0; why < numKept; ++why) {
    if (ranks[why] < -1)
      return false;
    if (ranks[why] < 0)
      continue;
    if (size_t first = firstWith(ranks, ranks[why]); first != why) {
      mail.summary.keep(Kept(why), ranks[why], mail.summary.recordOf(Kept(first)));
      continue;
    }
    Record &record = mail.records.emplace_back();
    if (end - reader.position() < recordBytes || !readRecord(reader, record))
      return false;
    if (hasMessage(record) && end - reader.position() < sizeof(record.message))
      return false;
    if (hasMessage(record))
      setFailure(record, Status(record.code, reader.getText(sizeof(record.message))));
    mail.summary.keep(Kept(why), ranks[why], record);
  }
  const bool isRefusal = !mail.summary.has(Kept::Refusal) || hasMessage(mail.summary.recordOf(Kept::Refusal));
  return reader.position() == end && mail.summary.has(Kept::First) && mail.summary.has(Kept::Departed) && isRefusal;
}

/// False: an entry is not one that `write` makes.
bool readEntries(Reader &reader, std::span<const std::byte> body, uint32_t numEntries, Mail &mail) {
  for (; numEntries > 0; --numEntries) {
    if (body.size() - reader.position() < entryHeadBytes)
      return false;
    MailEntry &entry = mail.entries.emplace_back();
    entry.rank = reader.get<int32_t>();
    auto sizeBytes = reader.get<uint32_t>();
    if (entry.rank < 0 || sizeBytes == 0 || sizeBytes > body.size() - reader.position() || sizeBytes > mail.slotBytes)
      return false;
    entry.published = reader.next(sizeBytes);
  }
  return reader.position() == body.size();
}

bool readRound(Reader &reader, std::span<const std::byte> body, Mail &mail) {
  mail.sequence = reader.get<uint64_t>();
  mail.plan = reader.get<uint64_t>();
  mail.round = reader.get<int32_t>();
  auto isLast = reader.get<uint16_t>();
  mail.slotBytes = slotUnit * reader.get<uint16_t>();
  auto numEntries = reader.get<uint32_t>(), summaryBytes = reader.get<uint32_t>();
  mail.isLast = isLast == 1;
  RepeatCounts &repeats = mail.repeats;
  repeats.least = reader.get<uint64_t>();
  repeats.most = reader.get<uint64_t>();
  repeats.leastRank = reader.get<int32_t>();
  repeats.mostRank = reader.get<int32_t>();
  bool areCountsRight = repeats.least <= repeats.most && repeats.leastRank >= 0 && repeats.mostRank >= 0;
  bool areEntriesRight = numEntries == 0 || mail.plan != differentPlans;
  bool isSlotRight = mail.slotBytes <= Control::slotBytesFor(Announcement::maxPublishedBytes);
  bool isSummaryRight = summaryBytes == 0 || mail.plan == 0;
  return mail.sequence != 0 && mail.round >= 0 && mail.round < maxRounds && isLast <= 1 && areCountsRight &&
         areEntriesRight && isSlotRight && isSummaryRight && summaryBytes <= body.size() - reader.position() &&
         (summaryBytes == 0 || readSummary(reader, summaryBytes, mail)) && readEntries(reader, body, numEntries, mail);
}

bool readRoster(Reader &reader, std::span<const std::byte> body, Mail &mail) {
  mail.round = reader.get<int32_t>();
  auto isLast = reader.get<uint32_t>(), numLines = reader.get<uint32_t>();
  mail.isLast = isLast == 1;
  if (mail.round < 0 || mail.round >= maxRounds || isLast > 1 || numLines == 0 ||
      numLines != (body.size() - reader.position()) / rosterLineBytes ||
      body.size() != reader.position() + numLines * rosterLineBytes)
    return false;
  for (; numLines > 0; --numLines) {
    RosterLine &line = mail.lines.emplace_back();
    line.host = reader.get<int32_t>();
    line.rank = reader.get<int32_t>();
    std::ranges::copy(reader.next(line.endpoint.size()), line.endpoint.begin());
    if (line.host < 0 || line.rank < -1)
      return false;
  }
  return true;
}

void writeRoster(Writer &writer, const Mail &mail) {
  writer.put(static_cast<int32_t>(mail.round));
  writer.put(uint32_t(mail.isLast ? 1 : 0));
  writer.put(static_cast<uint32_t>(mail.lines.size()));
  for (const RosterLine &line : mail.lines) {
    writer.put(static_cast<int32_t>(line.host));
    writer.put(static_cast<int32_t>(line.rank));
    std::ranges::copy(line.endpoint, writer.next(line.endpoint.size()).begin());
  }
}

bool readAbort(Reader &reader, Mail &mail) {
  auto code = reader.get<int32_t>(), culprit = reader.get<int32_t>();
  if (!isCode(code) || code == 0)
    return false;
  mail.cause = Status(static_cast<StatusCode>(code), reader.getText(sizeof(AbortRecord::message)), culprit);
  return true;
}

} // namespace

size_t mailSummaryBytes(const RecordSummary &summary) {
  if (summary.isEmpty())
    return 0;
  size_t sizeBytes = numbersBytes + sizeof(KeptRanks);
  const KeptRanks ranks = ranksOf(summary);
  for (size_t why = 0; why < numKept; ++why)
    if (ranks[why] >= 0 && firstWith(ranks, ranks[why]) == why)
      sizeBytes += recordBytes + (hasMessage(summary.recordOf(Kept(why))) ? sizeof(Record::message) : 0);
  return sizeBytes;
}

size_t mailEntryBytes(const MailEntry &entry) { return entryHeadBytes + entry.published.size(); }

std::vector<std::byte> write(const Mail &mail) {
  bool isRound = mail.kind == MailKind::Round, isNote = mail.kind == MailKind::Note;
  size_t sizeBytes = isRound ? roundHeadBytes : headBytes + (isNote ? mail.note.size() : abortBytes);
  if (mail.kind == MailKind::Roster)
    sizeBytes = rosterHeadBytes + mail.lines.size() * rosterLineBytes;
  sizeBytes += mailSummaryBytes(mail.summary);
  for (const MailEntry &entry : mail.entries)
    sizeBytes += mailEntryBytes(entry);
  std::vector<std::byte> bytes(sizeBytes);
  Writer writer(bytes);
  writer.put(mailVersion);
  writer.put(static_cast<uint16_t>(mail.kind));
  writer.put(static_cast<uint32_t>(mail.note.size())); // 0 for other kinds
  if (isNote) {
    std::ranges::copy(mail.note, writer.next(mail.note.size()).begin());
    return bytes;
  }
  if (mail.kind == MailKind::Roster) {
    writeRoster(writer, mail);
    return bytes;
  }
  if (!isRound) {
    writer.put(static_cast<int32_t>(mail.cause.code()));
    writer.put(static_cast<int32_t>(mail.cause.rank()));
    writer.putText(mail.cause.message(), sizeof(AbortRecord::message));
    return bytes;
  }
  writer.put(mail.sequence);
  writer.put(mail.plan);
  writer.put(static_cast<int32_t>(mail.round));
  writer.put(uint16_t(mail.isLast ? 1 : 0));
  writer.put(static_cast<uint16_t>(mail.slotBytes / slotUnit));
  writer.put(static_cast<uint32_t>(mail.entries.size()));
  writer.put(static_cast<uint32_t>(mailSummaryBytes(mail.summary)));
  writer.put(mail.repeats.least);
  writer.put(mail.repeats.most);
  writer.put(mail.repeats.leastRank);
  writer.put(mail.repeats.mostRank);
  if (!mail.summary.isEmpty())
    writeSummary(writer, mail.summary);
  for (const MailEntry &entry : mail.entries) {
    writer.put(static_cast<int32_t>(entry.rank));
    writer.put(static_cast<uint32_t>(entry.published.size()));
    std::ranges::copy(entry.published, writer.next(entry.published.size()).begin());
  }
  return bytes;
}

Result<Mail> parseMail(std::span<const std::byte> bytes) {
  if (bytes.size() < headBytes)
    return error(StatusCode::Mismatch, "a mail of {} bytes", bytes.size());
  Reader head(bytes);
  if (auto version = head.get<uint16_t>(); version != mailVersion)
    return error(StatusCode::Mismatch, "a mail of version {}, not {}", version, mailVersion);
  auto kind = head.get<uint16_t>();
  const auto ofNote = head.get<uint32_t>();
  const bool isNote = kind == static_cast<uint16_t>(MailKind::Note);
  if (kind < static_cast<uint16_t>(MailKind::Round) || kind > static_cast<uint16_t>(MailKind::Roster) ||
      (ofNote != 0 && !isNote))
    return error(StatusCode::Mismatch, "a mail of the unknown kind {}", kind);
  Mail mail;
  mail.kind = static_cast<MailKind>(kind);
  bool isRound = mail.kind == MailKind::Round;
  std::span<const std::byte> body = bytes.subspan(headBytes);
  if (isNote && !body.empty() && body.size() <= maxNoteBytes && body.size() == ofNote) {
    mail.note.assign(body.begin(), body.end());
    return mail;
  }
  const bool isRoster = mail.kind == MailKind::Roster;
  bool isSizeRight = isRound ? bytes.size() >= roundHeadBytes : body.size() == abortBytes;
  if (isRoster)
    isSizeRight = bytes.size() >= rosterHeadBytes;
  Reader reader(body);
  if (isNote || !isSizeRight ||
      !(isRound    ? readRound(reader, body, mail)
        : isRoster ? readRoster(reader, body, mail)
                   : readAbort(reader, mail)))
    return error(StatusCode::Mismatch, "a mail of kind {} and {} bytes that nobody writes", kind, bytes.size());
  return mail;
}

} // namespace kolo::runtime
