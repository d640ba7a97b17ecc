#include "transport/Mail.h"

#include "Error.h"
#include "network/Cursor.h"

namespace kolo::runtime {
namespace {

constexpr size_t headBytes = 8, joinBytes = 8, planBytes = 16;
constexpr size_t callBytes = 8 + 8 * KOLO_MAX_MESH_DIMS + 8 + 4 * 4;
constexpr size_t recordBytes = 8 + 8 + callBytes + 8 * KOLO_NUM_BUFFER_ROLES + sizeof(Record::message);
constexpr size_t abortBytes = 8 + sizeof(AbortRecord::message);

using Writer = Cursor<std::byte>;
using Reader = Cursor<const std::byte>;

size_t bodyBytes(const Mail &mail) {
  switch (mail.kind) {
  case MailKind::Join:
    return joinBytes;
  case MailKind::Plan:
    return planBytes + mail.published.size();
  case MailKind::Record:
    return recordBytes;
  case MailKind::Abort:
    break;
  }
  return abortBytes;
}

void writeRecord(Writer &writer, const Record &record) {
  writer.put(static_cast<uint8_t>(record.operation));
  writer.put(static_cast<uint8_t>(record.staging));
  writer.put(static_cast<uint8_t>(record.selectedBy));
  writer.put(static_cast<uint8_t>((record.hasNews ? 1 : 0) | (record.canAttach ? 2 : 0)));
  writer.put(static_cast<int32_t>(record.code));
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
  if (operation > static_cast<uint8_t>(Operation::Confirm) || staging > static_cast<uint8_t>(Staging::Whole) ||
      selectedBy > static_cast<uint8_t>(MemoryKind::Ordinary) || flags > 3 || !isCode(code))
    return false;
  record.operation = static_cast<Operation>(operation);
  record.staging = static_cast<Staging>(staging);
  record.selectedBy = static_cast<MemoryKind>(selectedBy);
  record.hasNews = flags & 1;
  record.canAttach = flags & 2;
  record.code = static_cast<StatusCode>(code);
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

/// False: a field is out of range.
bool readBody(Reader &reader, std::span<const std::byte> body, Mail &mail) {
  switch (mail.kind) {
  case MailKind::Join: {
    mail.join.lanes = reader.get<int32_t>();
    mail.join.ordinaryMemory = reader.get<uint32_t>();
    return mail.join.ordinaryMemory <= 2;
  }
  case MailKind::Plan:
    mail.sequence = reader.get<uint64_t>();
    mail.plan = reader.get<uint64_t>();
    mail.published = body.subspan(planBytes);
    return mail.plan != 0 && mail.published.size() <= Announcement::maxPublishedBytes;
  case MailKind::Record:
    mail.sequence = reader.get<uint64_t>();
    return readRecord(reader, mail.record);
  case MailKind::Abort:
    break;
  }
  auto code = reader.get<int32_t>(), culprit = reader.get<int32_t>();
  if (!isCode(code) || code == 0)
    return false;
  mail.cause = Status(static_cast<StatusCode>(code), reader.getText(sizeof(AbortRecord::message)), culprit);
  return true;
}

} // namespace

std::vector<std::byte> write(const Mail &mail) {
  std::vector<std::byte> bytes(headBytes + bodyBytes(mail));
  Writer writer(bytes);
  writer.put(mailVersion);
  writer.put(static_cast<uint16_t>(mail.kind));
  writer.put(uint32_t(0));
  switch (mail.kind) {
  case MailKind::Join:
    writer.put(mail.join.lanes);
    writer.put(mail.join.ordinaryMemory);
    break;
  case MailKind::Plan:
    writer.put(mail.sequence);
    writer.put(mail.plan);
    std::ranges::copy(mail.published, writer.next(mail.published.size()).begin());
    break;
  case MailKind::Record:
    writer.put(mail.sequence);
    writeRecord(writer, mail.record);
    break;
  case MailKind::Abort:
    writer.put(static_cast<int32_t>(mail.cause.code()));
    writer.put(static_cast<int32_t>(mail.cause.rank()));
    writer.putText(mail.cause.message(), sizeof(AbortRecord::message));
    break;
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
  if (kind < static_cast<uint16_t>(MailKind::Join) || kind > static_cast<uint16_t>(MailKind::Abort) ||
      head.get<uint32_t>() != 0)
    return error(StatusCode::Mismatch, "a mail of the unknown kind {}", kind);
  Mail mail;
  mail.kind = static_cast<MailKind>(kind);
  std::span<const std::byte> body = bytes.subspan(headBytes);
  bool isSizeRight = mail.kind == MailKind::Plan ? body.size() >= planBytes : body.size() == bodyBytes(mail);
  Reader reader(body);
  if (!isSizeRight || !readBody(reader, body, mail))
    return error(StatusCode::Mismatch, "a mail of kind {} and {} bytes that nobody writes", kind, bytes.size());
  return mail;
}

} // namespace kolo::runtime
