// The programs that ir/README.md shows do what it says of them.
#include "Support.h"

#include <fstream>
#include <sstream>

using namespace kolo::reference;

/// The fenced block number `index`, from 0.
static std::string exampleInReadme(int index) {
  std::stringstream text;
  text << std::ifstream(KOLO_IR_README).rdbuf();
  std::string readme = text.str();
  const std::string fence = "```mlir\n";
  size_t begin = 0;
  for (int seen = 0; seen <= index; ++seen)
    begin = readme.find(fence, begin) + fence.size();
  return readme.substr(begin, readme.find("```", begin) - begin);
}

TEST(Readme, TheChoreographyIsAnAllGather) {
  ParsedChoreography parsed(exampleInReadme(0));
  EXPECT_EQ(outcome(parsed, parsed.callOn({4}, 17)), "");
}

TEST(Readme, TheChannelProgramIsAnAllGather) {
  ParsedProgram parsed(exampleInReadme(1));
  SimulatedCall simulated = parsed.callOn({4}, 17);
  simulated.numLanes = 2;
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_EQ(outcome(parsed, simulated, seed), "");
}
