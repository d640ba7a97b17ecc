// What ranks that use devices say together, and its bytes: they say what a look at all records says.
#include "device/DeviceSummary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

namespace kolo::test {
namespace {

using namespace runtime;

using Records = std::vector<DeviceRecord>;

void addRecord(DeviceSummary &summary, const Records &records, size_t rank) {
  std::vector<std::byte> published(sizeof(DeviceRecord));
  std::memcpy(published.data(), &records[rank], sizeof(DeviceRecord));
  summary.addRank(static_cast<int>(rank), published.data());
}

DeviceSummary ofRanks(const Records &records, size_t first, size_t last) {
  DeviceSummary summary(static_cast<int>(records.size()));
  for (size_t rank = first; rank <= last; ++rank)
    addRecord(summary, records, rank);
  return summary;
}

/// Records of which a few differ from the others.
Records randomRecords(std::mt19937 &random, size_t number) {
  Records records(number);
  auto some = [&] { return random() % number == 0; };
  for (size_t rank = 0; rank < number; ++rank) {
    DeviceRecord &record = records[rank];
    record.purpose = some() ? DevicePurpose::Drain : DevicePurpose::Grow;
    record.isMapped = some();
    record.numCalls = some() ? 8 : 7;
    record.digest = some() ? uint64_t(1) << 60 : 3;
    record.sizeBytes = some() ? 100 + rank : 100;
    record.window = some() ? 2 : 1;
    record.settings = {some() ? 1 : 0, some() ? 3 : 2, 256, some() ? 1 : 0, uint64_t(1) << 40};
    record.isReached = !some();
    record.mayShareMachine = random() % (2 * number) == 0;
    record.captured[random() % mostShapes] = some();
    if (some())
      setRefusal(record, Status(StatusCode::OutOfMemory, "no room on rank " + std::to_string(rank)));
  }
  return records;
}

int firstWith(const Records &records, const std::function<bool(const DeviceRecord &)> &isIt) {
  for (size_t rank = 0; rank < records.size(); ++rank)
    if (isIt(records[rank]))
      return static_cast<int>(rank);
  return -1;
}

/// Against a look at all records.
void expectSays(const DeviceSummary &said, const Records &records) {
  const DeviceRecord &first = records.front();
  ASSERT_EQ(said.rankOf(DeviceKept::First), 0);
  auto expectOther = [&](DeviceKept why, auto value) {
    const int other = firstWith(records, [&](const DeviceRecord &record) { return value(record) != value(first); });
    ASSERT_EQ(said.rankOf(why), other) << int(why);
    if (other >= 0)
      EXPECT_TRUE(value(said.termsOf(why)) == value(records[static_cast<size_t>(other)])) << int(why);
  };
  expectOther(DeviceKept::OtherPurpose, [](const DeviceTerms &terms) { return terms.purpose; });
  expectOther(DeviceKept::OtherCalls, [](const DeviceTerms &terms) { return std::pair(terms.numCalls, terms.digest); });
  expectOther(DeviceKept::OtherSettings, [](const DeviceTerms &terms) { return terms.settings; });
  expectOther(DeviceKept::OtherSize, [](const DeviceTerms &terms) { return terms.sizeBytes; });
  expectOther(DeviceKept::OtherMapping, [](const DeviceTerms &terms) { return terms.isMapped; });
  expectOther(DeviceKept::OtherWindow, [](const DeviceTerms &terms) { return terms.window; });
  const int refusing = firstWith(records, [](const DeviceRecord &record) { return record.code != StatusCode::Ok; });
  ASSERT_EQ(said.refusal().rank, refusing);
  if (refusing >= 0) {
    EXPECT_EQ(said.refusal().code, StatusCode::OutOfMemory);
    EXPECT_EQ(said.refusal().message, records[static_cast<size_t>(refusing)].message);
  }
  EXPECT_EQ(said.unreached(), firstWith(records, [](const DeviceRecord &record) { return !record.isReached; }));
  EXPECT_EQ(said.someMayShare(),
            firstWith(records, [](const DeviceRecord &record) { return record.mayShareMachine; }) >= 0);
  std::bitset<mostShapes> captured;
  for (const DeviceRecord &record : records)
    captured |= record.captured;
  EXPECT_EQ(said.captured(), captured);
}

} // namespace

TEST(DeviceSummary, SaysWhatAllRecordsSayInWhateverOrderAndHoweverOftenTheyAreAdded) {
  std::mt19937 random(44);
  for (int turn = 0; turn < 2000; ++turn) {
    const size_t number = 1 + random() % 12;
    const Records records = randomRecords(random, number);
    std::vector<std::vector<std::byte>> parts; // which overlap, and have all ranks together
    for (size_t rank = 0; rank < number; ++rank)
      parts.push_back(ofRanks(records, rank, std::min(number - 1, rank + random() % 4)).write());
    std::ranges::shuffle(parts, random);
    DeviceSummary said(static_cast<int>(number));
    for (const std::vector<std::byte> &part : parts)
      ASSERT_EQ(said.add(part).message(), "");
    expectSays(said, records);
    DeviceSummary heard(static_cast<int>(number));
    ASSERT_EQ(heard.add(said.write()).message(), "");
    expectSays(heard, records);
    if (HasFailure())
      FAIL() << "turn " << turn;
  }
}

TEST(DeviceSummary, BytesThatNoRankWritesAreRefused) {
  std::mt19937 random(45);
  size_t numRefused = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    const Records records = randomRecords(random, 4);
    std::vector<std::byte> bytes = ofRanks(records, 0, 3).write();
    ASSERT_LE(bytes.size(), maxCombinedBytes);
    if (turn % 4 == 0)
      bytes.resize(random() % bytes.size());
    else
      for (unsigned change = 0; change <= random() % 3; ++change)
        bytes[random() % std::min<size_t>(bytes.size(), 60)] = static_cast<std::byte>(random());
    DeviceSummary said(4);
    if (!said.add(bytes).isOk()) {
      ++numRefused;
      continue;
    }
    for (size_t why = 0; why < numDeviceKept; ++why)
      ASSERT_LT(said.rankOf(DeviceKept(why)), 4);
    ASSERT_LT(said.refusal().rank, 4);
    DeviceSummary again(4);
    ASSERT_TRUE(again.add(said.write()).isOk());
  }
  EXPECT_GT(numRefused, 4000u);
  EXPECT_EQ(DeviceSummary(4).add(std::span<const std::byte>()).code(), StatusCode::Mismatch);
}

} // namespace kolo::test
