#include "compiler/import/ReadSchedule.h"
#include "compiler/import/MscclSchedule.h"
#include "compiler/import/PlanSchedule.h"

namespace kolo::foreign {

std::variant<ForeignSchedule, Refusal> readSchedule(const std::string &path) {
  auto source = ForeignText::read(path);
  if (auto *refusal = std::get_if<Refusal>(&source))
    return std::move(*refusal);
  if (path.ends_with(".json"))
    return readPlan(std::get<ForeignText>(source), path);
  auto file = readMscclFile(std::get<ForeignText>(source));
  if (auto *refusal = std::get_if<Refusal>(&file))
    return std::move(*refusal);
  return makeSchedule(std::get<MscclFile>(file), path);
}

} // namespace kolo::foreign
