// Two ways, of which both end at the ranks of the experts: directly, or by the rank of the same number in each node.
#include "kolo/runtime/Experts.h"

#include "base/Error.h"
#include "experts/RowRouting.h"
#include "experts/RowSums.h"

#include <algorithm>
#include <numeric>

namespace kolo::runtime {
namespace {

/// Memory of this rank that peers write, which only grows.
class RowMemory {
public:
  /// Undefined content. OutOfMemory, SystemError.
  Result<std::byte *> reserve(Communicator &communicator, int64_t sizeBytes) {
    if (sizeBytes == 0)
      return static_cast<std::byte *>(nullptr);
    if (!window || window->sizeBytes() < static_cast<size_t>(sizeBytes)) {
      window.reset();
      Result<Window> made = communicator.allocate(static_cast<size_t>(sizeBytes));
      if (!made.isOk())
        return made.status();
      window = std::move(made).value();
    }
    return static_cast<std::byte *>(window->data());
  }

private:
  std::optional<Window> window;
};

Status checkOptions(const ExpertOptions &options, int numRanks) {
  auto wrong = [](const char *what, int64_t value) {
    return error(StatusCode::InvalidArgument, "ExpertOptions: {} is {}", what, value);
  };
  const auto numDims = static_cast<int64_t>(options.mesh.dims().size());
  if (numDims < 1 || numDims > 2)
    return wrong("the number of dimensions of the mesh, which is 1 or 2,", numDims);
  if (options.mesh.numRanks() != numRanks)
    return error(StatusCode::InvalidArgument, "ExpertOptions: mesh {} has {} ranks, the communicator has {}",
                 options.mesh.toString(), options.mesh.numRanks(), numRanks);
  if (options.numExperts < 1 || options.numExperts % numRanks != 0)
    return error(StatusCode::InvalidArgument, "ExpertOptions: {} experts are no multiple of {} ranks",
                 options.numExperts, numRanks);
  if (options.type != DataType::F32 && options.type != DataType::F16 && options.type != DataType::BF16)
    return error(StatusCode::InvalidArgument, "ExpertOptions: tokens are of f32, f16 or bf16, not of {}",
                 toString(options.type));
  if (options.rowElements < 1)
    return wrong("rowElements", options.rowElements);
  if (options.capacity < 1)
    return wrong("capacity", options.capacity);
  int64_t numRows = 0, numBytes = 0;
  if (__builtin_mul_overflow(options.capacity, options.numExperts, &numRows) || numRows > INT32_MAX ||
      __builtin_mul_overflow(numRows * static_cast<int64_t>(sizeof(float)), options.rowElements, &numBytes))
    return error(StatusCode::InvalidArgument,
                 "ExpertOptions: {} tokens of {} elements for each of {} experts are too many", options.capacity,
                 options.rowElements, options.numExperts);
  return {};
}

} // namespace

class ExpertExchangeState {
public:
  ExpertExchangeState(Communicator &owner, const ExpertOptions &given, std::vector<GroupAllToAll> exact,
                      std::vector<GroupAllToAll> ofTokens)
      : communicator(owner), options(given), groups(std::move(exact)), carriers(std::move(ofTokens)) {}

  Status route(std::span<const int32_t> experts, int64_t perToken);
  Routed routed() const;
  Status dispatch(const void *tokens, void *rows);
  Status combine(const void *rows, std::span<const float> weights, void *output);

private:
  int64_t numRanks() const { return communicator.size(); }
  int64_t expertsPerRank() const { return options.numExperts / numRanks(); }
  int64_t rowBytes() const { return options.rowElements * static_cast<int64_t>(sizeBytes(options.type)); }
  bool hasNodes() const { return groups.size() == 2; }
  int64_t numNodes() const { return hasNodes() ? groups.front().size() : 1; }
  int64_t numInNode() const { return groups.back().size(); }
  /// The number, among all ranks, of the rank that a row comes from. The row went from `node` to this rank's node, and
  /// from member `inNode` of that to its expert.
  int64_t sourceRank(int64_t node, int64_t inNode) const { return hasNodes() ? node * numInNode() + inNode : inNode; }
  int64_t numRows() const;

  Status checkExperts(std::span<const int32_t> experts, int64_t perToken) const;
  int64_t dropBeyondCapacity(std::vector<int32_t> &experts) const;
  Status conclude(int64_t numDropped, const RowRouting::RouteReport &all);
  Status routeToNodes(std::vector<int32_t> &experts, RowRouting::RouteReport &report);
  Status routeToExperts(std::span<const int32_t> experts, std::span<const int32_t> nodeOfToken,
                        RowRouting::RouteReport &report);
  RowRouting::BucketPlaces placement() const;
  std::vector<int64_t> placeCompactly(std::span<const int64_t> counts) const;
  void countRows();
  Status sumInNode(const void *rows, std::span<const float> weights);

  Communicator &communicator;
  const ExpertOptions options;
  const std::vector<GroupAllToAll> groups;   // by dimension of the mesh
  const std::vector<GroupAllToAll> carriers; // the same for tokens, perhaps with codecs

  // Of the last route.
  bool isRouted = false;
  int64_t numTokens = 0, perToken = 0, numDropped = 0;
  RowRouting toNodes, toExperts;
  RowSums sumsOfTokens, sumsOfNodes; // what `combine` makes of answers: each token's, and each node's share
  struct {
    std::vector<int64_t> counts, firstRows;
  } received; // see Routed
  struct {
    RowMemory staged, answers, shares;
  } memory;
};

int64_t ExpertExchangeState::numRows() const {
  return options.layout == ExpertLayout::Slots ? options.numExperts * options.capacity : toExperts.numTaken();
}

Status ExpertExchangeState::checkExperts(std::span<const int32_t> experts, int64_t perTokenGiven) const {
  if (perTokenGiven < 1 || static_cast<int64_t>(experts.size()) % perTokenGiven != 0)
    return error(StatusCode::InvalidArgument, "{} numbers of experts are no multiple of {} for each token",
                 experts.size(), perTokenGiven);
  for (size_t i = 0; i < experts.size(); ++i) {
    const int32_t expert = experts[i];
    if (expert < -1 || expert >= options.numExperts)
      return error(StatusCode::InvalidArgument, "token {} asks for expert {} of {}",
                   static_cast<int64_t>(i) / perTokenGiven, expert, options.numExperts);
    const auto first = experts.begin() + static_cast<int64_t>(i) / perTokenGiven * perTokenGiven;
    if (expert >= 0 && std::find(first, experts.begin() + static_cast<int64_t>(i), expert) !=
                           experts.begin() + static_cast<int64_t>(i))
      return error(StatusCode::InvalidArgument, "token {} asks for expert {} twice",
                   static_cast<int64_t>(i) / perTokenGiven, expert);
  }
  return {};
}

/// Which then stand for none. Returns how many.
int64_t ExpertExchangeState::dropBeyondCapacity(std::vector<int32_t> &experts) const {
  std::vector<int64_t> numOf(static_cast<size_t>(options.numExperts));
  int64_t dropped = 0;
  for (int32_t &expert : experts)
    if (expert >= 0 && numOf[static_cast<size_t>(expert)]++ >= options.capacity) {
      expert = -1;
      ++dropped;
    }
  return dropped;
}

/// What all ranks make of what they heard of each other.
Status ExpertExchangeState::conclude(int64_t dropped, const RowRouting::RouteReport &all) {
  if (all.isRefused)
    return error(StatusCode::InvalidArgument, "the experts that tokens of another rank ask for are wrong");
  if (all.numDropped > 0 && options.overflow == Overflow::Refuse)
    return error(StatusCode::InvalidArgument, "{} tokens for experts are beyond the capacity of {}: {} of this rank",
                 all.numDropped, options.capacity, dropped);
  numDropped = dropped;
  isRouted = true;
  countRows();
  return {};
}

Status ExpertExchangeState::route(std::span<const int32_t> experts, int64_t perTokenGiven) {
  isRouted = false;
  const Status own = checkExperts(experts, perTokenGiven);
  std::vector<int32_t> kept;
  if (own.isOk())
    kept.assign(experts.begin(), experts.end());
  const int64_t dropped = dropBeyondCapacity(kept);
  perToken = std::max<int64_t>(perTokenGiven, 1);
  numTokens = static_cast<int64_t>(kept.size()) / perToken;
  RowRouting::RouteReport report = {dropped, !own.isOk()};
  std::vector<int32_t> nodeOfToken(static_cast<size_t>(numTokens)); // without nodes, all tokens come from one
  if (hasNodes()) {
    if (Status status = routeToNodes(kept, report); !status.isOk())
      return status;
    nodeOfToken.clear();
    for (int64_t node = 0; node < numNodes() && !report.isRefused; ++node)
      nodeOfToken.insert(nodeOfToken.end(), static_cast<size_t>(toNodes.takenCounts()[static_cast<size_t>(node)]),
                         static_cast<int32_t>(node));
    if (report.isRefused)
      kept.clear();
  }
  if (Status status = routeToExperts(kept, nodeOfToken, report); !status.isOk())
    return status;
  return own.isOk() ? conclude(dropped, report) : own;
}

/// Leaves the experts that the tokens which come to this rank ask for, by number in the node.
Status ExpertExchangeState::routeToNodes(std::vector<int32_t> &experts, RowRouting::RouteReport &report) {
  const int64_t perNode = expertsPerRank() * numInNode();
  std::vector<RowTarget> targets;
  sumsOfTokens.clear();
  for (int64_t token = 0; token < numTokens; ++token)
    for (int64_t node = 0; node < numNodes(); ++node) {
      auto isThere = [&](int32_t expert) { return expert >= 0 && expert / perNode == node; };
      const auto first = experts.begin() + token * perToken;
      if (std::any_of(first, first + perToken, isThere))
        targets.push_back({static_cast<int32_t>(token), static_cast<int32_t>(node), 0});
    }
  RowRouting::BucketPlaces placement;
  placement.decide = [](std::span<const int64_t> taken) {
    std::vector<int64_t> places(taken.size());
    std::exclusive_scan(taken.begin(), taken.end(), places.begin(), int64_t(0));
    return places;
  };
  if (Status status = toNodes.route(groups.front(), targets, 1, placement, report); !status.isOk() || report.isRefused)
    return status;
  std::vector<int32_t> asked(static_cast<size_t>(toNodes.numGiven() * perToken), -1);
  size_t target = 0;
  for (int64_t token = 0; token < numTokens; ++token) {
    for (; target < targets.size() && targets[target].row == token; ++target) {
      const int64_t position = toNodes.positionOf(target);
      sumsOfTokens.add({position, -1});
      for (int64_t i = 0; i < perToken; ++i)
        if (int32_t expert = experts[static_cast<size_t>(token * perToken + i)];
            expert >= 0 && expert / perNode == targets[target].member)
          asked[static_cast<size_t>(position * perToken + i)] = static_cast<int32_t>(expert % perNode);
    }
    sumsOfTokens.endRow();
  }
  experts.assign(static_cast<size_t>(toNodes.numTaken() * perToken), -1);
  return toNodes.forwardPacked(groups.front(), asked.data(), experts.data(), perToken, DataType::I32);
}

/// Of tokens that are on this rank, from there to the ranks of the last dimension. A bucket is an expert and the node
/// that the token is from.
Status ExpertExchangeState::routeToExperts(std::span<const int32_t> experts, std::span<const int32_t> nodeOfToken,
                                           RowRouting::RouteReport &report) {
  std::vector<RowTarget> targets;
  for (size_t i = 0; i < experts.size(); ++i)
    if (int32_t expert = experts[i]; expert >= 0) {
      const auto token = static_cast<int32_t>(static_cast<int64_t>(i) / perToken);
      const int64_t bucket = expert % expertsPerRank() * numNodes() + nodeOfToken[static_cast<size_t>(token)];
      targets.push_back({token, static_cast<int32_t>(expert / expertsPerRank()), static_cast<int32_t>(bucket)});
    }
  if (Status status = toExperts.route(groups.back(), targets, expertsPerRank() * numNodes(), placement(), report);
      !status.isOk() || report.isRefused)
    return status;
  RowSums &sums = hasNodes() ? sumsOfNodes : sumsOfTokens;
  sums.clear();
  size_t target = 0;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] >= 0)
      sums.add({toExperts.positionOf(target++), static_cast<int64_t>(i)});
    if (static_cast<int64_t>(i + 1) % perToken == 0)
      sums.endRow();
  }
  return {};
}

RowRouting::BucketPlaces ExpertExchangeState::placement() const {
  RowRouting::BucketPlaces result;
  if (options.layout == ExpertLayout::Compact) {
    result.decide = [this](std::span<const int64_t> taken) { return placeCompactly(taken); };
    return result;
  }
  auto firstOf = [this](int64_t bucket, int64_t inNode) {
    const int64_t expert = bucket / numNodes(), node = bucket % numNodes();
    return (expert * numRanks() + sourceRank(node, inNode)) * options.capacity;
  };
  result.given = [this, firstOf](int64_t, int64_t bucket) { return firstOf(bucket, groups.back().self()); };
  result.taken = [firstOf](int64_t member, int64_t bucket) { return firstOf(bucket, member); };
  return result;
}

/// By expert, then by rank.
std::vector<int64_t> ExpertExchangeState::placeCompactly(std::span<const int64_t> taken) const {
  std::vector<int64_t> places(taken.size());
  int64_t next = 0;
  for (int64_t expert = 0; expert < expertsPerRank(); ++expert)
    for (int64_t node = 0; node < numNodes(); ++node)
      for (int64_t inNode = 0; inNode < numInNode(); ++inNode) {
        const auto index = static_cast<size_t>((inNode * expertsPerRank() + expert) * numNodes() + node);
        places[index] = next;
        next += taken[index];
      }
  return places;
}

void ExpertExchangeState::countRows() {
  received.counts.resize(static_cast<size_t>(expertsPerRank() * numRanks()));
  received.firstRows.resize(received.counts.size());
  for (int64_t expert = 0; expert < expertsPerRank(); ++expert)
    for (int64_t node = 0; node < numNodes(); ++node)
      for (int64_t inNode = 0; inNode < numInNode(); ++inNode) {
        const auto from = static_cast<size_t>((inNode * expertsPerRank() + expert) * numNodes() + node);
        const auto to = static_cast<size_t>(expert * numRanks() + sourceRank(node, inNode));
        received.counts[to] = toExperts.takenCounts()[from];
        received.firstRows[to] = toExperts.takenFirst()[from];
      }
}

Routed ExpertExchangeState::routed() const {
  return isRouted ? Routed{numRows(), received.counts, received.firstRows, numDropped,
                           hasNodes() ? toNodes.numToOthers(groups.front()) : 0}
                  : Routed{};
}

static Status notRouted() { return error(StatusCode::InvalidArgument, "no call of route has succeeded before"); }

/// Null for memory that cannot be had: a call with it fails on all ranks.
static std::byte *orNull(const Result<std::byte *> &memory) { return memory.isOk() ? *memory : nullptr; }

/// The cause, where this rank had no memory for a call.
static Status causeOf(const Status &failure, const Result<std::byte *> &memory) {
  return memory.isOk() ? failure : memory.status();
}

Status ExpertExchangeState::dispatch(const void *tokens, void *rows) {
  if (!isRouted)
    return notRouted();
  const int64_t elements = options.rowElements, numStaged = toNodes.numTaken();
  if (!hasNodes())
    return toExperts.forward(carriers.back(), tokens, numTokens, rows, numRows(), elements, options.type);
  Result<std::byte *> stage = memory.staged.reserve(communicator, numStaged * rowBytes());
  if (Status status =
          toNodes.forward(carriers.front(), tokens, numTokens, orNull(stage), numStaged, elements, options.type);
      !status.isOk())
    return causeOf(status, stage);
  return toExperts.forward(carriers.back(), *stage, numStaged, rows, numRows(), elements, options.type);
}

Status ExpertExchangeState::combine(const void *rows, std::span<const float> weights, void *output) {
  if (!isRouted)
    return notRouted();
  Status own;
  if (static_cast<int64_t>(weights.size()) != numTokens * perToken)
    own = error(StatusCode::InvalidArgument, "{} weights are given for {} tokens with {} experts each", weights.size(),
                numTokens, perToken);
  else if (numTokens > 0 && !output)
    own = error(StatusCode::InvalidArgument, "output is null");
  const int64_t elements = options.rowElements;
  const RowRouting &last = hasNodes() ? toNodes : toExperts;
  const GroupAllToAll &group = groups.front();
  const void *answers = rows;
  int64_t numAnswers = numRows();
  if (hasNodes()) {
    if (Status status = sumInNode(rows, own.isOk() ? weights : std::span<const float>()); !status.isOk())
      return status;
    answers = orNull(memory.staged.reserve(communicator, toNodes.numTaken() * rowBytes()));
    numAnswers = toNodes.numTaken();
  }
  Result<std::byte *> arrived = memory.answers.reserve(communicator, last.numGiven() * rowBytes());
  if (Status status = last.backward(group, answers, numAnswers, orNull(arrived), elements, options.type);
      !status.isOk())
    return causeOf(status, arrived);
  if (own.isOk())
    sumsOfTokens.run(options.type, static_cast<size_t>(elements), *arrived, weights, static_cast<std::byte *>(output));
  return own;
}

/// On the rank of a node that tokens came to: leaves, in `staged`, the sums of that node's answers, whose weights
/// follow the tokens. Without weights, it takes part with zeros.
Status ExpertExchangeState::sumInNode(const void *rows, std::span<const float> weights) {
  std::vector<float> given(static_cast<size_t>(toNodes.numGiven() * perToken)),
      taken(static_cast<size_t>(toNodes.numTaken() * perToken));
  for (size_t row = 0; row < toNodes.given().size() && !weights.empty(); ++row)
    std::copy_n(weights.begin() + toNodes.given()[row] * perToken, perToken,
                given.begin() + static_cast<int64_t>(row) * perToken);
  if (Status status = toNodes.forwardPacked(groups.front(), given.data(), taken.data(), perToken, DataType::F32);
      !status.isOk())
    return status;
  Result<std::byte *> inNode = memory.shares.reserve(communicator, toExperts.numGiven() * rowBytes());
  Result<std::byte *> sums = memory.staged.reserve(communicator, toNodes.numTaken() * rowBytes());
  if (Status status =
          toExperts.backward(groups.back(), rows, numRows(), orNull(inNode), options.rowElements, options.type);
      !status.isOk())
    return causeOf(status, inNode);
  if (sums.isOk())
    sumsOfNodes.run(options.type, static_cast<size_t>(options.rowElements), *inNode, taken, *sums);
  return {};
}

ExpertExchange::ExpertExchange(std::unique_ptr<ExpertExchangeState> made) : state(std::move(made)) {}
ExpertExchange::ExpertExchange(ExpertExchange &&) noexcept = default;
ExpertExchange &ExpertExchange::operator=(ExpertExchange &&) noexcept = default;
ExpertExchange::~ExpertExchange() = default;

Result<ExpertExchange> ExpertExchange::create(Communicator &communicator, const std::vector<const Plugin *> &plugins,
                                              const ExpertOptions &options) {
  return guarded([&]() -> Result<ExpertExchange> {
    if (Status status = checkOptions(options, communicator.size()); !status.isOk())
      return status;
    std::vector<GroupAllToAll> exact, carriers;
    bool hasCodecs = false;
    for (int dim = 0; dim < static_cast<int>(options.mesh.dims().size()); ++dim) {
      auto find = [&](bool coded) { return GroupAllToAll::find(communicator, plugins, options.mesh, dim, coded); };
      std::optional<GroupAllToAll> found = find(false), coded = options.allowsLoss ? find(true) : std::nullopt;
      if (!found)
        return error(
            StatusCode::InvalidArgument,
            "no plugin has an all-to-all over '{}' on mesh {} that takes row lists; `kolo compile {}` makes one",
            options.mesh.dims()[static_cast<size_t>(dim)].name, options.mesh.toString(),
            options.mesh.dims().size() == 1 ? "directAllToAll"
            : dim == 0                      ? "railAllToAll"
                                            : "nodeAllToAll");
      exact.push_back(*found);
      carriers.push_back(coded.value_or(*found));
      hasCodecs |= coded.has_value();
    }
    if (options.allowsLoss && !hasCodecs)
      return error(StatusCode::InvalidArgument,
                   "no plugin has an all-to-all with codecs on mesh {} that takes row lists", options.mesh.toString());
    return ExpertExchange(
        std::make_unique<ExpertExchangeState>(communicator, options, std::move(exact), std::move(carriers)));
  });
}

Status ExpertExchange::route(std::span<const int32_t> experts, int64_t perToken) {
  return guarded([&] { return state->route(experts, perToken); });
}

Routed ExpertExchange::routed() const { return state->routed(); }

Status ExpertExchange::dispatch(const void *tokens, void *rows) {
  return guarded([&] { return state->dispatch(tokens, rows); });
}

Status ExpertExchange::combine(const void *rows, std::span<const float> weights, void *output) {
  return guarded([&] { return state->combine(rows, weights, output); });
}

} // namespace kolo::runtime
