// The functions that convert what moves between buffers of different codecs, made for the codecs of a program. Private
// to the pass LowerMoves.
#pragma once

#include "codec/Codec.h"
#include "targets/Codecs.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/IR/BuiltinOps.h"

namespace kolo::cpu {

/// The address of the codec's CodecDescription, null for none, at the builder's place. Adds what the description needs
/// to the module, where it is not there yet.
mlir::Value createDescription(mlir::OpBuilder &builder, mlir::Location loc, mlir::ModuleOp module,
                              const codec::Codec &codec);
/// Declares the functions that move between codecs.
void declareCodedMoves(mlir::ModuleOp module);

/// The different codecs of the programs' buffers that lose something, and give the same bits in every call.
llvm::SmallVector<codec::Codec> collectCodecs(mlir::ModuleOp programs);
/// Adds what KoloCodec exports of a codec.
void defineRoundTrip(mlir::ModuleOp module, const codec::Codec &codec);

/// Adds the functions of one codec that work on whole granules: `encodeName` (numbers, granule, numElements, hash,
/// element), with absent elements 0, and `decodeName` (granule, numbers).
void defineGranuleFunctions(mlir::ModuleOp module, const codec::Codec &codec);
std::string encodeName(const codec::Codec &codec);
std::string decodeName(const codec::Codec &codec);
/// Whether it is one of these and computes something: f32 is only copied.
bool isGranuleFunction(llvm::StringRef name);

} // namespace kolo::cpu
