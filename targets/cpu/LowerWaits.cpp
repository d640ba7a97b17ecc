// LowerWaits: makes a program return at once when a wait fails.
//   Before:  %s = llvm.call @kolo.wait(...) ; ...
//   After:   %s = llvm.call @kolo.wait(...) ; cf.cond_br (%s != 0), ^failed(%s), ^next ; ^next: ...
// A rank whose peer is lost must not touch that peer's memory any more. Runs once loops are blocks and branches.
#include "targets/ReturnOnFailure.h"
#include "targets/cpu/Passes.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"

using namespace mlir;

namespace kolo::cpu {
#define GEN_PASS_DEF_LOWERWAITS
#include "targets/cpu/Passes.h.inc"

namespace {

struct LowerWaits : impl::LowerWaitsBase<LowerWaits> {
  void runOnOperation() override {
    returnOnFailure(getOperation(), [](StringRef name) {
      auto receives = [&](const PacketFunctionNames &names) {
        return name == names.receive || name == names.receiveReduce;
      };
      return name == waitFunction || name == awaitPacketFunction || receives(llFunctions) || receives(ll128Functions);
    });
  }
};

} // namespace
} // namespace kolo::cpu
