#include "Carrier.h"

#include "Combinations.h"
#include "PageHeap.h"
#include "PendingBarriers.h"
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
// To open the door takes a rank about 5 ms, and to connect the ranks of a communicator 1 ms. Of a call without data,
// Kolo saves up to a microsecond, and of 1 MiB some hundred. So the ranks connect when their calls could have saved as
// much. Ranks cannot tell who of them has opened the door for another communicator, so each one counts both.
constexpr int64_t worthOfCallBytes = 8 << 10, worthOfConnectingBytes = 48 << 20;
// One-way calls with smaller blocks are mostly faster in MPI libraries than in Kolo, where more ranks wait.
constexpr int64_t leastOneWayBytes = 1 << 10;
constexpr int firstNamedBarrier = 4;               // MPI_Ibarrier from which on its communicator is worth connecting
constexpr size_t mostDecisions = 1024;             // programs call some hundred shapes on a communicator
constexpr size_t mostKeptBytes = size_t(64) << 20; // of memory for packed data, between calls

/// `sizeBytes` below 0: of any size.
std::string describe(const char *function, const RequestShape &shape, int64_t sizeBytes) {
  std::string text = function;
  text += sizeBytes < 0 ? " of any counts" : " of " + std::to_string(sizeBytes) + " bytes";
  return runtime::factsOf(shape.kind).reduces ? text + ", " + nameOf({shape.type, shape.reduction, shape.custom})
                                              : text;
}

size_t sideBytes(const RequestShape &shape, const Side &side) {
  return static_cast<size_t>(shape.count * shape.elementBytes()) * static_cast<size_t>(side.blocks);
}

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

std::optional<Mistake> findMistake(const TabledRequest &request) {
  if (request.input.isInPlace() || request.output.isInPlace())
    return Mistake{MPI_ERR_BUFFER, "MPI_IN_PLACE may not stand for this buffer"};
  if (request.input.isTooLarge() || request.output.isTooLarge())
    return Mistake{MPI_ERR_TYPE, "a datatype of 2 GiB or more cannot be packed"};
  return std::nullopt;
}

/// What ranks tell each other before they connect.
struct JoinFacts {
  uint64_t plugins = 0, host = 0;
  bool hasFailed = false; // see hasFailedToConnect
  bool seesCompletions = false;
  char name[MPI_MAX_OBJECT_NAME] = {};
  char shortage[256] = {}; // not empty: for lack of it the rank has no plugins
};

/// Whether this process has said that there was no memory or no descriptor to connect a communicator.
std::atomic<bool> hasToldOfUnconnected = false;

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
  else if (!rollCall().isMade())
    whyNot = rollCall().whyNot(owner);
  else
    return;
  isTooEarly = false;
}

void Carrier::endNaming() {
  OwnCalls own;
  const std::unique_ptr<Naming> ended = std::move(naming);
  if (ended && ended->request != MPI_REQUEST_NULL)
    PMPI_Wait(&ended->request, MPI_STATUS_IGNORE);
}

Carrier::~Carrier() { endNaming(); }

void Carrier::makeWindow(const void *memory, size_t sizeBytes) {
  int piece = memory ? pageHeap().pieceOf(memory) : -1;
  // Blocks at absolute addresses may end elsewhere.
  if (piece < 0 || sizeBytes == 0 ||
      pageHeap().pieceOf(static_cast<const std::byte *>(memory) + sizeBytes - 1) != piece)
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
  isTooEarly = false;
  whyNot = "after MPI_Finalize";
  endNaming();
}

bool Carrier::isLeftToMpi(const BlockOfCall &block) const {
  return block.isOneWay && !carryFrom() && (communicator || isTooEarly) &&
         bytesOf(block.count, block.type) < leastOneWayBytes;
}

bool Carrier::isWorthConnecting(const BlockOfCall &block) {
  ++numCalls;
  if (const std::optional<int> from = carryFrom())
    return numCalls == *from;
  const char *notCarried = nullptr;
  if (block.operation != MPI_OP_NULL)
    (void)combinationOf(block.operation, block.type, notCarried);
  if (!notCarried)
    numWorthBytes += worthOfCallBytes + std::max<int64_t>(0, bytesOf(block.count, block.type));
  return numWorthBytes >= worthOfConnectingBytes;
}

bool Carrier::enter(const BlockOfCall &block) {
  if (isLeftToMpi(block)) {
    countForwarded("few bytes");
    return false;
  }
  if (communicator) [[likely]]
    return true;
  if (isTooEarly && isWorthConnecting(block))
    connect([this](const void *own, size_t sizeBytes, void *all) { return exchangeHere(own, sizeBytes, all); });
  if (!communicator)
    countForwarded(whyNot);
  return communicator != nullptr;
}

Status Carrier::exchangeHere(const void *own, size_t sizeBytes, void *all) const {
  auto count = static_cast<int>(sizeBytes);
  bool isDone = PMPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, owner) == MPI_SUCCESS;
  return isDone ? Status() : Status(StatusCode::SystemError, "MPI_Allgather failed");
}

/// Ranks with other plugins would choose other programs, so that each call would be an error. Ranks of several hosts
/// would wait for connections that no program uses, or that could not be made before.
Status Carrier::agree(const runtime::AllGather &exchange, std::string &tag) {
  JoinFacts own;
  own.plugins = door().identity();
  if (Result<uint64_t> host = runtime::hostNumber(); host.isOk())
    own.host = *host; // else Communicator::create says why
  own.hasFailed = hasFailedToConnect;
  int length = 0;
  PMPI_Comm_get_name(owner, own.name, &length);
  own.seesCompletions = seesCompletions();
  shortage().copy(own.shortage, sizeof(own.shortage) - 1);
  std::vector<JoinFacts> all(static_cast<size_t>(numRanks));
  if (Status status = exchange(&own, sizeof(own), all.data()); !status.isOk())
    return status;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const char *lacking = all[rank].shortage; *lacking)
      return {StatusCode::OutOfMemory, "rank " + std::to_string(rank) + " has no plugins: " + lacking};
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].plugins != all.front().plugins)
      return {StatusCode::Mismatch,
              "ranks have other plugins in KOLO_PLUGIN_PATH: rank 0 and rank " + std::to_string(rank) + " differ"};
  auto hasOwnName = [&](const JoinFacts &each) { return std::strncmp(each.name, own.name, sizeof(own.name)) == 0; };
  if (std::ranges::all_of(all, hasOwnName))
    tag.assign(own.name, strnlen(own.name, sizeof(own.name)));
  seeCompletions = std::ranges::all_of(all, &JoinFacts::seesCompletions);
  isOnOneHost = std::ranges::all_of(all, [&](const JoinFacts &each) { return each.host == all.front().host; });
  if (isOnOneHost || std::ranges::any_of(all, [](const JoinFacts &each) { return each.host == 0; }))
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

void Carrier::connect(const runtime::AllGather &exchange) {
  isTooEarly = false;
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
  Status status = agree(exchange, options.tag);
  if (status.isOk()) {
    Result<Communicator> created = Communicator::create(ownRank, numRanks, exchange, options);
    status = created.status();
    if (!isOnOneHost && !status.isOk() && !isMistake(status))
      hasFailedToConnect = true;
    if (created.isOk())
      communicator = std::make_shared<Communicator>(std::move(created).value());
  }
  whyNot = status.code() == StatusCode::OutOfMemory ? noMemory : "ranks that Kolo cannot connect";
  const bool isTold = isMistake(status) || (status.code() == StatusCode::OutOfMemory && ownRank == 0 &&
                                            !hasToldOfUnconnected.exchange(true));
  if (!status.isOk() && (isTold || door().logLevel() != LogLevel::Off))
    print("calls on a communicator of " + std::to_string(numRanks) + " ranks are forwarded: " + status.message());
  else if (door().logLevel() != LogLevel::Off)
    print("connected as rank " + std::to_string(ownRank) + " of " + std::to_string(numRanks) +
          (options.tag.empty() ? ", without a tag: ranks gave other names" : ", tag '" + options.tag + "'"));
}

std::nullopt_t Carrier::forward(const char *function, const char *reason) const {
  countForwarded(reason);
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

size_t Carrier::HashOfShape::operator()(const RequestShape &shape) const {
  uint64_t bits = static_cast<uint64_t>(shape.count) * 0x9E3779B97F4A7C15;
  bits ^= static_cast<uint64_t>(shape.kind) << 3 ^ static_cast<uint64_t>(shape.type) << 9 ^
          static_cast<uint64_t>(shape.reduction) << 15 ^ static_cast<uint64_t>(shape.root) << 21 ^
          static_cast<uint64_t>(shape.custom.number) << 33 ^ static_cast<uint64_t>(shape.hasTables) << 63;
  return (bits * 0x9E3779B97F4A7C15) >> 32;
}

Carrier::Decision &Carrier::decide(const char *function, const RequestShape &shape) {
  if (auto found = decisions.find(shape); found != decisions.end()) [[likely]]
    return found->second;
  if (decisions.size() == mostDecisions)
    decisions.clear();
  Decision &decision = decisions[shape];
  runtime::CallArguments arguments;
  shape.enter(arguments);
  static const runtime::BlockTables anyCounts;
  if (shape.hasTables)
    arguments.blocks = &anyCounts;
  std::string why;
  const runtime::Plugin *plugin = door().find(*communicator, arguments, why);
  decision = {plugin, arguments, shape.hasTables ? -1 : shape.largestBytes(numRanks)};
  if (door().logLevel() != LogLevel::Off && ownRank == 0)
    print(describe(function, shape, decision.sizeBytes) + ": " +
          (plugin ? "carried, " + plugin->path() : "forwarded: " + why));
  return decision;
}

std::byte *Carrier::reserve(Packed &packed, size_t sizeBytes) {
  if (packed.sizeBytes < sizeBytes || (packed.sizeBytes > mostKeptBytes && sizeBytes <= mostKeptBytes)) {
    packed.memory = std::make_unique_for_overwrite<std::byte[]>(sizeBytes);
    packed.sizeBytes = sizeBytes;
  }
  return packed.memory.get();
}

template <class AnyRequest> std::optional<int> Carrier::performDecided(AnyRequest &request) {
  Decision &decision = decide(request.function, request.shape);
  if (!decision.plugin)
    return forward(request.function, "no program");
  if (std::optional<Mistake> mistake = findMistake(request)) [[unlikely]]
    return fail(request.function, {StatusCode::InvalidArgument, mistake->text}, mistake->code);
  return run(request, decision);
}

std::optional<int> Carrier::perform(const Request &request) {
  if (request.shape.count == 0)
    return forward(request.function, "no data");
  if (request.shape.largestBytes(numRanks) > INT_MAX)
    return forward(request.function, "more than 2 GiB");
  return performDecided(request);
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
    std::byte *packed = reserve(packedInput, sideBytes(request.shape, input));
    if (int code = pack(input, packed, owner); code != MPI_SUCCESS)
      return code;
    decision.arguments.input = packed;
  }
  if (mustUnpack) [[unlikely]]
    decision.arguments.output = reserve(packedOutput, sideBytes(request.shape, output));
  // In place as MPI has it for a reduce-scatter: the result goes to the front, where Kolo has block 0.
  bool isFront = request.shape.kind == CollectiveKind::ReduceScatter && input.memory == output.memory;
  if (isFront) [[unlikely]]
    decision.arguments.output = reserve(packedOutput, sideBytes(request.shape, output));
  if (decision.sizeBytes >= static_cast<int64_t>(PageHeap::leastBytes)) {
    makeWindow(decision.arguments.input, sideBytes(request.shape, input));
    makeWindow(decision.arguments.output, sideBytes(request.shape, output));
  }
  std::optional<int> code = execute(request.function, request.shape, decision, decision.sizeBytes);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (isFront) [[unlikely]]
    std::memcpy(output.memory, packedOutput.memory.get(),
                static_cast<size_t>(request.shape.count * request.shape.elementBytes()));
  return mustUnpack ? unpack(packedOutput.memory.get(), output, owner) : MPI_SUCCESS;
}

std::optional<int> Carrier::perform(TabledRequest &&request) {
  if (request.input.isWrong() || request.output.isWrong() || request.shape.root < 0 || request.shape.root >= numRanks)
    return forward(request.function, "wrong argument");
  return performDecided(request);
}

namespace {

struct OwnBlock {
  Blocks input, output;
};

/// What this rank sends to itself, where Kolo would have it packed, copied and unpacked.
std::optional<OwnBlock> takeOwnBlock(TabledRequest &request, int ownRank) {
  Blocks &input = request.input, &output = request.output;
  const bool isPacked = output.mustPack() || (input.mustPack() && !output.overlapEachOther());
  if (!isPacked || request.isInPlace || request.shape.kind != CollectiveKind::AllToAll ||
      input.bytesOfBlock(ownRank) != output.bytesOfBlock(ownRank))
    return {};
  return OwnBlock{input.takeOut(ownRank), output.takeOut(ownRank)};
}

} // namespace

/// Packing is a matter of this rank alone. So is memory between the blocks of one buffer in which the other has blocks:
/// Kolo could take it for an overlap. The smaller buffer is then packed.
std::optional<int> Carrier::run(TabledRequest &request, Decision &decision) {
  Blocks &input = request.input, &output = request.output;
  const size_t largestBytes = std::max(input.dataBytes(), output.dataBytes());
  std::optional<OwnBlock> ownBlock = takeOwnBlock(request, ownRank);
  const size_t inputBytes = input.dataBytes(), outputBytes = output.dataBytes();
  bool mustPack = input.mustPack(), mustUnpack = output.mustPack() || output.overlapEachOther();
  if (!mustPack && !mustUnpack && !request.isInPlace && input.overlaps(output)) [[unlikely]]
    (inputBytes < outputBytes ? mustPack : mustUnpack) = true;
  std::byte *taken = mustPack ? reserve(packedInput, inputBytes) : input.begin();
  std::byte *given = mustUnpack ? reserve(packedOutput, outputBytes) : output.begin();
  OwnCalls own;
  if (int code = mustPack ? input.pack(taken, owner) : MPI_SUCCESS; code != MPI_SUCCESS)
    return code;
  if (largestBytes >= PageHeap::leastBytes) {
    makeWindow(taken, mustPack ? inputBytes : input.spanBytes());
    makeWindow(given, mustUnpack ? outputBytes : output.spanBytes());
  }
  const runtime::BlockTables tables = {input.table(mustPack), output.table(mustUnpack)};
  decision.arguments.input = taken;
  decision.arguments.output = given;
  decision.arguments.blocks = &tables;
  std::optional<int> code = execute(request.function, request.shape, decision, static_cast<int64_t>(largestBytes));
  if (ownBlock && code == MPI_SUCCESS)
    code = ownBlock->input.copyTo(ownBlock->output);
  return mustUnpack && code == MPI_SUCCESS ? output.unpack(given, owner) : code;
}

std::optional<int> Carrier::execute(const char *function, const RequestShape &shape, const Decision &decision,
                                    int64_t sizeBytes) {
  Status status = communicator->run(*decision.plugin, decision.arguments);
  // On one host all ranks return this, and before any of them has begun.
  if (status.code() == StatusCode::OutOfMemory && isOnOneHost) [[unlikely]]
    return forwardForMemory(function, status);
  if (!status.isOk()) [[unlikely]]
    return fail(function, status);
  door().countCarried(sizeBytes);
  if (door().logLevel() == LogLevel::Trace) [[unlikely]]
    print("carries " + describe(function, shape, sizeBytes));
  return MPI_SUCCESS;
}

int Carrier::barrier() {
  OwnCalls own;
  if (Status status = communicator->barrier(); !status.isOk())
    return fail("MPI_Barrier", status);
  door().countCarried(0);
  return MPI_SUCCESS;
}

/// Rank 0 of the communicator names it, by its own number in MPI_COMM_WORLD and the number of names that it gave.
void Carrier::beginNaming() {
  static std::atomic<uint32_t> numGiven = 0;
  OwnCalls own;
  int world = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &world);
  naming = std::make_unique<Naming>();
  if (ownRank == 0)
    naming->name = (static_cast<uint64_t>(world) + 1) << 32 | ++numGiven;
  PMPI_Ibcast(&naming->name, sizeof(naming->name), MPI_BYTE, 0, owner, &naming->request);
}

uint64_t Carrier::wishedName() {
  int isKnown = 0;
  if (!naming || communicator || !isTooEarly)
    return 0;
  PMPI_Test(&naming->request, &isKnown, MPI_STATUS_IGNORE);
  return isKnown ? naming->name : 0;
}

void Carrier::connectInMeeting(const runtime::AllGather &exchange, int64_t firstBarrier) {
  firstCarriedBarrier = firstBarrier;
  connect(exchange);
}

std::optional<int> Carrier::beginBarrier(MPI_Request *request) {
  const char *function = "MPI_Ibarrier";
  ++numBegun;
  if (!communicator && isTooEarly && numBegun == carryFrom().value_or(firstNamedBarrier) && !rollCall().whyNot(owner))
    beginNaming();
  if (!communicator)
    return forward(function, whyNot);
  if (numBegun < firstCarriedBarrier)
    return forward(function, "first calls");
  if (!isOnOneHost)
    return forward(function, "non-blocking among several hosts");
  if (!seeCompletions)
    return forward(function, "another tool completes requests");
  if (!request)
    return forward(function, "wrong argument");
  Status begun;
  const int code = kolo::mpi::beginBarrier(communicator, request, begun);
  if (!begun.isOk())
    return fail(function, begun);
  if (code == MPI_SUCCESS)
    door().countCarried(0);
  return code;
}

} // namespace kolo::mpi
