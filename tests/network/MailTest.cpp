// What ranks of different hosts say to each other: the bytes, and the parser that takes nothing else.
#include "peers/Mail.h"
#include "call/CallIdentity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace kolo::runtime;

namespace {

Mail records() {
  Mail mail;
  mail.kind = MailKind::Round;
  mail.sequence = 7;
  mail.round = 2;
  mail.isLast = false;
  mail.repeats = {3, 5, 1, 2};
  Record &record = mail.records.emplace_back();
  record.operation = Operation::Run;
  record.hasNews = true;
  record.staging = Staging::Pieces;
  record.selectedBy = MemoryKind::Ordinary;
  record.join.lanes = 3;
  record.join.ordinaryMemory = 2;
  record.join.timeoutMs = 1234;
  record.call.plugin = 0x0123456789abcdef;
  record.call.mesh[1] = 4;
  record.call.count = 1 << 20;
  record.call.root = 3;
  record.call.hasTables = true;
  record.tables = {1 << 30, 77, {0xfedcba9876543210, 5}, {-1, 12}};
  record.buffers[KOLO_OUTPUT].sizeBytes = 4096;
  setFailure(record, Status(StatusCode::OutOfMemory, "no memory"));
  mail.summary = RecordSummary(5, record, 3);
  Record &other = mail.records.emplace_back();
  other.operation = Operation::Barrier;
  mail.summary.add(RecordSummary(6, other, 4));
  mail.slotBytes = 16;
  static const std::byte size[8] = {std::byte(9)};
  mail.entries = {{5, size}, {6, size}};
  return mail;
}

std::vector<std::vector<std::byte>> examples() {
  static const std::vector<std::byte> input(100, std::byte(5));
  Mail plan, different, abort, note;
  note.kind = MailKind::Note;
  note.note.assign(30, std::byte(7));
  plan.kind = different.kind = MailKind::Round;
  plan.sequence = 9;
  plan.plan = 4;
  plan.slotBytes = 112;
  plan.entries.resize(1);
  plan.entries[0].rank = 1;
  plan.entries[0].published = input;
  different.sequence = 10;
  different.plan = differentPlans;
  abort.kind = MailKind::Abort;
  abort.cause = Status(StatusCode::PeerLost, "rank 2 has ended", 2);
  Mail roster;
  roster.kind = MailKind::Roster;
  roster.round = 3;
  roster.lines = {{2, -1, {std::byte('k')}}, {2, 9, {std::byte(3)}}};
  return {write(different), write(plan), write(records()), write(abort), write(note), write(roster)};
}

} // namespace

TEST(Mail, ComesBackAsItWas) {
  std::vector<std::vector<std::byte>> all = examples();
  Result<Mail> different = parseMail(all[0]), plan = parseMail(all[1]), abort = parseMail(all[3]);
  ASSERT_TRUE(different.isOk() && plan.isOk() && abort.isOk());
  EXPECT_EQ(different->sequence, 10u);
  EXPECT_EQ(different->plan, differentPlans);
  EXPECT_TRUE(different->isLast);
  EXPECT_TRUE(different->entries.empty());
  EXPECT_EQ(plan->sequence, 9u);
  EXPECT_EQ(plan->plan, 4u);
  ASSERT_EQ(plan->entries.size(), 1u);
  EXPECT_EQ(plan->entries[0].rank, 1);
  EXPECT_EQ(plan->entries[0].published.size(), 100u);
  EXPECT_EQ(plan->entries[0].published[99], std::byte(5));
  EXPECT_EQ(abort->cause.code(), StatusCode::PeerLost);
  EXPECT_EQ(abort->cause.rank(), 2);
  EXPECT_EQ(abort->cause.message(), "rank 2 has ended");
  Result<Mail> note = parseMail(all[4]);
  ASSERT_TRUE(note.isOk());
  EXPECT_EQ(note->note, std::vector<std::byte>(30, std::byte(7)));
}

TEST(Mail, ARosterComesBackAsItWas) {
  std::vector<std::byte> bytes = examples()[5];
  Result<Mail> roster = parseMail(bytes);
  ASSERT_TRUE(roster.isOk());
  EXPECT_EQ(roster->round, 3);
  EXPECT_TRUE(roster->isLast);
  ASSERT_EQ(roster->lines.size(), 2u);
  EXPECT_EQ(roster->lines[0].rank, -1);
  EXPECT_EQ(roster->lines[1].host, 2);
  EXPECT_EQ(roster->lines[1].rank, 9);
  EXPECT_EQ(roster->lines[1].endpoint[0], std::byte(3));
  bytes.pop_back();
  EXPECT_FALSE(parseMail(bytes).isOk());
  Mail none;
  none.kind = MailKind::Roster;
  EXPECT_FALSE(parseMail(write(none)).isOk());
}

TEST(Mail, ASummaryKeepsWhatPeersCompare) {
  Result<Mail> mail = parseMail(write(records()));
  ASSERT_TRUE(mail.isOk());
  EXPECT_EQ(mail->sequence, 7u);
  EXPECT_EQ(mail->round, 2);
  EXPECT_EQ(mail->repeats.least, 3u);
  EXPECT_EQ(mail->repeats.most, 5u);
  EXPECT_EQ(mail->repeats.leastRank, 1);
  EXPECT_EQ(mail->repeats.mostRank, 2);
  EXPECT_FALSE(mail->isLast);
  ASSERT_EQ(mail->entries.size(), 2u);
  EXPECT_EQ(mail->entries[1].rank, 6);
  EXPECT_EQ(mail->entries[1].published.size(), 8u);
  EXPECT_EQ(mail->slotBytes, 16u);
  EXPECT_EQ(mail->summary.rankOf(Kept::First), 5);
  EXPECT_EQ(mail->summary.rankOf(Kept::OtherOperation), 6);
  EXPECT_EQ(mail->summary.rankOf(Kept::OtherCall), 6);
  EXPECT_EQ(mail->summary.rankOf(Kept::Refusal), 5);
  EXPECT_EQ(mail->summary.rankOf(Kept::Departed), 5);
  EXPECT_EQ(mail->records.size(), 2u);
  const Mail sent = records();
  const Record &back = mail->summary.recordOf(Kept::First), &expected = sent.records.front();
  const SummaryNumbers &numbers = mail->summary.numbers(), &given = sent.summary.numbers();
  EXPECT_TRUE(numbers.hasNews);
  EXPECT_EQ(numbers.staging.largest, Staging::Pieces);
  EXPECT_TRUE(numbers.staging.areDifferent);
  EXPECT_EQ(numbers.selectedBy.largest, MemoryKind::Ordinary);
  EXPECT_EQ(numbers.longestBlock.largest, 1 << 30);
  EXPECT_EQ(numbers.sums.digests, given.sums.digests);
  EXPECT_EQ(numbers.sums.counts[0], -1);
  EXPECT_EQ(numbers.sums.counts[1], 12);
  EXPECT_EQ(numbers.largestBuffers[KOLO_OUTPUT], 4096u);
  EXPECT_EQ(numbers.numRepeated, 3u);
  EXPECT_EQ(back.operation, expected.operation);
  EXPECT_TRUE(back.hasNews);
  EXPECT_FALSE(back.can.attach);
  EXPECT_EQ(back.staging, expected.staging);
  EXPECT_EQ(back.selectedBy, expected.selectedBy);
  EXPECT_EQ(back.call.hasTables, expected.call.hasTables);
  EXPECT_EQ(back.tables, expected.tables);
  EXPECT_EQ(back.join.lanes, 3);
  EXPECT_EQ(back.join.ordinaryMemory, 2u);
  EXPECT_EQ(back.join.timeoutMs, 1234);
  EXPECT_TRUE(compareCalls(back.call, expected.call, {0, 1}).isOk());
  EXPECT_EQ(back.code, StatusCode::OutOfMemory);
  EXPECT_STREQ(back.message, "no memory");
}

TEST(Mail, BytesAreLittleEndianWithAVersion) {
  std::vector<std::byte> plan = examples()[1];
  EXPECT_EQ(plan[0], std::byte(mailVersion));
  EXPECT_EQ(plan[2], std::byte(1));
  EXPECT_EQ(plan[8], std::byte(9));
  EXPECT_EQ(plan[16], std::byte(4));
}

TEST(Mail, EntriesThatDoNotFitAreRefused) {
  Mail mail = records();
  mail.plan = differentPlans;
  EXPECT_FALSE(parseMail(write(mail)).isOk());
  std::vector<std::byte> more = examples()[1], longer = more, negative = more, slot = more;
  more[32] = std::byte(2); // the number of entries
  slot[30] = std::byte(6); // in units of 16 bytes
  longer[roundHeadBytes + 4] = std::byte(101);
  negative[roundHeadBytes + 3] = std::byte(0x80); // the rank
  for (const std::vector<std::byte> &bytes : {more, longer, negative, slot})
    EXPECT_FALSE(parseMail(bytes).isOk());
}

TEST(Mail, NothingElseIsTaken) {
  for (const std::vector<std::byte> &bytes : examples()) {
    for (size_t length = 0; length < std::min<size_t>(bytes.size(), 24); ++length)
      EXPECT_FALSE(parseMail(std::span(bytes).first(length)).isOk());
    std::vector<std::byte> other = bytes;
    other[0] = std::byte(200);
    EXPECT_NE(parseMail(other).status().message().find("version 200"), std::string::npos);
    other = bytes;
    other[2] = std::byte(77);
    EXPECT_FALSE(parseMail(other).isOk());
  }
  std::vector<std::byte> longer = examples()[2];
  longer.push_back({});
  EXPECT_FALSE(parseMail(longer).isOk());
  for (RepeatCounts wrong : {RepeatCounts{5, 3, 1, 2}, RepeatCounts{3, 5, -1, 2}, RepeatCounts{3, 5, 1, -2}}) {
    Mail mail = records();
    mail.repeats = wrong;
    EXPECT_FALSE(parseMail(write(mail)).isOk());
  }
  std::vector<std::byte> operation = examples()[2];
  const size_t firstRecord = operation.size() - 2 * 16 - 2 * 132 - sizeof(Record::message);
  ASSERT_EQ(operation[firstRecord], std::byte(static_cast<uint8_t>(Operation::Run)));
  operation[firstRecord] = std::byte(9);
  EXPECT_FALSE(parseMail(operation).isOk());
}

TEST(Mail, RandomBytesDoNoHarm) {
  std::mt19937 random(18);
  std::vector<std::vector<std::byte>> all = examples();
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = all[random() % all.size()];
    for (int change = 0; change < 3; ++change)
      bytes[random() % bytes.size()] = std::byte(random());
    bytes.resize(random() % (bytes.size() + 1));
    (void)parseMail(bytes);
  }
}
