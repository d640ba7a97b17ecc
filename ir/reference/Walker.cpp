// Control flow: scf.for, scf.if and kolo.chan.fuse.
#include "ir/reference/Walker.h"

using namespace mlir;

namespace kolo::reference {

/// A program that takes longer loops for ever, as far as a test is concerned.
static constexpr int64_t maxSteps = int64_t(1) << 28;

llvm::Expected<Operation *> Walker::next() {
  while (!frames.empty()) {
    Frame &frame = frames.back();
    if (frame.next == frame.block->end()) { // the top level of a program, which has no terminator
      frames.pop_back();
      continue;
    }
    Operation *op = &*frame.next++;
    if (++numSteps > maxSteps)
      return scope.fail(op, "the program seems to loop for ever");
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (llvm::Error error = enter(loop))
        return error;
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      enter(branch);
    } else if (auto fuse = dyn_cast<FuseOp>(op)) {
      // Whatever the order of the elements: what the moves do to one of them is what they do one after the other.
      frames.push_back({&fuse.getBody().front(), fuse.getBody().front().begin(), 0, 0, 0});
    } else if (auto yield = dyn_cast<scf::YieldOp>(op)) {
      leave(yield);
    } else {
      llvm::Expected<bool> isDone = scope.evaluate(op);
      if (!isDone)
        return isDone.takeError();
      if (!*isDone)
        return op;
    }
  }
  return nullptr;
}

void Walker::bind(ValueRange targets, ValueRange sources) {
  std::vector<int64_t> integers = scope[sources]; // all of them first: a yield may permute
  for (auto [target, integer] : llvm::zip_equal(targets, integers))
    scope.bind(target, integer);
}

llvm::Error Walker::enter(scf::ForOp loop) {
  Frame body{loop.getBody(), loop.getBody()->begin(), scope[loop.getLowerBound()], scope[loop.getUpperBound()],
             scope[loop.getStep()]};
  if (body.step <= 0)
    return scope.fail(loop, "a loop's step must be positive, not " + Twine(body.step));
  if (body.counter >= body.end) {
    bind(loop.getResults(), loop.getInitArgs());
    return llvm::Error::success();
  }
  scope.bind(loop.getInductionVar(), body.counter);
  bind(loop.getRegionIterArgs(), loop.getInitArgs());
  frames.push_back(body);
  return llvm::Error::success();
}

void Walker::enter(scf::IfOp branch) {
  Region &region = scope[branch.getCondition()] ? branch.getThenRegion() : branch.getElseRegion();
  if (!region.empty())
    frames.push_back({&region.front(), region.front().begin(), 0, 0, 0});
}

void Walker::leave(scf::YieldOp yield) {
  Frame &frame = frames.back();
  auto loop = dyn_cast<scf::ForOp>(yield->getParentOp());
  if (loop && frame.end - frame.counter > frame.step) {
    frame.counter += frame.step;
    frame.next = frame.block->begin();
    scope.bind(loop.getInductionVar(), frame.counter);
    bind(loop.getRegionIterArgs(), yield.getResults());
    return;
  }
  bind(yield->getParentOp()->getResults(), yield.getResults());
  frames.pop_back();
}

} // namespace kolo::reference
