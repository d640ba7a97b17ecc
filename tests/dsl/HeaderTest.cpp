// The language's public headers stand on the standard library alone. That each compiles alone is a build target.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

static std::vector<std::filesystem::path> publicHeaders() {
  std::vector<std::filesystem::path> headers;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(KOLO_DSL_INCLUDE_DIR))
    if (entry.is_regular_file())
      headers.push_back(entry.path());
  return headers;
}

TEST(PublicHeaders, IncludeTheStandardLibraryAndEachOtherOnly) {
  static const std::regex include("\\s*#\\s*include\\s*(.*)"), allowed("<([a-z_]+|kolo/dsl/[A-Za-z]+\\.h)>.*");
  EXPECT_FALSE(publicHeaders().empty());
  for (const std::filesystem::path &header : publicHeaders()) {
    std::ifstream file(header);
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_match(line, match, include))
        EXPECT_TRUE(std::regex_match(match[1].str(), allowed)) << header << ": " << line;
  }
}

TEST(PublicHeaders, DefineOneMacroForRegistration) {
  static const std::regex define("\\s*#\\s*define\\s+([A-Za-z_]+).*");
  std::vector<std::string> macros;
  for (const std::filesystem::path &header : publicHeaders()) {
    std::ifstream file(header);
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_match(line, match, define))
        macros.push_back(match[1]);
  }
  EXPECT_EQ(macros, std::vector<std::string>{"KOLO_COLLECTIVE"});
}
