// The source files of the algorithms: their opening lines, their includes, and their rows in the table.
#include "Support.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>

using namespace kolo::reference;

static const std::filesystem::path folder = KOLO_ALGORITHMS_DIR;

static std::vector<std::string> linesOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

/// Of every algorithm, with codecs or without.
class EverySource : public testing::TestWithParam<std::string> {};

static std::vector<std::string> allNames() {
  std::vector<std::string> names = algorithmNames(), coded = kolo::test::codedAlgorithmNames();
  names.insert(names.end(), coded.begin(), coded.end());
  return names;
}

/// ringAllGather is in RingAllGather.cpp.
static std::filesystem::path sourceOf(const std::string &algorithm) {
  std::string name = algorithm;
  name.front() = char(std::toupper(name.front()));
  return folder / (name + ".cpp");
}

/// The comment that a file opens with, in one line.
static std::string openingOf(const std::filesystem::path &path) {
  std::string opening;
  for (const std::string &line : linesOf(path)) {
    if (!line.starts_with("// "))
      break;
    opening += line + "\n";
  }
  return opening;
}

TEST_P(EverySource, IsInAFileOfItsName) {
  EXPECT_EQ(std::filesystem::path(definitionOf(GetParam()).location.file_name()).filename(),
            sourceOf(GetParam()).filename());
}

TEST_P(EverySource, OpensWithItsStepsBytesUseAndSource) {
  static const std::regex form("// [A-Z][^\n]*: [^\n]+\\.\n"
                               "// Steps [^\n]+\\.  Bytes sent per rank [^\n]+\\.  Scratch [^\n]+\\."
                               "(   |\n// )\\([^\n]+ S bytes of (input|output)\\)\n"
                               "// Use when [^\n]+\\.  Not [^\n]+\\.\n"
                               "// Source: [^\n]+\\.\n");
  std::string opening = openingOf(sourceOf(GetParam()));
  EXPECT_TRUE(std::regex_match(opening, form)) << opening;
}

TEST_P(EverySource, IncludesTheLanguageOnly) {
  for (const std::string &line : linesOf(sourceOf(GetParam())))
    if (line.starts_with("#"))
      EXPECT_TRUE(line == "#include <kolo/dsl/Language.h>" || line.starts_with("#include \"algorithms/")) << line;
}

TEST_P(EverySource, HasARowInTheTable) {
  std::vector<std::string> table = linesOf(folder / "README.md");
  std::string start = "| [" + GetParam() + "](" + sourceOf(GetParam()).filename().string() + ") |";
  EXPECT_EQ(llvm::count_if(table, [&](const std::string &line) { return line.starts_with(start); }), 1) << start;
}

TEST(Registry, HoldsAnAlgorithmForEveryFileThatDefinesOne) {
  std::vector<std::string> names = allNames();
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    for (const std::string &line : linesOf(entry.path()))
      if (line.starts_with("KOLO_COLLECTIVE(")) {
        std::string name = line.substr(16, line.find(',') - 16);
        EXPECT_TRUE(llvm::is_contained(names, name)) << name << " is not linked in";
      }
  EXPECT_GE(names.size(), 30u);
}

TEST(Registry, HoldsEveryNameOnce) { EXPECT_EQ(allNames().size(), kolo::dsl::registeredChoreographies().size()); }

INSTANTIATE_TEST_SUITE_P(Algorithms, EverySource, testing::ValuesIn(allNames()),
                         [](const auto &info) { return info.param; });
