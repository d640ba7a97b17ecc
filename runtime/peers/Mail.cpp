#include "peers/Mail.h"

#include "base/Environment.h"
#include "base/Error.h"
#include "network/Cursor.h"

namespace kolo::runtime {
namespace {

constexpr size_t headBytes = 8, entryHeadBytes = 8;
constexpr size_t callBytes = 8 + 8 * KOLO_MAX_MESH_DIMS + 8 + 4 * 4;
constexpr size_t tableBytes = 6 * 8;
constexpr size_t recordBytes =
    4 + 4 + 12 + tableBytes + callBytes + 8 * KOLO_NUM_BUFFER_ROLES + sizeof(Record::message);
constexpr size_t abortBytes = 8 + sizeof(AbortRecord::message);
constexpr int maxRounds = 31;

using Writer = Cursor<std::byte>;
using Reader = Cursor<const std::byte>;

void writeRecord(Writer &writer, const Record &record) {
  writer.put(static_cast<uint8_t>(record.operation));
  writer.put(static_cast<uint8_t>(record.staging));
  writer.put(static_cast<uint8_t>(record.selectedBy));
  writer.put(
      static_cast<uint8_t>((record.hasNews ? 1 : 0) | (record.canAttach ? 2 : 0) | (record.call.hasTables ? 4 : 0)));
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
  for (const Location &buffer : record.buffers)
    writer.put(buffer.sizeBytes);
  writer.putText(record.message, sizeof(record.message));
}

bool isCode(int32_t code) { return code >= 0 && code <= static_cast<int32_t>(StatusCode::DeviceError); }

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
  record.canAttach = flags & 2;
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
  for (Location &buffer : record.buffers) {
    buffer.sizeBytes = reader.get<uint64_t>();
    buffer.kind = buffer.sizeBytes != 0 ? LocationKind::Remote : LocationKind::Empty;
  }
  setFailure(record, Status(record.code, reader.getText(sizeof(record.message))));
  return true;
}

/// False: an entry is not one that `write` makes.
bool readEntries(Reader &reader, std::span<const std::byte> body, uint32_t numEntries, Mail &mail) {
  for (size_t at = roundHeadBytes - headBytes; numEntries > 0; --numEntries) {
    if (body.size() - at < entryHeadBytes)
      return false;
    MailEntry &entry = mail.entries.emplace_back();
    entry.rank = reader.get<int32_t>();
    auto sizeBytes = reader.get<uint32_t>();
    at += entryHeadBytes;
    if (entry.rank < 0 || sizeBytes == 0 || sizeBytes > body.size() - at)
      return false;
    at += sizeBytes;
    if (mail.plan != 0)
      entry.published = reader.next(sizeBytes);
    else if (sizeBytes != recordBytes || !readRecord(reader, entry.record))
      return false;
    if (entry.published.size() > Announcement::maxPublishedBytes)
      return false;
  }
  return reader.position() == body.size();
}

/// False: a field is out of range.
bool readRound(Reader &reader, std::span<const std::byte> body, Mail &mail) {
  mail.sequence = reader.get<uint64_t>();
  mail.plan = reader.get<uint64_t>();
  mail.round = reader.get<int32_t>();
  auto isLast = reader.get<uint32_t>(), numEntries = reader.get<uint32_t>(), zero = reader.get<uint32_t>();
  mail.isLast = isLast == 1;
  RepeatCounts &repeats = mail.repeats;
  repeats.least = reader.get<uint64_t>();
  repeats.most = reader.get<uint64_t>();
  repeats.leastRank = reader.get<int32_t>();
  repeats.mostRank = reader.get<int32_t>();
  bool areCountsRight = repeats.least <= repeats.most && repeats.leastRank >= 0 && repeats.mostRank >= 0;
  bool areEntriesRight = numEntries == 0 || mail.plan != differentPlans;
  return mail.sequence != 0 && mail.round >= 0 && mail.round < maxRounds && isLast <= 1 && zero == 0 &&
         areCountsRight && areEntriesRight && readEntries(reader, body, numEntries, mail);
}

bool readAbort(Reader &reader, Mail &mail) {
  auto code = reader.get<int32_t>(), culprit = reader.get<int32_t>();
  if (!isCode(code) || code == 0)
    return false;
  mail.cause = Status(static_cast<StatusCode>(code), reader.getText(sizeof(AbortRecord::message)), culprit);
  return true;
}

} // namespace

size_t mailEntryBytes(const MailEntry &entry, uint64_t plan) {
  return entryHeadBytes + (plan == 0 ? recordBytes : entry.published.size());
}

std::vector<std::byte> write(const Mail &mail) {
  bool isRound = mail.kind == MailKind::Round, isNote = mail.kind == MailKind::Note;
  size_t sizeBytes = isRound ? roundHeadBytes : headBytes + (isNote ? mail.note.size() : abortBytes);
  for (const MailEntry &entry : mail.entries)
    sizeBytes += mailEntryBytes(entry, mail.plan);
  std::vector<std::byte> bytes(sizeBytes);
  Writer writer(bytes);
  writer.put(mailVersion);
  writer.put(static_cast<uint16_t>(mail.kind));
  writer.put(static_cast<uint32_t>(mail.note.size())); // 0 for other kinds
  if (isNote) {
    std::ranges::copy(mail.note, writer.next(mail.note.size()).begin());
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
  writer.put(uint32_t(mail.isLast ? 1 : 0));
  writer.put(static_cast<uint32_t>(mail.entries.size()));
  writer.put(uint32_t(0));
  writer.put(mail.repeats.least);
  writer.put(mail.repeats.most);
  writer.put(mail.repeats.leastRank);
  writer.put(mail.repeats.mostRank);
  for (const MailEntry &entry : mail.entries) {
    writer.put(static_cast<int32_t>(entry.rank));
    writer.put(static_cast<uint32_t>(mailEntryBytes(entry, mail.plan) - entryHeadBytes));
    if (mail.plan == 0)
      writeRecord(writer, entry.record);
    else
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
  if (kind < static_cast<uint16_t>(MailKind::Round) || kind > static_cast<uint16_t>(MailKind::Note) ||
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
  bool isSizeRight = isRound ? bytes.size() >= roundHeadBytes : body.size() == abortBytes;
  Reader reader(body);
  if (isNote || !isSizeRight || !(isRound ? readRound(reader, body, mail) : readAbort(reader, mail)))
    return error(StatusCode::Mismatch, "a mail of kind {} and {} bytes that nobody writes", kind, bytes.size());
  return mail;
}

} // namespace kolo::runtime
