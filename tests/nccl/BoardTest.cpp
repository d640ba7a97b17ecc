// The board on which ranks of one host meet: memory that another user made, or may write, is none.
#include "doors/nccl/Board.h"
#include "doors/nccl/SipHash.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

using namespace kolo::nccl;

namespace {

/// The name of the board with this key, as this process has it mapped.
std::string nameOf(const Key &key) {
  auto board = Board::pin(key, {});
  EXPECT_TRUE(board.isOk());
  const std::string folder = "/dev/shm/";
  std::string name;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (size_t at = line.find(folder + "kolo-nccl-"); at != line.npos)
      name = line.substr(at + folder.size());
  (*board)->hide();
  return name;
}

class OthersMemory : public testing::Test {
protected:
  void SetUp() override { name = "/" + nameOf(key); }
  void TearDown() override { shm_unlink(name.c_str()); }
  int make(mode_t mode) {
    int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_EQ(fchmod(file, mode), 0);
    return file;
  }
  std::string refusal() {
    auto board = Board::pin(key, {});
    return board.isOk() ? "" : board.status().message();
  }
  const Key key = freshKey().value();
  std::string name;
};

} // namespace

/// The test vectors of SipHash's authors: the key is 0 to 15, and message n has the bytes 0 to n - 1.
TEST(SipHash, GivesTheHashesOfItsAuthors) {
  const SipKey key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<std::byte> message;
  for (int i = 0; i < 15; ++i)
    message.push_back(std::byte(i));
  EXPECT_EQ(sipHash(key, {}), 0x726fdb47dd0e0e31);
  EXPECT_EQ(sipHash(key, std::span(message).first(8)), 0x93f5f5799a932462);
  EXPECT_EQ(sipHash(key, message), 0xa129ca6149be45e5);
}

/// Who lists the names of boards cannot compute those of communicators that come from them.
TEST(Board, ItsNameIsNotItsKey) {
  const Key key = freshKey().value();
  char hex[64];
  std::snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(key[0]));
  const std::string name = nameOf(key), again = nameOf(key), child = nameOf(childOf(key, Descent::Split, 0, 0));
  EXPECT_EQ(name, again);
  EXPECT_EQ(name.find(hex), std::string::npos);
  EXPECT_NE(name, child);
  EXPECT_NE(child, nameOf(childOf(key, Descent::Split, 1, 0)));
}

TEST_F(OthersMemory, IsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  int file = make(0600);
  ASSERT_EQ(fchown(file, 4321, gid_t(-1)), 0);
  close(file);
  EXPECT_NE(refusal().find("made by another user"), std::string::npos);
}

TEST_F(OthersMemory, ThatOthersMayWriteIsRefused) {
  close(make(0666));
  EXPECT_NE(refusal().find("made by another user, or for others"), std::string::npos);
}

TEST_F(OthersMemory, OfThisUserAloneIsTaken) {
  close(make(0600));
  EXPECT_EQ(refusal(), "");
}
