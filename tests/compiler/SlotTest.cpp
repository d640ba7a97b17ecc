// Where generated code finds chunks, slots and their parts is where the reference finds them.
#include "Support.h"

#include "compiler/lower/ChunkLoops.h"
#include "ir/IndexArithmetic.h"
#include "ir/reference/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

using namespace kolo;
using namespace kolo::reference;

namespace {

/// A move of one chunk, in elements.
struct Moved {
  int64_t sourceBegin, destinationBegin, length;
  bool operator==(const Moved &) const = default;
};

void PrintTo(const Moved &moved, std::ostream *out) {
  *out << moved.length << " elements from " << moved.sourceBegin << " to " << moved.destinationBegin;
}

/// One chunk of a buffer.
struct ChunkPlace {
  const Layout &layout;
  int64_t chunk;
};

struct PartNumbers {
  int64_t number, numParts; // 0 of 0: the whole chunk
};

/// What the reference says about a move; one of the two buffers has no slots.
Moved expectedMove(const ChunkPlace &source, const ChunkPlace &destination, const PartNumbers &part) {
  const ChunkPlace &measured = source.layout.slotCut ? destination : source;
  Range moved{0, measured.layout.chunk(measured.chunk).size};
  if (part.numParts)
    moved = partOf(moved, measured.layout.slotSize(), part.number, part.numParts, measured.layout.unit);
  return {source.layout.chunk(source.chunk).begin + moved.begin,
          destination.layout.chunk(destination.chunk).begin + moved.begin, moved.size};
}

/// The tables of one block, as constants.
struct KnownTables : BlockTableReader {
  int64_t blockCount = 0, blockPlace = 0;

  mlir::Value hasRows(mlir::OpBuilder &, mlir::Location) const override { return {}; }
  mlir::Value isGiven(mlir::OpBuilder &builder, mlir::Location loc) const override {
    return mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
  }
  mlir::Value count(mlir::OpBuilder &builder, mlir::Location loc, BufferRole, mlir::Value) const override {
    return createConstant(builder, loc, blockCount);
  }
  mlir::Value place(mlir::OpBuilder &builder, mlir::Location loc, BufferRole, mlir::Value, mlir::Value) const override {
    return createConstant(builder, loc, blockPlace);
  }
  mlir::Value noted(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &) const override {
    ADD_FAILURE() << "the tables say how long all chunks are";
    return createConstant(builder, loc, 0);
  }
  void note(mlir::OpBuilder &, mlir::Location, const NumbersPlace &, const NumbersPlace &, mlir::Value) const override {
    ADD_FAILURE() << "this memory has no notes";
  }
};

/// Builds the index computations of generated code for numbers that are known, and computes them.
class Generated {
public:
  Generated()
      : context(test::makeContext()), builder(context.get()),
        module(mlir::ModuleOp::create(builder, builder.getUnknownLoc())) {
    builder.setInsertionPointToStart(module->getBody());
  }

  int64_t numElements(const Layout &layout) {
    return valueOf(createNumElements(builder, builder.getUnknownLoc(), call(layout), shape(layout)));
  }

  /// With tables, the source is the caller's input and the destination has slots.
  Moved move(const ChunkPlace &source, const ChunkPlace &destination, const PartNumbers &part,
             const KnownTables *tables = nullptr) {
    Moved result{-1, -1, -1};
    PartValues values;
    if (part.numParts)
      values = {constant(part.number), constant(part.numParts)};
    const Measure measure = {source.layout.slotCut ? MoveSide::Destination : MoveSide::Source, BufferRole::Input};
    CallValues ofCall = call(source.layout);
    SliceValues from = slice(source);
    ofCall.tables = tables;
    if (tables)
      from.role = BufferRole::Input;
    buildRangeLoops(builder, builder.getUnknownLoc(), ofCall, from, slice(destination), values, measure,
                    [&](mlir::OpBuilder &, mlir::Value sourceBegin, mlir::Value destinationBegin, mlir::Value length) {
                      result = {valueOf(sourceBegin), valueOf(destinationBegin), valueOf(length)};
                    });
    return result;
  }

private:
  mlir::Value constant(int64_t value) { return createConstant(builder, builder.getUnknownLoc(), value); }
  CallValues call(const Layout &layout) { return {constant(layout.count), constant(layout.unit)}; }

  BufferShape shape(const Layout &layout) {
    BufferShape result{{}, unsigned(layout.numBlockDims), layout.slotCut ? constant(*layout.slotCut) : mlir::Value()};
    for (int64_t extent : layout.grid)
      result.grid.push_back(constant(extent));
    return result;
  }

  SliceValues slice(const ChunkPlace &place) {
    SliceValues result{shape(place.layout), {}, {}};
    int64_t rest = place.chunk;
    for (int64_t extent : llvm::reverse(place.layout.grid)) {
      result.offsets.insert(result.offsets.begin(), constant(rest % extent));
      result.sizes.push_back(constant(1));
      rest /= extent;
    }
    return result;
  }

  int64_t valueOf(mlir::Value value) { return llvm::cast<mlir::IntegerAttr>(attributeOf(value)).getInt(); }

  mlir::Attribute attributeOf(mlir::Value value) {
    mlir::Attribute known = computed.lookup(value);
    return known ? known : computed[value] = compute(value);
  }

  mlir::Attribute compute(mlir::Value value) {
    if (llvm::isa<mlir::BlockArgument>(value)) // of a loop over one chunk
      return builder.getIndexAttr(0);
    mlir::Operation *op = value.getDefiningOp();
    if (auto choice = llvm::dyn_cast<mlir::scf::IfOp>(op)) // of a call with tables
      return attributeOf(choice.thenYield().getOperand(llvm::cast<mlir::OpResult>(value).getResultNumber()));
    llvm::SmallVector<mlir::Attribute> operands;
    for (mlir::Value operand : op->getOperands())
      operands.push_back(attributeOf(operand));
    llvm::SmallVector<mlir::OpFoldResult> results;
    if (mlir::failed(op->fold(operands, results)) || results.size() != 1)
      llvm::report_fatal_error("constants are not folded");
    if (auto result = llvm::dyn_cast<mlir::Attribute>(results.front()))
      return result;
    return attributeOf(llvm::cast<mlir::Value>(results.front()));
  }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::DenseMap<mlir::Value, mlir::Attribute> computed;
};

const PartNumbers testParts[] = {{0, 0}, {0, 1}, {0, 2}, {1, 2}, {0, 3}, {1, 3}, {2, 3}};
const int64_t testCounts[] = {0, 1, 2, 3, 7, 16, 17, 31, 45, 64, 100, 127, 1001};

} // namespace

TEST(Slots, GeneratedCodeMovesWhatTheReferenceMoves) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t numChunks : {1, 2, 3, 5})
      for (int64_t count : testCounts) {
        Generated generated;
        Layout block{{numChunks}, 0, count, 16 / bytes}, blocks{{2, numChunks}, 1, count, 16 / bytes};
        Layout slots{{3}, 1, count, 16 / bytes, numChunks};
        for (int64_t chunk = 0; chunk < numChunks; ++chunk)
          for (const PartNumbers &part : testParts) {
            ChunkPlace small{block, chunk}, large{blocks, numChunks + chunk}, slot{slots, (chunk + 1) % 3};
            for (auto [source, destination] : {std::pair(small, large), std::pair(large, slot), std::pair(slot, small)})
              EXPECT_EQ(generated.move(source, destination, part), expectedMove(source, destination, part))
                  << "chunk " << chunk << " of " << numChunks << ", count " << count << ", " << bytes << " bytes, part "
                  << part.number << " of " << part.numParts;
          }
      }
}

TEST(Slots, GeneratedCodeTakesAsMuchScratchAsTheReference) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t numChunks : {0, 1, 2, 3, 5})
      for (int64_t count : testCounts)
        for (int64_t numSlots : {0, 1, 4}) {
          Layout slots{{numSlots, 2}, 2, count, 16 / bytes, numChunks}, blocks{{numSlots, 2}, 1, count, 16 / bytes};
          EXPECT_EQ(Generated().numElements(slots), slots.numElements());
          EXPECT_EQ(Generated().numElements(blocks), blocks.numElements());
        }
}

/// Lanes that move one slot never meet there, though it holds blocks of different lengths one after the other.
TEST(Slots, PartsLieAlikeForBlocksOfAllLengths) {
  for (int64_t numChunks : {1, 3})
    for (int64_t count : testCounts)
      for (int64_t longest : testCounts) {
        if (count > longest)
          continue;
        KnownTables tables;
        tables.blockCount = count, tables.blockPlace = 5000;
        Layout blocks{{2, numChunks}, 1, longest, 4}, slots{{3}, 1, longest, 4, numChunks},
            own{{numChunks}, 0, count, 4};
        for (int64_t chunk = 0; chunk < numChunks; ++chunk)
          for (const PartNumbers &part : testParts) {
            const Range whole = own.chunk(chunk);
            Range moved = whole;
            if (part.numParts)
              moved = partOf(whole, slots.slotSize(), part.number, part.numParts, 4);
            const Moved expected{5000 + moved.begin, 2 * slots.slotSize() + moved.begin - whole.begin, moved.size};
            EXPECT_EQ(Generated().move({blocks, numChunks + chunk}, {slots, 2}, part, &tables), expected)
                << "chunk " << chunk << " of " << numChunks << ", count " << count << " of " << longest << ", part "
                << part.number << " of " << part.numParts;
          }
      }
}
