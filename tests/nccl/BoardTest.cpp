// The board on which ranks of one host meet: memory that another user made, or may write, is none.
#include "nccl/Board.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

using namespace kolo::nccl;

namespace {

std::set<std::string> boards() {
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with("kolo-nccl-"))
      names.insert(entry.path().filename().string());
  return names;
}

/// The name of the board with this key.
std::string nameOf(const Key &key) {
  std::set<std::string> before = boards(), after;
  auto board = Board::pin(key, {});
  EXPECT_TRUE(board.isOk());
  after = boards();
  (*board)->hide();
  for (const std::string &name : before)
    after.erase(name);
  return after.size() == 1 ? *after.begin() : "";
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
  const Key key = freshKey();
  std::string name;
};

} // namespace

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
