// What Kolo says of many files, without compiling them: a line for each, "right", "refused: ..." or the findings. For
// tests that compare it with the replay.
#include "compiler/import/Judge.h"
#include "compiler/import/ReadSchedule.h"

#include <fmt/format.h>

using namespace kolo::foreign;

static std::string answer(const std::string &path) {
  auto schedule = readSchedule(path);
  if (auto *refusal = std::get_if<Refusal>(&schedule))
    return fmt::format("refused: {}: {}", refusal->line, refusal->message);
  auto judged = judge(std::get<ForeignSchedule>(schedule));
  if (auto *refusal = std::get_if<Refusal>(&judged))
    return fmt::format("refused: {}: {}", refusal->line, refusal->message);
  std::string text;
  for (const Finding &finding : std::get<Judgement>(judged).findings)
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : " | ", shortName(finding.property), finding.line,
                        finding.message);
  return text.empty() ? "right" : text;
}

int main(int numArguments, char **arguments) {
  for (int number = 1; number < numArguments; ++number)
    fmt::print("{}\n", answer(arguments[number]));
}
