// From a recording to C++: one statement for each recorded one, in the same order, so that the same IR comes of it.
#include "dsl/PrintSource.h"

#include "codec/Presets.h"
#include "dsl/Collectives.h"
#include "dsl/PrintExpression.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace kolo::dsl {

namespace {

constexpr size_t maxWidth = 120;

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char letter : text)
    result += (letter == '"' || letter == '\\' ? "\\" : "") + std::string(1, letter);
  return result + "\"";
}

std::string quotedList(const std::vector<std::string> &texts) {
  std::string result;
  for (const std::string &text : texts)
    result += (result.empty() ? "" : ", ") + quoted(text);
  return result;
}

// While text is put together, the last line of a statement carries its number between these.
constexpr char markStart = '\1', markEnd = '\2';

std::string markOf(size_t statement) { return markStart + std::to_string(statement) + markEnd; }

/// Takes the marks off a text and gives the line of each statement, the first being `line`.
std::vector<unsigned> takeMarks(std::string &text, unsigned line, size_t numStatements) {
  std::vector<unsigned> lines(numStatements);
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == markStart) {
      size_t end = text.find(markEnd, at);
      lines[std::stoul(text.substr(at + 1, end - at - 1))] = line;
      at = end;
      continue;
    }
    line += text[at] == '\n';
    plain += text[at];
  }
  text = std::move(plain);
  return lines;
}

std::string withoutMarks(std::string text, size_t numStatements) {
  takeMarks(text, 1, numStatements);
  return text;
}

/// One text of several that differ in marks only: with the marks of all.
std::string mergeMarks(const std::vector<std::string> &texts) {
  std::string merged;
  std::vector<size_t> at(texts.size());
  auto isAtMark = [&](size_t i) { return at[i] < texts[i].size() && texts[i][at[i]] == markStart; };
  while (at[0] < texts[0].size()) {
    for (size_t i = 0; i < texts.size(); ++i)
      while (isAtMark(i)) {
        size_t end = texts[i].find(markEnd, at[i]) + 1;
        merged += texts[i].substr(at[i], end - at[i]);
        at[i] = end;
      }
    if (at[0] < texts[0].size())
      merged += texts[0][at[0]];
    for (size_t &place : at)
      ++place;
  }
  return merged;
}

class SourcePrinter {
public:
  explicit SourcePrinter(const Recording &recording) : recording(recording), expressions(recording) {}
  /// With marks of statements: see takeMarks.
  std::string print();

private:
  using Items = std::vector<RecordedItem>;
  const RecordedStatement *statementOf(const RecordedItem &item) const {
    const size_t *number = std::get_if<size_t>(&item);
    return number ? &recording.statements[*number] : nullptr;
  }
  int variantOf(const RecordedItem &item) const {
    const RecordedStatement *statement = statementOf(item);
    return statement ? statement->variant : std::get<std::unique_ptr<RecordedLoop>>(item)->variant;
  }

  void line(const std::string &text) { body += std::string(2 * depth, ' ') + text + "\n"; }
  /// The variables that what was printed needs.
  void declare() {
    for (const std::string &declaration : std::exchange(expressions.declarations, {}))
      line(declaration);
  }
  /// A statement: one line, or, where it is too long, one line for each part.
  void line(const RecordedStatement &of, const std::vector<std::string> &parts);
  void block(const std::string &head, const std::string &inside, const std::string &tail);
  /// What `print` adds to the body, one level further in; variables that it declares end there.
  std::string inScope(const std::function<void()> &print);
  /// Ends the variables that are not among the outer ones.
  void giveBack(auto &outer, auto &variables) {
    for (const auto &[named, name] : variables)
      if (!outer.contains(named))
        expressions.identifiers.giveBack(name);
    variables = std::move(outer);
  }

  void printItems(const Items &items, size_t first, size_t last, bool isInStripe);
  void printStripe(const Items &items, size_t first, size_t last);
  std::string printVariant(const Items &items, size_t first, size_t last, int variant);
  void printLoop(const RecordedLoop &loop, bool isInStripe);
  size_t printStatements(const Items &items, size_t first, size_t last);
  void printStatement(const RecordedStatement &statement);
  std::vector<std::string> partsOf(const RecordedStatement &statement);
  void declarePeer(const RecordedStatement &statement);
  std::string relationOf(const RecordedStatement &statement);
  bool usesInPlace() const;
  std::string printGrid(int number);
  std::string printMemory(int number);
  std::string likeOf(const RecordedBuffer &buffer);
  std::vector<std::string> printScratch();
  std::vector<std::string> printCallersBuffers();
  void nameCodecs();
  std::string printCodecs() const;
  std::vector<std::string> printRequirements();
  std::string printTables();
  std::string printHead() const;

  const Recording &recording;
  ExpressionPrinter expressions;
  std::vector<std::string> codecs; // variables, by number
  std::string body;
  size_t depth = 1;
  bool hasStripe = false;
};

void SourcePrinter::line(const RecordedStatement &of, const std::vector<std::string> &parts) {
  size_t statement = size_t(&of - recording.statements.data());
  std::string whole, mark = markOf(statement);
  for (const std::string &part : parts)
    whole += part;
  if (2 * depth + whole.size() <= maxWidth)
    return line(whole + mark);
  line(parts.front() + mark);
  for (size_t i = 1; i < parts.size(); ++i)
    line("    " + parts[i].substr(parts[i].find_first_not_of(' ')));
}

std::string SourcePrinter::inScope(const std::function<void()> &print) {
  auto outerPeers = expressions.peers;
  auto outerParts = expressions.parts;
  std::string outer = std::exchange(body, "");
  ++depth;
  print();
  --depth;
  giveBack(outerPeers, expressions.peers);
  giveBack(outerParts, expressions.parts);
  return std::exchange(body, std::move(outer));
}

void SourcePrinter::block(const std::string &head, const std::string &inside, const std::string &tail) {
  line(head);
  body += inside;
  line(tail);
}

void SourcePrinter::printItems(const Items &items, size_t first, size_t last, bool isInStripe) {
  for (size_t i = first; i < last;) {
    if (!isInStripe && variantOf(items[i]) >= 0) {
      size_t end = i + 1;
      while (end < last && variantOf(items[end]) >= variantOf(items[end - 1]))
        ++end;
      printStripe(items, i, end);
      i = end;
    } else if (statementOf(items[i])) {
      i = printStatements(items, i, last);
    } else {
      printLoop(*std::get<std::unique_ptr<RecordedLoop>>(items[i++]), isInStripe);
    }
  }
}

/// Of the items of a stripe, which come variant by variant, those of one.
std::string SourcePrinter::printVariant(const Items &items, size_t first, size_t last, int variant) {
  while (first < last && variantOf(items[first]) < variant)
    ++first;
  size_t end = first;
  while (end < last && variantOf(items[end]) == variant)
    ++end;
  return inScope([&] { printItems(items, first, end, true); });
}

void SourcePrinter::printStripe(const Items &items, size_t first, size_t last) {
  hasStripe = true;
  std::string head = "c.stripe(" + std::to_string(recording.numVariants) + ", [&](int";
  std::vector<std::string> variants;
  for (int variant = 0; variant < recording.numVariants; ++variant)
    variants.push_back(printVariant(items, first, last, variant));
  auto plain = [this](const std::string &text) { return withoutMarks(text, recording.statements.size()); };
  if (std::ranges::adjacent_find(variants, std::not_equal_to(), plain) == variants.end())
    return block(head + ") {", mergeMarks(variants), "});");
  std::string inside = inScope([&] {
    for (int variant = 0; variant < recording.numVariants; ++variant)
      block("if (variant == " + std::to_string(variant) + ") {", printVariant(items, first, last, variant), "}");
  });
  block(head + " variant) {", inside, "});");
}

void SourcePrinter::printLoop(const RecordedLoop &loop, bool isInStripe) {
  constexpr const char *names[] = {"step", "i", "j", "k"};
  std::string count = expressions.print(loop.count);
  declare();
  std::string index = expressions.identifiers.take(names[std::min<size_t>(expressions.loops.size(), 3)]);
  expressions.loops[loop.number] = index;
  std::string inside = inScope([&] { printItems(loop.body, 0, loop.body.size(), isInStripe); });
  expressions.loops.erase(loop.number);
  expressions.identifiers.giveBack(index);
  std::string parameter = expressions.usedLoops.contains(loop.number) ? " " + index : "";
  block("c.loop(" + count + ", [&](Index" + parameter + ") {", inside, "});");
}

/// Prints statements that the same `when` can stand around; gives the number of the item behind them.
size_t SourcePrinter::printStatements(const Items &items, size_t first, size_t last) {
  const RecordedStatement &head = *statementOf(items[first]);
  if (!head.condition) {
    declarePeer(head);
    printStatement(head);
    return first + 1;
  }
  auto isAlike = [&](const RecordedItem &item) {
    const RecordedStatement *statement = statementOf(item);
    return statement && statement->condition && statement->variant == head.variant &&
           isSame(statement->condition, head.condition);
  };
  size_t end = first;
  for (; end < last && isAlike(items[end]); ++end)
    declarePeer(*statementOf(items[end]));
  std::string condition = expressions.print(head.condition);
  declare();
  std::string inside = inScope([&] {
    for (size_t i = first; i < end; ++i)
      printStatement(*statementOf(items[i]));
  });
  block("c.when(" + condition + ", [&] {", inside, "});");
  return end;
}

static bool usesPeer(const RecordedStatement &statement) {
  auto isPeer = [](const Expression &node) { return node.kind == Expression::Kind::PeerCoordinate; };
  auto hasPeer = [&](const RecordedSlice &slice) {
    return std::ranges::any_of(slice.axes, [&](const RecordedSlice::Axis &axis) {
      return axis.start && (anyNode(axis.start, isPeer) || anyNode(axis.length, isPeer));
    });
  };
  return hasPeer(statement.source) || (statement.hasDestination && hasPeer(statement.destination)) ||
         (statement.condition && anyNode(statement.condition, isPeer));
}

void SourcePrinter::declarePeer(const RecordedStatement &statement) {
  const Relation *relation = statement.relation.get();
  if (!relation || !usesPeer(statement) || expressions.peers.contains(relation))
    return;
  for (const auto &[known, name] : expressions.peers)
    if (ExpressionPrinter::isSameRelation(*known, *relation)) {
      expressions.peers[relation] = name;
      return;
    }
  std::string text = expressions.print(*relation), name = expressions.identifiers.take("peer");
  declare();
  line("Rank " + name + " = " + text + ";");
  expressions.peers[relation] = name;
}

std::string SourcePrinter::relationOf(const RecordedStatement &statement) {
  auto known = expressions.peers.find(statement.relation.get());
  return known != expressions.peers.end() ? known->second : expressions.print(*statement.relation);
}

void SourcePrinter::printStatement(const RecordedStatement &statement) {
  std::vector<std::string> parts = partsOf(statement);
  declare();
  line(statement, parts);
}

std::vector<std::string> SourcePrinter::partsOf(const RecordedStatement &statement) {
  std::string source = expressions.print(statement.source);
  if (statement.kind != RecordedStatement::Kind::Transfer) {
    const char *name = statement.kind == RecordedStatement::Kind::Copy ? "c.copy(" : "c.reduce(";
    return {name + source + ",", " " + expressions.print(statement.destination) + ");"};
  }
  std::vector<std::string> parts = {"c.send(" + source + ")", ".to(" + relationOf(statement) + ")"};
  if (statement.hasDestination)
    parts.push_back(".at(" + expressions.print(statement.destination) + ")");
  parts.back() += statement.isReducing ? ".reduce();" : ";";
  return parts;
}

/// Whether the recording begins as `c.inPlace()` does.
bool SourcePrinter::usesInPlace() const {
  if (recording.buffers[0].sameGridAs != 1 || recording.body.empty())
    return false;
  const RecordedStatement *first = statementOf(recording.body.front());
  if (!first || first->kind != RecordedStatement::Kind::Copy || first->variant >= 0)
    return false;
  bool isOfRoot = recording.definition.collective.kind == CollectiveKind::Broadcast;
  return first->source.buffer == 0 && first->source.isWhole && first->destination.buffer == 1 &&
         first->destination.isWhole && bool(first->condition) == isOfRoot;
}

std::string SourcePrinter::printGrid(int number) {
  const RecordedBuffer &buffer = recording.buffers[size_t(number)];
  std::string text;
  for (const ExpressionRef &extent : buffer.grid)
    text += (text.empty() ? "" : ", ") + expressions.print(extent);
  return text;
}

/// The buffer of the same kind that a scratch buffer is like, whatever its own grid.
std::string SourcePrinter::likeOf(const RecordedBuffer &buffer) {
  int number = buffer.slotsFor >= 0 ? buffer.slotsFor : buffer.sameGridAs;
  if (number < 0)
    number = recording.buffers[0].hasBlockPerRank == buffer.hasBlockPerRank ? 0 : 1;
  expressions.usedBuffers.insert(number);
  return expressions.buffers[size_t(number)];
}

std::string SourcePrinter::printMemory(int number) {
  const RecordedBuffer &buffer = recording.buffers[size_t(number)];
  const bool isOfBlocks = buffer.hasOwnBlocks && buffer.sameGridAs < 0;
  std::string start = quoted(buffer.name) + (isOfBlocks ? "" : ", " + likeOf(buffer));
  std::string codec;
  if (buffer.codecParameter >= 0)
    codec = codecs[size_t(buffer.codecParameter)];
  else if (buffer.codec != none())
    codec = codec::sourceOf(buffer.codec);
  std::string end = codec.empty() ? "" : ".as(" + codec + ")";
  if (buffer.slotsFor >= 0 || isOfBlocks)
    return (isOfBlocks ? "c.blocks(" : "c.slots(") + start + ", " +
           (buffer.grid.size() > 1 ? "{" + printGrid(number) + "}" : printGrid(number)) + ")" + end;
  return "c.scratch(" + start + ")" + (buffer.isGridFixed ? ".grid(" + printGrid(number) + ")" : "") + end;
}

std::vector<std::string> SourcePrinter::printScratch() {
  std::vector<std::string> lines;
  for (int number = int(recording.buffers.size()) - 1; number >= 2; --number) { // later ones may be like earlier ones
    std::string memory = printMemory(number);
    bool isUsed = expressions.usedBuffers.contains(number);
    lines.push_back((isUsed ? "Buffer " + expressions.buffers[size_t(number)] + " = " : "") + memory + ";");
  }
  std::ranges::reverse(lines);
  return lines;
}

std::vector<std::string> SourcePrinter::printCallersBuffers() {
  std::vector<std::string> lines;
  for (int number : {0, 1}) {
    const RecordedBuffer &buffer = recording.buffers[size_t(number)];
    bool isInPlace = number == 1 && usesInPlace(), isUsed = expressions.usedBuffers.contains(number);
    // An input that lies in place takes the grid of the output; without inPlace(), it is cut as the output is.
    bool takesGrid = buffer.sameGridAs >= 0;
    bool isCut = takesGrid ? !usesInPlace() && recording.buffers[1].isGridFixed : buffer.isGridFixed;
    std::string text = number == 0 ? "c.input()" : isInPlace ? "c.inPlace()" : "c.output()";
    text += isCut ? ".grid(" + printGrid(number) + ")" : "";
    std::string mark = isInPlace ? markOf(0) : ""; // of the copy that inPlace() makes
    if (isUsed)
      lines.push_back("Buffer " + expressions.buffers[size_t(number)] + " = " + text + ";" + mark);
    else if (isCut || isInPlace)
      lines.push_back(text + ";" + mark);
  }
  return lines;
}

void SourcePrinter::nameCodecs() {
  for (const RecordedCodec &codec : recording.codecs)
    codecs.push_back(expressions.identifiers.take(codec.name));
}

std::string SourcePrinter::printCodecs() const {
  std::string text;
  for (size_t i = 0; i < codecs.size(); ++i) {
    bool isUsed = std::ranges::any_of(recording.buffers,
                                      [&](const RecordedBuffer &buffer) { return buffer.codecParameter == int(i); });
    text += "  " + (isUsed ? "Codec " + codecs[i] + " = " : "") + "c.codec(" + quoted(recording.codecs[i].name) + ", " +
            codec::sourceOf(recording.codecs[i].codec) + ");\n";
  }
  return text;
}

std::vector<std::string> SourcePrinter::printRequirements() {
  std::vector<std::string> lines;
  for (const Requirement &requirement : recording.requirements)
    lines.push_back("c.require(" + expressions.print(requirement.condition) + ", " + quoted(requirement.what) + ");");
  return lines;
}

std::string SourcePrinter::printTables() {
  std::string text;
  for (const auto &[type, name, entries] : expressions.tables) {
    std::string row = "  const " + type + " " + name + "({";
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string entry = std::to_string(entries[i]) + (i + 1 < entries.size() ? "," : "");
      if (row.size() + entry.size() + 3 > maxWidth) {
        text += row + "\n";
        row = "     ";
      }
      row += (row.ends_with('{') ? "" : " ") + entry;
    }
    text += row + "});\n";
  }
  return text;
}

std::string SourcePrinter::printHead() const {
  const Definition &definition = recording.definition;
  std::string collective = traitsOf(definition.collective.kind).name;
  if (!definition.collective.dims.empty())
    collective += ".over(" + quotedList(definition.collective.dims) + ")";
  return "KOLO_COLLECTIVE(" + definition.name + ", " + collective + ", Mesh(" + quotedList(definition.mesh.dims) +
         ")) {\n";
}

std::string SourcePrinter::print() {
  nameCodecs();
  printItems(recording.body, usesInPlace() ? 1 : 0, recording.body.size(), false);
  if (recording.numVariants > 0 && !hasStripe) // it cuts chunks all the same
    line("c.stripe(" + std::to_string(recording.numVariants) + ", [](int) {});");
  std::string statements = std::exchange(body, "");
  expressions.parts.clear(); // what statements declare comes later in the text
  std::vector<std::string> scratch = printScratch(), callers = printCallersBuffers(), required = printRequirements();
  std::vector<std::string> ofGrids = std::exchange(expressions.declarations, {});

  std::string names;
  for (const std::string &dim : expressions.dims)
    names += (names.empty() ? "" : ", ") + dim;
  std::string memory;
  for (const std::vector<std::string> &lines : {ofGrids, required, callers, scratch})
    for (const std::string &text : lines)
      memory += "  " + text + "\n";
  std::string text = printHead();
  if (expressions.usesDims)
    text += "  auto [" + names + "] = c.dims<" + std::to_string(expressions.dims.size()) + ">();\n";
  if (expressions.usesMe)
    text += "  Rank me = c.rank();\n";
  if (expressions.usesRoot)
    text += "  Rank root = c.root();\n";
  return text + printTables() + printCodecs() + memory + "\n" + statements + "}\n";
}

} // namespace

std::string printDefinition(const Recording &recording) {
  return withoutMarks(SourcePrinter(recording).print(), recording.statements.size());
}

PrintedSource printSource(const Recording &recording, const std::string &comment) {
  std::string text, rest = comment;
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    text += (end == 0 ? "//" : "// ") + rest.substr(0, end) + "\n";
    rest.erase(0, end + 1);
  }
  text += "#include <kolo/dsl/Language.h>\n\nusing namespace kolo::dsl;\n\n" + SourcePrinter(recording).print();
  std::vector<unsigned> lines = takeMarks(text, 1, recording.statements.size());
  return {std::move(text), std::move(lines)};
}

} // namespace kolo::dsl
