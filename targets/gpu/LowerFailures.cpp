// LowerFailures: makes a kernel end at once when a wait fails.
//   Before:  %s = llvm.call @kolo.wait(...) ; ...
//   After:   %s = llvm.call @kolo.wait(...) ; cf.cond_br (%s != 0), ^failed(%s), ^next ; ^next: ...
// A rank whose peer is lost must not touch that peer's memory any more. All threads of a block see the same outcome, so
// that none is left behind at a barrier. Runs once loops are blocks and branches.
#include "targets/ReturnOnFailure.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_LOWERFAILURES
#include "targets/gpu/Passes.h.inc"

namespace {

struct LowerFailures : impl::LowerFailuresBase<LowerFailures> {
  void runOnOperation() override {
    returnOnFailure(getOperation(), [](StringRef name) {
      auto receives = [&](const PacketFunctionNames &names) {
        return name == names.receive || name == names.receiveReduce || name == names.receiveAll ||
               name == names.receiveReduceAll;
      };
      auto waits = [&](const ExchangeFunctionNames &names) { return name == names.wait || name == names.waitEnd; };
      return waits(hostFunctions) || waits(networkFunctions) || name == pushFunction || name == claimFunction ||
             receives(llFunctions) || receives(ll128Functions) || name.starts_with(fallibleMovePrefix);
    });
  }
};

} // namespace
} // namespace kolo::gpu
