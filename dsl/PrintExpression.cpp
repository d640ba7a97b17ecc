// Symbolic expressions as text. C++ reads the text back into the same tree of operations, constant for constant.
#include "dsl/PrintExpression.h"

#include "codec/Presets.h"

#include <algorithm>
#include <cctype>
#include <functional>

namespace kolo::dsl {

using Kind = Expression::Kind;

// Of C++, from the loosest to the tightest.
enum Precedence { Any, OrPrecedence, AndPrecedence, XorPrecedence, Equality, Relational, Sum, Product, Unary, Primary };

IdentifierSet::IdentifierSet()
    : used{"alignas",  "alignof",  "and",     "asm",     "auto",     "bool",     "break",    "case",      "catch",
           "char",     "class",    "compl",   "concept", "const",    "continue", "decltype", "default",   "delete",
           "do",       "double",   "else",    "enum",    "explicit", "export",   "extern",   "false",     "float",
           "for",      "friend",   "goto",    "if",      "inline",   "int",      "long",     "mutable",   "namespace",
           "new",      "noexcept", "not",     "nullptr", "operator", "or",       "private",  "protected", "public",
           "register", "requires", "return",  "short",   "signed",   "sizeof",   "static",   "struct",    "switch",
           "template", "this",     "throw",   "true",    "try",      "typedef",  "typeid",   "typename",  "union",
           "unsigned", "using",    "virtual", "void",    "volatile", "while",    "xor",      "std",       "kolo",
           "c",        "me",       "in",      "out",     "root",     "variant",  "all",      "range",     "min",
           "max",      "pow2",     "log2",    "levels",  "Codec",    "Element",  "Scale",    "Rule"} {
  for (const codec::Preset &preset : codec::presets())
    used.emplace(preset.name);
}

std::string IdentifierSet::take(const std::string &wanted) {
  std::string base;
  for (char letter : wanted)
    base += std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  // Names with a leading or a double underscore belong to the implementation of C++.
  if (base.empty() || base.find("__") != std::string::npos || !std::isalpha(static_cast<unsigned char>(base.front())))
    base = "x" + std::to_string(used.size());
  std::string name = base;
  for (int number = 2; !used.insert(name).second; ++number)
    name = base + std::to_string(number);
  return name;
}

ExpressionPrinter::ExpressionPrinter(const Recording &recording) : recording(recording) {
  ExpressionRef rest = makeLeaf(Kind::Root, 0);
  for (auto dim = recording.groupDims.rbegin(); dim != recording.groupDims.rend(); ++dim) {
    ExpressionRef size = makeLeaf(Kind::DimSize, *dim);
    rootCoordinates[*dim] = makeExpression(Kind::Mod, {rest, size});
    rest = makeExpression(Kind::FloorDiv, {rest, size});
  }
  for (int dim : recording.groupDims) {
    ExpressionRef equal = makeExpression(Kind::Equal, {makeLeaf(Kind::Coordinate, dim), rootCoordinates[dim]});
    isRoot = isRoot ? makeExpression(Kind::And, {isRoot, equal}) : equal;
  }
  for (const std::string &name : recording.definition.mesh.dims)
    dims.push_back(identifiers.take(name));
  buffers = {"in", "out"};
  for (size_t number = 2; number < recording.buffers.size(); ++number)
    buffers.push_back(identifiers.take(recording.buffers[number].name));
}

const std::string &ExpressionPrinter::me() {
  static const std::string name = "me";
  usesMe = true;
  return name;
}

const std::string &ExpressionPrinter::dim(size_t number) {
  usesDims = true;
  return dims[number];
}

std::string ExpressionPrinter::printLeaf(const Expression &expression) {
  switch (expression.kind) {
  case Kind::DimSize:
    return dim(size_t(expression.value)) + ".size()";
  case Kind::Coordinate:
    return me() + "[" + dim(size_t(expression.value)) + "]";
  case Kind::PeerCoordinate:
    return peers.at(expression.relation.get()) + "[" + dim(size_t(expression.value)) + "]";
  case Kind::LoopIndex:
    usedLoops.insert(int(expression.value));
    return loops.at(int(expression.value));
  default:
    return expression.value < 0 ? "(" + std::to_string(expression.value) + ")" : std::to_string(expression.value);
  }
}

std::string ExpressionPrinter::printRoot(const ExpressionRef &expression) {
  auto named = [this](const std::string &text) {
    usesRoot = true;
    return text;
  };
  for (const auto &[number, coordinate] : rootCoordinates)
    if (isSame(expression, coordinate))
      return named("root[" + dim(size_t(number)) + "]");
  return isSame(expression, isRoot) ? named(me() + " == root") : "";
}

bool ExpressionPrinter::isOfRoot(const ExpressionRef &expression) const {
  return isSame(expression, isRoot) || std::ranges::any_of(rootCoordinates, [&](const auto &coordinate) {
           return isSame(expression, coordinate.second);
         });
}

static bool isConstant(const ExpressionRef &expression) { return expression->kind == Kind::Constant; }

/// Operations need an Index among their operands: of constants alone, C++ would compute.
static std::string asIndex(const std::string &constant) { return "Index(" + constant + ")"; }

std::string ExpressionPrinter::printCall(const std::string &name, const ExpressionRef &expression) {
  std::string text = print(expression->operands.front(), Any);
  if (std::ranges::all_of(expression->operands, isConstant))
    text = asIndex(text);
  if (expression->operands.size() > 1)
    text += ", " + print(expression->operands.back(), Any);
  return name + "(" + text + ")";
}

std::string ExpressionPrinter::printBinary(const ExpressionRef &expression, const std::string &sign, int precedence) {
  const ExpressionRef &left = expression->operands.front(), &right = expression->operands.back();
  int leastLeft = precedence, leastRight = precedence + 1;
  if (expression->kind == Kind::Xor)
    leastLeft = leastRight = Primary; // its precedence surprises
  if (expression->kind == Kind::Or)
    leastLeft = left->kind == Kind::Or ? OrPrecedence : Equality, leastRight = Equality;
  std::string text = print(left, leastLeft);
  if (isConstant(left) && isConstant(right))
    text = asIndex(text);
  return text + " " + sign + " " + print(right, leastRight);
}

static std::pair<const char *, Precedence> signOf(Kind kind) {
  switch (kind) {
  case Kind::Add:
    return {"+", Sum};
  case Kind::Sub:
    return {"-", Sum};
  case Kind::Mul:
    return {"*", Product};
  case Kind::FloorDiv:
    return {"/", Product};
  case Kind::Mod:
    return {"%", Product};
  case Kind::Xor:
    return {"^", XorPrecedence};
  case Kind::Equal:
    return {"==", Equality};
  case Kind::NotEqual:
    return {"!=", Equality};
  case Kind::Less:
    return {"<", Relational};
  case Kind::LessEqual:
    return {"<=", Relational};
  case Kind::And:
    return {"&&", AndPrecedence};
  default:
    return {"||", OrPrecedence};
  }
}

std::string ExpressionPrinter::print(const ExpressionRef &expression) {
  declareParts(expression);
  return print(expression, Any);
}

/// The operations of an expression that are operands in it more than once, operands first. What `isWhole` is one word
/// of the text.
static std::vector<ExpressionRef> findSharedParts(const ExpressionRef &expression,
                                                  const std::function<bool(const ExpressionRef &)> &isWhole) {
  std::map<const Expression *, int> numUses;
  std::vector<ExpressionRef> ordered;
  std::function<void(const ExpressionRef &)> visit = [&](const ExpressionRef &node) {
    if (node->operands.empty() || ++numUses[node.get()] > 1 || isWhole(node))
      return;
    std::ranges::for_each(node->operands, visit);
    ordered.push_back(node);
  };
  visit(expression);
  std::erase_if(ordered, [&](const ExpressionRef &node) { return numUses[node.get()] == 1; });
  return ordered;
}

static const char *typeOf(const Expression &expression) {
  switch (expression.kind) {
  case Kind::Equal:
  case Kind::NotEqual:
  case Kind::Less:
  case Kind::LessEqual:
  case Kind::And:
  case Kind::Or:
  case Kind::Not:
    return "Condition";
  default:
    return "Index";
  }
}

void ExpressionPrinter::declareParts(const ExpressionRef &expression) {
  auto isOneWord = [this](const ExpressionRef &node) { return parts.contains(node.get()) || isOfRoot(node); };
  for (const ExpressionRef &part : findSharedParts(expression, isOneWord)) {
    std::string text = print(part, Any), name = identifiers.take("part");
    declarations.push_back(std::string(typeOf(*part)) + " " + name + " = " + text + ";");
    parts[part.get()] = name;
  }
}

std::string ExpressionPrinter::print(const ExpressionRef &expression, int leastPrecedence) {
  auto named = parts.find(expression.get());
  return named != parts.end() ? named->second : printNode(expression, leastPrecedence);
}

std::string ExpressionPrinter::printNode(const ExpressionRef &expression, int leastPrecedence) {
  auto enclosed = [&](const std::string &text, Precedence precedence) {
    return precedence < leastPrecedence ? "(" + text + ")" : text;
  };
  if (std::string text = printRoot(expression); !text.empty())
    return enclosed(text, text.back() == ']' ? Primary : Equality);
  switch (expression->kind) {
  case Kind::Min:
    return printCall("min", expression);
  case Kind::Max:
    return printCall("max", expression);
  case Kind::Pow2:
    return printCall("pow2", expression);
  case Kind::Log2:
    return printCall("log2", expression);
  case Kind::Lookup:
    return printTable("Table", *expression->table) + "[" + print(expression->operands.front(), Any) + "]";
  case Kind::Not:
    return enclosed("!" + print(expression->operands.front(), Primary), Unary);
  default:
    break;
  }
  if (expression->operands.empty())
    return printLeaf(*expression);
  auto [sign, precedence] = signOf(expression->kind);
  return enclosed(printBinary(expression, sign, precedence), precedence);
}

std::string ExpressionPrinter::printTable(const std::string &type, const std::vector<int64_t> &entries) {
  auto isThis = [&](const NamedTable &table) { return table.type == type && table.entries == entries; };
  if (auto named = std::ranges::find_if(tables, isThis); named != tables.end())
    return named->name;
  return tables.emplace_back(type, identifiers.take(type == "Table" ? "table" : "mapping"), entries).name;
}

std::string ExpressionPrinter::printStep(const Step &step, size_t number) {
  if (step.kind == Step::Kind::Keep)
    return "";
  const std::string &along = dim(number);
  switch (step.kind) {
  case Step::Kind::Keep:
    break;
  case Step::Kind::Next: {
    bool isOne = isConstant(step.amount) && step.amount->value == 1;
    return ".next(" + along + (isOne ? "" : ", " + print(step.amount)) + ")";
  }
  case Step::Kind::Flip:
    return ".flip(" + along + ", " + print(step.amount) + ")";
  case Step::Kind::Others:
    return ".others(" + along + ")";
  case Step::Kind::At:
    return ".at(" + along + ", " + print(step.amount) + ")";
  case Step::Kind::Mapped:
    return ".mapped(" + along + ", " + printTable("std::vector<int64_t>", step.table) + ")";
  }
  return "";
}

std::string ExpressionPrinter::print(const Relation &relation) {
  std::string text = me();
  for (size_t dim = 0; dim < relation.steps.size(); ++dim)
    text += printStep(relation.steps[dim], dim);
  return text;
}

bool ExpressionPrinter::isSameRelation(const Relation &a, const Relation &b) {
  auto isSameStep = [](const Step &one, const Step &other) {
    bool haveAmounts = one.amount && other.amount;
    return one.kind == other.kind && one.table == other.table && bool(one.amount) == bool(other.amount) &&
           (!haveAmounts || isSame(one.amount, other.amount));
  };
  return std::ranges::equal(a.steps, b.steps, isSameStep);
}

std::string ExpressionPrinter::ownerOf(const ExpressionRef &coordinate, int dim) const {
  if (isSame(coordinate, rootCoordinates.at(dim)))
    return "root";
  if (coordinate->value != dim)
    return "";
  if (coordinate->kind == Kind::Coordinate)
    return "me";
  return coordinate->kind == Kind::PeerCoordinate ? peers.at(coordinate->relation.get()) : "";
}

std::string ExpressionPrinter::printOwner(const RecordedSlice &slice) {
  if (!recording.buffers[size_t(slice.buffer)].hasBlockPerRank)
    return "";
  std::string owner;
  for (size_t i = 0; i < slice.axes.size(); ++i) {
    const RecordedSlice::Axis &axis = slice.axes[i];
    bool isOfGroup = i < recording.groupDims.size();
    if (!isOfGroup && !axis.start)
      continue; // a block that is cut further, whole
    if (!isOfGroup || !axis.start || !isConstant(axis.length) || axis.length->value != 1)
      return "";
    std::string of = ownerOf(axis.start, recording.groupDims[i]);
    if (of.empty() || (i > 0 && of != owner))
      return "";
    owner = of;
  }
  usesMe |= owner == "me";
  usesRoot |= owner == "root";
  return owner;
}

std::string ExpressionPrinter::print(const RecordedSlice &slice) {
  usedBuffers.insert(slice.buffer);
  const std::string &buffer = buffers[size_t(slice.buffer)];
  if (std::ranges::none_of(slice.axes, [](const RecordedSlice::Axis &axis) { return axis.start != nullptr; }))
    return buffer;
  if (std::string owner = printOwner(slice); !owner.empty())
    return buffer + "[" + owner + "]";
  std::string text;
  for (const RecordedSlice::Axis &axis : slice.axes) {
    text += text.empty() ? "" : ", ";
    if (!axis.start)
      text += "all";
    else if (isConstant(axis.length) && axis.length->value == 1)
      text += print(axis.start);
    else
      text += "range(" + print(axis.start) + ", " + print(axis.length) + ")";
  }
  return buffer + (slice.axes.size() > 1 ? "[{" + text + "}]" : "[" + text + "]");
}

} // namespace kolo::dsl
