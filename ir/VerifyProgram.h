// Checks that both kinds of program share, and the textual form of their mesh sizes. Private to ir/.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

/// Verifies constraints 1 to 3 of a program op; `label` is the prefix of their names.
mlir::LogicalResult verifyProgramShape(mlir::Operation *op, const ProgramShape &shape, llvm::StringRef label);

/// Verifies that the step of every loop is a positive constant; `label` is the name of this constraint.
mlir::LogicalResult verifyLoops(mlir::Operation *program, llvm::StringRef label);

/// Whether every proof is of another one of the meshes.
bool areOfMeshes(mlir::ArrayAttr proofs, mlir::ArrayAttr meshes);

/// Whether two buffers have codecs with scales that differ.
bool haveDifferentScales(mlir::Value source, mlir::Value destination);

/// One offset and one size per grid dimension of the buffer.
bool fitsGrid(mlir::Value buffer, mlir::OperandRange offsets, mlir::OperandRange sizes);

size_t countRanged(mlir::OperandRange sizes);

mlir::ParseResult parseMeshes(mlir::OpAsmParser &parser, mlir::ArrayAttr &meshes);
void printMeshes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr meshes);

mlir::ParseResult parseRelation(mlir::OpAsmParser &parser, mlir::ArrayAttr &steps,
                                llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &amounts);
void printRelation(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr steps, mlir::OperandRange amounts);

} // namespace kolo
