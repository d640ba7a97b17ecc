#include "driver/Mistakes.h"

#include "compiler/SourceLine.h"

using namespace mlir;

namespace kolo::tools {

static std::string lineOf(const std::string &file, unsigned line, unsigned column, const char *kind,
                          const std::string &message) {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + kind + ": " + message;
}

/// An op's name at the front is for readers of IR; authors write C++.
static std::string withoutOpName(std::string message) {
  size_t end = message.find("op ");
  return message.starts_with("'kolo.") && end != std::string::npos ? message.substr(end + 3) : message;
}

Mistakes::Entry Mistakes::makeEntry(Diagnostic &diagnostic) {
  SourceLine place = sourceLineOf(diagnostic.getLocation());
  Entry entry{place.file, place.line, place.column, withoutOpName(diagnostic.str()), {}};
  for (Diagnostic &note : diagnostic.getNotes()) {
    SourceLine at = sourceLineOf(note.getLocation());
    if (at.line == 0)
      at = place;
    entry.notes.push_back(lineOf(at.file, at.line, at.column, "note", note.str()));
  }
  return entry;
}

Mistakes::Mistakes(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors.insert(makeEntry(diagnostic));
        else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
          warned.insert(makeEntry(diagnostic));
        return success();
      }) {}

void Mistakes::add(const std::source_location &location, const std::string &message) {
  errors.insert({location.file_name(), location.line(), location.column(), message, {}});
}

std::string Mistakes::text() const {
  std::string result;
  for (const Entry &entry : errors) {
    result += (result.empty() ? "" : "\n") + lineOf(entry.file, entry.line, entry.column, "error", entry.message);
    for (const std::string &note : entry.notes)
      result += "\n" + note;
  }
  return result;
}

std::vector<std::string> Mistakes::warnings() const {
  std::vector<std::string> lines;
  for (const Entry &entry : warned)
    lines.push_back(lineOf(entry.file, entry.line, entry.column, "warning", entry.message));
  return lines;
}

} // namespace kolo::tools
