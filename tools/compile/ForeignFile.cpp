#include "tools/compile/ForeignFile.h"

#include "compiler/import/ChannelForm.h"
#include "compiler/import/MscclFile.h"
#include "compiler/import/ReadSchedule.h"
#include "compiler/import/Sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

namespace kolo::tools {

/// Findings, the worst first.
static constexpr size_t mostShown = 8;

static std::string place(const std::string &path, int32_t line) {
  return line > 0 ? fmt::format("{}:{}:1", path, line) : path;
}

[[noreturn]] static void refuse(const std::string &path, const foreign::Refusal &refusal) {
  throw ToolError(ExitCode::Refused, fmt::format("{}: error: {}", place(path, refusal.line), refusal.message));
}

foreign::ForeignSchedule readForeign(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw ToolError(ExitCode::Usage, "there is no file " + path);
  auto read = foreign::readSchedule(path);
  if (auto *refusal = std::get_if<foreign::Refusal>(&read))
    refuse(path, *refusal);
  return std::get<foreign::ForeignSchedule>(std::move(read));
}

dsl::Collective collectiveOf(const foreign::ForeignSchedule &schedule) {
  return {dsl::CollectiveKind(foreign::kindOf(schedule.collective))}; // Kinds.cpp: their numbers are the same
}

foreign::Judgement judgeForeign(const foreign::ForeignSchedule &schedule) {
  auto judged = foreign::judge(schedule);
  if (auto *refusal = std::get_if<foreign::Refusal>(&judged))
    refuse(schedule.path, *refusal);
  return std::get<foreign::Judgement>(std::move(judged));
}

std::string describe(const foreign::ForeignSchedule &schedule, const foreign::Finding &finding) {
  bool isOneOfTwo = schedule.runsInPlace && schedule.runsOutOfPlace;
  std::string text =
      fmt::format("{}: error: {} {}: {}{}", place(schedule.path, finding.line), foreign::shortName(finding.property),
                  foreign::title(finding.property), finding.message,
                  isOneOfTwo ? (finding.isInPlace ? ", in place" : ", out of place") : "");
  if (finding.otherLine != 0)
    text += fmt::format("\n{}: note: {}", place(schedule.path, finding.otherLine), finding.otherMessage);
  return text;
}

static std::string describeAll(const foreign::ForeignSchedule &schedule, std::span<const foreign::Finding> findings) {
  std::string text;
  for (const foreign::Finding &finding : findings.first(std::min(mostShown, findings.size())))
    text += (text.empty() ? "" : "\n") + describe(schedule, finding);
  if (findings.size() > mostShown)
    text += fmt::format("\n{}: note: and {} more", schedule.path, findings.size() - mostShown);
  return text;
}

ForeignRefutation::ForeignRefutation(foreign::ForeignSchedule refuted, std::vector<foreign::Finding> found)
    : ToolError(ExitCode::Refused, describeAll(refuted, found)), schedule(std::move(refuted)),
      findings(std::move(found)) {}

std::string rewriteMscclXml(const std::string &path) {
  if (path.ends_with(".json"))
    throw ToolError(ExitCode::Usage, "--format: " + path + " is no XML of MSCCL");
  (void)readForeign(path); // what is wrong with it
  auto file = foreign::readMscclFile(std::get<foreign::ForeignText>(foreign::ForeignText::read(path)));
  return foreign::writeMscclFile(std::get<foreign::MscclFile>(file));
}

mlir::OwningOpRef<mlir::ModuleOp> importForeign(mlir::MLIRContext &context, const std::string &path) {
  foreign::ForeignSchedule schedule = readForeign(path);
  foreign::Judgement judgement = judgeForeign(schedule);
  if (!judgement.findings.empty())
    throw ForeignRefutation(std::move(schedule), std::move(judgement.findings));
  auto sequence = foreign::makeSequence(schedule, judgement.order);
  if (auto *refusal = std::get_if<foreign::Refusal>(&sequence))
    refuse(path, *refusal);
  return foreign::makeChannelForm(context, schedule, std::get<foreign::Sequence>(sequence));
}

} // namespace kolo::tools
