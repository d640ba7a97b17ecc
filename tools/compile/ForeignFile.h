// Files of other libraries, XML of MSCCL and plans of MSCCL++, wherever a command takes an algorithm.
#pragma once

#include "tools/compile/ForeignImport.h"
#include "tools/compile/ToolError.h"

#include "compiler/import/Judge.h"
#include "compiler/import/Schedule.h"
#include "kolo/dsl/Collective.h"

#include <string>

namespace kolo::tools {

/// Reads the file as its interpreter does. Throws ToolError: Usage where there is no such file, Refused with the line
/// where it cannot be imported.
foreign::ForeignSchedule readForeign(const std::string &path);

dsl::Collective collectiveOf(const foreign::ForeignSchedule &schedule);

/// What holds of it. Throws ToolError (Refused) where that takes too much memory.
foreign::Judgement judgeForeign(const foreign::ForeignSchedule &schedule);

/// A schedule that is wrong as its interpreter runs it, with the findings as text.
class ForeignRefutation : public ToolError {
public:
  ForeignRefutation(foreign::ForeignSchedule schedule, std::vector<foreign::Finding> findings);
  const foreign::ForeignSchedule schedule;
  const std::vector<foreign::Finding> findings; // at least one
};

/// "FILE:LINE:1: error: V2 no data race: MESSAGE", and a note for the second place.
std::string describe(const foreign::ForeignSchedule &schedule, const foreign::Finding &finding);

/// A file of MSCCL, written again as RCCL's own reader takes it. Throws as readForeign does.
std::string rewriteMscclXml(const std::string &path);

} // namespace kolo::tools
