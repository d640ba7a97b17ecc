// PlaceLanes: lets every lane move its own part of every chunk.
//   Before:  kolo.chan.put %b[%i] size [%c1] -> ...
//   After:   kolo.chan.put %b[%i] size [%c1] -> ... part %lane of %lanes
// Lanes need no synchronisation among each other: a lane touches its own parts only, and signals lanes of its own
// number. Requires channel form. Runs after synchronisation is inferred, which it does not change.
#include "compiler/Passes.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_PLACELANES
#include "compiler/Passes.h.inc"

namespace {

struct PlaceLanes : impl::PlaceLanesBase<PlaceLanes> {
  void runOnOperation() override {
    OpBuilder builder = OpBuilder::atBlockBegin(&getOperation().getBody().front());
    Value lane = LaneOp::create(builder, getOperation().getLoc());
    Value numLanes = NumLanesOp::create(builder, getOperation().getLoc());
    getOperation().walk([&](Operation *op) {
      if (auto move = dyn_cast<MoveInterface>(op); move && !move.getPart()) {
        move.getPartMutable().assign(lane);
        move.getPartsMutable().assign(numLanes);
      } else if (auto divide = dyn_cast<DivideOp>(op); divide && !divide.getPart()) {
        divide.getPartMutable().assign(lane);
        divide.getPartsMutable().assign(numLanes);
      }
    });
  }
};

} // namespace
} // namespace kolo
