// Which ranks a rank signals, waits for or puts to: the function KoloDevicePlugin.peers of a program. It goes through
// the program's loops and conditions, and moves nothing. What a fuse puts does not cross a network.
#include "targets/cpu/ProgramLowering.h"

#include "kolo/runtime/DeviceAbi.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::cpu {
namespace {

class PeersLowering : ChannelLowering {
public:
  explicit PeersLowering(ProgramOp lowered) : ChannelLowering(lowered) {}

  LogicalResult run();

private:
  LogicalResult checkLanes();
  void lowerOwn(Operation &op) override;
  void note(Value rank);
  InvocationAccess access() { return {builder, loc, frame.invocation}; }
};

/// The function stands for all lanes. The checker wants the same of a program that it proves.
LogicalResult PeersLowering::checkLanes() {
  SetVector<Operation *> dependent;
  program.walk([&](Operation *op) {
    if (isa<LaneOp, NumLanesOp>(op))
      dependent.insert(op);
  });
  for (size_t number = 0; number < dependent.size(); ++number)
    for (Operation *user : dependent[number]->getUsers()) {
      if (isa<SignalOp, WaitOp, scf::ForOp, scf::IfOp>(user))
        return user->emitError() << "whom a rank talks to depends on the lane, which a staged network forbids";
      dependent.insert(user);
    }
  return success();
}

LogicalResult PeersLowering::run() {
  if (failed(checkLanes()))
    return failure();
  auto function = createFunction(builder, module, peersFunctionName(program.getSymName()), Type(),
                                 {pointerType(builder)}, /*isExported=*/false);
  frame.invocation = function.getArgument(0);
  for (size_t dim = 0; dim < program.getMesh().size(); ++dim)
    frame.dimSizes.push_back(access().loadIndex(offsetof(KoloDevicePeers, dimSizes) + dim * sizeof(int64_t)));
  lowerBlock(program.getBody().front());
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
  return success();
}

void PeersLowering::lowerOwn(Operation &op) {
  auto read = [&](size_t offsetBytes) { frame.mapping.map(op.getResult(0), access().loadIndex(offsetBytes)); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](CoordOp coord) { read(offsetof(KoloDevicePeers, coordinates) + coord.getDim() * sizeof(int64_t)); })
      .Case([&](RootOp) { read(offsetof(KoloDevicePeers, root)); })
      .Case<LaneOp, NumLanesOp>([&](Operation *) { frame.mapping.map(op.getResult(0), constant(1)); })
      .Case([&](SignalOp signal) { note(signal.getRank()); })
      .Case([&](WaitOp wait) { note(wait.getRank()); })
      .Case([&](MoveInterface move) {
        if (Value rank = move.getDestinationRank())
          note(rank);
      });
}

void PeersLowering::note(Value rank) {
  Value context = access().loadPointer(offsetof(KoloDevicePeers, context));
  access().callPointer(access().loadPointer(offsetof(KoloDevicePeers, note)), Type(), {context, integer(mapped(rank))});
}

} // namespace

LogicalResult lowerPeers(ProgramOp program) { return PeersLowering(program).run(); }

} // namespace kolo::cpu
