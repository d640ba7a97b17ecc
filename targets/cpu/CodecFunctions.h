// The functions that convert what moves between buffers of different codecs, made for the codecs of a program. Private
// to the pass LowerMoves.
#pragma once

#include "codec/Codec.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/IR/BuiltinOps.h"

namespace kolo::cpu {

/// A move between two buffers. A codec of none stands for the type of the call.
struct Conversion {
  codec::Codec from, to;
  bool isCombining;

  /// False where bytes move as they are, or elements of the call's type combine.
  bool isNeeded() const { return from != to || (isCombining && !codec::isNone(to)); }
  enum class Side { Local, Put, Get };
  /// Of a function. Elements begin at a multiple of the granule on both sides. `rank` holds the source; `element` is
  /// the first one's number in the call: what stochastic codecs draw by.
  ///   Local: (inv, dst, src, numElements, rank, element, nonTemporal)
  ///   Put:   (inv, peer, role, offsetBytes, src, numElements, rank, element, nonTemporal)
  ///   Get:   (inv, peer, role, offsetBytes, dst, numElements, rank, element, nonTemporal)
  std::string functionName(Side side) const;
};

/// Adds what the conversion needs to the module, where it is not there yet.
void defineConversion(mlir::ModuleOp module, const Conversion &conversion, Conversion::Side side);

/// The different codecs of the programs' buffers that lose something, and give the same bits in every call.
llvm::SmallVector<codec::Codec> collectCodecs(mlir::ModuleOp programs);
/// Adds what KoloCodec exports of a codec.
void defineRoundTrip(mlir::ModuleOp module, const codec::Codec &codec);

/// Adds the functions of one codec that work on whole granules: `encodeName` (numbers, granule, numElements, hash,
/// element), with absent elements 0, and `decodeName` (granule, numbers).
void defineGranuleFunctions(mlir::ModuleOp module, const codec::Codec &codec);
std::string encodeName(const codec::Codec &codec);
std::string decodeName(const codec::Codec &codec);

} // namespace kolo::cpu
