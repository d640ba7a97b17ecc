#include "tools/compile/Mistakes.h"

#include "compiler/SourceLine.h"

using namespace mlir;

namespace kolo::tools {

static std::string lineOf(const std::string &file, unsigned line, unsigned column, const char *kind,
                          const std::string &message) {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + kind + ": " + message;
}

static std::string lineAt(const SourceLine &place, const char *kind, const std::string &message) {
  return lineOf(place.file, place.line, place.column, kind, message);
}

std::string lineAt(Location location, const char *kind, const std::string &message) {
  return lineAt(sourceLineOf(location), kind, message);
}

static void appendCalls(std::vector<std::string> &lines, const std::vector<SourceLine> &callers) {
  for (const SourceLine &caller : callers)
    lines.push_back(lineAt(caller, "note", "called from here"));
}

std::vector<std::string> noteLines(Location error, ArrayRef<Remark> notes) {
  std::vector<std::string> lines;
  std::vector<SourceLine> callers = callersOf(error);
  appendCalls(lines, callers);
  for (const Remark &note : notes) {
    lines.push_back(lineAt(note.loc, "note", note.text));
    if (std::vector<SourceLine> others = callersOf(note.loc); others != callers)
      appendCalls(lines, others);
  }
  return lines;
}

/// An op's name at the front is for readers of IR; authors write C++.
static std::string withoutOpName(const std::string &message) {
  size_t end = message.find("op ");
  return message.starts_with("'kolo.") && end != std::string::npos ? message.substr(end + 3) : message;
}

Mistakes::Entry Mistakes::makeEntry(Diagnostic &diagnostic) {
  Location error = diagnostic.getLocation();
  SmallVector<Remark> notes;
  for (Diagnostic &note : diagnostic.getNotes()) {
    bool hasPlace = sourceLineOf(note.getLocation()).line != 0;
    notes.push_back({hasPlace ? note.getLocation() : error, note.str()});
  }
  SourceLine place = sourceLineOf(error);
  return {place.file, place.line, place.column, withoutOpName(diagnostic.str()), noteLines(error, notes)};
}

Mistakes::Mistakes(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors.insert(makeEntry(diagnostic));
        else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
          warned.insert(makeEntry(diagnostic));
        return success();
      }) {}

void Mistakes::add(const std::source_location &location, const std::string &message,
                   const std::vector<std::source_location> &callers) {
  Entry entry{location.file_name(), location.line(), location.column(), message, {}};
  for (const std::source_location &caller : callers)
    entry.notes.push_back(lineOf(caller.file_name(), caller.line(), caller.column(), "note", "called from here"));
  errors.insert(std::move(entry));
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
