// What functions for LL packets have in common: vectors of 16 bytes as four packets. Private to the device targets.
#pragma once

#include "compiler/lower/PacketFormat.h"
#include "targets/gpu/ReceiveFunctions.h"

namespace kolo::gpu {

class PacketUnits : protected ReceiveFunctions {
protected:
  explicit PacketUnits(mlir::ModuleOp module) : ReceiveFunctions(module, llFunctions) {}

  static constexpr int64_t dataBytes = llPackets.dataBytes, packetBytes = llPackets.bytes;
  static constexpr int64_t vectorBytes = 16, packetsPerVector = vectorBytes / dataBytes;

  /// Thread t of T takes units begin + t, begin + t + T, ... A status goes from unit to unit.
  mlir::Value forUnits(mlir::Value begin, mlir::Value end, mlir::Value status,
                       llvm::function_ref<mlir::Value(mlir::Value unit, mlir::Value status)> build);
  mlir::Value packetAt(mlir::Value packets, mlir::Value number) {
    return at(packets, mul(number, constant(packetBytes)));
  }
  void storePacket(mlir::Value packets, mlir::Value number, mlir::Value data);
  /// Of memory with this alignment.
  mlir::Value loadVector(mlir::Value memory, mlir::Value unit, int64_t alignment);
  void storeVector(mlir::Value packets, mlir::Value unit, mlir::Value vector);

  struct PolledVectors {
    llvm::SmallVector<mlir::Value> data; // for each first packet: the data of so many packets from there on
    mlir::Value status;
  };
  /// Reads so many packets from each first one on, side by side, until all are of this call or this thread gives up,
  /// which it may have done before.
  PolledVectors pollPackets(llvm::ArrayRef<mlir::Value> first, int64_t numPackets, mlir::Value status);
};

} // namespace kolo::gpu
