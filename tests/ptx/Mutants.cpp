#include "Mutants.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <regex>
#include <sstream>

namespace kolo::ptx {

namespace {

using Lines = std::vector<std::string>;

Lines splitLines(const std::string &text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string joinLines(const Lines &lines) {
  std::string text;
  for (const std::string &line : lines)
    text += line + "\n";
  return text;
}

bool has(const std::string &line, std::string_view part) { return line.find(part) != std::string::npos; }

std::optional<std::string> replaced(const std::string &line, std::string_view part, std::string_view by) {
  size_t place = line.find(part);
  if (place == std::string::npos)
    return std::nullopt;
  return line.substr(0, place) + std::string(by) + line.substr(place + part.size());
}

bool isStrong(const std::string &line) {
  return has(line, ".release.") || has(line, ".acquire.") || has(line, ".relaxed.");
}

class Mutation {
public:
  explicit Mutation(const std::string &text) : lines(splitLines(text)) {}

  void makeAll();
  void makeNonCoherent();
  std::vector<Mutant> mutants;
  const Lines lines;

private:
  void add(const std::string &kind, size_t line, const std::function<void(Lines &)> &change) {
    Lines changed = lines;
    change(changed);
    mutants.push_back({kind, uint32_t(line + 1), joinLines(changed)});
  }
  void replace(const std::string &kind, size_t line, std::string_view part, std::string_view by) {
    if (auto changed = replaced(lines[line], part, by))
      add(kind, line, [&](Lines &all) { all[line] = *changed; });
  }
  void dropBarrier(size_t line);
  void splitWord(size_t line);
  void signalEarly(size_t line);
};

void Mutation::dropBarrier(size_t line) {
  std::string without = withoutBarrier(lines[line]);
  if (without != lines[line])
    add(has(lines[line], "bar.warp.sync") ? "warp barrier dropped" : "barrier dropped", line,
        [&](Lines &all) { all[line] = without; });
}

/// st.relaxed.b64 of a word with data and flag: two stores of 32 bits, in either order.
void Mutation::splitWord(size_t line) {
  static const std::regex store(
      R"(^(\s*)(@!?%p\d+\s+)?st\.relaxed\.sys\.global\.b64\s+\[(%rd\d+)(?:\+(-?\d+))?\], (%rd\d+);)");
  static const std::regex declaration(R"(\.reg \.b32\s+%r<(\d+)>;)");
  std::smatch match;
  if (!std::regex_search(lines[line], match, store))
    return;
  size_t declared = line;
  std::smatch number;
  while (declared > 0 && lines[declared] != "{" && !std::regex_search(lines[declared], number, declaration))
    --declared;
  if (lines[declared] == "{")
    return;
  auto first = std::stoul(number[1].str());
  long offset = match[4].matched ? std::stol(match[4].str()) : 0;
  auto half = [&](bool isHigh) {
    return match[2].str() + "st.relaxed.sys.global.b32 [" + match[3].str() + "+" +
           std::to_string(offset + (isHigh ? 4 : 0)) + "], %r" + std::to_string(first + isHigh) + "; ";
  };
  for (bool isHighFirst : {false, true})
    add("word stored in two halves", line, [&](Lines &all) {
      all[declared] = ".reg .b32 %r<" + std::to_string(first + 2) + ">;";
      all[line] = "mov.b64 {%r" + std::to_string(first) + ", %r" + std::to_string(first + 1) + "}, " + match[5].str() +
                  "; " + half(isHighFirst) + half(!isHighFirst);
    });
}

/// A call that moves data, and the next call, which signals: the signal comes first.
void Mutation::signalEarly(size_t line) {
  if (!has(lines[line], "call.uni kolo_$_signal"))
    return;
  auto isBegin = [&](size_t i) { return has(lines[i], "{ // callseq"); };
  size_t begin = line, end = line;
  while (!isBegin(begin))
    --begin;
  while (!has(lines[end], "} // callseq"))
    ++end;
  size_t moveEnd = begin;
  while (moveEnd > 0 && !has(lines[moveEnd], "} // callseq") && !has(lines[moveEnd], "bra") &&
         !has(lines[moveEnd], "bar.") && lines[moveEnd].find(':') == std::string::npos)
    --moveEnd;
  if (!has(lines[moveEnd], "} // callseq"))
    return;
  size_t moveBegin = moveEnd;
  while (!isBegin(moveBegin))
    --moveBegin;
  if (std::none_of(
          lines.begin() + ptrdiff_t(moveBegin), lines.begin() + ptrdiff_t(moveEnd),
          [](const std::string &moved) { return has(moved, "call.uni move_") || has(moved, "call.uni kolo_$_copy"); }))
    return;
  add("flag written before its data", line, [&](Lines &all) {
    std::rotate(all.begin() + ptrdiff_t(moveBegin), all.begin() + ptrdiff_t(moveEnd) + 1,
                all.begin() + ptrdiff_t(end) + 1);
  });
}

void Mutation::makeAll() {
  for (size_t line = 0; line < lines.size(); ++line) {
    const std::string &text = lines[line];
    replace("release made relaxed", line, ".release.sys", ".relaxed.sys");
    replace("acquire made relaxed", line, ".acquire.sys", ".relaxed.sys");
    if (isStrong(text)) {
      replace("scope narrowed to gpu", line, ".sys.", ".gpu.");
      replace("scope narrowed to cta", line, ".sys.", ".cta.");
    }
    dropBarrier(line);
    splitWord(line);
    signalEarly(line);
    replace("volatile made weak", line, ".volatile.", ".");
  }
}

void Mutation::makeNonCoherent() {
  for (size_t line = 0; line < lines.size(); ++line)
    if (has(lines[line], "ld.global.") && !has(lines[line], ".nc."))
      replace("read by ld.global.nc", line, "ld.global.", "ld.global.nc.");
}

} // namespace

std::vector<Mutant> makeMutants(const std::string &text) {
  Mutation mutation(text);
  mutation.makeAll();
  return std::move(mutation.mutants);
}

std::vector<Mutant> makeNonCoherentMutants(const std::string &text) {
  Mutation mutation(text);
  mutation.makeNonCoherent();
  return std::move(mutation.mutants);
}

/// A barrier that combines a bit gives each thread its own.
std::string withoutBarrier(const std::string &line) {
  static const std::regex reduction(R"(bar\.red\.or\.pred\s+(%p\d+), 0, (%p\d+);)");
  std::smatch match;
  if (has(line, "bar.warp.sync") || has(line, "bar.sync") || has(line, "barrier.sync"))
    return "";
  return std::regex_search(line, match, reduction) ? "mov.pred " + match[1].str() + ", " + match[2].str() + ";" : line;
}

} // namespace kolo::ptx
