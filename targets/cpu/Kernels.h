// The code that is the same in all plugins: loops over elements and bytes. Made when Kolo is built, once for every kind
// of processor, and linked into plugins.
#pragma once

#include "targets/cpu/ProgramFunctions.h"

#include <string>

namespace kolo::cpu {

/// Adds copyFunction and multicastFunction to the module, with accesses of at most vectorBytes.
void defineCopies(mlir::ModuleOp module, int64_t vectorBytes);
/// Adds the functions that convert from codec to codec. They need the copies.
void defineCodedMoves(mlir::ModuleOp module);
/// Adds what they need: elements of the call's type to and from f32. Private to the kernels.
void defineElementPacking(mlir::ModuleOp module);
inline constexpr llvm::StringLiteral packElementsFunction = "kolo.packElements";     // (inv, numbers, dst, numElements)
inline constexpr llvm::StringLiteral unpackElementsFunction = "kolo.unpackElements"; // (inv, src, numbers, numElements)
/// Non-temporal stores, which a fence must follow before anything is signalled. Private to the kernels.
inline constexpr llvm::StringLiteral streamFunction = "kolo.stream"; // (dst, src, sizeBytes)
/// Adds the functions that write and read LL packets, and LL128 lines. Lines need the copies, and take such accesses.
void definePackets(mlir::ModuleOp module);
void defineLines(mlir::ModuleOp module, int64_t vectorBytes);
/// Adds all reduction and division kernels, likewise.
void defineReductions(mlir::ModuleOp module, int64_t vectorBytes);

/// What a kernel is called in the object for a kind of processor.
std::string kernelSymbol(llvm::StringRef cpu, llvm::StringRef kernel);

} // namespace kolo::cpu
