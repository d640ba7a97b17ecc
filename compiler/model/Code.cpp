// Flattens the ops of a channel program into instructions.
#include "compiler/model/Code.h"
#include "compiler/model/LoopGuards.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace kolo {

class CodeBuilder {
public:
  explicit CodeBuilder(Code &code) : code(code) {}
  /// Null once everything was flattened.
  std::optional<CodeMistake> run();

private:
  bool addBlock(Block &block);
  bool addOp(Operation &op);
  bool addLoop(scf::ForOp loop);
  bool addAllIterations(scf::ForOp loop);
  bool addOnlyIteration(scf::ForOp loop, const LoopGuard &guard);
  void hoist(scf::ForOp loop);
  bool isKnownBefore(scf::ForOp loop, Value value) const;
  bool addBranch(scf::IfOp branch);
  bool addBuffer(BufferOp buffer);
  bool addEvent(Operation &op);
  bool addMove(MoveInterface move, OpInfo &info);
  bool addPart(Operation *op, Value part, Value parts, OpInfo &info);
  SliceRegisters slice(Value buffer, OperandRange offsets, OperandRange sizes);
  bool checkLanes();
  void countPassed();
  bool refuse(Operation *op, const Twine &message) {
    mistake = CodeMistake{op->getLoc(), message.str()};
    return false;
  }
  unsigned registerOf(Value value) const { return code.evaluator.registerNumber(value); }
  uint32_t here() const { return uint32_t(code.lines.size()); }
  void addInstruction(const IndexEvaluator::Instruction &instruction) {
    code.lines.push_back({Code::Kind::Compute, 0, 0, 0, 0, 0, uint32_t(code.instructions.size())});
    code.instructions.push_back(instruction);
  }
  /// The register of a result that no op of the program has; `op` takes the blame.
  unsigned compute(Operation *op, IndexEvaluator::Opcode opcode, unsigned a, unsigned b = 0, unsigned c = 0) {
    addInstruction({opcode, code.evaluator.addRegister(), a, b, c, 0, op});
    return code.instructions.back().result;
  }

  Code &code;
  llvm::DenseSet<Operation *> hoisted; // arithmetic that was added before the loop that it is in
  llvm::DenseMap<Value, uint32_t> bufferNumbers;
  std::optional<CodeMistake> mistake;
};

std::optional<CodeMistake> CodeBuilder::run() {
  if (checkLanes())
    addBlock(code.program.getBody().front());
  countPassed();
  return mistake;
}

void CodeBuilder::countPassed() {
  for (auto [place, line] : llvm::enumerate(code.lines))
    if (line.kind == Code::Kind::JumpUnless || line.kind == Code::Kind::Jump)
      for (uint32_t i = uint32_t(place); i < line.target; ++i)
        line.numPassed += code.lines[i].kind == Code::Kind::Event;
}

bool CodeBuilder::addBlock(Block &block) {
  return llvm::all_of(block, [&](Operation &op) { return addOp(op); });
}

bool CodeBuilder::addOp(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return addLoop(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return addBranch(branch);
  if (auto buffer = dyn_cast<BufferOp>(op))
    return addBuffer(buffer);
  // Its moves one after the other: nothing in it lets another rank see in which order elements go, and the op's own
  // constraints keep elements from meeting.
  if (auto fuse = dyn_cast<FuseOp>(op)) {
    code.lines.push_back({Code::Kind::FuseBegin});
    bool isAdded = addBlock(fuse.getBody().front());
    code.lines.push_back({Code::Kind::FuseEnd});
    return isAdded;
  }
  if (isa<scf::YieldOp>(op))
    return op.getNumOperands() == 0 || refuse(&op, "values carried out of a loop or a branch cannot be checked");
  if (isa<MoveInterface, DivideOp, SignalOp, WaitOp, FlushOp, EnterOp>(op))
    return addEvent(op);
  if (hoisted.contains(&op))
    return true;
  const IndexEvaluator::Instruction *instruction = code.evaluator.instructionOf(&op);
  if (!instruction)
    return refuse(&op, "'" + op.getName().getStringRef() + "' cannot be checked in a channel program");
  addInstruction(*instruction);
  return true;
}

bool CodeBuilder::isKnownBefore(scf::ForOp loop, Value value) const {
  return loop.isDefinedOutsideOfLoop(value) || hoisted.contains(value.getDefiningOp());
}

/// Arithmetic that gives the same in all iterations, and is no mistake where it is not asked for, comes before the
/// loop.
void CodeBuilder::hoist(scf::ForOp loop) {
  loop.getBody()->walk<WalkOrder::PreOrder>([&](Operation *op) {
    const IndexEvaluator::Instruction *instruction = code.evaluator.instructionOf(op);
    bool isKnown = llvm::all_of(op->getOperands(), [&](Value value) { return isKnownBefore(loop, value); });
    if (instruction && isKnown && cannotFail(op) && hoisted.insert(op).second)
      addInstruction(*instruction);
  });
}

bool CodeBuilder::addLoop(scf::ForOp loop) {
  if (loop.getNumRegionIterArgs() != 0)
    return refuse(loop, "values carried out of a loop or a branch cannot be checked");
  hoist(loop);
  std::optional<LoopGuard> guard = findGuard(loop, [&](Value value) { return isKnownBefore(loop, value); });
  if (!guard)
    return addAllIterations(loop);
  if (!guard->condition)
    return addOnlyIteration(loop, *guard);
  uint32_t begin = here();
  code.lines.push_back({Code::Kind::JumpUnless, 0, registerOf(guard->condition)});
  bool isAdded = addAllIterations(loop);
  code.lines[begin].target = here();
  return isAdded;
}

/// Of a loop that takes its steps in one iteration, or in none.
bool CodeBuilder::addOnlyIteration(scf::ForOp loop, const LoopGuard &guard) {
  using Opcode = IndexEvaluator::Opcode;
  unsigned wanted = registerOf(guard.wanted), index = wanted;
  unsigned isThere = 0;
  if (guard.base) {
    unsigned base = registerOf(guard.base), size = registerOf(guard.size), zero = compute(loop, Opcode::Constant, 0);
    unsigned rest =
        guard.isSubtracted ? compute(loop, Opcode::Sub, base, wanted) : compute(loop, Opcode::Sub, wanted, base);
    rest = compute(loop, Opcode::Rem, rest, size);
    unsigned isNegative = compute(loop, Opcode::Less, rest, zero);
    index = compute(loop, Opcode::Select, isNegative, compute(loop, Opcode::Add, rest, size), rest);
    isThere = compute(loop, Opcode::And, compute(loop, Opcode::LessEqual, zero, wanted),
                      compute(loop, Opcode::Less, wanted, size));
  }
  unsigned isIteration =
      compute(loop, Opcode::And, compute(loop, Opcode::LessEqual, registerOf(loop.getLowerBound()), index),
              compute(loop, Opcode::Less, index, registerOf(loop.getUpperBound())));
  if (guard.base)
    isIteration = compute(loop, Opcode::And, isIteration, isThere);
  uint32_t begin = here();
  code.lines.push_back({Code::Kind::JumpUnless, 0, isIteration});
  addInstruction({Opcode::Cast, registerOf(loop.getInductionVar()), index, 0, 0, 0, loop});
  bool isAdded = addBlock(*loop.getBody());
  code.lines[begin].target = here();
  return isAdded;
}

bool CodeBuilder::addAllIterations(scf::ForOp loop) {
  uint32_t begin = here();
  Code::Line line{Code::Kind::ForBegin,
                  0,
                  registerOf(loop.getInductionVar()),
                  registerOf(loop.getLowerBound()),
                  registerOf(loop.getUpperBound()),
                  registerOf(loop.getStep()),
                  uint32_t(code.loops.size())};
  code.loops.push_back(loop.getLoc());
  code.lines.push_back(line);
  if (!addBlock(*loop.getBody()))
    return false;
  line.kind = Code::Kind::ForNext;
  line.target = begin + 1;
  code.lines.push_back(line);
  code.lines[begin].target = here();
  return true;
}

bool CodeBuilder::addBranch(scf::IfOp branch) {
  if (branch.getNumResults() != 0)
    return refuse(branch, "values carried out of a loop or a branch cannot be checked");
  uint32_t begin = here();
  code.lines.push_back({Code::Kind::JumpUnless, 0, registerOf(branch.getCondition())});
  if (!addBlock(*branch.thenBlock()))
    return false;
  if (!branch.elseBlock()) {
    code.lines[begin].target = here();
    return true;
  }
  uint32_t end = here();
  code.lines.push_back({Code::Kind::Jump});
  code.lines[begin].target = here();
  if (!addBlock(*branch.elseBlock()))
    return false;
  code.lines[end].target = here();
  return true;
}

bool CodeBuilder::addBuffer(BufferOp buffer) {
  BufferInfo info{buffer, buffer.getRole(), buffer.getName().str(), unsigned(buffer.getBlocks()), {}, std::nullopt};
  for (Value extent : buffer.getGrid())
    info.gridRegisters.push_back(registerOf(extent));
  if (buffer.getCut())
    info.cutRegister = registerOf(buffer.getCut());
  if (isOfCaller(info.role))
    for (auto [number, other] : llvm::enumerate(code.buffers))
      if (other.role == info.role) {
        if (!llvm::equal(other.op.getGrid(), buffer.getGrid()))
          return refuse(buffer, "a second grid for the " + stringifyBufferRole(info.role) + " cannot be checked");
        bufferNumbers[buffer] = uint32_t(number);
        return true;
      }
  bufferNumbers[buffer] = uint32_t(code.buffers.size());
  code.buffers.push_back(std::move(info));
  return true;
}

SliceRegisters CodeBuilder::slice(Value buffer, OperandRange offsets, OperandRange sizes) {
  SliceRegisters result{bufferNumbers.at(buffer), {}, {}, {}};
  for (Value offset : offsets)
    result.offsets.push_back(registerOf(offset));
  for (Value size : sizes) {
    result.sizes.push_back(registerOf(size));
    if (isRanged(size))
      result.rangedSizes.push_back(registerOf(size));
  }
  return result;
}

bool CodeBuilder::addEvent(Operation &op) {
  OpInfo info{&op, EventKind::Flush, std::nullopt, -1, {}, {}, std::nullopt, std::nullopt};
  if (auto signal = dyn_cast<SignalOp>(op)) {
    info.kind = EventKind::Signal;
    info.peerRegister = registerOf(signal.getRank());
    info.semaphore = int32_t(signal.getSemaphore());
  } else if (auto wait = dyn_cast<WaitOp>(op)) {
    info.kind = EventKind::Wait;
    info.peerRegister = registerOf(wait.getRank());
    info.semaphore = int32_t(wait.getSemaphore());
  } else if (auto divide = dyn_cast<DivideOp>(op)) {
    info.kind = EventKind::Divide;
    info.destination = slice(divide.getBuffer(), divide.getOffsets(), divide.getSizes());
    if (!addPart(&op, divide.getPart(), divide.getParts(), info))
      return false;
  } else if (auto move = dyn_cast<MoveInterface>(op)) {
    if (!addMove(move, info))
      return false;
  } else if (isa<EnterOp>(op)) {
    info.kind = EventKind::Enter;
  }
  code.lines.push_back({Code::Kind::Event, 0, 0, 0, 0, 0, uint32_t(code.ops.size())});
  code.ops.push_back(std::move(info));
  return true;
}

bool CodeBuilder::addMove(MoveInterface move, OpInfo &info) {
  info.kind = isa<PutOp>(move) ? EventKind::Put : isa<ChannelReduceOp>(move) ? EventKind::Reduce : EventKind::Copy;
  if (Value rank = move.getSourceRank() ? move.getSourceRank() : move.getDestinationRank())
    info.peerRegister = registerOf(rank);
  info.source = slice(move.getSource(), move.getSourceOffsets(), move.getSourceSizes());
  info.destination = slice(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes());
  return addPart(move, move.getPart(), move.getParts(), info);
}

/// The factors of `value` = factor * lanes, `lanes` itself counting as 1 * lanes. Null where it has another form.
static std::optional<Value> factorOfLanes(Value value) {
  if (value.getDefiningOp<NumLanesOp>())
    return Value();
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (product && product.getRhs().getDefiningOp<NumLanesOp>())
    return product.getLhs();
  if (product && product.getLhs().getDefiningOp<NumLanesOp>())
    return product.getRhs();
  return std::nullopt;
}

/// Whether `part` is s * lanes + lane for some s, or lane.
static bool isPartOfLane(Value part) {
  if (part.getDefiningOp<LaneOp>())
    return true;
  auto sum = part.getDefiningOp<arith::AddIOp>();
  if (!sum)
    return false;
  auto isSum = [](Value slice, Value lane) { return lane.getDefiningOp<LaneOp>() && factorOfLanes(slice).has_value(); };
  return isSum(sum.getLhs(), sum.getRhs()) || isSum(sum.getRhs(), sum.getLhs());
}

bool CodeBuilder::addPart(Operation *op, Value part, Value parts, OpInfo &info) {
  if (!part) // as PlaceLanes will say it
    return true;
  if (!isPartOfLane(part) || !factorOfLanes(parts))
    return refuse(op, "only part lane of num_lanes, or slice * num_lanes + lane of slices * num_lanes, can be checked");
  info.partRegister = registerOf(part);
  info.partsRegister = registerOf(parts);
  return true;
}

/// Nothing may depend on the lane but which part of a chunk is moved.
bool CodeBuilder::checkLanes() {
  WalkResult result = code.program.walk([&](Operation *op) {
    if (!isa<LaneOp, NumLanesOp>(op))
      return WalkResult::advance();
    SmallVector<OpOperand *> uses;
    auto add = [&](Value value) {
      for (OpOperand &use : value.getUses())
        uses.push_back(&use);
    };
    add(op->getResult(0));
    while (!uses.empty()) {
      OpOperand &use = *uses.pop_back_val();
      Operation *user = use.getOwner();
      if (isa<arith::MulIOp, arith::AddIOp>(user)) {
        add(user->getResult(0));
        continue;
      }
      // `part` and `of` are the last operands; `addPart` looks at what they are.
      auto move = dyn_cast<MoveInterface>(user);
      auto divide = dyn_cast<DivideOp>(user);
      auto fuse = dyn_cast<FuseOp>(user);
      bool isInParts = ((move && move.getPart()) || (divide && divide.getPart()) || (fuse && fuse.getPart())) &&
                       use.getOperandNumber() + 2 >= user->getNumOperands();
      if (!isInParts) {
        refuse(user, "depends on the lane other than by the part that it moves, which cannot be checked");
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return !result.wasInterrupted();
}

std::variant<Code, CodeMistake> Code::create(ProgramOp program) {
  std::optional<CodeMistake> mistake;
  ScopedDiagnosticHandler handler(program.getContext(), [&](Diagnostic &diagnostic) {
    if (!mistake)
      mistake = CodeMistake{diagnostic.getLocation(), diagnostic.str()};
    return success();
  });
  FailureOr<IndexEvaluator> evaluator = IndexEvaluator::create(program);
  if (failed(evaluator))
    return *mistake;
  Code code(program, std::move(*evaluator));
  if (std::optional<CodeMistake> found = CodeBuilder(code).run())
    return *found;
  return code;
}

} // namespace kolo
