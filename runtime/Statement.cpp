#include "Statement.h"

#include <fmt/format.h>

namespace kolo::runtime {

std::string describeStatement(const ProgramInfo &info, int64_t statement) {
  if (statement < 0 || static_cast<size_t>(statement) >= info.statements.size())
    return fmt::format("program {}", info.name);
  const StatementInfo &entry = info.statements[static_cast<size_t>(statement)];
  return fmt::format("program {}, {}:{} {}", info.name, entry.file, entry.line, entry.text);
}

} // namespace kolo::runtime
