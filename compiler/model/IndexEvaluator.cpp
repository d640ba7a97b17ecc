// Executes the index arithmetic of a program for one mesh.
#include "compiler/model/IndexEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <bit>

using namespace mlir;

namespace kolo {

static bool isNumber(Value value) { return value.getType().isIntOrIndex(); }

unsigned IndexEvaluator::addRegister(Value value) {
  auto [entry, isNew] = registerOf.try_emplace(value, unsigned(registers.size()));
  if (isNew)
    registers.push_back(0);
  return entry->second;
}

FailureOr<IndexEvaluator> IndexEvaluator::create(Operation *program) {
  IndexEvaluator evaluator;
  if (failed(evaluator.number(program)))
    return failure();
  return evaluator;
}

/// Numbers every value, then encodes every arithmetic op, and the bodies of statements as a whole.
LogicalResult IndexEvaluator::number(Operation *program) {
  program->walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        addRegister(argument);
    for (Value result : op->getResults())
      if (isNumber(result))
        addRegister(result);
  });
  WalkResult result = program->walk([&](Operation *op) {
    if (op->getNumResults() != 1 || !isNumber(op->getResult(0)))
      return WalkResult::advance();
    FailureOr<Instruction> instruction = encode(op);
    if (failed(instruction))
      return WalkResult::interrupt();
    instructions[op] = *instruction;
    if (isa<StatementInterface>(op->getParentOp()))
      bodies[op->getBlock()].push_back(*instruction);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void IndexEvaluator::setMesh(ArrayRef<int64_t> sizes, int64_t rootNumber) {
  dimSizes.assign(sizes.begin(), sizes.end());
  root = rootNumber;
}

int64_t IndexEvaluator::numRanks() const {
  int64_t result = 1;
  for (int64_t size : dimSizes)
    result *= size;
  return result;
}

const IndexEvaluator::Instruction *IndexEvaluator::instructionOf(Operation *op) const {
  auto found = instructions.find(op);
  return found == instructions.end() ? nullptr : &found->second;
}

LogicalResult IndexEvaluator::execute(Operation *op) {
  const Instruction *instruction = instructionOf(op);
  return instruction ? run(*instruction) : success();
}

LogicalResult IndexEvaluator::execute(Block &body) {
  for (const Instruction &instruction : bodies[&body])
    if (failed(run(instruction)))
      return failure();
  return success();
}

FailureOr<IndexEvaluator::Instruction> IndexEvaluator::encode(Operation *op) const {
  using arith::CmpIPredicate;
  Instruction result{Opcode::Constant, registerOf.at(op->getResult(0)), 0, 0, 0, 0, op};
  unsigned *operands[] = {&result.a, &result.b, &result.c};
  for (auto [operandRegister, operand] : llvm::zip(operands, op->getOperands()))
    if (auto found = registerOf.find(operand); found != registerOf.end())
      *operandRegister = found->second;
  auto comparison = [](CmpIPredicate predicate) -> std::optional<Opcode> {
    switch (predicate) {
    case CmpIPredicate::eq:
      return Opcode::Equal;
    case CmpIPredicate::ne:
      return Opcode::NotEqual;
    case CmpIPredicate::slt:
      return Opcode::Less;
    case CmpIPredicate::sle:
      return Opcode::LessEqual;
    case CmpIPredicate::sgt:
      return Opcode::Greater;
    case CmpIPredicate::sge:
      return Opcode::GreaterEqual;
    default:
      return std::nullopt;
    }
  };
  auto opcode = llvm::TypeSwitch<Operation *, std::optional<Opcode>>(op)
                    .Case([&](arith::ConstantOp constant) -> std::optional<Opcode> {
                      auto number = dyn_cast<IntegerAttr>(constant.getValue());
                      if (!number)
                        return std::nullopt;
                      result.immediate = number.getType().isInteger(1) ? int64_t(number.getValue().getBoolValue())
                                                                       : number.getValue().getSExtValue();
                      return Opcode::Constant;
                    })
                    .Case([&](DimSizeOp size) {
                      result.immediate = int64_t(size.getDim());
                      return Opcode::DimSize;
                    })
                    .Case([&](CoordOp coord) {
                      result.immediate = int64_t(coord.getDim());
                      return Opcode::Coord;
                    })
                    // One lane of one: see Code.h for why it stands for all.
                    .Case([&](LaneOp) {
                      result.immediate = 0;
                      return Opcode::Constant;
                    })
                    .Case([&](NumLanesOp) {
                      result.immediate = 1;
                      return Opcode::Constant;
                    })
                    .Case([](RootOp) { return Opcode::Root; })
                    .Case([](LookupOp) { return Opcode::Lookup; })
                    .Case([](arith::AddIOp) { return Opcode::Add; })
                    .Case([](arith::SubIOp) { return Opcode::Sub; })
                    .Case([](arith::MulIOp) { return Opcode::Mul; })
                    .Case([](arith::FloorDivSIOp) { return Opcode::FloorDiv; })
                    .Case<arith::DivSIOp, arith::DivUIOp>([](auto) { return Opcode::Div; })
                    .Case<arith::RemSIOp, arith::RemUIOp>([](auto) { return Opcode::Rem; })
                    .Case([](arith::MinSIOp) { return Opcode::Min; })
                    .Case([](arith::MaxSIOp) { return Opcode::Max; })
                    .Case([](arith::AndIOp) { return Opcode::And; })
                    .Case([](arith::OrIOp) { return Opcode::Or; })
                    .Case([](arith::XOrIOp) { return Opcode::Xor; })
                    .Case([](arith::ShLIOp) { return Opcode::Shl; })
                    .Case([](math::CountLeadingZerosOp) { return Opcode::Ctlz; })
                    .Case<arith::IndexCastOp, arith::IndexCastUIOp>([](auto) { return Opcode::Cast; })
                    .Case([](arith::SelectOp) { return Opcode::Select; })
                    .Case([&](arith::CmpIOp compare) { return comparison(compare.getPredicate()); })
                    .Default([](Operation *) { return std::nullopt; });
  if (!opcode) {
    op->emitError() << "'" << op->getName() << "' is not index arithmetic that a choreography may use";
    return failure();
  }
  result.opcode = *opcode;
  return result;
}

LogicalResult IndexEvaluator::run(const Instruction &instruction) {
  int64_t a = registers[instruction.a], b = registers[instruction.b];
  int64_t &result = registers[instruction.result];
  switch (instruction.opcode) {
  case Opcode::Constant:
    result = instruction.immediate;
    break;
  case Opcode::DimSize:
    result = dimSizes[size_t(instruction.immediate)];
    break;
  case Opcode::Coord:
    result = coordinates[size_t(instruction.immediate)];
    break;
  case Opcode::Root:
    result = root;
    break;
  case Opcode::Lookup: {
    ArrayRef<int64_t> table = cast<LookupOp>(instruction.op).getTable();
    if (a < 0 || a >= int64_t(table.size()))
      return instruction.op->emitError() << "index " << a << " is outside of the table of " << table.size();
    result = table[size_t(a)];
    break;
  }
  case Opcode::Add:
    if (__builtin_add_overflow(a, b, &result))
      return instruction.op->emitError() << "the sum of " << a << " and " << b << " is beyond 64 bits on this mesh";
    break;
  case Opcode::Sub:
    if (__builtin_sub_overflow(a, b, &result))
      return instruction.op->emitError() << a << " less " << b << " is beyond 64 bits on this mesh";
    break;
  case Opcode::Mul:
    if (__builtin_mul_overflow(a, b, &result))
      return instruction.op->emitError() << "the product of " << a << " and " << b << " is beyond 64 bits on this mesh";
    break;
  case Opcode::FloorDiv:
  case Opcode::Div:
  case Opcode::Rem:
    if (b == 0)
      return instruction.op->emitError("divides by zero on this mesh");
    result = instruction.opcode == Opcode::Div   ? a / b
             : instruction.opcode == Opcode::Rem ? a % b
                                                 : llvm::divideFloorSigned(a, b);
    break;
  case Opcode::Min:
    result = std::min(a, b);
    break;
  case Opcode::Max:
    result = std::max(a, b);
    break;
  case Opcode::And:
    result = a & b;
    break;
  case Opcode::Or:
    result = a | b;
    break;
  case Opcode::Xor:
    result = a ^ b;
    break;
  case Opcode::Shl:
    if (b < 0 || b > 62)
      return instruction.op->emitError() << "2 to the power of " << b << " on this mesh; the exponent must be 0 to 62";
    result = a << b;
    break;
  case Opcode::Ctlz:
    if (a <= 0)
      return instruction.op->emitError() << "logarithm of " << a << " on this mesh";
    result = std::countl_zero(uint64_t(a));
    break;
  case Opcode::Cast:
    result = a;
    break;
  case Opcode::Equal:
    result = a == b;
    break;
  case Opcode::NotEqual:
    result = a != b;
    break;
  case Opcode::Less:
    result = a < b;
    break;
  case Opcode::LessEqual:
    result = a <= b;
    break;
  case Opcode::Greater:
    result = a > b;
    break;
  case Opcode::GreaterEqual:
    result = a >= b;
    break;
  case Opcode::Select:
    result = a ? b : registers[instruction.c];
    break;
  }
  return success();
}

} // namespace kolo
