// Evaluation of the pure ops: arith, math.ctlz, and those of kolo that give integers.
#include "ir/reference/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <bit>

using namespace mlir;

namespace kolo::reference {

static std::string packetKeyOf(Location location) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto file = location->findInstanceOf<FileLineColLoc>())
    stream << file.getFilename().getValue() << ':' << file.getLine() << ':' << file.getColumn();
  else
    stream << location;
  return text;
}

llvm::Error errorAt(Operation *op, const llvm::Twine &message) {
  return llvm::createStringError(packetKeyOf(op->getLoc()) + ": '" + op->getName().getStringRef() + "': " + message);
}

llvm::Error Scope::fail(Operation *op, const llvm::Twine &message) const {
  if (rank < 0)
    return errorAt(op, message);
  return errorAt(op, "rank " + llvm::Twine(rank) + " lane " + llvm::Twine(lane) + ": " + message);
}

std::vector<int64_t> Scope::operator[](ValueRange range) const {
  std::vector<int64_t> integers;
  for (Value value : range)
    integers.push_back(values.lookup(value));
  return integers;
}

static unsigned widthOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

void Scope::bind(Value value, int64_t integer) {
  values[value] = value.getType().isIntOrIndex() ? llvm::SignExtend64(uint64_t(integer), widthOf(value.getType())) : 0;
}

llvm::Expected<bool> Scope::evaluate(Operation *op) {
  if (!llvm::all_of(op->getResultTypes(), [](Type type) { return type.isIntOrIndex() && widthOf(type) <= 64; }))
    return false;
  return isa<KoloDialect>(op->getDialect()) ? evaluateKolo(op) : evaluateArithmetic(op);
}

llvm::Expected<bool> Scope::evaluateKolo(Operation *op) {
  if (auto dimSize = dyn_cast<DimSizeOp>(op)) {
    bind(dimSize, simulated.meshSizes[dimSize.getDim()]);
  } else if (isa<RootOp>(op)) {
    bind(op->getResult(0), simulated.root);
  } else if (auto lookup = dyn_cast<LookupOp>(op)) {
    int64_t index = values.lookup(lookup.getIndex());
    if (index < 0 || index >= int64_t(lookup.getTable().size()))
      return fail(op, "index " + llvm::Twine(index) + " in a table of " + llvm::Twine(lookup.getTable().size()) +
                          " entries");
    bind(lookup, lookup.getTable()[index]);
  } else if (auto coordinate = dyn_cast<CoordOp>(op)) {
    bind(coordinate, coordinates[coordinate.getDim()]);
  } else if (isa<LaneOp>(op)) {
    bind(op->getResult(0), lane);
  } else if (isa<NumLanesOp>(op)) {
    bind(op->getResult(0), simulated.numLanes);
  } else {
    return false;
  }
  return true;
}

namespace {
/// Operands as signed and as unsigned numbers, and the width of their type.
struct Operands {
  int64_t a, b;
  uint64_t ua, ub;
  unsigned width;
};
using Formula = int64_t (*)(const Operands &);
} // namespace

/// 64-bit results; `bind` keeps the bits of the result's type.
static const llvm::StringMap<Formula> &formulas() {
  static const llvm::StringMap<Formula> table = {
      {"arith.addi", [](const Operands &x) { return int64_t(x.ua + x.ub); }},
      {"arith.subi", [](const Operands &x) { return int64_t(x.ua - x.ub); }},
      {"arith.muli", [](const Operands &x) { return int64_t(x.ua * x.ub); }},
      {"arith.divsi", [](const Operands &x) { return x.a / x.b; }},
      {"arith.divui", [](const Operands &x) { return int64_t(x.ua / x.ub); }},
      {"arith.floordivsi", [](const Operands &x) { return x.a / x.b - (x.a % x.b != 0 && (x.a < 0) != (x.b < 0)); }},
      {"arith.ceildivsi", [](const Operands &x) { return x.a / x.b + (x.a % x.b != 0 && (x.a < 0) == (x.b < 0)); }},
      {"arith.ceildivui", [](const Operands &x) { return int64_t(x.ua / x.ub + (x.ua % x.ub != 0)); }},
      {"arith.remsi", [](const Operands &x) { return x.a % x.b; }},
      {"arith.remui", [](const Operands &x) { return int64_t(x.ua % x.ub); }},
      {"arith.minsi", [](const Operands &x) { return std::min(x.a, x.b); }},
      {"arith.maxsi", [](const Operands &x) { return std::max(x.a, x.b); }},
      {"arith.minui", [](const Operands &x) { return int64_t(std::min(x.ua, x.ub)); }},
      {"arith.maxui", [](const Operands &x) { return int64_t(std::max(x.ua, x.ub)); }},
      {"arith.andi", [](const Operands &x) { return x.a & x.b; }},
      {"arith.ori", [](const Operands &x) { return x.a | x.b; }},
      {"arith.xori", [](const Operands &x) { return x.a ^ x.b; }},
      {"arith.shli", [](const Operands &x) { return int64_t(x.ua << x.ub); }},
      {"arith.shrsi", [](const Operands &x) { return x.a >> x.ub; }},
      {"arith.shrui", [](const Operands &x) { return int64_t(x.ua >> x.ub); }},
      {"arith.index_cast", [](const Operands &x) { return x.a; }},
      {"arith.index_castui", [](const Operands &x) { return int64_t(x.ua); }},
      {"arith.extsi", [](const Operands &x) { return x.a; }},
      {"arith.extui", [](const Operands &x) { return int64_t(x.ua); }},
      {"arith.trunci", [](const Operands &x) { return x.a; }},
      {"math.ctlz", [](const Operands &x) { return int64_t(std::countl_zero(x.ua)) - (64 - int64_t(x.width)); }}};
  return table;
}

/// Why the op has no result for these operands; null when it has one.
static const char *undefinedBecause(StringRef name, const Operands &x) {
  static const llvm::StringSet<> divisions = {"arith.divsi",     "arith.divui", "arith.floordivsi", "arith.ceildivsi",
                                              "arith.ceildivui", "arith.remsi", "arith.remui"};
  static const llvm::StringSet<> shifts = {"arith.shli", "arith.shrsi", "arith.shrui"};
  if (x.b == 0 && divisions.contains(name))
    return "division by zero";
  if (x.b == -1 && x.a == llvm::minIntN(x.width) && divisions.contains(name) && !name.ends_with("ui"))
    return "division overflows";
  if (x.ub >= x.width && shifts.contains(name))
    return "shift by the width of the type or more";
  return nullptr;
}

llvm::Expected<bool> Scope::evaluateArithmetic(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    bind(constant, cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue());
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    bind(select, values.lookup(values.lookup(select.getCondition()) ? select.getTrueValue() : select.getFalseValue()));
    return true;
  }
  if (op->getNumOperands() == 0 || op->getNumOperands() > 2 || !op->getOperand(0).getType().isIntOrIndex())
    return false;
  unsigned width = widthOf(op->getOperand(0).getType());
  Operands x{values.lookup(op->getOperand(0)), values.lookup(op->getOperands().back()), 0, 0, width};
  uint64_t mask = llvm::maskTrailingOnes<uint64_t>(width);
  x.ua = uint64_t(x.a) & mask, x.ub = uint64_t(x.b) & mask;
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    bind(compare, arith::applyCmpPredicate(compare.getPredicate(), APInt(width, x.ua), APInt(width, x.ub)));
    return true;
  }
  StringRef name = op->getName().getStringRef();
  auto formula = formulas().find(name);
  if (formula == formulas().end())
    return false;
  if (const char *why = undefinedBecause(name, x))
    return fail(op, why);
  bind(op->getResult(0), formula->second(x));
  return true;
}

} // namespace kolo::reference
