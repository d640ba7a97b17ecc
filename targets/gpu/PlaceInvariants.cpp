// PlaceInvariants: computes once per block what only the call decides, and keeps it in the block's memory.
//   Before:  func @move.p.0(%invocation, %i) { %n = load (%invocation + 80) ; %q = %n / %lanes ; ... %q * %i ... }
//            func @run.p(%invocation) { loop { call @move.p.0(%invocation, %i) } }
//   After:   func @move.p.0(%invocation, %i) { %q = load kept[0] ; ... %q * %i ... }
//            func @run.p(%invocation) { kept[0] = load (%invocation + 80) / %lanes ; barrier ; loop { call ... } }
//   Before:  %q = %x / %lanes ; a division of what changes by what does not
//   After:   %q = %x * (load (%invocation + 312)) >> 64, and one more where that is too little
// The invocation has the reciprocals of the lanes and of the mesh; those of other divisors are kept like other values.
//
// Every move is a function of its own, and computes where its chunk lies: dozens of divisions, for which devices have
// no instruction. All threads of the block would make all of them for each move. Here groups of threads share the
// values among them, before the first move. Runs once rounding divisions are expanded, and before LowerDivisions.
#include "ir/IndexArithmetic.h"
#include "targets/gpu/AroundMoves.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <tuple>
#include <vector>

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_PLACEINVARIANTS
#include "targets/gpu/Passes.h.inc"

namespace {

bool isDivision(Operation &op) {
  return isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp>(op) &&
         op.getOperand(0).getType().isIndex() && !matchPattern(op.getOperand(1), m_Constant());
}

bool isConstant(Value value) { return matchPattern(value, m_Constant()); }

/// Primitives that load no kept value and move nothing.
constexpr StringLiteral primitivesBefore[] = {laneFunction, numLanesFunction, threadFunction, numThreadsFunction,
                                              uniformFunction};

/// Of a load: from where in the invocation; nothing for another load.
std::optional<int64_t> fieldOf(LLVM::LoadOp load, Value invocation) {
  if (load.getAddr() == invocation)
    return 0;
  auto address = load.getAddr().getDefiningOp<LLVM::GEPOp>();
  if (!address || address.getBase() != invocation || address.getIndices().size() != 1)
    return std::nullopt;
  auto index = address.getIndices()[0];
  if (auto constant = dyn_cast<IntegerAttr>(index))
    return constant.getInt();
  return getConstantIntValue(cast<Value>(index));
}

/// What the call alone decides, as one function computes it: it is the same for all threads of a block, in every
/// function and in every iteration.
class Invariants {
public:
  explicit Invariants(LLVM::LLVMFuncOp function) : invocation(function.getArgument(0)) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { look(*op); });
  }

  bool contains(Value value) const { return costs.contains(value) || isConstant(value); }
  /// Whether a value takes longer to compute than to load.
  bool isLong(Value value) const { return costs.lookup(value) > mostCost; }
  /// At an operation that comes behind those of its operands.
  void look(Operation &op);
  /// Before the operation is erased.
  void forget(Operation &op) { costs.erase(op.getResult(0)); }

private:
  static constexpr int mostCost = 6, divisionCost = 16;

  bool isOperation(Operation &op) const;

  Value invocation;
  llvm::DenseMap<Value, int> costs; // in instructions; what two operands share counts twice
};

bool Invariants::isOperation(Operation &op) const {
  if (op.getNumRegions() != 0 || op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrIndex())
    return false;
  if (auto load = dyn_cast<LLVM::LoadOp>(op))
    return fieldOf(load, invocation).has_value(); // nobody writes there while the kernel runs
  if (auto called = dyn_cast<LLVM::CallOp>(op))
    return llvm::is_contained({laneFunction, numLanesFunction, uniformFunction}, called.getCallee().value_or(""));
  return isMemoryEffectFree(&op);
}

void Invariants::look(Operation &op) {
  if (op.hasTrait<OpTrait::ConstantLike>() || !isOperation(op))
    return;
  constexpr int most = 1 << 20;
  int cost = isDivision(op) ? divisionCost : isa<LLVM::LoadOp, LLVM::CallOp, arith::IndexCastOp>(op) ? 0 : 1;
  if (!isa<LLVM::LoadOp>(op))
    for (Value operand : op.getOperands()) {
      if (!contains(operand))
        return;
      cost = std::min(cost + costs.lookup(operand), most);
    }
  costs[op.getResult(0)] = cost;
}

/// Where the invocation has the reciprocal of a divisor, which is then positive; nothing where it has none.
std::optional<int64_t> reciprocalField(Value divisor, Value invocation) {
  for (;;) {
    if (auto cast = divisor.getDefiningOp<arith::IndexCastOp>()) {
      divisor = cast.getIn();
    } else if (auto called = divisor.getDefiningOp<LLVM::CallOp>()) {
      if (called.getCallee() == numLanesFunction)
        return offsetof(KoloDeviceInvocation, laneReciprocal);
      if (called.getCallee() != uniformFunction)
        return std::nullopt;
      divisor = called.getOperand(0);
    } else {
      break;
    }
  }
  auto load = divisor.getDefiningOp<LLVM::LoadOp>();
  std::optional<int64_t> field = load ? fieldOf(load, invocation) : std::nullopt;
  constexpr int64_t begin = offsetof(KoloDeviceInvocation, dimSizes), size = sizeof(KoloDeviceInvocation::dimSizes);
  if (!field || *field < begin || *field >= begin + size)
    return std::nullopt;
  return int64_t(offsetof(KoloDeviceInvocation, dimReciprocals)) + *field - begin;
}

/// A division by what does not change, as a multiplication: with m = floor((2^64 - 1) / b), floor(a m / 2^64) is the
/// quotient or one less, for all a and b of 64 bits.
class Reciprocal {
public:
  Reciprocal(Operation &divided, Value fromInvocation, Invariants &known)
      : op(divided), invocation(fromInvocation), invariants(known), builder(&divided), loc(divided.getLoc()),
        field(reciprocalField(divided.getOperand(1), fromInvocation)) {}

  void replace();

private:
  Value integer(Value index) { return toInteger(builder, loc, index); }
  /// -1 for a negative number, else 0; the number's negative for -1, else itself.
  Value signOf(Value number) { return arith::ShRSIOp::create(builder, loc, number, constantI64(builder, loc, 63)); }
  Value negateIf(Value number, Value sign) {
    return arith::SubIOp::create(builder, loc, arith::XOrIOp::create(builder, loc, number, sign), sign);
  }
  Value reciprocalOf(Value divisor);
  Value highProduct(Value a, Value b);

  Operation &op;
  Value invocation;
  Invariants &invariants;
  OpBuilder builder;
  Location loc;
  const std::optional<int64_t> field; // of the invocation
};

/// The upper half of 128 bits.
Value Reciprocal::highProduct(Value a, Value b) {
  Type i128 = builder.getIntegerType(128);
  auto wide = [&](Value value) -> Value { return arith::ExtUIOp::create(builder, loc, i128, value); };
  Value product = arith::MulIOp::create(builder, loc, wide(a), wide(b));
  Value places = arith::ConstantIntOp::create(builder, loc, i128, 64);
  Value high = arith::ShRUIOp::create(builder, loc, product, places);
  return arith::TruncIOp::create(builder, loc, builder.getI64Type(), high);
}

Value Reciprocal::reciprocalOf(Value divisor) {
  if (field)
    return load(builder, loc, builder.getI64Type(), invocation, *field);
  Value all = arith::ConstantIndexOp::create(builder, loc, -1);
  return integer(arith::DivUIOp::create(builder, loc, all, toIndex(builder, loc, divisor)));
}

void Reciprocal::replace() {
  const bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op), isRemainder = isa<arith::RemUIOp, arith::RemSIOp>(op);
  Operation *before = op.getPrevNode();
  Value a = integer(op.getOperand(0)), b = integer(op.getOperand(1)), signA, signB;
  if (isSigned) {
    signA = signOf(a), a = negateIf(a, signA);
    signB = field ? constantI64(builder, loc, 0) : signOf(b), b = field ? b : negateIf(b, signB);
  }
  Value quotient = highProduct(a, reciprocalOf(b));
  Value rest = arith::SubIOp::create(builder, loc, a, arith::MulIOp::create(builder, loc, quotient, b));
  Value isLess = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, rest, b);
  Value result;
  if (isRemainder) {
    result = arith::SelectOp::create(builder, loc, isLess, arith::SubIOp::create(builder, loc, rest, b), rest);
  } else {
    Value more = arith::AddIOp::create(builder, loc, quotient, constantI64(builder, loc, 1));
    result = arith::SelectOp::create(builder, loc, isLess, more, quotient);
  }
  if (isSigned)
    result = negateIf(result, isRemainder ? signA : Value(arith::XOrIOp::create(builder, loc, signA, signB)));
  op.getResult(0).replaceAllUsesWith(toIndex(builder, loc, result));
  Operation *first = before ? before->getNextNode() : &op.getBlock()->front();
  for (Operation *made = first; made != &op; made = made->getNextNode())
    invariants.look(*made);
  invariants.forget(op);
  op.erase();
}

/// The values that a program keeps: each once, whatever functions compute it.
class Kept {
public:
  explicit Kept(LLVM::LLVMFuncOp runFunction)
      : builder(runFunction.getContext()), loc(runFunction.getLoc()), run(runFunction) {}

  /// Makes the uses of long invariants in a function loads.
  void replaceIn(LLVM::LLVMFuncOp function, const Invariants &invariants);
  /// At the beginning of the program. A group of threads computes every eighth value, or more where there are less.
  void computeAll();

private:
  static constexpr int64_t groupThreads = 64, mostGroups = 8;

  /// An operation on values of these numbers; number -1 is the invocation.
  struct Node {
    Operation *op;
    SmallVector<int64_t, 4> operands;
  };
  using Key = std::tuple<const void *, const void *, const void *, std::vector<int64_t>>; // what makes values equal

  static bool isWithin(Operation &op, const Invariants &invariants);
  int64_t numberOf(Value value);
  std::optional<int64_t> placeOf(Value value);
  Value compute(int64_t number, llvm::DenseMap<int64_t, Value> &done);
  Value entry(int64_t place);
  Value loadFor(Value value, int64_t place);
  Value groupMask();
  bool meetsBeforeUse();

  OpBuilder builder;
  Location loc;
  LLVM::LLVMFuncOp run;
  std::vector<Node> nodes;
  std::map<Key, int64_t> numbers;
  llvm::DenseMap<Value, int64_t> known;
  SmallVector<int64_t> places; // numbers of the kept values
};

int64_t Kept::numberOf(Value value) {
  constexpr int64_t ofInvocation = -1;
  Operation *op = value.getDefiningOp();
  if (!op)
    return ofInvocation;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Node node{op, llvm::map_to_vector<4>(op->getOperands(), [&](Value operand) { return numberOf(operand); })};
  Key key{op->getName().getAsOpaquePointer(),
          op->getAttrDictionary().getAsOpaquePointer(),
          value.getType().getAsOpaquePointer(),
          {node.operands.begin(), node.operands.end()}};
  auto [number, isNew] = numbers.try_emplace(std::move(key), int64_t(nodes.size()));
  if (isNew)
    nodes.push_back(std::move(node));
  return known[value] = number->second;
}

/// Nothing where there is no more room.
std::optional<int64_t> Kept::placeOf(Value value) {
  int64_t number = numberOf(value), place = llvm::find(places, number) - places.begin();
  if (place == numKept)
    return std::nullopt;
  if (place == int64_t(places.size()))
    places.push_back(number);
  return place;
}

Value Kept::entry(int64_t place) {
  return advance(builder, loc, call(builder, loc, keptFunction), constantI64(builder, loc, place * 8));
}

Value Kept::loadFor(Value value, int64_t place) {
  Value loaded = LLVM::LoadOp::create(builder, loc, builder.getI64Type(), entry(place), 8);
  loaded = call(builder, loc, uniformFunction, {loaded});
  Type type = value.getType();
  if (type.isIndex())
    return toIndex(builder, loc, loaded);
  return type.isInteger(64) ? loaded : Value(arith::TruncIOp::create(builder, loc, type, loaded));
}

/// Whether an operation is a part of longer invariants alone. What has more than 64 bits cannot be kept itself.
bool Kept::isWithin(Operation &op, const Invariants &invariants) {
  auto isInvariant = [&](Operation &other) {
    return other.getNumResults() == 1 && invariants.contains(other.getResult(0));
  };
  if (!isInvariant(op))
    return false;
  bool isWide = op.getResult(0).getType().isInteger(128);
  return !isWide || llvm::all_of(op.getUsers(), [&](Operation *user) { return isInvariant(*user); });
}

void Kept::replaceIn(LLVM::LLVMFuncOp function, const Invariants &invariants) {
  SmallVector<OpOperand *> uses;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isWithin(*op, invariants) && !isa<LLVM::AssumeOp>(op))
      for (OpOperand &operand : op->getOpOperands())
        if (invariants.isLong(operand.get()) && !operand.get().getType().isInteger(128))
          uses.push_back(&operand);
  });
  // Near its use: behind a call it is loaded again, and takes no register meanwhile.
  for (OpOperand *use : uses)
    if (std::optional<int64_t> place = placeOf(use->get())) {
      builder.setInsertionPoint(use->getOwner());
      use->set(loadFor(use->get(), *place));
    }
}

Value Kept::compute(int64_t number, llvm::DenseMap<int64_t, Value> &done) {
  if (number < 0)
    return run.getArgument(0);
  if (auto found = done.find(number); found != done.end())
    return found->second;
  const Node &node = nodes[size_t(number)];
  SmallVector<Value> operands;
  for (int64_t operand : node.operands)
    operands.push_back(compute(operand, done));
  if (isDivision(*node.op)) { // where it was, it may not have been reached with a zero
    Value zero = createConstant(builder, loc, 0), one = createConstant(builder, loc, 1);
    Value isZero = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, operands[1], zero);
    operands[1] = arith::SelectOp::create(builder, loc, isZero, one, operands[1]);
  }
  Operation *clone = node.op->clone();
  clone->setOperands(operands);
  builder.insert(clone);
  return done[number] = clone->getResult(0);
}

/// The number of groups that take part, a power of two, less one.
Value Kept::groupMask() {
  Value threads = call(builder, loc, numThreadsFunction), mask = constantI64(builder, loc, 0);
  for (int64_t groups = 2; groups <= mostGroups; groups *= 2) {
    Value hasMany = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, threads,
                                          constantI64(builder, loc, groups * groupThreads));
    mask = arith::SelectOp::create(builder, loc, hasMany, constantI64(builder, loc, groups - 1), mask);
  }
  return mask;
}

void Kept::computeAll() {
  if (places.empty())
    return;
  builder.setInsertionPointToStart(&run.getBody().front());
  Value thread = call(builder, loc, threadFunction), mask = groupMask();
  for (int64_t group = 0; group < std::min(mostGroups, int64_t(places.size())); ++group) {
    Value number = arith::AndIOp::create(builder, loc, mask, constantI64(builder, loc, group));
    Value first = arith::MulIOp::create(builder, loc, number, constantI64(builder, loc, groupThreads));
    Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, first);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(scf::IfOp::create(builder, loc, isFirst).thenBlock());
    llvm::DenseMap<int64_t, Value> done;
    for (int64_t place = group; place < int64_t(places.size()); place += mostGroups) {
      Value value = compute(places[size_t(place)], done);
      if (value.getType().isIndex())
        value = toInteger(builder, loc, value);
      else if (!value.getType().isInteger(64))
        value = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), value);
      LLVM::StoreOp::create(builder, loc, value, entry(place), 8);
    }
  }
  if (!meetsBeforeUse())
    call(builder, loc, barrierFunction);
}

/// Whether the program has a barrier of its own behind the builder, before anything that may load a kept value.
bool Kept::meetsBeforeUse() {
  for (Operation &op : llvm::make_range(builder.getInsertionPoint(), builder.getInsertionBlock()->end())) {
    auto called = dyn_cast<LLVM::CallOp>(op);
    StringRef callee = called ? called.getCallee().value_or("") : "";
    if (callee == barrierFunction)
      return true;
    bool isLoad = callee == keptFunction, isOther = called && !llvm::is_contained(primitivesBefore, callee);
    if (isLoad || isOther || op.getNumRegions() != 0)
      return false;
  }
  return false;
}

struct PlaceInvariants : impl::PlaceInvariantsBase<PlaceInvariants> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (hasInvocation(kernel) && kernel.getLinkage() == LLVM::Linkage::External)
        for (LLVM::LLVMFuncOp run : callees(kernel))
          place(run);
  }

private:
  static bool hasInvocation(LLVM::LLVMFuncOp function) {
    ArrayAttr attributes = function.getPassthroughAttr();
    return attributes && llvm::any_of(attributes, [](Attribute attribute) {
             auto text = dyn_cast<StringAttr>(attribute);
             return text && text.getValue() == invocationAttribute;
           });
  }
  /// Those that begin with an invocation, in the order of the text.
  SmallVector<LLVM::LLVMFuncOp> callees(LLVM::LLVMFuncOp caller) {
    llvm::SetVector<LLVM::LLVMFuncOp> found;
    caller.walk([&](LLVM::CallOp called) {
      auto function = getOperation().lookupSymbol<LLVM::LLVMFuncOp>(called.getCallee().value_or(""));
      if (function && hasInvocation(function))
        found.insert(function);
    });
    return found.takeVector();
  }

  static void place(LLVM::LLVMFuncOp function, Kept &kept) {
    Invariants invariants(function);
    SmallVector<Operation *> divisions;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isDivision(*op) && invariants.contains(op->getOperand(1)) &&
          (!invariants.contains(op->getOperand(0)) || reciprocalField(op->getOperand(1), function.getArgument(0))))
        divisions.push_back(op);
    });
    for (Operation *division : divisions)
      Reciprocal(*division, function.getArgument(0), invariants).replace();
    kept.replaceIn(function, invariants);
  }

  void place(LLVM::LLVMFuncOp run) {
    Kept kept(run);
    SmallVector<LLVM::LLVMFuncOp> moves = callees(run);
    place(run, kept);
    for (LLVM::LLVMFuncOp move : moves)
      place(move, kept);
    kept.computeAll();
    moves.push_back(run);
    for (LLVM::LLVMFuncOp function : moves)
      eraseUnused(function);
  }

  /// What led to values that are loaded now.
  static void eraseUnused(LLVM::LLVMFuncOp function) {
    function.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
      if (isOpTriviallyDead(op))
        op->erase();
    });
  }
};

} // namespace
} // namespace kolo::gpu
