#include "compiler/import/ReadSchedule.h"
#include "compiler/import/MscclSchedule.h"
#include "compiler/import/PlanSchedule.h"

namespace kolo::foreign {

std::variant<Schedule, Refusal> readSchedule(const std::string &path) {
  auto source = SourceText::read(path);
  if (auto *refusal = std::get_if<Refusal>(&source))
    return std::move(*refusal);
  if (path.ends_with(".json"))
    return readPlan(std::get<SourceText>(source), path);
  auto file = readMscclFile(std::get<SourceText>(source));
  if (auto *refusal = std::get_if<Refusal>(&file))
    return std::move(*refusal);
  return makeSchedule(std::get<MscclFile>(file), path);
}

} // namespace kolo::foreign
