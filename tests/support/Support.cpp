#include "Support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include <unistd.h>

namespace kolo::test {

uint64_t testSeed() {
  static const uint64_t seed = [] {
    const char *given = std::getenv("KOLO_SEED");
    uint64_t value = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::cout << "seed " << value << "; KOLO_SEED=" << value << " repeats this run\n";
    return value;
  }();
  return seed;
}

TemporaryFolder::TemporaryFolder() : owner(getpid()) {
  std::string name = (std::filesystem::temp_directory_path() / "kolo-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (getpid() == owner)
    std::filesystem::remove_all(path, ignored);
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace kolo::test
