// What a program does on a mesh, as one number.
#include "Trace.h"
#include "Judge.h"

#include "ir/reference/Layout.h"
#include "ir/reference/Walker.h"

#include "llvm/Support/xxhash.h"

namespace kolo::mutation {

using namespace reference;

namespace {

class Tracer {
public:
  Tracer(ProgramOp program, llvm::ArrayRef<int64_t> mesh) : program(program) {
    simulated.collective = program.getCollective();
    simulated.meshSizes = mesh.vec();
    simulated.numLanes = 2;
  }

  TraceHash run() {
    int64_t numRoots = isRooted(simulated.collective.getKind()) ? groupSize(simulated) : 1;
    for (simulated.root = 0; simulated.root < numRoots; ++simulated.root)
      for (int64_t rank = 0; rank < numRanks(simulated); ++rank)
        traceRank(rank);
    llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
        llvm::ArrayRef(reinterpret_cast<const uint8_t *>(trace.data()), trace.size() * sizeof(int64_t)));
    return {hash.low64, hash.high64};
  }

private:
  void traceRank(int64_t rank);
  void traceOp(mlir::Operation *op, const Scope &scope);
  void addSlice(const Scope &scope, mlir::Value buffer, mlir::ValueRange offsets, mlir::ValueRange sizes);
  void add(const Scope &scope, mlir::Value value) { trace.push_back(value ? scope[value] : -1); }
  void add(const void *pointer) { trace.push_back(int64_t(reinterpret_cast<uintptr_t>(pointer))); }
  void fail(llvm::Error error) { trace.push_back(int64_t(llvm::xxh3_64bits(llvm::toString(std::move(error))))); }

  ProgramOp program;
  SimulatedCall simulated;
  llvm::DenseMap<mlir::Value, std::vector<int64_t>> grids; // of buffers, on the rank traced
  std::vector<int64_t> trace;
};

void Tracer::traceRank(int64_t rank) {
  Scope scope(simulated, rank, /*lane=*/1);
  Walker walker(program.getBody().front(), scope);
  while (true) {
    llvm::Expected<mlir::Operation *> op = walker.next();
    if (!op)
      return fail(op.takeError());
    trace.push_back(*op != nullptr);
    if (!*op)
      return;
    traceOp(*op, scope);
  }
}

/// Types and attributes are unique in their context, so their addresses stand for them.
void Tracer::traceOp(mlir::Operation *op, const Scope &scope) {
  add(op->getName().getAsOpaquePointer());
  add(op->getAttrDictionary().getAsOpaquePointer());
  if (auto move = llvm::dyn_cast<MoveInterface>(op)) {
    addSlice(scope, move.getSource(), move.getSourceOffsets(), move.getSourceSizes());
    addSlice(scope, move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes());
    for (mlir::Value value : {move.getSourceRank(), move.getDestinationRank(), move.getPart(), move.getParts()})
      add(scope, value);
    return;
  }
  if (auto divide = llvm::dyn_cast<DivideOp>(op)) {
    addSlice(scope, divide.getBuffer(), divide.getOffsets(), divide.getSizes());
    add(scope, divide.getPart());
    return add(scope, divide.getParts());
  }
  if (auto buffer = llvm::dyn_cast<BufferOp>(op))
    grids[buffer] = scope[buffer.getGrid()];
  for (mlir::Value operand : op->getOperands())
    add(scope, operand);
}

void Tracer::addSlice(const Scope &scope, mlir::Value buffer, mlir::ValueRange offsets, mlir::ValueRange sizes) {
  add(buffer.getDefiningOp<BufferOp>().getNameAttr().getAsOpaquePointer());
  const std::vector<int64_t> &grid = grids[buffer];
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t offset = scope[offsets[dim]], extent = grid[dim];
    trace.push_back(extent > 0 ? (offset % extent + extent) % extent : offset);
    add(scope, sizes[dim]);
    trace.push_back(isRanged(sizes[dim]));
  }
}

} // namespace

TraceHash traceOf(ProgramOp program, llvm::ArrayRef<int64_t> mesh) { return Tracer(program, mesh).run(); }

} // namespace kolo::mutation
