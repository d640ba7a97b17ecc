// Calls: the calls of one group. Kolo carries them in the order of a queue, and Gloo's group gets the others.
#pragma once

#include "Base.h"
#include "Blocks.h"
#include "Choices.h"
#include "StandIns.h"
#include "Work.h"
#include "kolo/runtime/Queue.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace kolo::torch_door {

using Tensors = std::vector<at::Tensor>;

/// A call of Gloo's group, whose tensors it replaces by their stand-ins. May return no work if it has ended.
using GlooCall = std::function<WorkPointer(Base &gloo, StandIns &standIns)>;

/// How torch knows a call: its number, the title for its profiler, whether the caller goes on meanwhile.
struct Label {
  c10d::OpType type;
  const char *title;
  bool isAsync;
};

/// The elements of each block of a buffer, as Kolo counts them.
using Counts = std::vector<int64_t>;

/// One collective of a call: its shape and memory. A call may have several.
struct Part {
  Choice choice;
  Blocks input, output;
  bool isInPlace = false;                     // `output` is both
  GlooCall instead = {};                      // of this part alone; empty: the whole call goes to Gloo
  Counts inputCounts = {}, outputCounts = {}; // if the shape has tables

  /// What one rank contributes, or takes; where such blocks differ in length, on average.
  int64_t blockBytes(int numRanks) const;
};
using Parts = std::vector<Part>;

/// A count that all ranks must have, and the all-reduce by which they see that. A negative one agrees with none.
struct Agreement {
  Choice allReduce;
  int64_t count;
};

class Calls {
public:
  /// As the queue's, with what torch waits for.
  using Call = std::function<runtime::Status(runtime::Communicator &, Work &)>;

  /// `areOnOneHost`: all ranks are.
  Calls(runtime::Communicator joined, bool areOnOneHost, c10::intrusive_ptr<Base> glooGroup);
  const runtime::Communicator &communicator() const { return queue->communicator(); }
  /// Blocks until all calls have ended.
  void end();

  /// Kolo carries the parts, if there is a plugin for each. Otherwise Gloo gets the call `instead`, and also if a rank
  /// lacks memory. Throws std::invalid_argument if an output cannot be written.
  WorkPointer run(const Label &label, Parts parts, const Tensors &inputs, Tensors outputs, GlooCall instead);
  /// Kolo carries the part if there is a plugin and all ranks agree, which is part of the call.
  WorkPointer runIfAgreed(const Label &label, const Agreement &agreement, Part part, const Tensors &inputs,
                          Tensors outputs, GlooCall instead);
  WorkPointer enqueue(const Label &label, const Tensors &inputs, Tensors outputs, Call call);
  /// Gloo gets the call; `reason` is for the statistics.
  WorkPointer forward(const Label &label, const char *reason, Tensors outputs, GlooCall call);
  /// The same out of order, at once.
  WorkPointer forwardNow(const char *title, const char *reason, Tensors outputs, const GlooCall &call);

  /// The number of calls up to now.
  uint64_t count() const { return sequence; }

private:
  runtime::Status runChoice(runtime::Communicator &communicator, const Choice &choice, const void *input, void *output,
                            const runtime::BlockTables *blocks = nullptr);
  runtime::Status runPart(runtime::Communicator &communicator, Part &part);
  runtime::Status runParts(runtime::Communicator &communicator, Parts &parts, const GlooCall &instead, Work &work);
  runtime::Status agreeOn(runtime::Communicator &communicator, const Agreement &agreement, bool &isAgreed);
  bool lacksMemory(const runtime::Status &status) const;
  void runOnGloo(const GlooCall &call, Work &work);
  std::shared_ptr<void> holdForwarded();

  c10::intrusive_ptr<Base> gloo;
  bool isOnOneHost;
  uint64_t sequence = 0;
  std::atomic<int> numHeld = 0; // calls in the queue that may call Gloo: later ones for Gloo go behind them
  // Used by calls in the queue, one at a time.
  std::vector<runtime::CallArguments> arguments; // by mesh: a copy of a mesh takes as long as a small call
  Scratch inputScratch, outputScratch;
  std::optional<runtime::Queue> queue; // last: it ends first
};

} // namespace kolo::torch_door
