// The kolo dialect: both phases. Used by everything that reads or writes Kolo's IR.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "codec/Codec.h"

#include <optional>

#include "KoloDialect.h.inc"
#include "KoloEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "KoloAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "KoloInterfaces.h.inc"
#include "KoloTypes.h.inc"
#define GET_OP_CLASSES
#include "KoloOps.h.inc"

namespace kolo {

/// The op that a statement's body ends with.
SlicesOp slicesOf(StatementInterface statement);

/// Whether a buffer consists of slots: see kolo.buffer.
bool hasSlots(mlir::Value buffer);

/// Whether a buffer holds packets.
bool arePackets(mlir::Value buffer);

/// The codec of a buffer; `none()` if it has none.
codec::Codec codecOf(mlir::Value buffer);

/// False where bytes move as they are, or elements of the call's type combine.
bool isConverting(MoveInterface move);

/// The first buffer of a program, of either phase, that has a codec; null if none has.
BufferOp findCoded(mlir::Operation *program);

/// Whether such a buffer is the caller's, who knows its size; otherwise it is the program's own.
inline bool isOfCaller(BufferRole role) { return role == BufferRole::Input || role == BufferRole::Output; }

// Facts about collectives, from which all that asks for results follows. tools/compile/Kinds.cpp ties them to the lists
// in PluginAbi.h and in the language.

/// Whether a collective's input or output exists at the root alone.
constexpr bool isAtRoot(CollectiveKind kind, BufferRole role) {
  if (role == BufferRole::Input)
    return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Scatter;
  return role == BufferRole::Output && (kind == CollectiveKind::Reduce || kind == CollectiveKind::Gather);
}
constexpr bool hasRoot(CollectiveKind kind) {
  return isAtRoot(kind, BufferRole::Input) || isAtRoot(kind, BufferRole::Output);
}
/// Whether a collective's input or output has a block for each rank of the group; others have one block.
constexpr bool hasBlockPerMember(CollectiveKind kind, BufferRole role) {
  using enum CollectiveKind;
  if (role == BufferRole::Input)
    return kind == ReduceScatter || kind == Scatter || kind == AllToAll;
  return role == BufferRole::Output && (kind == AllGather || kind == Gather || kind == AllToAll);
}
constexpr bool isReduction(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::Reduce || kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::Scan || kind == CollectiveKind::Exscan;
}

/// Whether a slice size stands for a range of chunks rather than for one chunk. Ranged dimensions of a source and a
/// destination are paired in order.
bool isRanged(mlir::Value size);

/// The kind of credit that a signal or a wait is; nothing for one of data, and for other ops.
std::optional<CreditKind> creditOf(mlir::Operation *op);

/// What phase-neutral ops need to know of the program around them. `op` may be of either phase.
struct ProgramShape {
  CollectiveAttr collective;
  mlir::ArrayAttr mesh;   // of StringAttr
  mlir::ArrayAttr meshes; // of DenseI64ArrayAttr
};
/// Empty attributes when `op` is inside no program.
ProgramShape enclosingProgram(mlir::Operation *op);

} // namespace kolo
