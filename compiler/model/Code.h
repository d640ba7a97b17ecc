// A channel program, flattened once into instructions that run fast for every rank of every mesh. Used by Trace.
//
// One lane stands for all lanes. Every move takes part `lane` of `lanes` of every chunk, or part s * lanes + lane of
// k * lanes, and nothing else depends on the lane. Then two lanes of a rank never touch the same bytes and never signal
// each other, so what holds for one lane holds for any number. Other uses of the lane are refused.
#pragma once

#include "compiler/model/IndexEvaluator.h"

#include <string>
#include <variant>
#include <vector>

namespace kolo {

/// Why no trace of a program can be made.
struct CodeMistake {
  mlir::Location loc;
  std::string message;
};

struct BufferInfo {
  BufferOp op; // the first of those that stand for the same memory
  BufferRole role;
  std::string name;
  unsigned numBlockDims;
  llvm::SmallVector<unsigned, 4> gridRegisters;
  std::optional<unsigned>
      cutRegister; // of scratch slots: number of chunks per block of the buffer whose chunks they hold
};

enum class EventKind : uint8_t { Copy, Reduce, Put, Divide, Signal, Wait, Flush, Enter };

/// The registers with the numbers of one slice.
struct SliceRegisters {
  uint32_t buffer = 0;
  llvm::SmallVector<unsigned, 4> offsets, sizes;
  llvm::SmallVector<unsigned, 4> rangedSizes; // of the dimensions that pair with those of the other slice
};

/// What is known of an op without running the program.
struct OpInfo {
  mlir::Operation *op;
  EventKind kind;
  std::optional<unsigned> peerRegister; // of Signal, Wait, Put, and of a Copy or Reduce that reads a peer's memory
  int32_t semaphore = -1;
  SliceRegisters source, destination; // Divide has a destination only
  std::optional<unsigned> partRegister, partsRegister;
  bool isMove() const { return kind == EventKind::Copy || kind == EventKind::Reduce || kind == EventKind::Put; }
};

class Code {
public:
  enum class Kind : uint8_t { Compute, ForBegin, ForNext, JumpUnless, Jump, Event, FuseBegin, FuseEnd };
  struct Line {
    Kind kind;
    uint32_t target = 0;                 // of a jump: line number
    unsigned a = 0, b = 0, c = 0, d = 0; // registers: condition; or induction variable, lower, upper bound, step
    uint32_t number = 0;                 // of Compute: instruction; of Event: op; of ForBegin: loop
    uint32_t numPassed = 0;              // of JumpUnless and Jump: lines of kind Event up to the target
  };

  /// Fails with the reason why no trace of the program can be made.
  static std::variant<Code, CodeMistake> create(ProgramOp program);

  mutable ProgramOp program; // a handle, whose accessors are not const
  IndexEvaluator evaluator;
  std::vector<Line> lines;
  std::vector<IndexEvaluator::Instruction> instructions;
  std::vector<OpInfo> ops;
  std::vector<mlir::Location> loops;
  std::vector<BufferInfo> buffers;

private:
  explicit Code(ProgramOp program, IndexEvaluator evaluator) : program(program), evaluator(std::move(evaluator)) {}
  friend class CodeBuilder;
};

} // namespace kolo
