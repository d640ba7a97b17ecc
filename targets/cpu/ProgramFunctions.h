// Names and shapes of the functions that LowerMoves generates. Shared by the passes and by the entry table.
#pragma once

#include "codec/Codec.h"
#include "compiler/lower/PacketFormat.h"
#include "kolo/runtime/PluginAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <string>

namespace kolo::cpu {

std::string runFunctionName(llvm::StringRef program); // int32_t (const KoloInvocation *)
std::string scratchFunctionName(llvm::StringRef program);
/// Of a program that uses a staged network: see KoloDevicePlugin.
std::string inboxFunctionName(llvm::StringRef program);   // int64_t (const KoloShape *)
std::string peersFunctionName(llvm::StringRef program);   // void (const KoloDevicePeers *)
std::string publishFunctionName(llvm::StringRef program); // void (const KoloInvocation *); where something is published
std::string publishedFunctionName(llvm::StringRef program); // int64_t (const KoloShape *); likewise
std::string packetsFunctionName(llvm::StringRef program);   // int64_t (const KoloShape *); where there are packets
std::string reduceKernelName(KoloType type, KoloReduction reduction); // a KoloReduceKernel
std::string averageKernelName(KoloType type);                         // a KoloAverageKernel
std::string roundTripName(const codec::Codec &codec);                 // void (const KoloInvocation *)

/// Functions that programs call; nonTemporal: see KoloInvocation. The copies are linked in (kernels/Copies.cpp). The
/// others are private to every module (MoveFunctions.cpp, PacketFunctions.cpp).
inline constexpr llvm::StringLiteral copyFunction = "kolo.copy"; // (dst, src, sizeBytes, nonTemporal)
inline constexpr llvm::StringLiteral multicastFunction =
    "kolo.multicast"; // (dsts, numDsts, src, sizeBytes, nonTemporal)
/// Moves between buffers of different codecs, linked in too (kernels/CodedMoves.cpp). `to` and `from` are addresses of
/// CodecDescriptions, null for elements of the call's type. Elements begin at a multiple of the granule on both sides.
/// `rank` holds the source; `element` is the first one's number in the call: what stochastic codecs draw by. The
/// remote ones count nothing.
inline constexpr llvm::StringLiteral convertFunction =
    "kolo.convert"; // (inv, dst, src, numElements, rank, element, nonTemporal, to, from, combines)
inline constexpr llvm::StringLiteral convertPutFunction =
    "kolo.convertPut"; // (inv, peer, role, offsetBytes, src, numElements, rank, element, nonTemporal, to, from,
                       // combines)
inline constexpr llvm::StringLiteral convertGetFunction =
    "kolo.convertGet"; // (inv, peer, role, offsetBytes, dst, numElements, rank, element, nonTemporal, to, from,
                       // combines)
/// Of a fuse: into its chunk, which holds elements as `codec` says, and from there to every destination; the chunk's
/// memory is the result only if `isKept`. An entry of a list is an address and a codec. The first source overwrites, if
/// `overwrites`, and the others combine. Destinations with the codec of the one before them get the same bytes.
/// `nonTemporal` is for those without a codec.
inline constexpr llvm::StringLiteral convertFusedFunction =
    "kolo.convertFused"; // (inv, dsts, numDsts, srcs, numSrcs, chunk, codec, numElements, rank, element, nonTemporal,
                         // overwrites, isKept)
inline constexpr llvm::StringLiteral roundTripFunction = "kolo.roundTrip"; // (inv, codec)
inline constexpr llvm::StringLiteral putFunction =
    "kolo.put"; // (inv, peer, role, offsetBytes, src, sizeBytes, nonTemporal)
inline constexpr llvm::StringLiteral getFunction =
    "kolo.get"; // (inv, peer, role, offsetBytes, dst, sizeBytes, nonTemporal)
inline constexpr llvm::StringLiteral reduceFunction = "kolo.reduce"; // (inv, dst, src, numElements)
inline constexpr llvm::StringLiteral reduceFromFunction =
    "kolo.reduceFrom";                                               // (inv, peer, role, offsetBytes, dst, numElements)
inline constexpr llvm::StringLiteral divideFunction = "kolo.divide"; // (inv, dst, numElements, numRanks)
inline constexpr llvm::StringLiteral countFunction = "kolo.count";   // (inv, KoloTraffic, numBytes)
inline constexpr llvm::StringLiteral waitFunction = "kolo.wait";     // (inv, peer, semaphore, statement) -> status
inline constexpr llvm::StringLiteral awaitPacketFunction = "kolo.awaitPacket"; // (inv, packet, statement) -> status
/// For packets of one format. The first two never wait: see kernels/Packets.cpp and kernels/Lines.cpp.
struct PacketFunctionNames {
  llvm::StringLiteral write;         // (packets, src, sizeBytes, sequence)
  llvm::StringLiteral read;          // (dst, packets, sizeBytes, sequence) -> bytes read
  llvm::StringLiteral send;          // (inv, peer, offsetBytes, src, sizeBytes)
  llvm::StringLiteral receive;       // (inv, dst, packets, sizeBytes, statement) -> status of a wait
  llvm::StringLiteral receiveReduce; // (inv, dst, packets, numElements, statement) -> status of a wait
};
inline constexpr PacketFunctionNames llFunctions = {"kolo.writePackets", "kolo.readPackets", "kolo.send",
                                                    "kolo.receive", "kolo.receiveReduce"};
inline constexpr PacketFunctionNames ll128Functions = {"kolo.writeLines", "kolo.readLines", "kolo.sendLines",
                                                       "kolo.receiveLines", "kolo.receiveReduceLines"};
inline const PacketFunctionNames &functionsOf(const PacketFormat &format) {
  return format == ll128Packets ? ll128Functions : llFunctions;
}

/// What the functions above know of a codec: a constant of the module that they are called from.
struct CodecDescription {
  void (*encode)(const float *numbers, void *granule, int64_t numElements, int32_t hash, int64_t element);
  void (*decode)(const void *granule, float *numbers);
  int64_t codeBits, block, scaleBytes; // scaleBytes: 0 where there are none
  int64_t unitBytes;                   // of the f32 that e4m3 scales are in units of
  int64_t granuleBytes;
  int64_t isNumbers; // not 0: f32 in a row

  static constexpr int64_t mostBytes = 4096 + 256 + 64; // of a granule, whatever the codec, rounded up
};

/// Adds the private ones to the module, and declares the others. Unused ones are dropped later.
void defineMoveFunctions(mlir::ModuleOp module);
void definePacketFunctions(mlir::ModuleOp module, const PacketFormat &format); // after the others

/// Declares a function that another object file defines.
void declareFunction(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef name,
                     llvm::ArrayRef<mlir::Type> arguments, mlir::Type result = {});

/// Makes a function at the end of the module and leaves the builder in its entry block. It is unwinding-free, and its
/// loops stay loops: LLVM may not turn them into calls of memcpy, which a plugin has not.
mlir::LLVM::LLVMFuncOp createFunction(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef name,
                                      mlir::Type result, llvm::ArrayRef<mlir::Type> arguments, bool isExported);

} // namespace kolo::cpu
