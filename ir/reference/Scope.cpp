// Evaluation of the pure ops: arith, math.ctlz, and those of kolo that give integers.
#include "ir/reference/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
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

/// 0: it is no integer.
static unsigned widthOf(Type type) {
  if (isa<IndexType>(type))
    return 64;
  auto integer = dyn_cast<IntegerType>(type);
  return integer ? integer.getWidth() : 0;
}

void Scope::bind(Value value, int64_t integer) {
  unsigned width = widthOf(value.getType());
  values[value] = width ? llvm::SignExtend64(uint64_t(integer), width) : 0;
}

llvm::Expected<bool> Scope::evaluate(Operation *op) {
  auto isHeld = [](Type type) {
    unsigned width = widthOf(type);
    return width > 0 && width <= 64;
  };
  if (!llvm::all_of(op->getResultTypes(), isHeld))
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

/// What has no result for some operands.
enum class Kind { Total, UnsignedDivision, SignedDivision, Shift };

struct Rule {
  Formula formula;
  Kind kind = Kind::Total;
};
using Rules = llvm::DenseMap<TypeID, Rule>;
} // namespace

template <class Op> static Rules::value_type rule(Formula formula, Kind kind = Kind::Total) {
  return {TypeID::get<Op>(), Rule{formula, kind}};
}

/// 64-bit results; `bind` keeps the bits of the result's type. By the op's type: they are looked for at every step of a
/// rank.
static const Rules &rules() {
  static const Rules table = {
      rule<arith::AddIOp>([](const Operands &x) { return int64_t(x.ua + x.ub); }),
      rule<arith::SubIOp>([](const Operands &x) { return int64_t(x.ua - x.ub); }),
      rule<arith::MulIOp>([](const Operands &x) { return int64_t(x.ua * x.ub); }),
      rule<arith::DivSIOp>([](const Operands &x) { return x.a / x.b; }, Kind::SignedDivision),
      rule<arith::DivUIOp>([](const Operands &x) { return int64_t(x.ua / x.ub); }, Kind::UnsignedDivision),
      rule<arith::FloorDivSIOp>(
          [](const Operands &x) { return x.a / x.b - (x.a % x.b != 0 && (x.a < 0) != (x.b < 0)); },
          Kind::SignedDivision),
      rule<arith::CeilDivSIOp>([](const Operands &x) { return x.a / x.b + (x.a % x.b != 0 && (x.a < 0) == (x.b < 0)); },
                               Kind::SignedDivision),
      rule<arith::CeilDivUIOp>([](const Operands &x) { return int64_t(x.ua / x.ub + (x.ua % x.ub != 0)); },
                               Kind::UnsignedDivision),
      rule<arith::RemSIOp>([](const Operands &x) { return x.a % x.b; }, Kind::SignedDivision),
      rule<arith::RemUIOp>([](const Operands &x) { return int64_t(x.ua % x.ub); }, Kind::UnsignedDivision),
      rule<arith::MinSIOp>([](const Operands &x) { return std::min(x.a, x.b); }),
      rule<arith::MaxSIOp>([](const Operands &x) { return std::max(x.a, x.b); }),
      rule<arith::MinUIOp>([](const Operands &x) { return int64_t(std::min(x.ua, x.ub)); }),
      rule<arith::MaxUIOp>([](const Operands &x) { return int64_t(std::max(x.ua, x.ub)); }),
      rule<arith::AndIOp>([](const Operands &x) { return x.a & x.b; }),
      rule<arith::OrIOp>([](const Operands &x) { return x.a | x.b; }),
      rule<arith::XOrIOp>([](const Operands &x) { return x.a ^ x.b; }),
      rule<arith::ShLIOp>([](const Operands &x) { return int64_t(x.ua << x.ub); }, Kind::Shift),
      rule<arith::ShRSIOp>([](const Operands &x) { return x.a >> x.ub; }, Kind::Shift),
      rule<arith::ShRUIOp>([](const Operands &x) { return int64_t(x.ua >> x.ub); }, Kind::Shift),
      rule<arith::IndexCastOp>([](const Operands &x) { return x.a; }),
      rule<arith::IndexCastUIOp>([](const Operands &x) { return int64_t(x.ua); }),
      rule<arith::ExtSIOp>([](const Operands &x) { return x.a; }),
      rule<arith::ExtUIOp>([](const Operands &x) { return int64_t(x.ua); }),
      rule<arith::TruncIOp>([](const Operands &x) { return x.a; }),
      rule<math::CountLeadingZerosOp>(
          [](const Operands &x) { return int64_t(std::countl_zero(x.ua)) - (64 - int64_t(x.width)); })};
  return table;
}

/// Why the op has no result for these operands; null when it has one.
static const char *undefinedBecause(Kind kind, const Operands &x) {
  const bool divides = kind == Kind::UnsignedDivision || kind == Kind::SignedDivision;
  if (divides && x.b == 0)
    return "division by zero";
  if (kind == Kind::SignedDivision && x.b == -1 && x.a == llvm::minIntN(x.width))
    return "division overflows";
  if (kind == Kind::Shift && x.ub >= x.width)
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
  if (op->getNumOperands() == 0 || op->getNumOperands() > 2)
    return false;
  unsigned width = widthOf(op->getOperand(0).getType());
  if (width == 0)
    return false;
  Operands x{values.lookup(op->getOperand(0)), values.lookup(op->getOperands().back()), 0, 0, width};
  uint64_t mask = llvm::maskTrailingOnes<uint64_t>(width);
  x.ua = uint64_t(x.a) & mask, x.ub = uint64_t(x.b) & mask;
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    bind(compare, arith::applyCmpPredicate(compare.getPredicate(), APInt(width, x.ua), APInt(width, x.ub)));
    return true;
  }
  auto found = rules().find(op->getName().getTypeID());
  if (found == rules().end())
    return false;
  const auto &[formula, kind] = found->second;
  if (const char *why = undefinedBecause(kind, x))
    return fail(op, why);
  bind(op->getResult(0), formula(x));
  return true;
}

} // namespace kolo::reference
