// The lowering of one channel program to a kernel. Private to the pass LowerPrograms: LowerMoves.cpp lowers the ops
// that move data, LowerPacketLoops.cpp loops of them over peers, LowerPrograms.cpp all the rest.
#pragma once

#include "compiler/project/Relations.h"
#include "targets/ChannelLowering.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/ExchangeLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

#include <array>
#include <optional>

namespace kolo::gpu {

/// Reads the block tables of a call, in a kernel that is for such calls.
class KernelTables : public BlockTableReader {
public:
  explicit KernelTables(mlir::Value fromInvocation) : invocation(fromInvocation) {}
  mlir::Value isGiven(mlir::OpBuilder &builder, mlir::Location loc) const override;
  mlir::Value count(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value block) const override;
  mlir::Value hasRows(mlir::OpBuilder &, mlir::Location) const override { return {}; }
  mlir::Value place(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value rank,
                    mlir::Value block) const override;
  mlir::Value noted(mlir::OpBuilder &, mlir::Location, const NumbersPlace &) const override {
    llvm_unreachable("see mayTakeBlockTables");
  }
  void note(mlir::OpBuilder &, mlir::Location, const NumbersPlace &, const NumbersPlace &, mlir::Value) const override {
    llvm_unreachable("see mayTakeBlockTables");
  }

private:
  mlir::Value invocation;
};

/// A loop over peers that only sends packets, or only receives them.
struct PacketLoop {
  mlir::scf::ForOp loop;
  MoveInterface move;
};
/// Where a loop is one in which every iteration moves one range, and a combination goes to the same place each time.
std::optional<PacketLoop> packetLoopOf(mlir::Operation &op);

class KernelLowering : ChannelLowering {
public:
  /// OfCall: the kernel is for calls with block tables; None: for all others.
  enum class TableUse : uint8_t { None, OfCall };
  /// `codecs` by number, as defineConversions has them.
  KernelLowering(ProgramOp lowered, int64_t listEntries, llvm::ArrayRef<codec::Codec> codecs, TableUse tableUse)
      : ChannelLowering(lowered, globalSpace), listEntries(listEntries), codecs(codecs),
        hasPackets(packetFormatOf(program).has_value()), tableUse(tableUse) {}

  /// Makes a kernel of this name.
  void run(llvm::StringRef entryName);

private:
  /// What a kernel's function knows beside the shared frame.
  struct KernelFrame {
    llvm::SmallVector<mlir::Value, KOLO_MAX_MESH_DIMS> coordinates;
    mlir::Value lane;
    mlir::Value type, reduction;    // of the call, i64
    mlir::Value numCalls, sequence; // where there are packets: calls before this one; what marks its packets
  };
  /// One side of a move.
  struct Side {
    const PlacedBuffer &buffer;
    mlir::Value begin; // address of the buffer's first byte
  };
  /// Of a range, of type index.
  struct Length {
    mlir::Value elements, bytes;
  };
  /// Which accesses to this rank's memory, and to the lists of the block, threads may still have before them, since the
  /// last barrier. Packets of many peers have several lists.
  struct Unsettled {
    bool reads = false, writes = false;
    std::array<bool, numPacketLists> lists{};
    static Unsettled all() {
      Unsettled everything{true, true, {}};
      everything.lists.fill(true);
      return everything;
    }
  };

  mlir::LLVM::LLVMFuncOp createFunctionOf(llvm::StringRef name, mlir::Type result, mlir::TypeRange arguments,
                                          Inlining inlining);
  std::string createRun();
  void readShape();
  void readCall();
  void lowerOwn(mlir::Operation &op) override;
  void meetPaths() override { unsettled = Unsettled::all(); }
  void lowerMove(MoveInterface move);
  void lowerReceive(MoveInterface move);
  void outline(llvm::ArrayRef<mlir::Operation *> ops, bool mayFail, llvm::function_ref<void()> build);
  void readArguments(mlir::LLVM::LLVMFuncOp function, llvm::ArrayRef<mlir::Value> passed);
  llvm::SmallVector<mlir::Operation *> arithmeticAbove(llvm::ArrayRef<mlir::Operation *> ops,
                                                       llvm::SetVector<mlir::Value> &passed);
  Side sideOf(mlir::Value buffer, mlir::Value rank) { return {bufferOf(buffer), beginOf(buffer, rank)}; }
  mlir::Value beginOf(mlir::Value buffer, mlir::Value rank);
  mlir::Value addressIn(const Side &side, mlir::Value number) {
    return advance(builder, loc, side.begin, integer(bytesTo(side.buffer, number)));
  }
  /// In the memory of its role.
  mlir::Value offsetIn(const PlacedBuffer &buffer, mlir::Value number) {
    return integer(createAdd(builder, loc, buffer.offset, bytesTo(buffer, number)));
  }
  void buildRange(MoveInterface move, mlir::Value from, mlir::Value to, const Length &length);
  void lowerConversion(MoveInterface move);
  /// A range of a move between codecs.
  struct Converted {
    Side source;
    mlir::Value sourceBegin, destinationBegin, length; // elements, of type index
  };
  void convert(MoveInterface move, const Converted &range, mlir::Value target);
  void pushConverted(MoveInterface move, const Converted &all);
  /// What kolo.convert gets to draw by; nothing where no codec of the module is stochastic. `rank` holds the source,
  /// this one for null.
  llvm::SmallVector<mlir::Value> drawKey(mlir::Value rank, mlir::Value elementNumber);
  mlir::Value callCounter(size_t field);
  mlir::Value readCounter(size_t field);
  void startPackets();
  void placePackets();
  void endCall();
  void lowerFuse(FuseOp fuse);
  void lowerDivide(DivideOp divide);
  /// Peers may be on other hosts.
  bool isStaged() const { return usesStagedNetwork(program); }
  void lowerExchange(llvm::function_ref<void(ExchangeLowering &)> lower);
  void lowerRegions(mlir::Operation &op) override;
  void lowerPacketLoop(PacketLoop packets);
  void lowerPacketLoops(PacketLoop received, PacketLoop sent);
  mlir::Value writePacketEntries(PacketLoop packets, mlir::Value first, mlir::Value end, mlir::Value list);
  void movePackets(MoveInterface move, mlir::Value list, mlir::Value number, mlir::Value isOdd);
  void settle(bool isNeeded);

  mlir::Value readField(size_t offset) {
    return load(builder, loc, builder.getI64Type(), frame.invocation, int64_t(offset));
  }
  mlir::Value field(size_t offset) {
    return toIndex(builder, loc, call(builder, loc, uniformFunction, {readField(offset)}));
  }
  mlir::Value pointerField(size_t offset) {
    return load(builder, loc, pointerType(builder), frame.invocation, int64_t(offset));
  }

  const int64_t listEntries;
  const llvm::ArrayRef<codec::Codec> codecs;
  const bool hasPackets;
  const TableUse tableUse;
  KernelFrame kernel;
  Unsettled unsettled;
  int numMoves = 0;
};

} // namespace kolo::gpu
