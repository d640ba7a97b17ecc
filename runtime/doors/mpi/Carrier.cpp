#include "Carrier.h"

#include "Combinations.h"
#include "PageHeap.h"
#include "Process.h"
#include "RollCall.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <limits>

namespace kolo::mpi {
namespace {

using runtime::CollectiveKind;
using runtime::Communicator;
using runtime::CommunicatorOptions;
using runtime::LogLevel;
using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

constexpr const char *noMemory = "no memory or descriptors for Kolo";
constexpr size_t mostDecisions = 1024;             // programs call some hundred shapes on a communicator
constexpr size_t mostKeptBytes = size_t(64) << 20; // of memory for packed data, between calls

std::string describe(const Request &request, int64_t sizeBytes) {
  std::string text = std::string(request.function) + " of " + std::to_string(sizeBytes) + " bytes";
  const Shape &shape = request.shape;
  return runtime::factsOf(shape.kind).reduces ? text + ", " + nameOf({shape.type, shape.reduction, shape.custom})
                                              : text;
}

size_t sideBytes(const Shape &shape, const Side &side) {
  return static_cast<size_t>(shape.count * shape.elementBytes()) * static_cast<size_t>(side.blocks);
}

/// What MPI_Pack and MPI_Unpack are given for the elements of a side. They need a pointer, and MPI_BOTTOM is null. So a
/// datatype of absolute addresses is moved, and the pointer is moved back.
struct Elements {
  explicit Elements(const Side &side) : memory(side.memory), count(side.count * side.blocks), type(side.type) {
    int sizeBytes = 0;
    PMPI_Type_size(type, &sizeBytes);
    packedBytes = sizeBytes * count;
    isMoved = memory == MPI_BOTTOM;
    if (!isMoved)
      return;
    constexpr MPI_Aint distance = 4096;
    const MPI_Aint back = -distance;
    PMPI_Type_create_hindexed(1, &count, &back, side.type, &type);
    PMPI_Type_commit(&type);
    memory = reinterpret_cast<void *>(distance);
    count = 1;
  }
  ~Elements() {
    if (isMoved)
      PMPI_Type_free(&type);
  }
  Elements(const Elements &) = delete;
  Elements &operator=(const Elements &) = delete;

  void *memory;
  int count;
  MPI_Datatype type;
  int packedBytes = 0;
  bool isMoved = false;
};

/// Errors of the caller or of its settings; others, as ranks on other hosts, only mean that Kolo cannot help.
bool isMistake(const Status &status) {
  return status.code() == StatusCode::InvalidArgument || status.code() == StatusCode::Mismatch;
}

/// Mistakes of this rank alone, which its peers cannot see. Nothing: none.
struct Mistake {
  int code;
  std::string text;
};
std::optional<Mistake> findMistake(const Request &request) {
  const Side &input = request.input, &output = request.output;
  // Where it may stand, the side has the other buffer instead.
  if ((input.blocks && input.memory == MPI_IN_PLACE) || (output.blocks && output.memory == MPI_IN_PLACE))
    return Mistake{MPI_ERR_BUFFER, "MPI_IN_PLACE may not stand for this buffer"};
  if (!input.blocks || !output.blocks)
    return std::nullopt;
  // Data would lie in other places than with MPI, or beyond the buffer.
  const int64_t given = bytesOf(input.count, input.type), taken = bytesOf(output.count, output.type);
  if (given == taken) [[likely]]
    return std::nullopt;
  return Mistake{MPI_ERR_TRUNCATE, "this rank gives blocks of " + std::to_string(given) +
                                       " bytes and takes blocks of " + std::to_string(taken)};
}

/// What ranks tell each other before they connect.
struct JoinFacts {
  uint64_t plugins = 0, host = 0;
  bool hasFailed = false; // see hasFailedToConnect
};

/// Whether this process has waited in vain for ranks on other hosts.
std::atomic<bool> hasFailedToConnect = false;

} // namespace

Carrier::Carrier(MPI_Comm of) : owner(of) {
  PMPI_Comm_rank(owner, &ownRank);
  PMPI_Comm_size(owner, &numRanks);
  int isInter = 0;
  PMPI_Comm_test_inter(owner, &isInter);
  if (isInter)
    whyNot = "inter-communicator";
  else if (numRanks == 1)
    whyNot = "one rank";
  else if (numRanks > runtime::maxRanks)
    whyNot = "more ranks than Kolo connects";
}

void Carrier::makeWindow(const void *memory, size_t sizeBytes) {
  int piece = memory ? pageHeap().pieceOf(memory) : -1;
  if (piece < 0)
    return;
  pageHeap().use(piece, memory, sizeBytes);
  if (windows.contains(piece)) [[likely]]
    return;
  Result<runtime::Window> adopted = communicator->adopt(pageHeap().windowOf(piece));
  windows.emplace(piece, adopted.isOk() ? std::optional(std::move(adopted).value()) : std::nullopt);
}

void Carrier::close() {
  windows.clear();
  communicator.reset();
  whyNot = "after MPI_Finalize";
}

bool Carrier::enter() {
  ++numCalls;
  if (communicator) [[likely]]
    return true;
  bool isTooEarly = std::strcmp(whyNot, "first calls") == 0;
  if (isTooEarly && numCalls == firstCarried())
    connect();
  if (!communicator)
    door().countForwarded(whyNot);
  return communicator.has_value();
}

/// Ranks with other plugins would choose other programs, so that each call would be an error. Ranks of several hosts
/// would wait for connections that no program uses, or that could not be made before.
Status Carrier::agree(bool &areOnOneHost) const {
  JoinFacts own;
  own.plugins = door().identity();
  if (Result<uint64_t> host = runtime::hostNumber(); host.isOk())
    own.host = *host; // else Communicator::create says why
  own.hasFailed = hasFailedToConnect;
  std::vector<JoinFacts> all(static_cast<size_t>(numRanks));
  PMPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, owner);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].plugins != all.front().plugins)
      return {StatusCode::Mismatch,
              "ranks have other plugins in KOLO_PLUGIN_PATH: rank 0 and rank " + std::to_string(rank) + " differ"};
  areOnOneHost = std::ranges::all_of(all, [&](const JoinFacts &each) { return each.host == all.front().host; });
  if (areOnOneHost || std::ranges::any_of(all, [](const JoinFacts &each) { return each.host == 0; }))
    return {};
  if (!door().hasNetworkPrograms())
    return {StatusCode::SystemError,
            "they are on several hosts, and no plugin has a program for that: compile one with "
            "--network"};
  auto failed = std::ranges::find_if(all, [](const JoinFacts &each) { return each.hasFailed; });
  if (failed == all.end())
    return {};
  return {StatusCode::SystemError, "they are on several hosts, and rank " + std::to_string(failed - all.begin()) +
                                       " could not be connected before, in another communicator"};
}

/// The name that the program gave the communicator, where all ranks gave it the same one; else nothing.
std::string Carrier::agreeOnTag() const {
  char name[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  PMPI_Comm_get_name(owner, name, &length);
  std::vector<char> all(sizeof(name) * static_cast<size_t>(numRanks));
  PMPI_Allgather(name, sizeof(name), MPI_BYTE, all.data(), sizeof(name), MPI_BYTE, owner);
  for (size_t at = 0; at < all.size(); at += sizeof(name))
    if (std::strncmp(&all[at], name, sizeof(name)) != 0)
      return {};
  return {name, strnlen(name, sizeof(name))};
}

void Carrier::connect() {
  OwnCalls own;
  if (const char *reason = rollCall().whyNot(owner)) {
    whyNot = reason;
    return;
  }
  CommunicatorOptions options;
  // A rank may compute for as long as it likes before it calls; a peer's death is noticed at once.
  options.timeoutMs = std::numeric_limits<int>::max();
  options.progress = driveMpi;
  options.runsAhead = true; // as MPI's ranks do
  auto exchange = [this](const void *from, size_t sizeBytes, void *all) -> Status {
    auto count = static_cast<int>(sizeBytes);
    bool isDone = PMPI_Allgather(from, count, MPI_BYTE, all, count, MPI_BYTE, owner) == MPI_SUCCESS;
    return isDone ? Status() : Status(StatusCode::SystemError, "MPI_Allgather failed");
  };
  Status status = agree(isOnOneHost);
  if (status.isOk()) {
    options.tag = agreeOnTag();
    Result<Communicator> created = Communicator::create(ownRank, numRanks, exchange, options);
    status = created.status();
    if (!isOnOneHost && !status.isOk() && !isMistake(status))
      hasFailedToConnect = true;
    if (created.isOk()) {
      communicator.emplace(std::move(created).value());
    }
  }
  whyNot = status.code() == StatusCode::OutOfMemory ? noMemory : "ranks that Kolo cannot connect";
  if (!status.isOk() && (isMistake(status) || door().logLevel() != LogLevel::Off))
    print("calls on a communicator of " + std::to_string(numRanks) + " ranks are forwarded: " + status.message());
  else if (door().logLevel() != LogLevel::Off)
    print("connected as rank " + std::to_string(ownRank) + " of " + std::to_string(numRanks) +
          (options.tag.empty() ? ", without a tag: ranks gave other names" : ", tag '" + options.tag + "'"));
}

std::nullopt_t Carrier::forward(const char *function, const char *reason) const {
  door().countForwarded(reason);
  if (door().logLevel() == LogLevel::Trace)
    print(std::string("forwards ") + function + ": " + reason);
  return std::nullopt;
}

std::nullopt_t Carrier::forwardForMemory(const char *function, const Status &status) {
  if (!hasToldOfMemory)
    print(std::string(function) + " on a communicator of " + std::to_string(numRanks) +
          " ranks, and perhaps later calls, are forwarded: " + status.message());
  hasToldOfMemory = true;
  return forward(function, noMemory);
}

int Carrier::fail(const char *function, const Status &status, int code) const {
  print(std::string(function) + " on a communicator of " + std::to_string(numRanks) + " ranks: " + status.message());
  PMPI_Comm_call_errhandler(owner, code);
  return code;
}

size_t Carrier::HashOfShape::operator()(const Shape &shape) const {
  uint64_t bits = static_cast<uint64_t>(shape.count) * 0x9E3779B97F4A7C15;
  bits ^= static_cast<uint64_t>(shape.kind) << 3 ^ static_cast<uint64_t>(shape.type) << 9 ^
          static_cast<uint64_t>(shape.reduction) << 15 ^ static_cast<uint64_t>(shape.root) << 21 ^
          static_cast<uint64_t>(shape.custom.number) << 33;
  return (bits * 0x9E3779B97F4A7C15) >> 32;
}

Carrier::Decision &Carrier::decide(const Request &request) {
  const Shape &shape = request.shape;
  if (auto found = decisions.find(shape); found != decisions.end()) [[likely]]
    return found->second;
  if (decisions.size() == mostDecisions)
    decisions.clear();
  Decision &decision = decisions[shape];
  runtime::CallArguments arguments;
  shape.enter(arguments);
  std::string why;
  const runtime::Plugin *plugin = door().find(*communicator, arguments, why);
  decision = {plugin, arguments, shape.largestBytes(numRanks)};
  if (door().logLevel() != LogLevel::Off && ownRank == 0)
    print(describe(request, decision.sizeBytes) + ": " + (plugin ? "carried, " + plugin->path() : "forwarded: " + why));
  return decision;
}

std::byte *Carrier::reserve(Packed &packed, const Shape &shape, const Side &side) const {
  const size_t sizeBytes = sideBytes(shape, side);
  if (packed.sizeBytes < sizeBytes || (packed.sizeBytes > mostKeptBytes && sizeBytes <= mostKeptBytes)) {
    packed.memory = std::make_unique_for_overwrite<std::byte[]>(sizeBytes);
    packed.sizeBytes = sizeBytes;
  }
  return packed.memory.get();
}

int Carrier::pack(const Side &side, std::byte *to) const {
  const Elements elements(side);
  int position = 0;
  return PMPI_Pack(elements.memory, elements.count, elements.type, to, elements.packedBytes, &position, owner);
}

int Carrier::unpack(const std::byte *from, const Side &side) const {
  const Elements elements(side);
  int position = 0;
  return PMPI_Unpack(from, elements.packedBytes, &position, elements.memory, elements.count, elements.type, owner);
}

std::optional<int> Carrier::perform(const Request &request) {
  if (request.shape.count == 0)
    return forward(request.function, "no data");
  if (request.shape.largestBytes(numRanks) > INT_MAX)
    return forward(request.function, "more than 2 GiB");
  Decision &decision = decide(request);
  if (!decision.plugin)
    return forward(request.function, "no program");
  if (std::optional<Mistake> mistake = findMistake(request)) [[unlikely]]
    return fail(request.function, {StatusCode::InvalidArgument, mistake->text}, mistake->code);
  return run(request, decision);
}

std::optional<int> Carrier::run(const Request &request, Decision &decision) {
  const Side &input = request.input, &output = request.output;
  // What is combined lies as its kernel takes it, gaps of pairs included.
  const bool isCombined = runtime::factsOf(request.shape.kind).reduces;
  bool mustPack = !isCombined && input.blocks && !findBasicType(input.type),
       mustUnpack = !isCombined && output.blocks && !findBasicType(output.type);
  decision.arguments.input = input.blocks ? input.memory : nullptr;
  decision.arguments.output = output.blocks ? output.memory : nullptr;
  OwnCalls own;
  if (mustPack) [[unlikely]] {
    std::byte *packed = reserve(packedInput, request.shape, input);
    if (int code = pack(input, packed); code != MPI_SUCCESS)
      return code;
    decision.arguments.input = packed;
  }
  if (mustUnpack) [[unlikely]]
    decision.arguments.output = reserve(packedOutput, request.shape, output);
  // In place as MPI has it for a reduce-scatter: the result goes to the front, where Kolo has block 0.
  bool isFront = request.shape.kind == CollectiveKind::ReduceScatter && input.memory == output.memory;
  if (isFront) [[unlikely]]
    decision.arguments.output = reserve(packedOutput, request.shape, output);
  if (decision.sizeBytes >= static_cast<int64_t>(PageHeap::leastBytes)) {
    makeWindow(decision.arguments.input, sideBytes(request.shape, input));
    makeWindow(decision.arguments.output, sideBytes(request.shape, output));
  }
  Status status = communicator->run(*decision.plugin, decision.arguments);
  // On one host all ranks return this, and before any of them has begun.
  if (status.code() == StatusCode::OutOfMemory && isOnOneHost) [[unlikely]]
    return forwardForMemory(request.function, status);
  if (!status.isOk()) [[unlikely]]
    return fail(request.function, status);
  door().countCarried(decision.sizeBytes);
  if (door().logLevel() == LogLevel::Trace) [[unlikely]]
    print("carries " + describe(request, decision.sizeBytes));
  if (isFront) [[unlikely]]
    std::memcpy(output.memory, packedOutput.memory.get(),
                static_cast<size_t>(request.shape.count * request.shape.elementBytes()));
  return mustUnpack ? unpack(packedOutput.memory.get(), output) : MPI_SUCCESS;
}

int Carrier::barrier() {
  OwnCalls own;
  if (Status status = communicator->barrier(); !status.isOk())
    return fail("MPI_Barrier", status);
  door().countCarried(0);
  return MPI_SUCCESS;
}

} // namespace kolo::mpi
