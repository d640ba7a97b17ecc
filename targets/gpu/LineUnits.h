// What functions for LL128 lines have in common: groups of eight threads, and the two halves of what a thread has of a
// line. Private to the device targets.
#pragma once

#include "compiler/lower/PacketFormat.h"
#include "targets/gpu/ReceiveFunctions.h"

namespace kolo::gpu {

class LineUnits : protected ReceiveFunctions {
protected:
  explicit LineUnits(mlir::ModuleOp module) : ReceiveFunctions(module, ll128Functions) {}

  static constexpr int64_t lineBytes = ll128Packets.bytes, dataBytes = ll128Packets.dataBytes, halfBytes = 8,
                           threadBytes = 2 * halfBytes;
  static_assert(threadsPerLine * threadBytes == lineBytes && dataBytes == lineBytes - halfBytes);
  /// Of a group: loads are under way together, stores follow each other.
  static constexpr int64_t linesAtOnce = 4;

  struct Halves {
    mlir::Value low, high;
  };
  void startThreads();
  using BuildLines = llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value> numbers, mlir::Value status)>;
  /// Lines next, next + step, ..., several at once as long as there are so many. A status goes on.
  mlir::Value forLines(mlir::Value next, mlir::Value end, mlir::Value step, int64_t mostAtOnce, mlir::Value status,
                       BuildLines build);
  /// Of lines at these addresses, as this thread passes them: reads them side by side, until all are of this call or
  /// the group gives up. Data: both halves of one after the other.
  Polled pollLines(llvm::ArrayRef<mlir::Value> parts, mlir::Value status);
  void storeLine(mlir::Value part, const Halves &data, mlir::Value word);
  /// A half of a line as a vector of such elements.
  mlir::Value vectorOf(mlir::Value half, mlir::Type stored);

  /// How many lines a message of so many bytes has. An empty one has one, too.
  mlir::Value linesFor(mlir::Value size) {
    return max(div(add(size, constant(dataBytes - 1)), dataBytes), constant(1));
  }
  /// The address of this thread's part of a line.
  mlir::Value partAt(mlir::Value lines, mlir::Value number) {
    return at(lines, add(mul(number, constant(lineBytes)), mul(place, constant(threadBytes))));
  }
  /// The first byte of data in this thread's part of a line.
  mlir::Value firstByte(mlir::Value number) {
    return add(mul(number, constant(dataBytes)), mul(place, constant(threadBytes)));
  }
  mlir::Value isNotLast() { return mlir::arith::XOrIOp::create(builder, loc, isLast, boolean(true)); }

  mlir::Value group, place, numGroups,
      isLast; // of this thread, in the function at hand: the group, and the number in it

private:
  mlir::Value fromLast(mlir::Value value) { return call(builder, loc, fromLastFunction, {value}); }
};

} // namespace kolo::gpu
