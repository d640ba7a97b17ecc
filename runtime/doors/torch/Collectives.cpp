// The collectives of Group: checks of what one rank can see, shapes, and what goes to Gloo.
#include "Group.h"

#include <algorithm>
#include <stdexcept>

namespace kolo::torch_door {

using runtime::CollectiveKind;

namespace {

constexpr const char *pointToPoint = "point to point";

[[noreturn]] void refuse(const char *what, const std::string &why) {
  throw std::invalid_argument(std::string("kolo: ") + what + ": " + why);
}

template <class T> T &only(std::vector<T> &list, const char *what) {
  if (list.size() != 1)
    refuse(what, "takes one tensor or list of tensors, not " + std::to_string(list.size()));
  return list.front();
}

Tensors flat(const TensorLists &lists) {
  Tensors all;
  for (const Tensors &list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// Calls a function of Gloo's group that reads and writes the same tensors.
template <class Options>
GlooCall onGloo(WorkPointer (Base::*function)(Tensors &, const Options &), Tensors tensors, const Options &options) {
  return [function, tensors, options](Base &gloo, StandIns &standIns) mutable {
    standIns.forOutput(tensors);
    return (gloo.*function)(tensors, options);
  };
}

template <class Output, class Input, class Options>
GlooCall onGloo(WorkPointer (Base::*function)(Output &, Input &, const Options &), Output outputs, Input inputs,
                const Options &options) {
  return [function, outputs, inputs, options](Base &gloo, StandIns &standIns) mutable {
    standIns.forInput(inputs);
    standIns.forOutput(outputs);
    return (gloo.*function)(outputs, inputs, options);
  };
}

/// Gloo takes lists of tensors of one size, and divides by it. So it gets all `blocks` as long as the longest, if they
/// differ or are empty.
GlooCall inEqualBlocks(const Tensors &blocks, GlooCall call) {
  const int64_t longest = longestOf(blocks).numel();
  if (haveEqualSizes(blocks) && longest > 0)
    return call;
  return [longest = std::max<int64_t>(longest, 1), call = std::move(call)](Base &gloo, StandIns &standIns) {
    standIns.padTo(longest);
    return call(gloo, standIns);
  };
}

void checkBlocks(const at::Tensor &whole, const at::Tensor &block, int size, const char *what) {
  if (whole.scalar_type() != block.scalar_type() || whole.numel() != block.numel() * size)
    refuse(what, "a tensor of " + std::to_string(whole.numel()) + " elements does not hold " + std::to_string(size) +
                     " of " + std::to_string(block.numel()) + " of the same type");
}

/// A list of tensors of one type that Kolo can reach.
bool areAlike(const Tensors &list, const at::Tensor &like) {
  return std::all_of(list.begin(), list.end(), [&](const at::Tensor &tensor) {
    return isPlain(tensor) == isPlain(like) && tensor.scalar_type() == like.scalar_type();
  });
}

void checkRoot(int64_t root, int size, const char *what) {
  if (root < 0 || root >= size)
    refuse(what, "root " + std::to_string(root) + " is not one of " + std::to_string(size) + " ranks");
}

/// `list`: one tensor for every rank; `own`: that of this one.
void checkBlocks(const Tensors &list, const at::Tensor &own, int rank, int size, const char *what) {
  if (list.size() != static_cast<size_t>(size))
    refuse(what, "needs " + std::to_string(size) + " tensors in the list, not " + std::to_string(list.size()));
  if (!areAlike(list, own) || list[static_cast<size_t>(rank)].numel() != own.numel())
    refuse(what, "the tensors of the list differ in type or size from the tensor of one rank");
}

/// The same, of tensors of one size.
void checkList(const Tensors &list, const at::Tensor &own, int size, const char *what) {
  checkBlocks(list, own, 0, size, what);
  if (!haveEqualSizes(list))
    refuse(what, "the tensors of the list differ in size");
}

Counts countsOf(const std::vector<int64_t> &sizes, int64_t perElement) {
  Counts counts = sizes;
  for (int64_t &count : counts)
    count *= perElement;
  return counts;
}

/// One collective of `input` and `output`, of which one has a tensor for every rank, and the other that of this one.
Part partOf(const Choice &choice, const Tensors &input, const Tensors &output) {
  if (!choice.hasShape())
    return {choice, {}, {}};
  if (!choice.shape.hasTables) {
    int64_t rowElements = longestOf(input.size() > output.size() ? input : output).numel();
    return {choice, Blocks(input, rowElements), Blocks(output, rowElements)};
  }
  const int64_t perElement = static_cast<int64_t>(input.front().element_size()) / choice.shape.elementBytes();
  Part part = {choice, Blocks(input), Blocks(output)};
  part.inputCounts = countsOf(sizesOf(input), perElement);
  part.outputCounts = countsOf(sizesOf(output), perElement);
  return part;
}

} // namespace

WorkPointer Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  const Label label = {c10d::OpType::BROADCAST, "kolo:broadcast", isAsync(options)};
  const at::Tensor &tensor = only(tensors, "broadcast");
  checkRoot(options.rootRank, getSize(), "broadcast");
  Choice choice = choices.ofMove(CollectiveKind::Broadcast, tensor, static_cast<int>(options.rootRank));
  return calls.run(label, {Part{choice, {}, Blocks(tensors), true}}, tensors, tensors,
                   onGloo(&Base::broadcast, tensors, options));
}

WorkPointer Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
  const Label label = {c10d::OpType::ALLREDUCE, "kolo:all_reduce", isAsync(options)};
  const at::Tensor &tensor = only(tensors, "all_reduce");
  Choice choice = choices.ofReduction(CollectiveKind::AllReduce, tensor, options.reduceOp);
  return calls.run(label, {Part{choice, {}, Blocks(tensors), true}}, tensors, tensors,
                   onGloo(&Base::allreduce, tensors, options));
}

WorkPointer Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
  const Label label = {c10d::OpType::ALLREDUCE_COALESCED, "kolo:all_reduce", isAsync(options)};
  if (tensors.empty())
    refuse("all_reduce_coalesced", "takes at least one tensor");
  Parts parts;
  for (const at::Tensor &tensor : tensors) {
    Choice choice = choices.ofReduction(CollectiveKind::AllReduce, tensor, options.reduceOp);
    if (choice.plugin && !areAlike(tensors, tensor))
      choice = {nullptr, {}, "several types"};
    // Those before it may be reduced already, so Gloo gets this tensor alone.
    const c10d::AllreduceOptions &alone = options;
    parts.push_back(Part{choice, {}, Blocks({tensor}), true, onGloo(&Base::allreduce, Tensors{tensor}, alone)});
    if (!choice.plugin)
      break;
  }
  return calls.run(label, std::move(parts), tensors, tensors, onGloo(&Base::allreduce_coalesced, tensors, options));
}

WorkPointer Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  const Label label = {c10d::OpType::REDUCE, "kolo:reduce", isAsync(options)};
  const at::Tensor &tensor = only(tensors, "reduce");
  checkRoot(options.rootRank, getSize(), "reduce");
  Choice choice =
      choices.ofReduction(CollectiveKind::Reduce, tensor, options.reduceOp, static_cast<int>(options.rootRank));
  return calls.run(label, {Part{choice, {}, Blocks(tensors), true}}, tensors, tensors,
                   onGloo(&Base::reduce, tensors, options));
}

WorkPointer Group::allgather(TensorLists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const Label label = {c10d::OpType::ALLGATHER, "kolo:all_gather", isAsync(options)};
  const at::Tensor &input = only(inputs, "all_gather");
  const Tensors &output = only(outputs, "all_gather");
  checkBlocks(output, input, getRank(), getSize(), "all_gather");
  Choice choice = choices.ofMove(CollectiveKind::AllGather, output);
  return calls.run(label, {partOf(choice, inputs, output)}, inputs, output,
                   inEqualBlocks(output, onGloo(&Base::allgather, outputs, inputs, options)));
}

WorkPointer Group::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) {
  const Label label = {c10d::OpType::_ALLGATHER_BASE, "kolo:_all_gather_base", isAsync(options)};
  checkBlocks(output, input, getSize(), "all_gather_into_tensor");
  Choice choice = choices.ofMove(CollectiveKind::AllGather, input);
  return calls.run(label, {Part{choice, Blocks({input}), Blocks({output})}}, {input}, {output},
                   onGloo(&Base::_allgather_base, output, input, options));
}

/// outputs: by rank, then by input.
WorkPointer Group::allgather_coalesced(TensorLists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const Label label = {c10d::OpType::ALLGATHER_COALESCED, "kolo:all_gather", isAsync(options)};
  constexpr const char *what = "all_gather_coalesced";
  if (outputs.size() != static_cast<size_t>(getSize()) || inputs.empty())
    refuse(what, "needs " + std::to_string(getSize()) + " lists of tensors, and inputs");
  Parts parts;
  for (size_t index = 0; index < inputs.size(); ++index) {
    Tensors output;
    for (const Tensors &ofRank : outputs) {
      if (ofRank.size() != inputs.size())
        refuse(what, "the lists differ in length");
      output.push_back(ofRank[index]);
    }
    checkBlocks(output, inputs[index], getRank(), getSize(), what);
    Choice choice = choices.ofMove(CollectiveKind::AllGather, output);
    parts.push_back(partOf(choice, {inputs[index]}, output));
    if (!choice.plugin)
      break;
  }
  return calls.run(label, std::move(parts), inputs, flat(outputs),
                   onGloo(&Base::allgather_coalesced, outputs, inputs, options));
}

WorkPointer Group::gather(TensorLists &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
  const Label label = {c10d::OpType::GATHER, "kolo:gather", isAsync(options)};
  const at::Tensor &input = only(inputs, "gather");
  checkRoot(options.rootRank, getSize(), "gather");
  bool isRoot = options.rootRank == getRank();
  if (isRoot)
    checkList(only(outputs, "gather"), input, getSize(), "gather");
  else if (!outputs.empty())
    refuse("gather", "only the root takes outputs");
  Choice choice = choices.ofMove(CollectiveKind::Gather, input, static_cast<int>(options.rootRank));
  Tensors output = isRoot ? outputs.front() : Tensors();
  return calls.run(label, {Part{choice, Blocks(inputs), Blocks(output)}}, inputs, output,
                   onGloo(&Base::gather, outputs, inputs, options));
}

WorkPointer Group::scatter(Tensors &outputs, TensorLists &inputs, const c10d::ScatterOptions &options) {
  const Label label = {c10d::OpType::SCATTER, "kolo:scatter", isAsync(options)};
  const at::Tensor &output = only(outputs, "scatter");
  checkRoot(options.rootRank, getSize(), "scatter");
  bool isRoot = options.rootRank == getRank();
  if (isRoot)
    checkList(only(inputs, "scatter"), output, getSize(), "scatter");
  else if (!inputs.empty())
    refuse("scatter", "only the root takes inputs");
  Choice choice = choices.ofMove(CollectiveKind::Scatter, output, static_cast<int>(options.rootRank));
  Tensors input = isRoot ? inputs.front() : Tensors();
  return calls.run(label, {Part{choice, Blocks(input), Blocks(outputs)}}, input, outputs,
                   onGloo(&Base::scatter, outputs, inputs, options));
}

WorkPointer Group::reduce_scatter(Tensors &outputs, TensorLists &inputs, const c10d::ReduceScatterOptions &options) {
  const Label label = {c10d::OpType::REDUCE_SCATTER, "kolo:reduce_scatter", isAsync(options)};
  const at::Tensor &output = only(outputs, "reduce_scatter");
  const Tensors &input = only(inputs, "reduce_scatter");
  checkBlocks(input, output, getRank(), getSize(), "reduce_scatter");
  Choice choice = choices.ofReduction(CollectiveKind::ReduceScatter, input, options.reduceOp);
  return calls.run(label, {partOf(choice, input, outputs)}, input, outputs,
                   inEqualBlocks(input, onGloo(&Base::reduce_scatter, outputs, inputs, options)));
}

WorkPointer Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                        const c10d::ReduceScatterOptions &options) {
  const Label label = {c10d::OpType::_REDUCE_SCATTER_BASE, "kolo:_reduce_scatter_base", isAsync(options)};
  checkBlocks(input, output, getSize(), "reduce_scatter_tensor");
  Choice choice = choices.ofReduction(CollectiveKind::ReduceScatter, output, options.reduceOp);
  return calls.run(label, {Part{choice, Blocks({input}), Blocks({output})}}, {input}, {output},
                   onGloo(&Base::_reduce_scatter_base, output, input, options));
}

WorkPointer Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
  for (const Tensors *list : {&outputs, &inputs})
    if (list->size() != static_cast<size_t>(getSize()))
      refuse("all_to_all", "needs " + std::to_string(getSize()) + " tensors, not " + std::to_string(list->size()));
  if (!areAlike(inputs, inputs.front()) || !areAlike(outputs, inputs.front()))
    refuse("all_to_all", "the tensors differ in type");
  return exchangeBlocks({c10d::OpType::ALLTOALL, "kolo:all_to_all", isAsync(options)}, Exchange(outputs, inputs),
                        options, onGloo(&Base::alltoall, outputs, inputs, options));
}

WorkPointer Group::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &outputSplits,
                                 std::vector<int64_t> &inputSplits, const c10d::AllToAllOptions &options) {
  if (!areAlike({output}, input))
    refuse("all_to_all_single", "input and output differ in type");
  auto asIs = [output, input, outputSplits, inputSplits, options](Base &to, StandIns &) mutable {
    return to.alltoall_base(output, input, outputSplits, inputSplits, options);
  };
  return exchangeBlocks({c10d::OpType::ALLTOALL_BASE, "kolo:all_to_all", isAsync(options)},
                        Exchange(output, outputSplits, input, inputSplits, getSize()), options, asIs);
}

/// Ranks see only the sizes that they send and receive themselves, so the call has block tables whatever the sizes. If
/// no program takes tables, the ranks agree first whether all sizes are equal, as part of the call.
/// `asIs`: what Gloo gets if not even bytes can be moved.
WorkPointer Group::exchangeBlocks(const Label &label, const Exchange &exchange, const c10d::AllToAllOptions &options,
                                  GlooCall asIs) {
  for (const at::Tensor &output : exchange.outputs)
    checkWritable(output, label.title);
  const at::Tensor &like = exchange.inputs.front();
  if (const char *reason = whyNotMoved(like))
    return calls.forward(label, reason, exchange.outputs, std::move(asIs));
  auto viaGloo = [exchange, options](Base &to, StandIns &standIns) { return exchange.start(to, standIns, options); };
  const MovedType type = *movedType(like.scalar_type());
  Part part = {choices.findTabled({{CollectiveKind::AllToAll, type.type}}), Blocks(exchange.inputs),
               Blocks(exchange.outputs)};
  if (part.choice.plugin) {
    part.inputCounts = countsOf(exchange.inputSizes, type.perElement);
    part.outputCounts = countsOf(exchange.outputSizes, type.perElement);
    return calls.run(label, {std::move(part)}, exchange.inputs, exchange.outputs, viaGloo);
  }
  if (!agreement.plugin)
    return calls.forward(label, noProgram, exchange.outputs, viaGloo);
  const int64_t evenSize = exchange.evenSize();
  if (evenSize >= 0)
    part.choice =
        choices.find({{CollectiveKind::AllToAll, type.type, runtime::Reduction::Sum, evenSize * type.perElement}});
  return calls.runIfAgreed(label, {agreement, evenSize}, std::move(part), exchange.inputs, exchange.outputs, viaGloo);
}

WorkPointer Group::barrier(const c10d::BarrierOptions &options) {
  return calls.enqueue({c10d::OpType::BARRIER, "kolo:barrier", isAsync(options)}, {}, {},
                       [](runtime::Communicator &communicator, Work &) { return communicator.barrier(); });
}

/// Gloo's tells which ranks are missing.
void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool waitAllRanks) {
  auto call = [options, waitAllRanks](Base &to, StandIns &) -> WorkPointer {
    to.monitoredBarrier(options, waitAllRanks);
    return {};
  };
  if (WorkPointer work =
          calls.forward({c10d::OpType::BARRIER, "kolo:monitored_barrier", false}, "monitored barrier", {}, call))
    work->wait();
}

// Messages have tags of their own, so they need not be in order with Gloo's collectives.
WorkPointer Group::send(Tensors &tensors, int peer, int tag) {
  return calls.forwardNow("kolo:send", pointToPoint, tensors, [&](Base &gloo, StandIns &standIns) {
    Tensors given = tensors;
    standIns.forInput(given);
    return gloo.send(given, peer, tag);
  });
}

WorkPointer Group::recv(Tensors &tensors, int peer, int tag) {
  return calls.forwardNow("kolo:recv", pointToPoint, tensors, [&](Base &gloo, StandIns &standIns) {
    Tensors given = tensors;
    standIns.forOutput(given);
    return gloo.recv(given, peer, tag);
  });
}

WorkPointer Group::recvAnysource(Tensors &tensors, int tag) {
  return calls.forwardNow("kolo:recv", pointToPoint, tensors, [&](Base &gloo, StandIns &standIns) {
    Tensors given = tensors;
    standIns.forOutput(given);
    return gloo.recvAnysource(given, tag);
  });
}

#if TORCH_VERSION_MAJOR >= 2
WorkPointer Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
  return calls.forward({c10d::OpType::ALLREDUCE, "kolo:all_reduce_sparse", isAsync(options)},
                       "sparse or not on the host", tensors, onGloo(&Base::allreduce_sparse, tensors, options));
}

WorkPointer Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                   const c10d::AllgatherOptions &options) {
  const Label label = {c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED, "kolo:all_gather", isAsync(options)};
  constexpr const char *what = "all_gather_into_tensor_coalesced";
  if (outputs.size() != inputs.size() || inputs.empty())
    refuse(what, "needs as many outputs as inputs, and at least one");
  Parts parts;
  for (size_t index = 0; index < inputs.size(); ++index) {
    checkBlocks(outputs[index], inputs[index], getSize(), what);
    Choice choice = choices.ofMove(CollectiveKind::AllGather, inputs[index]);
    parts.push_back(Part{choice, Blocks({inputs[index]}), Blocks({outputs[index]})});
    if (!choice.plugin)
      break;
  }
  return calls.run(label, std::move(parts), inputs, outputs,
                   onGloo(&Base::allgather_into_tensor_coalesced, outputs, inputs, options));
}

WorkPointer Group::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                   const c10d::ReduceScatterOptions &options) {
  const Label label = {c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "kolo:reduce_scatter", isAsync(options)};
  constexpr const char *what = "reduce_scatter_tensor_coalesced";
  if (outputs.size() != inputs.size() || inputs.empty())
    refuse(what, "needs as many outputs as inputs, and at least one");
  Parts parts;
  for (size_t index = 0; index < inputs.size(); ++index) {
    checkBlocks(inputs[index], outputs[index], getSize(), what);
    Choice choice = choices.ofReduction(CollectiveKind::ReduceScatter, outputs[index], options.reduceOp);
    parts.push_back(Part{choice, Blocks({inputs[index]}), Blocks({outputs[index]})});
    if (!choice.plugin)
      break;
  }
  return calls.run(label, std::move(parts), inputs, outputs,
                   onGloo(&Base::reduce_scatter_tensor_coalesced, outputs, inputs, options));
}
#endif

} // namespace kolo::torch_door
