// Verifiers and helpers shared by both phases.
#include "ir/Limits.h"
#include "ir/VerifyProgram.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

#include <cctype>

using namespace mlir;

namespace kolo {

SlicesOp slicesOf(StatementInterface statement) { return cast<SlicesOp>(statement.getBody().front().getTerminator()); }

bool hasSlots(Value buffer) {
  auto op = buffer.getDefiningOp<BufferOp>();
  return op && op.getCut();
}

bool arePackets(Value buffer) {
  auto op = buffer.getDefiningOp<BufferOp>();
  return op && op.getRole() == BufferRole::Packets;
}

codec::Codec codecOf(Value buffer) {
  auto op = buffer.getDefiningOp<BufferOp>();
  return op && op.getCodec() ? op.getCodec()->getCodec() : dsl::none();
}

bool isConverting(MoveInterface move) {
  codec::Codec from = codecOf(move.getSource()), to = codecOf(move.getDestination());
  return from != to || (isa<ChannelReduceOp>(move.getOperation()) && !codec::isNone(to));
}

BufferOp findCoded(Operation *program) {
  BufferOp found;
  program->walk([&](BufferOp buffer) {
    found = buffer;
    return buffer.getCodec() ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found && found.getCodec() ? found : BufferOp();
}

bool haveDifferentScales(Value source, Value destination) {
  codec::Codec from = codecOf(source), to = codecOf(destination);
  return codec::isScaled(from) && codec::isScaled(to) && from != to;
}

bool isRanged(Value size) { return !matchPattern(size, m_One()); }

ProgramShape enclosingProgram(Operation *op) {
  for (; op; op = op->getParentOp()) {
    if (auto choreography = dyn_cast<ChoreographyOp>(op))
      return {choreography.getCollective(), choreography.getMesh(), choreography.getMeshes()};
    if (auto program = dyn_cast<ProgramOp>(op))
      return {program.getCollective(), program.getMesh(), program.getMeshes()};
  }
  return {};
}

LogicalResult DimSizeOp::verify() {
  ArrayAttr mesh = enclosingProgram(*this).mesh;
  if (!mesh || getDim() >= mesh.size() || int64_t(getDim()) < 0)
    return emitOpError("dim_size_c1: the mesh has no dimension ") << int64_t(getDim());
  return success();
}

LogicalResult BufferOp::verify() {
  if (getType().getGridRank() != getGrid().size())
    return emitOpError("buffer_c1: the type says ")
           << getType().getGridRank() << " grid dimensions, the op has " << getGrid().size();
  if (int64_t(getBlocks()) < 0 || getBlocks() > getGrid().size())
    return emitOpError("buffer_c2: ") << int64_t(getBlocks()) << " block dimensions in a grid of " << getGrid().size();
  if (!isa<ChoreographyOp, ProgramOp>((*this)->getParentOp()))
    return emitOpError("buffer_c3: must be at the top level of a program");
  if (getCut() && (isOfCaller(getRole()) || getRole() == BufferRole::Published))
    return emitOpError("buffer_c4: only scratch, inbox and packets have slots, not the ")
           << stringifyBufferRole(getRole());
  if (getCut() && getBlocks() != getGrid().size())
    return emitOpError("buffer_c5: ") << getBlocks() << " block dimensions in a grid of slots of " << getGrid().size();
  if (getLl128() && getRole() != BufferRole::Packets)
    return emitOpError("buffer_c6: only packets are LL128, not the ") << stringifyBufferRole(getRole());
  if (getCodec() && isOfCaller(getRole()))
    return emitOpError("buffer_c7: the ") << stringifyBufferRole(getRole()) << " is the caller's and has no codec";
  return success();
}

LogicalResult verifyLoops(Operation *program, StringRef label) {
  WalkResult result = program->walk([&](scf::ForOp loop) -> WalkResult {
    std::optional<int64_t> step = getConstantIntValue(loop.getStep());
    if (step && *step > 0)
      return WalkResult::advance();
    std::string number = step ? " of " + std::to_string(*step) : " that is no constant";
    return loop.emitError() << label << ": a loop with a step" << number << ", where a positive constant is needed";
  });
  return failure(result.wasInterrupted());
}

/// Messages, manifests and pages repeat names, and a terminal would obey control characters.
static LogicalResult verifyName(Operation *op, StringRef name, StringRef label) {
  if (llvm::none_of(name, [](unsigned char each) { return std::iscntrl(each); }))
    return success();
  std::string shown;
  llvm::raw_string_ostream stream(shown);
  llvm::printEscapedString(name, stream);
  return op->emitError() << label << "_c0: a name has control characters: '" << shown << "'";
}

LogicalResult verifyProgramShape(Operation *op, const ProgramShape &shape, StringRef label) {
  if (failed(verifyName(op, SymbolTable::getSymbolName(op).getValue(), label)))
    return failure();
  for (StringAttr dim : shape.mesh.getAsRange<StringAttr>())
    if (failed(verifyName(op, dim.getValue(), label)))
      return failure();
  size_t numDims = shape.mesh.size();
  llvm::SmallDenseSet<Attribute> names(shape.mesh.begin(), shape.mesh.end());
  if (numDims < 1 || numDims > 4 || names.size() != numDims)
    return op->emitOpError() << label << "_c1: a mesh has between one and four dimensions with distinct names";
  if (llvm::any_of(shape.collective.getGroupDims(), [&](int64_t dim) { return dim < 0 || dim >= int64_t(numDims); }))
    return op->emitOpError() << label << "_c2: the collective runs over a dimension that the mesh does not have";
  for (auto sizes : shape.meshes.getAsRange<DenseI64ArrayAttr>()) {
    if (size_t(sizes.size()) != numDims || llvm::any_of(sizes.asArrayRef(), [](int64_t size) { return size < 1; }))
      return op->emitOpError() << label << "_c3: mesh sizes [" << sizes.asArrayRef() << "] do not fit a mesh of "
                               << numDims << " dimensions";
    if (!hasFewEnoughRanks(sizes.asArrayRef()))
      return op->emitOpError() << label << "_c3: a mesh of sizes [" << sizes.asArrayRef() << "] has more than "
                               << maxMeshRanks << " ranks";
  }
  return success();
}

bool areOfMeshes(ArrayAttr proofs, ArrayAttr meshes) {
  llvm::SmallDenseSet<ArrayRef<int64_t>> left;
  for (auto mesh : meshes.getAsRange<DenseI64ArrayAttr>())
    left.insert(mesh.asArrayRef());
  return llvm::all_of(proofs.getAsRange<ProofAttr>(), [&](ProofAttr proof) { return left.erase(proof.getMesh()); });
}

bool fitsGrid(Value buffer, OperandRange offsets, OperandRange sizes) {
  size_t gridRank = cast<BufferType>(buffer.getType()).getGridRank();
  return offsets.size() == gridRank && sizes.size() == gridRank;
}

size_t countRanged(OperandRange sizes) { return llvm::count_if(sizes, isRanged); }

ParseResult parseMeshes(OpAsmParser &parser, ArrayAttr &meshes) {
  SmallVector<Attribute> entries;
  auto parseEntry = [&]() -> ParseResult {
    SmallVector<int64_t> sizes;
    auto parseSize = [&] { return parser.parseInteger(sizes.emplace_back()); };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseSize))
      return failure();
    entries.push_back(parser.getBuilder().getDenseI64ArrayAttr(sizes));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEntry))
    return failure();
  meshes = parser.getBuilder().getArrayAttr(entries);
  return success();
}

void printMeshes(OpAsmPrinter &printer, Operation *, ArrayAttr meshes) {
  printer << '[';
  llvm::interleaveComma(meshes.getAsRange<DenseI64ArrayAttr>(), printer, [&](DenseI64ArrayAttr sizes) {
    printer << '[';
    llvm::interleaveComma(sizes.asArrayRef(), printer);
    printer << ']';
  });
  printer << ']';
}

static bool takesAmount(StepKind kind) {
  return kind == StepKind::Next || kind == StepKind::Flip || kind == StepKind::At;
}

ParseResult parseRelation(OpAsmParser &parser, ArrayAttr &steps,
                          SmallVectorImpl<OpAsmParser::UnresolvedOperand> &amounts) {
  SmallVector<Attribute> entries;
  auto parseStep = [&]() -> ParseResult {
    StringRef keyword;
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<StepKind> kind = symbolizeStepKind(keyword);
    if (!kind)
      return parser.emitError(location) << "expected keep, next, flip, others, at or mapped";
    SmallVector<int64_t> table;
    auto parseEntry = [&] { return parser.parseInteger(table.emplace_back()); };
    if (*kind == StepKind::Mapped && parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEntry))
      return failure();
    if (takesAmount(*kind) && parser.parseOperand(amounts.emplace_back()))
      return failure();
    auto emitError = [&] { return parser.emitError(location); };
    auto step = StepAttr::getChecked(function_ref<InFlightDiagnostic()>(emitError), parser.getContext(), *kind,
                                     ArrayRef<int64_t>(table));
    entries.push_back(step);
    return success(bool(step));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseStep))
    return failure();
  steps = parser.getBuilder().getArrayAttr(entries);
  return success();
}

void printRelation(OpAsmPrinter &printer, Operation *, ArrayAttr steps, OperandRange amounts) {
  auto amount = amounts.begin();
  printer << '[';
  llvm::interleaveComma(steps.getAsRange<StepAttr>(), printer, [&](StepAttr step) {
    printer << stringifyStepKind(step.getKind());
    if (takesAmount(step.getKind()))
      printer << ' ' << *amount++;
    if (step.getKind() == StepKind::Mapped) {
      printer << " [";
      llvm::interleaveComma(step.getTable(), printer);
      printer << ']';
    }
  });
  printer << ']';
}

} // namespace kolo

using namespace kolo;
#define GET_OP_CLASSES
#include "KoloOps.cpp.inc"
