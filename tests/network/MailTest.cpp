// What ranks of different hosts say to each other: the bytes, and the parser that takes nothing else.
#include "transport/Mail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace kolo::runtime;

namespace {

Mail record() {
  Mail mail;
  mail.kind = MailKind::Record;
  mail.sequence = 7;
  mail.record.operation = Operation::Run;
  mail.record.hasNews = true;
  mail.record.staging = Staging::Pieces;
  mail.record.selectedBy = MemoryKind::Ordinary;
  mail.record.call.plugin = 0x0123456789abcdef;
  mail.record.call.mesh[1] = 4;
  mail.record.call.count = 1 << 20;
  mail.record.call.root = 3;
  mail.record.buffers[KOLO_OUTPUT].sizeBytes = 4096;
  setFailure(mail.record, Status(StatusCode::OutOfMemory, "no memory"));
  return mail;
}

std::vector<std::vector<std::byte>> examples() {
  std::vector<std::byte> input(100, std::byte(5));
  Mail join, plan, abort;
  join.kind = MailKind::Join;
  join.join.lanes = 3;
  join.join.ordinaryMemory = 2;
  plan.kind = MailKind::Plan;
  plan.sequence = 9;
  plan.plan = 4;
  plan.published = input;
  abort.kind = MailKind::Abort;
  abort.cause = Status(StatusCode::PeerLost, "rank 2 has ended", 2);
  return {write(join), write(plan), write(record()), write(abort)};
}

} // namespace

TEST(Mail, ComesBackAsItWas) {
  std::vector<std::vector<std::byte>> all = examples();
  Result<Mail> join = parseMail(all[0]), plan = parseMail(all[1]), abort = parseMail(all[3]);
  ASSERT_TRUE(join.isOk() && plan.isOk() && abort.isOk());
  EXPECT_EQ(join->join.lanes, 3);
  EXPECT_EQ(join->join.ordinaryMemory, 2u);
  EXPECT_EQ(plan->sequence, 9u);
  EXPECT_EQ(plan->plan, 4u);
  EXPECT_EQ(plan->published.size(), 100u);
  EXPECT_EQ(plan->published[99], std::byte(5));
  EXPECT_EQ(abort->cause.code(), StatusCode::PeerLost);
  EXPECT_EQ(abort->cause.rank(), 2);
  EXPECT_EQ(abort->cause.message(), "rank 2 has ended");
}

TEST(Mail, ARecordKeepsWhatPeersCompare) {
  Result<Mail> mail = parseMail(write(record()));
  ASSERT_TRUE(mail.isOk());
  const Record &back = mail->record, expected = record().record;
  EXPECT_EQ(mail->sequence, 7u);
  EXPECT_EQ(back.operation, expected.operation);
  EXPECT_TRUE(back.hasNews);
  EXPECT_FALSE(back.canAttach);
  EXPECT_EQ(back.staging, expected.staging);
  EXPECT_EQ(back.selectedBy, expected.selectedBy);
  EXPECT_EQ(std::memcmp(&back.call, &expected.call, sizeof(back.call)), 0);
  EXPECT_EQ(back.code, StatusCode::OutOfMemory);
  EXPECT_STREQ(back.message, "no memory");
  EXPECT_EQ(back.buffers[KOLO_OUTPUT].sizeBytes, 4096u);
  EXPECT_EQ(back.buffers[KOLO_OUTPUT].kind, LocationKind::Remote);
  EXPECT_EQ(back.buffers[KOLO_INPUT].kind, LocationKind::Empty);
}

TEST(Mail, BytesAreLittleEndianWithAVersion) {
  std::vector<std::byte> plan = examples()[1];
  EXPECT_EQ(plan[0], std::byte(mailVersion));
  EXPECT_EQ(plan[2], std::byte(2));
  EXPECT_EQ(plan[8], std::byte(9));
  EXPECT_EQ(plan[16], std::byte(4));
}

TEST(Mail, NothingElseIsTaken) {
  for (const std::vector<std::byte> &bytes : examples()) {
    for (size_t length = 0; length < std::min<size_t>(bytes.size(), 24); ++length)
      EXPECT_FALSE(parseMail(std::span(bytes).first(length)).isOk());
    std::vector<std::byte> other = bytes;
    other[0] = std::byte(9);
    EXPECT_NE(parseMail(other).status().message().find("version 9"), std::string::npos);
    other = bytes;
    other[2] = std::byte(77);
    EXPECT_FALSE(parseMail(other).isOk());
  }
  std::vector<std::byte> longer = examples()[2];
  longer.push_back({});
  EXPECT_FALSE(parseMail(longer).isOk());
  std::vector<std::byte> operation = examples()[2];
  operation[16] = std::byte(9);
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
