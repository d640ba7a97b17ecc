// Executes the index arithmetic of a program of either phase on one mesh, fast enough to do so for every rank. Used by
// everything that needs a choreography's concrete transfers or a channel program's concrete steps.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

/// Every value of type index or i1 in the program has a register; blocks are flattened once into instructions on
/// registers.
class IndexEvaluator {
public:
  /// Fails, with a diagnostic, on an operation that is no index arithmetic.
  static mlir::FailureOr<IndexEvaluator> create(mlir::Operation *program);

  void setMesh(llvm::ArrayRef<int64_t> sizes, int64_t rootNumber);
  /// What kolo.chan.coord gives from now on.
  void setCoordinates(llvm::ArrayRef<int64_t> rank) { coordinates.assign(rank.begin(), rank.end()); }
  llvm::ArrayRef<int64_t> mesh() const { return dimSizes; }
  int64_t numRanks() const;

  int64_t get(mlir::Value value) const { return registers[registerOf.at(value)]; }
  void set(mlir::Value value, int64_t number) { registers[registerOf.at(value)] = number; }

  /// Executes one arithmetic op; does nothing for an op that computes no index. Fails, with a diagnostic, on a division
  /// by zero, a shift by an impossible amount, or an index outside of a table.
  mlir::LogicalResult execute(mlir::Operation *op);
  /// Executes the arithmetic of a statement's body, its arguments being set.
  mlir::LogicalResult execute(mlir::Block &body);

  // For callers that execute the same ops many times in an order of their own: everything is looked up once.
  enum class Opcode {
    Constant,
    DimSize,
    Coord,
    Root,
    Lookup,
    Add,
    Sub,
    Mul,
    FloorDiv,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Ctlz,
    Cast,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Select
  };
  struct Instruction {
    Opcode opcode;
    unsigned result, a = 0, b = 0, c = 0;
    int64_t immediate = 0;
    mlir::Operation *op;
  };
  /// Null for an op that computes no index. Valid as long as the evaluator is.
  const Instruction *instructionOf(mlir::Operation *op) const;
  unsigned registerNumber(mlir::Value value) const { return registerOf.at(value); }
  /// A register that is no value's.
  unsigned addRegister() {
    registers.push_back(0);
    return unsigned(registers.size() - 1);
  }
  size_t numRegisters() const { return registers.size(); }
  int64_t &valueIn(unsigned number) { return registers[number]; }
  /// As `execute`.
  mlir::LogicalResult run(const Instruction &instruction);

private:
  mlir::LogicalResult number(mlir::Operation *root);
  mlir::FailureOr<Instruction> encode(mlir::Operation *op) const;
  unsigned addRegister(mlir::Value value);

  llvm::DenseMap<mlir::Value, unsigned> registerOf;
  llvm::DenseMap<mlir::Operation *, Instruction> instructions;
  llvm::DenseMap<mlir::Block *, std::vector<Instruction>> bodies;
  std::vector<int64_t> registers;
  llvm::SmallVector<int64_t, 4> dimSizes, coordinates;
  int64_t root = 0;
};

} // namespace kolo
