#include "LitmusFile.h"

#include <algorithm>
#include <regex>
#include <sstream>

namespace kolo::ptx {

namespace {

using Words = std::vector<std::string>;

std::string trimmed(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Words splitAt(const std::string &text, char separator) {
  Words parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(trimmed(part));
  return parts;
}

/// Words, numbers and marks.
Words wordsOf(const std::string &text) {
  static const std::regex word(R"(-?[0-9]+|[A-Za-z_][A-Za-z_0-9.]*|==|!=|<=|>=|/\\|\\/|[^\s])");
  Words words;
  for (std::sregex_iterator next(text.begin(), text.end(), word), end; next != end; ++next)
    words.push_back(next->str());
  return words;
}

bool isNumber(const std::string &word) {
  return !word.empty() && word.find_first_not_of("0123456789", word[0] == '-' && word.size() > 1) == std::string::npos;
}
bool isRegister(const std::string &word) { return word.size() > 1 && word[0] == 'r' && isNumber(word.substr(1)); }
bool isThread(const std::string &word) { return isNumber(word[0] == 'P' ? word.substr(1) : word); }
size_t threadNumber(const std::string &word) { return std::stoul(word[0] == 'P' ? word.substr(1) : word); }

[[noreturn]] void failOn(const std::string &text) { throw std::runtime_error("cannot read '" + text + "'"); }

/// What stands for a value at the end.
struct EndValue {
  enum class Kind { Constant, Place, Register } kind;
  int64_t constant = 0;
  size_t number = 0, thread = 0;
  int64_t of(const LitmusEnd &end) const {
    return kind == Kind::Constant ? constant : kind == Kind::Place ? end.last[number] : end.seen[thread][number];
  }
};

class Comparing : public LitmusCondition {
public:
  Comparing(EndValue ofLeft, bool equal, EndValue ofRight) : left(ofLeft), right(ofRight), isEqual(equal) {}
  bool holds(const LitmusEnd &end) const override { return (left.of(end) == right.of(end)) == isEqual; }

private:
  EndValue left, right;
  bool isEqual;
};

class Joining : public LitmusCondition {
public:
  Joining(std::unique_ptr<LitmusCondition> first, bool all, std::unique_ptr<LitmusCondition> second)
      : left(std::move(first)), right(std::move(second)), isAll(all) {}
  bool holds(const LitmusEnd &end) const override {
    return isAll ? left->holds(end) && right->holds(end) : left->holds(end) || right->holds(end);
  }

private:
  std::unique_ptr<LitmusCondition> left, right;
  bool isAll;
};

class FileReader {
public:
  explicit FileReader(const std::string &ofText) : text(ofText) {}
  LitmusFile read();

private:
  void refuseWhatIsNotExpressed() const;
  void readInitial(const std::string &list);
  void readPlaces(const std::string &row);
  void readInstructions(const std::vector<Words> &rows);
  std::string translate(size_t thread, const std::string &instruction);
  std::string translateBarrier(size_t thread, const Words &parts);
  std::string afterLoad(const std::string &target);
  size_t countMeeting(size_t thread, const std::string &barrier) const;
  void readCondition(const std::string &condition);
  std::unique_ptr<LitmusCondition> readChoice();
  std::unique_ptr<LitmusCondition> readComparison();
  EndValue readEndValue();

  size_t placeOf(const std::string &name);
  std::string addressOf(const std::string &name) { return "[%rd1+" + std::to_string(64 * placeOf(name)) + "]"; }
  /// A register, or a constant.
  static std::string valueOf(const std::string &word) {
    return isRegister(word) ? "%rd1" + word.substr(1) : isNumber(word) ? word : (failOn(word), "");
  }
  std::string take() { return next < words.size() ? words[next++] : ""; }
  bool takeIf(const std::string &word) { return next < words.size() && words[next] == word && (++next, true); }

  const std::string &text;
  LitmusFile file;
  std::map<std::string, size_t> places;
  std::vector<std::string> starts; // by thread: code that sets registers
  std::vector<Words> columns;      // by thread: instructions
  Words words;                     // of the condition
  size_t next = 0;
};

/// Instructions that no kernel of Kolo has, and the reader does not know.
void FileReader::refuseWhatIsNotExpressed() const {
  static const std::pair<std::regex, const char *> unknown[] = {
      {std::regex(R"(\b(sust|suld|tld|cold|suatom|sured)\b|fence\.proxy|aliases)"),
       "other proxies than the generic one"},
      {std::regex(R"(\b(atom|red)\.)"), "atomic operations"},
      {std::regex(R"(\bbar\.cta\.arrive\b)"), "arrival at a barrier without waiting"}};
  for (const auto &[pattern, reason] : unknown)
    if (std::regex_search(text, pattern))
      throw NotExpressed(reason);
}

size_t FileReader::placeOf(const std::string &name) {
  auto [place, isNew] = places.try_emplace(name, places.size());
  if (isNew)
    file.program.initial.push_back(0);
  return place->second;
}

/// x=0; P1:r1=0;
void FileReader::readInitial(const std::string &list) {
  for (const std::string &one : splitAt(list, ';')) {
    Words parts = wordsOf(one);
    if (parts.empty())
      continue;
    if (parts.size() == 3 && parts[1] == "=" && isNumber(parts[2])) {
      size_t place = placeOf(parts[0]);
      file.program.initial[place] = std::stoll(parts[2]);
    } else if (parts.size() == 5 && parts[1] == ":" && isRegister(parts[2]) && isNumber(parts[4])) {
      size_t thread = threadNumber(parts[0]);
      starts.resize(std::max(starts.size(), thread + 1));
      starts[thread] += "mov.b64 " + valueOf(parts[2]) + ", " + parts[4] + ";\n";
    } else {
      failOn(one);
    }
  }
}

/// P0@cta 0,gpu 0 | P1@cta 1,gpu 0
void FileReader::readPlaces(const std::string &row) {
  std::map<std::pair<std::string, std::string>, uint32_t> blocks; // by device and block, as the file numbers them
  std::map<std::string, uint32_t> numBlocks, devices;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numThreads;
  for (const std::string &one : splitAt(row, '|')) {
    Words parts = wordsOf(one); // P0 @ cta 0 , gpu 0
    if (parts.size() != 7)
      failOn(one);
    uint32_t device = devices.try_emplace(parts[6], uint32_t(devices.size())).first->second;
    auto [block, isNew] = blocks.try_emplace({parts[6], parts[3]}, numBlocks[parts[6]]);
    numBlocks[parts[6]] += isNew;
    file.program.threads.push_back({device, block->second, numThreads[{device, block->second}]++, ""});
  }
}

/// bar.cta.sync instance[, number[, threads]].
std::string numberOfBarrier(const Words &parts) { return parts.size() > 3 ? parts[3] : parts.at(1); }

/// Threads of a block that have such a barrier in their text.
size_t FileReader::countMeeting(size_t thread, const std::string &barrier) const {
  size_t number = 0;
  const auto &threads = file.program.threads;
  for (size_t other = 0; other < columns.size(); ++other)
    number += threads[other].device == threads[thread].device && threads[other].block == threads[thread].block &&
              std::ranges::any_of(columns[other], [&](const std::string &instruction) {
                Words parts = wordsOf(instruction);
                return !parts.empty() && parts[0] == "bar.cta.sync" && numberOfBarrier(parts) == barrier;
              });
  return number;
}

std::string FileReader::translateBarrier(size_t thread, const Words &parts) {
  const std::string number = numberOfBarrier(parts);
  if (!isNumber(number))
    throw NotExpressed("a barrier whose number is in a register");
  size_t meeting = countMeeting(thread, number), waiting = parts.size() > 5 ? std::stoul(parts[5]) : meeting;
  if (meeting > waiting)
    throw NotExpressed("a barrier that more threads reach than it waits for: on a device they wait for ever");
  return "barrier.sync " + number + ", " + std::to_string(waiting * size_t(warpThreads)) + ";\n";
}

/// Where threads are warps, all lanes get what the first one has loaded.
std::string FileReader::afterLoad(const std::string &target) {
  if (!file.program.hasBarriers)
    return "";
  return "cvt.u32.u64 %r4, " + target + ";\nshfl.sync.idx.b32 %r5, %r4, 0, 31, -1;\ncvt.u64.u32 " + target + ", %r5;\n";
}

std::string FileReader::translate(size_t thread, const std::string &instruction) {
  static const std::map<std::string, std::string> comparisons = {{"beq", "eq"}, {"bne", "ne"}, {"bge", "ge"},
                                                                 {"ble", "le"}, {"bgt", "gt"}, {"blt", "lt"}};
  Words parts = wordsOf(instruction);
  if (parts.empty())
    return "";
  const std::string &name = parts[0], mine = std::to_string(thread);
  const std::string first = file.program.hasBarriers ? "@%p3 " : "";
  auto how = [&] { return name.substr(2) == ".weak" ? ".global.b64 " : name.substr(2) + ".global.b64 "; };
  if (parts.size() == 2 && parts[1] == ":")
    return "$T" + mine + name + ":\n";
  if (name == "goto")
    return "bra $T" + mine + parts.at(1) + ";\n";
  if (name.starts_with("bar.cta.sync"))
    return translateBarrier(thread, parts);
  if (name.starts_with("fence."))
    return first + name + ";\n";
  if (parts.size() < 4)
    failOn(instruction);
  if (auto found = comparisons.find(name); found != comparisons.end())
    return "mov.b64 %rd9, " + valueOf(parts[1]) + ";\nsetp." + found->second + ".s64 %p2, %rd9, " + valueOf(parts[3]) +
           ";\n@%p2 bra $T" + mine + parts.at(5) + ";\n";
  if (name.starts_with("st"))
    return first + "st" + how() + addressOf(parts[1]) + ", " + valueOf(parts[3]) + ";\n";
  const std::string target = valueOf(parts[1]);
  if (name == "ld") // of a constant, or of another register
    return "mov.b64 " + target + ", " + valueOf(parts[3]) + ";\n";
  if (name.starts_with("ld"))
    return first + "ld" + how() + target + ", " + addressOf(parts[3]) + ";\n" + afterLoad(target);
  if ((name == "add" || name == "sub" || name == "mul") && parts.size() == 6)
    return "mov.b64 %rd9, " + valueOf(parts[3]) + ";\n" + name + (name == "mul" ? ".lo" : "") + ".s64 " + target +
           ", %rd9, " + valueOf(parts[5]) + ";\n";
  failOn(instruction);
}

void FileReader::readInstructions(const std::vector<Words> &rows) {
  columns.resize(file.program.threads.size());
  for (const Words &row : rows)
    for (size_t thread = 0; thread < std::min(row.size(), columns.size()); ++thread)
      columns[thread].push_back(row[thread]);
  file.program.hasBarriers = text.find("bar.cta") != std::string::npos;
  starts.resize(columns.size());
  for (size_t thread = 0; thread < columns.size(); ++thread) {
    std::string &code = file.program.threads[thread].code;
    code = starts[thread];
    for (const std::string &instruction : columns[thread])
      code += translate(thread, instruction);
  }
}

EndValue FileReader::readEndValue() {
  std::string word = take();
  if (takeIf(":")) {
    std::string name = take();
    if (!isThread(word) || !isRegister(name) || threadNumber(word) >= file.program.threads.size())
      failOn(word + ":" + name);
    file.namedThreads.push_back(threadNumber(word));
    return {EndValue::Kind::Register, 0, std::stoul(name.substr(1)), threadNumber(word)};
  }
  if (isNumber(word))
    return {EndValue::Kind::Constant, std::stoll(word)};
  if (!places.contains(word))
    failOn(word);
  return {EndValue::Kind::Place, 0, placeOf(word)};
}

std::unique_ptr<LitmusCondition> FileReader::readComparison() {
  if (takeIf("(")) {
    auto inner = readChoice();
    if (!takeIf(")"))
      failOn("a condition without ')'");
    return inner;
  }
  EndValue left = readEndValue();
  std::string mark = take();
  if (mark != "==" && mark != "=" && mark != "!=")
    failOn(mark);
  return std::make_unique<Comparing>(left, mark != "!=", readEndValue());
}

/// Both marks bind alike, as no test mixes them without parentheses.
std::unique_ptr<LitmusCondition> FileReader::readChoice() {
  auto condition = readComparison();
  while (next < words.size() && (words[next] == "/\\" || words[next] == "\\/")) {
    bool isAll = take() == "/\\";
    condition = std::make_unique<Joining>(std::move(condition), isAll, readComparison());
  }
  return condition;
}

void FileReader::readCondition(const std::string &condition) {
  words = wordsOf(condition);
  bool isNegated = takeIf("~");
  std::string kind = take();
  if (kind != "exists" && kind != "forall")
    failOn(kind);
  file.kind = kind == "forall" ? LitmusFile::Kind::ForAll
              : isNegated      ? LitmusFile::Kind::NotExists
                               : LitmusFile::Kind::Exists;
  file.condition = readChoice();
  if (next != words.size())
    failOn(words[next]);
}

LitmusFile FileReader::read() {
  refuseWhatIsNotExpressed();
  file.program.numSeen = 10;
  size_t begin = text.find('{'), end = text.find('}');
  static const std::regex conditionStart(R"(\n\s*(~\s*)?(exists|forall)\b)");
  std::smatch match;
  if (begin == std::string::npos || end == std::string::npos ||
      !std::regex_search(text.begin() + ptrdiff_t(end), text.end(), match, conditionStart))
    failOn("a text without threads and a condition");
  size_t conditionAt = end + size_t(match.position());
  readInitial(text.substr(begin + 1, end - begin - 1));
  std::vector<Words> rows;
  Words lines = splitAt(text.substr(end + 1, conditionAt - end - 1), ';');
  std::erase(lines, "");
  if (lines.empty())
    failOn("a text without threads");
  readPlaces(lines.front());
  for (size_t row = 1; row < lines.size(); ++row)
    rows.push_back(splitAt(lines[row], '|'));
  readInstructions(rows);
  readCondition(text.substr(conditionAt));
  return std::move(file);
}

} // namespace

LitmusFile readLitmusFile(const std::string &text) { return FileReader(text).read(); }

} // namespace kolo::ptx
