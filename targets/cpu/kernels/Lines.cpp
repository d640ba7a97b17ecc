// Packets in lines: 120 bytes of data, and the sequence number of a call in the word after them. See
// kolo/runtime/PluginAbi.h.
//
// The word is stored with release and loaded with acquire: whoever sees the one of its call sees the data.
#include "compiler/lower/PacketFormat.h"
#include "ir/IndexArithmetic.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class Lines {
public:
  Lines(ModuleOp module, int64_t vectorBytes)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), vectorBytes(vectorBytes) {}

  void defineWrite();
  void defineRead();

private:
  static constexpr int64_t lineBytes = ll128Packets.bytes, dataBytes = ll128Packets.dataBytes,
                           wordBytes = lineBytes - dataBytes, sequenceShift = 32;

  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value at(Value base, Value number, int64_t distance, int64_t offset = 0) {
    Value place = createAdd(builder, loc, createMul(builder, loc, number, constant(distance)), constant(offset));
    return advance(builder, loc, base, toInteger(builder, loc, place));
  }
  Value wordAt(Value lines, Value number) { return at(lines, number, lineBytes, dataBytes); }
  Value wordOf(Value sequence) {
    return arith::ShLIOp::create(builder, loc, sequence, constantI64(builder, loc, sequenceShift));
  }
  void copyWhole(Value to, Value from);
  void copyData(Value to, Value from, Value number, Value size);

  ModuleOp module;
  OpBuilder builder;
  Location loc;
  Type pointer, i64;
  int64_t vectorBytes;
};

/// The data of one line, in as few accesses as there can be; all loads come before the stores.
void Lines::copyWhole(Value to, Value from) {
  SmallVector<std::pair<Value, Value>> values; // and their places
  int64_t bytes = vectorBytes;
  for (int64_t offset = 0; offset < dataBytes; offset += bytes) {
    while (offset + bytes > dataBytes)
      bytes /= 2;
    Value place = constantI64(builder, loc, offset);
    Type type = VectorType::get({bytes}, builder.getI8Type());
    values.emplace_back(LLVM::LoadOp::create(builder, loc, type, advance(builder, loc, from, place), 1), place);
  }
  for (auto [value, place] : values)
    LLVM::StoreOp::create(builder, loc, value, advance(builder, loc, to, place), 1);
}

/// The data of the line of this number, of those that `size` bytes take.
void Lines::copyData(Value to, Value from, Value number, Value size) {
  Value rest = createSub(builder, loc, size, createMul(builder, loc, number, constant(dataBytes)));
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, rest, constant(dataBytes));
  auto choice = scf::IfOp::create(builder, loc, isWhole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(choice.thenBlock());
  copyWhole(to, from);
  builder.setInsertionPointToStart(choice.elseBlock());
  Value nonTemporal = constantI64(builder, loc, 0);
  LLVM::CallOp::create(builder, loc, TypeRange(), copyFunction,
                       ValueRange{to, from, toInteger(builder, loc, rest), nonTemporal});
}

/// (lines, src, sizeBytes, sequence): sizeBytes / 120 lines, rounded up, and one at least.
void Lines::defineWrite() {
  auto function =
      createFunction(builder, module, ll128Functions.write, Type(), {pointer, pointer, i64, i64}, /*isExported=*/false);
  function.setNoInline(true);
  Value lines = function.getArgument(0), source = function.getArgument(1), word = wordOf(function.getArgument(3));
  Value size = toIndex(builder, loc, function.getArgument(2));
  Value numFilled = arith::CeilDivUIOp::create(builder, loc, size, constant(dataBytes));
  Value numLines = arith::MaxUIOp::create(builder, loc, numFilled, constant(1));
  auto loop = scf::ForOp::create(builder, loc, constant(0), numLines, constant(1));
  builder.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar();
  copyData(at(lines, number, lineBytes), at(source, number, dataBytes), number, size);
  LLVM::StoreOp::create(builder, loc, word, wordAt(lines, number), wordBytes, /*isVolatile=*/false,
                        /*isNonTemporal=*/false,
                        /*isInvariantGroup=*/false, LLVM::AtomicOrdering::release);
  builder.setInsertionPointToEnd(&function.getBody().back());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// (dst, lines, sizeBytes, sequence) -> i64: the bytes up to the first line that is not there yet. Never waits.
void Lines::defineRead() {
  auto function =
      createFunction(builder, module, ll128Functions.read, i64, {pointer, pointer, i64, i64}, /*isExported=*/false);
  function.setNoInline(true);
  Value destination = function.getArgument(0), lines = function.getArgument(1),
        wanted = wordOf(function.getArgument(3));
  Value size = toIndex(builder, loc, function.getArgument(2));
  Value numFilled = arith::CeilDivUIOp::create(builder, loc, size, constant(dataBytes));
  Type index = builder.getIndexType();
  auto loop = scf::WhileOp::create(builder, loc, index, ValueRange{constant(0)});
  Block *before = builder.createBlock(&loop.getBefore(), {}, index, loc);
  Value number = before->getArgument(0);
  Value isInside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, numFilled);
  auto found = scf::IfOp::create(builder, loc, builder.getI1Type(), isInside, /*withElseRegion=*/true);
  builder.setInsertionPointToStart(found.elseBlock());
  scf::YieldOp::create(builder, loc, isInside);
  builder.setInsertionPointToStart(found.thenBlock());
  Value word = LLVM::LoadOp::create(builder, loc, i64, wordAt(lines, number), wordBytes, /*isVolatile=*/false,
                                    /*isNonTemporal=*/false,
                                    /*isInvariant=*/false, /*isInvariantGroup=*/false, LLVM::AtomicOrdering::acquire);
  Value isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, word, wanted);
  scf::YieldOp::create(builder, loc, isThere);
  builder.setInsertionPointToEnd(before);
  scf::ConditionOp::create(builder, loc, found.getResult(0), ValueRange{number});
  Block *after = builder.createBlock(&loop.getAfter(), {}, index, loc);
  number = after->getArgument(0);
  copyData(at(destination, number, dataBytes), at(lines, number, lineBytes), number, size);
  scf::YieldOp::create(builder, loc, createAdd(builder, loc, number, constant(1)));
  builder.setInsertionPointToEnd(&function.getBody().back());
  Value read = createMul(builder, loc, loop.getResult(0), constant(dataBytes));
  LLVM::ReturnOp::create(builder, loc, toInteger(builder, loc, arith::MinUIOp::create(builder, loc, read, size)));
}

} // namespace

void defineLines(ModuleOp module, int64_t vectorBytes) {
  Lines lines(module, vectorBytes);
  lines.defineWrite();
  lines.defineRead();
}

} // namespace kolo::cpu
