// Group: how it is made, chooses, and runs calls. Its collectives are in Collectives.cpp.
#include "Group.h"

#include "Work.h"

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace kolo::torch_door {

using runtime::CallArguments;
using runtime::CollectiveKind;
using runtime::Communicator;
using runtime::DataType;
using runtime::Door;
using runtime::Reduction;
using runtime::Status;
using runtime::StatusCode;

namespace {

std::runtime_error failure(const Status &status) {
  return std::runtime_error(std::string("kolo: ") + runtime::toString(status.code()) + ": " + status.message());
}

/// The plugins and counts of this process, opened when the first group is made.
Door &door() {
  static runtime::Result<Door> opened = Door::open("torch");
  if (!opened.isOk())
    throw failure(opened.status());
  return *opened;
}

/// An all-gather through the store. Every call of it uses other keys.
class StoreExchange {
public:
  StoreExchange(c10::intrusive_ptr<c10d::Store> agreedStore, int ownRank, int numRanks, std::chrono::milliseconds time)
      : store(std::move(agreedStore)), rank(ownRank), size(numRanks), timeout(time) {}

  Status operator()(const void *own, size_t sizeBytes, void *all) {
    const auto *bytes = static_cast<const uint8_t *>(own);
    std::string prefix = "kolo/" + std::to_string(round++) + "/";
    store->set(prefix + std::to_string(rank), std::vector<uint8_t>(bytes, bytes + sizeBytes));
    for (int peer = 0; peer < size; ++peer) {
      std::string key = prefix + std::to_string(peer);
      try {
        store->wait({key}, timeout);
      } catch (const std::exception &) {
        return Status(
            StatusCode::Timeout,
            "rank " + std::to_string(peer) + " did not join within " + std::to_string(timeout.count()) + " ms", peer);
      }
      std::vector<uint8_t> theirs = store->get(key);
      if (theirs.size() != sizeBytes)
        return Status(StatusCode::Mismatch, "rank " + std::to_string(peer) + " runs another version of Kolo", peer);
      std::memcpy(static_cast<char *>(all) + static_cast<size_t>(peer) * sizeBytes, theirs.data(), sizeBytes);
    }
    return {};
  }

private:
  c10::intrusive_ptr<c10d::Store> store;
  int rank, size;
  std::chrono::milliseconds timeout;
  int round = 0;
};

/// What ranks tell each other before they join.
struct GroupFacts {
  uint64_t plugins = 0, host = 0;
};

Status comparePlugins(StoreExchange &exchange, std::vector<GroupFacts> &all) {
  GroupFacts own{door().identity()};
  if (runtime::Result<uint64_t> host = runtime::hostNumber(); host.isOk())
    own.host = *host; // else Communicator::create says why
  if (Status status = exchange(&own, sizeof(own), all.data()); !status.isOk())
    return status;
  for (size_t peer = 1; peer < all.size(); ++peer)
    if (all[peer].plugins != all[0].plugins)
      return Status(StatusCode::Mismatch,
                    "rank " + std::to_string(peer) +
                        " has other plugins than rank 0: KOLO_PLUGIN_PATH must name the same ones on all ranks",
                    static_cast<int>(peer));
  return {};
}

std::optional<Reduction> reductionOf(const c10d::ReduceOp &op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
  case c10d::ReduceOp::SUM:
    return Reduction::Sum;
  case c10d::ReduceOp::AVG:
    return Reduction::Average;
  case c10d::ReduceOp::PRODUCT:
    return Reduction::Product;
  case c10d::ReduceOp::MIN:
    return Reduction::Min;
  case c10d::ReduceOp::MAX:
    return Reduction::Max;
  default:
    return std::nullopt;
  }
}

constexpr const char *noMemory = "no memory or descriptors for Kolo", *noProgram = "no program",
                     *notPlain = "sparse or not on the host", *otherType = "type";
constexpr size_t maxChoices = 4096;
constexpr Shape agreementShape = {CollectiveKind::AllReduce, DataType::I64, Reduction::Max, 2};

/// Null if Kolo can move the elements.
const char *whyNotMoved(const at::Tensor &tensor) {
  if (!isPlain(tensor))
    return notPlain;
  return movedType(tensor.scalar_type()) ? nullptr : otherType;
}

} // namespace

c10::intrusive_ptr<Base> Group::create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                       std::chrono::milliseconds timeout, c10::intrusive_ptr<Base> gloo) {
  StoreExchange exchange(store, rank, size, timeout);
  std::vector<GroupFacts> facts(static_cast<size_t>(size));
  if (Status status = comparePlugins(exchange, facts); !status.isOk())
    throw failure(status);
  const bool areOnOneHost =
      std::all_of(facts.begin(), facts.end(), [&](const GroupFacts &each) { return each.host == facts.front().host; });
  runtime::CommunicatorOptions options;
  options.timeoutMs = static_cast<int>(std::clamp<int64_t>(timeout.count(), 1, std::numeric_limits<int>::max()));
  runtime::Result<Communicator> joined = Communicator::create(rank, size, std::ref(exchange), options);
  if (!joined.isOk())
    throw failure(joined.status());
  return c10::make_intrusive<Group>(rank, size, std::move(joined).value(), areOnOneHost, std::move(gloo));
}

Group::Group(int rank, int size, Communicator joined, bool areOnOneHost, c10::intrusive_ptr<Base> glooGroup)
    : Base(rank, size), gloo(std::move(glooGroup)), isOnOneHost(areOnOneHost) {
  for (const runtime::Mesh &mesh : joined.meshes())
    arguments.push_back({{}, mesh});
  queue.emplace(std::move(joined));
  agreement = find(agreementShape);
}

/// Torch may destroy a group while it holds Python's lock. Callbacks of unfinished calls need that lock, and so do the
/// threads of the Gloo group, which free tensors and which its end waits for.
Group::~Group() {
  PyThreadState *released = PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  queue.reset();
  gloo.reset();
  if (released)
    PyEval_RestoreThread(released);
}

size_t Group::ShapeHash::operator()(const Shape &shape) const {
  uint64_t hash = static_cast<uint64_t>(shape.count);
  for (auto part : {static_cast<uint64_t>(shape.kind), static_cast<uint64_t>(shape.type),
                    static_cast<uint64_t>(shape.reduction), static_cast<uint64_t>(shape.root)})
    hash = (hash ^ part) * 0x100000001b3;
  return static_cast<size_t>(hash);
}

Choice Group::choose(const Shape &shape) const {
  CallArguments asked;
  shape.enter(asked);
  std::string why;
  Choice choice{door().find(queue->communicator(), asked, why), shape};
  if (!choice.plugin)
    choice.reason = noProgram;
  while (arguments[choice.mesh].mesh != asked.mesh)
    ++choice.mesh;
  return choice;
}

/// All ranks ask for the same shapes, so all find the same plugin.
Choice Group::find(Shape shape) {
  auto known = choices.find(shape);
  if (known != choices.end())
    return known->second;
  if (choices.size() >= maxChoices)
    choices.clear();
  Choice choice = choose(shape);
  choices.emplace(shape, choice);
  return choice;
}

/// `block`: what one rank contributes, or, with numBlocks > 1, that many times as much.
Choice Group::chooseMove(CollectiveKind collective, const at::Tensor &block, int64_t numBlocks, int root) {
  if (const char *reason = whyNotMoved(block))
    return {nullptr, {}, reason};
  std::optional<MovedType> type = movedType(block.scalar_type());
  return find({collective, type->type, Reduction::Sum, block.numel() / numBlocks * type->perElement, root});
}

Choice Group::chooseReduction(CollectiveKind collective, const at::Tensor &tensor, const c10d::ReduceOp &op,
                              int64_t numBlocks, int root) {
  if (!isPlain(tensor))
    return {nullptr, {}, notPlain};
  std::optional<DataType> type = reducedType(tensor.scalar_type());
  if (!type)
    return {nullptr, {}, otherType};
  std::optional<Reduction> reduction = reductionOf(op);
  if (!reduction)
    return {nullptr, {}, "operation"};
  return find({collective, *type, *reduction, tensor.numel() / numBlocks, root});
}

Status Group::runChoice(Communicator &communicator, const Choice &choice, const void *input, void *output) {
  CallArguments &call = arguments[choice.mesh];
  choice.shape.enter(call);
  call.input = input;
  call.output = output;
  return communicator.run(*choice.plugin, call);
}

Status Group::runPart(Communicator &communicator, Part &part) {
  void *output = part.output.place(outputScratch);
  const void *input = part.isInPlace ? output : part.input.place(inputScratch);
  (part.isInPlace ? part.output : part.input).pack();
  Status status = runChoice(communicator, part.choice, input, output);
  if (status.isOk())
    part.output.unpack();
  return status;
}

WorkPointer Group::enqueue(const Label &label, const Tensors &inputs, Tensors outputs, Call call) {
  ++sequence;
  auto work = c10::make_intrusive<Work>(getRank(), label.type, label.title, inputs, std::move(outputs));
  runtime::Queue::Call ofWork = [call = std::move(call), work](Communicator &communicator) {
    Status status = call(communicator, *work);
    // All ranks see that they differ, and before any of them has begun, so later calls can be right.
    if (status.code() != StatusCode::Mismatch)
      return status;
    work->refuse(status);
    return Status();
  };
  if (label.isAsync)
    work->start(*queue, std::move(ofWork));
  else
    work->run(*queue, std::move(ofWork));
  return work;
}

WorkPointer Group::submit(const Label &label, Parts parts, const Tensors &inputs, Tensors outputs, GlooCall instead) {
  for (const at::Tensor &output : outputs)
    checkWritable(output, label.title);
  return enqueue(label, inputs, std::move(outputs),
                 [this, parts = std::move(parts), instead = std::move(instead),
                  held = holdForwarded()](Communicator &communicator, Work &work) mutable {
                   return runParts(communicator, parts, instead, work);
                 });
}

/// On one host all ranks see this, and before any of them has begun the part. So Gloo takes it.
bool Group::lacksMemory(const Status &status) const { return status.code() == StatusCode::OutOfMemory && isOnOneHost; }

Status Group::runParts(Communicator &communicator, Parts &parts, const GlooCall &instead, Work &work) {
  int64_t carriedBytes = 0;
  bool isForwarded = false;
  for (Part &part : parts) {
    Status status = runPart(communicator, part);
    if (lacksMemory(status)) {
      isForwarded = true;
      runOnGloo(part.instead ? part.instead : instead, work);
      if (part.instead)
        continue;
      break;
    }
    if (!status.isOk())
      return status;
    carriedBytes += part.choice.shape.count * static_cast<int64_t>(runtime::sizeBytes(part.choice.shape.type));
  }
  if (isForwarded)
    door().countForwarded(noMemory);
  else
    door().countCarried(carriedBytes);
  return Status();
}

/// Whether all ranks have the same count, which no rank passes as a negative one.
Status Group::agreeOnCount(Communicator &communicator, int64_t count, bool &isAgreed) {
  int64_t bounds[2] = {count, -count};
  Status status = runChoice(communicator, agreement, bounds, bounds);
  isAgreed = bounds[0] == -bounds[1] && bounds[0] >= 0;
  return status;
}

void Group::countForwarded(const char *reason) {
  ++sequence;
  door().countForwarded(reason);
}

/// Until it is destroyed, the calls that are forwarded go through the queue.
std::shared_ptr<void> Group::holdForwarded() {
  ++numHeld;
  return {nullptr, [this](void *) { --numHeld; }};
}

/// Blocks until the call has ended. What Gloo refuses is this call's failure, and Gloo's group stays usable.
void Group::runOnGloo(const GlooCall &call, Work &work) {
  try {
    StandIns standIns(work.title());
    if (WorkPointer begun = call(*gloo, standIns))
      begun->wait();
    standIns.copyBack();
  } catch (...) {
    work.refuse(std::current_exception());
  }
}

/// Gloo pairs the calls of ranks by their order. So a call goes behind those of which the queue does not yet know
/// whether Gloo gets them.
WorkPointer Group::forward(const Label &label, const char *reason, Tensors outputs, GlooCall call) {
  if (numHeld > 0) {
    door().countForwarded(reason);
    return enqueue(label, {}, std::move(outputs),
                   [this, call = std::move(call), held = holdForwarded()](Communicator &, Work &work) {
                     runOnGloo(call, work);
                     return Status();
                   });
  }
  countForwarded(reason);
  StandIns standIns(label.title);
  WorkPointer begun = call(*gloo, standIns);
  return settled(std::move(begun), std::move(standIns), std::move(outputs));
}

/// Ranks see only the sizes that they send and receive themselves. So they agree first, as part of the call.
/// `asIs`: what Gloo gets if not even bytes can be moved.
WorkPointer Group::exchangeBlocks(const Label &label, const Exchange &exchange, const c10d::AllToAllOptions &options,
                                  GlooCall asIs) {
  for (const at::Tensor &output : exchange.outputs)
    checkWritable(output, label.title);
  const at::Tensor &like = exchange.inputs.front();
  if (const char *reason = whyNotMoved(like))
    return forward(label, reason, exchange.outputs, std::move(asIs));
  auto viaGloo = [exchange, options](Base &to, StandIns &standIns) { return exchange.start(to, standIns, options); };
  if (!agreement.plugin)
    return forward(label, noProgram, exchange.outputs, viaGloo);
  MovedType type = *movedType(like.scalar_type());
  int64_t evenSize = exchange.evenSize();
  Parts parts = {Part{{}, Blocks(exchange.inputs), Blocks(exchange.outputs)}};
  Part &part = parts.front();
  if (evenSize >= 0)
    part.choice = find({CollectiveKind::AllToAll, type.type, Reduction::Sum, evenSize * type.perElement});
  auto call = [this, parts, evenSize, viaGloo, held = holdForwarded()](Communicator &communicator, Work &work) mutable {
    bool isAgreed = false;
    Status status = agreeOnCount(communicator, evenSize, isAgreed);
    const char *reason = isAgreed ? noProgram : "uneven sizes";
    if (status.isOk() && isAgreed && parts.front().choice.plugin)
      return runParts(communicator, parts, viaGloo, work);
    if (lacksMemory(status))
      reason = noMemory;
    else if (!status.isOk())
      return status;
    door().countForwarded(reason);
    runOnGloo(viaGloo, work);
    return Status();
  };
  return enqueue(label, exchange.inputs, exchange.outputs, std::move(call));
}

std::string statistics() { return door().statistics(); }
std::string notice() { return door().notice(); }
bool wantsStatistics() { return door().wantsStatistics(); }

} // namespace kolo::torch_door
