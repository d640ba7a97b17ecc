#include "compiler/cost/simulation/Simulation.h"
#include "compiler/cost/Encoding.h"
#include "compiler/cost/simulation/BlockFlow.h"
#include "compiler/cost/simulation/Skeleton.h"
#include "compiler/model/ChunkSizes.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::cost {

struct Simulation::Parts {
  Parts(Code program, const Machine &machine, const Placement &placement, const SimulationOptions &options)
      : code(std::move(program)), tracer(code, placement.mesh().sizes, 0, false), machine(machine),
        placement(placement), options(options), statements(code) {}

  std::optional<CostMistake> trace();
  CallSize callFor(int64_t bytes) const;
  std::optional<CostMistake> makeCounts(int64_t bytes);
  void useCounts(std::vector<RankProgram> &programs, const CallSize &call) const;
  bool isUniform(const CallSize &call) const;
  int64_t workingSet(const CallSize &call) const;
  const Box &measured(const Event &event) const;
  struct Amount;
  Amount amountOf(const Trace &trace, const Event &event) const;
  bool areAlike(size_t orbit, size_t other) const;
  void findAlike();
  std::vector<RankProgram> sharedPrograms(const CallSize &call) const;
  std::vector<RankProgram> ownPrograms(const CallSize &call) const;
  Workload workloadFor(const CallSize &call) const;
  std::optional<CostMistake> checkSteps(bool isUniform) const;
  void addTraffic(const Workload &workload, SimulationOutcome &outcome) const;
  std::string describe(uint32_t statement) const;
  std::optional<CostMistake> explain(const SimulationResult &result) const;
  Prediction summarise(const SimulationResult &result, const Network &network) const;

  Code code;
  Tracer tracer;
  const Machine &machine;
  const Placement &placement;
  SimulationOptions options;
  StatementNumbers statements;
  Protocol protocol = Protocol::Bulk;
  std::optional<TracedGroup> traced;
  std::vector<Skeleton> skeletons;
  std::vector<int64_t> peers;    // of all orbits, by channel: those of skeletons, one after the other
  std::vector<size_t> firstPeer; // by orbit
  std::vector<size_t> distinct;  // orbits, none of which takes the same steps as another one
  std::vector<uint32_t> alikeTo; // by orbit: number of the one of those whose steps it takes
  int64_t numSteps = 0;          // of all ranks in one call
  std::optional<BlockCounts> counts;
};

static Protocol protocolOf(const Code &code) {
  for (const BufferInfo &buffer : code.buffers) {
    if (buffer.role == BufferRole::Packets)
      return const_cast<BufferInfo &>(buffer).op.getLl128() ? Protocol::LL128 : Protocol::LL;
    if (buffer.role == BufferRole::Published)
      return Protocol::Published;
  }
  return Protocol::Bulk;
}

static CostMistake tooManySteps(int64_t most) {
  return {fmt::format("the simulation takes {} steps of all ranks together at most, and this program has more: take "
                      "fewer ranks or calls, or the closed form",
                      most)};
}

std::optional<CostMistake> Simulation::Parts::trace() {
  bool isRooted = hasRoot(code.program.getCollective().getKind()); // then one rank may take most of the steps
  tracer.maxEvents = isRooted ? mostSteps : std::max<int64_t>(mostSteps / tracer.numRanks(), 1);
  tracer.maxLines = mostLines;
  if (std::optional<TracedGroup> found = traceAll(tracer, mostTraceBytes))
    traced.emplace(std::move(*found));
  else if (tracer.mistake)
    return CostMistake{fmt::format("rank {} cannot be simulated: {}", tracer.mistake->rank, tracer.mistake->message)};
  else if (tracer.isTooLong)
    return tooManySteps(mostSteps);
  else
    return CostMistake{"the steps of all ranks take too much memory to be simulated: take fewer ranks, or the closed "
                       "form"};
  skeletons = buildSkeletons(tracer, *traced, statements, options.elementBytes);
  for (const Skeleton &skeleton : skeletons) {
    firstPeer.push_back(peers.size());
    peers.insert(peers.end(), skeleton.peers.begin(), skeleton.peers.end());
  }
  findAlike();
  protocol = protocolOf(code);
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
    numSteps += int64_t(skeletons[traced->group.orbitOf(rank)].program.code.size());
  if (numSteps > mostSteps / options.numCalls)
    return tooManySteps(mostSteps);
  return std::nullopt;
}

/// Without codecs, elements are bytes.
CallSize Simulation::Parts::callFor(int64_t bytes) const {
  int64_t numBlocks = 1;
  for (BufferRole role : {BufferRole::Input, BufferRole::Output})
    if (std::optional<uint32_t> buffer = tracer.bufferOf(role)) {
      const Grid &grid = tracer.grids()[*buffer];
      numBlocks = std::max(numBlocks, grid.numChunks / grid.chunksPerBlock);
    }
  if (counts)
    return {counts->longest(), 1, false};
  bool isCoded = bool(findCoded(code.program));
  int64_t elementBytes = isCoded ? options.elementBytes : 1;
  return {int64_t(llvm::divideCeil(uint64_t(bytes), uint64_t(numBlocks * elementBytes))), elementBytes, isCoded};
}

/// Whether all chunks of every buffer have the same size, so that ranks whose steps are alike move the same.
bool Simulation::Parts::isUniform(const CallSize &call) const {
  return !counts && llvm::all_of(tracer.grids(), [&](const Grid &grid) {
    return grid.isSlots || grid.chunksPerBlock == 1 || (call.count % (call.unit() * grid.chunksPerBlock) == 0);
  });
}

int64_t Simulation::Parts::workingSet(const CallSize &call) const {
  double bytes = 0;
  for (auto [grid, buffer] : llvm::zip_equal(tracer.grids(), code.buffers))
    bytes += double(bufferElements(grid, call) * call.elementBytes) * storedBytes(buffer.op, options.elementBytes);
  return int64_t(bytes);
}

/// Whose chunks say how long an event's parts are: a slot is as full as the chunk that it is paired with.
const Box &Simulation::Parts::measured(const Event &event) const {
  return tracer.grids()[event.destination.buffer].isSlots ? event.source : event.destination;
}

/// So many chunks of a buffer, or of their parts with this number.
struct Simulation::Parts::Amount {
  uint32_t buffer;
  int32_t part;
  int64_t numChunks;
  bool operator==(const Amount &) const = default;
};

Simulation::Parts::Amount Simulation::Parts::amountOf(const Trace &trace, const Event &event) const {
  const Box &box = measured(event);
  Amount amount{box.buffer, int32_t(event.part), 1};
  size_t numDims = tracer.grids()[box.buffer].extents.size();
  llvm::ArrayRef<int32_t> numbers = trace.numbersOf(box, numDims);
  for (size_t dim = 0; dim < numDims; ++dim)
    amount.numChunks *= numbers[2 * dim + 1];
  return amount;
}

/// Whether ranks of two orbits take the same steps if all chunks are equally long, but for their peers.
bool Simulation::Parts::areAlike(size_t orbit, size_t other) const {
  const Skeleton &a = skeletons[orbit], &b = skeletons[other];
  auto moveTheSame = [&](uint32_t first, uint32_t second) {
    if (first == UINT32_MAX)
      return true;
    const Trace &trace = traced->traces[orbit], &otherTrace = traced->traces[other];
    return amountOf(trace, trace.events[first]) == amountOf(otherTrace, otherTrace.events[second]);
  };
  return a.program == b.program && std::ranges::equal(a.eventOf, b.eventOf, moveTheSame);
}

void Simulation::Parts::findAlike() {
  std::unordered_map<size_t, std::vector<uint32_t>> known; // by hash: numbers in `distinct`
  for (size_t orbit = 0; orbit < skeletons.size(); ++orbit) {
    llvm::hash_code hash = {};
    for (const Instruction &step : skeletons[orbit].program.code)
      hash = llvm::hash_combine(hash, step.kind, step.statement, step.first, step.number);
    std::vector<uint32_t> &candidates = known[hash];
    auto found = llvm::find_if(candidates, [&](uint32_t number) { return areAlike(distinct[number], orbit); });
    if (found == candidates.end()) {
      candidates.push_back(uint32_t(distinct.size()));
      distinct.push_back(orbit);
      found = std::prev(candidates.end());
    }
    alikeTo.push_back(*found);
  }
}

/// Where all chunks of a buffer are equally long.
std::vector<RankProgram> Simulation::Parts::sharedPrograms(const CallSize &call) const {
  std::vector<RankProgram> programs;
  for (size_t orbit : distinct) {
    const Skeleton &skeleton = skeletons[orbit];
    const Trace &trace = traced->traces[orbit];
    RankProgram &program = programs.emplace_back(skeleton.program);
    for (auto [step, number] : llvm::zip_equal(program.code, skeleton.eventOf)) {
      if (number == UINT32_MAX)
        continue;
      Amount amount = amountOf(trace, trace.events[number]);
      const Grid &grid = tracer.grids()[amount.buffer];
      ElementRange part =
          partRange(chunkRange(grid, 0, call), grid.chunksPerBlock, amount.part, std::max(grid.numParts, 1), call);
      step.bytes = amount.numChunks * part.size * call.elementBytes;
    }
  }
  return programs;
}

std::optional<CostMistake> Simulation::Parts::makeCounts(int64_t bytes) {
  if (!options.counts)
    return std::nullopt;
  const CollectiveAttr collective = code.program.getCollective();
  int64_t size = 1;
  for (int64_t dim : collective.getGroupDims())
    size *= tracer.mesh()[size_t(dim)];
  auto made = BlockCounts::create(*options.counts, collective.getKind(), size, bytes);
  if (auto *mistake = std::get_if<std::string>(&made))
    return CostMistake{"--counts: " + *mistake};
  counts.emplace(std::get<BlockCounts>(std::move(made)));
  return std::nullopt;
}

/// Of a call with block tables.
void Simulation::Parts::useCounts(std::vector<RankProgram> &programs, const CallSize &call) const {
  const BlockFlow flow(tracer, *traced, *counts, call);
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    const size_t orbit = traced->group.orbitOf(rank);
    const Trace &trace = traced->traces[orbit];
    for (auto [i, number] : llvm::enumerate(skeletons[orbit].eventOf))
      if (number != UINT32_MAX && code.ops[trace.events[number].op].isMove())
        programs[size_t(rank)].code[i].bytes = flow.elements(rank, number);
  }
}

/// Of every rank.
std::vector<RankProgram> Simulation::Parts::ownPrograms(const CallSize &call) const {
  const RankGroup &group = traced->group;
  std::vector<PartSizes> sizes;
  for (const Grid &grid : tracer.grids())
    sizes.emplace_back(grid, call);
  std::vector<RankProgram> programs;
  std::vector<std::vector<int64_t>> orbits(skeletons.size());
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    orbits[group.orbitOf(rank)].push_back(rank);
    programs.push_back(skeletons[group.orbitOf(rank)].program);
  }
  std::vector<int32_t> chunks;
  for (auto [orbit, skeleton, trace] : llvm::zip_equal(orbits, skeletons, traced->traces))
    for (auto [i, number] : llvm::enumerate(skeleton.eventOf)) {
      if (number == UINT32_MAX)
        continue;
      const Event &event = trace.events[number];
      const Box &box = measured(event);
      expandBox(trace, box, tracer.grids()[box.buffer], chunks);
      for (int64_t rank : orbit) {
        int64_t elements = 0;
        for (int32_t chunk : chunks)
          elements += sizes[box.buffer].of(int32_t(group.moveChunk(rank, box.buffer, chunk)), event.part);
        programs[size_t(rank)].code[i].bytes = elements * call.elementBytes;
      }
    }
  return programs;
}

Workload Simulation::Parts::workloadFor(const CallSize &call) const {
  Workload workload;
  workload.numStatements = uint32_t(statements.lines.size());
  workload.numCalls = options.numCalls;
  const RankGroup &group = traced->group;
  bool isShared = isUniform(call);
  workload.programs = isShared ? sharedPrograms(call) : ownPrograms(call);
  if (counts)
    useCounts(workload.programs, call);
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank)
    workload.programOf.push_back(isShared ? alikeTo[group.orbitOf(rank)] : uint32_t(rank));
  workload.peerOf = [this, &group](uint32_t rank, uint32_t channel) {
    return uint32_t(group.move(rank, peers[firstPeer[group.orbitOf(rank)] + channel]));
  };
  return workload;
}

/// Programs that are not shared take memory on every rank.
std::optional<CostMistake> Simulation::Parts::checkSteps(bool isUniform) const {
  if (isUniform || traced->group.isTrivial() || numSteps <= mostOwnSteps)
    return std::nullopt;
  return CostMistake{fmt::format("the simulation takes {} steps at most where chunks are not equally long: take a "
                                 "number of bytes that ranks divide, or fewer ranks",
                                 mostOwnSteps)};
}

void Simulation::Parts::addTraffic(const Workload &workload, SimulationOutcome &outcome) const {
  size_t numDevices = size_t(machine.devicesPerNode());
  std::vector<std::vector<double>> &traffic = outcome.prediction.traffic;
  traffic.assign(numDevices, std::vector<double>(numDevices));
  const bool countsLevels = options.countsLevels && placement.numNodes() > 1;
  for (size_t level = 0; level < machine.levels().size() && countsLevels; ++level)
    outcome.levels.push_back({machine.levels()[level].name});
  for (int64_t rank = 0; rank < tracer.numRanks(); ++rank) {
    const int64_t node = placement.nodeOf(rank);
    if (node != 0 && !countsLevels)
      continue;
    const RankProgram &program = workload.programs[workload.programOf[size_t(rank)]];
    for (const Instruction &step : program.code) {
      if (step.kind != Instruction::Kind::Transfer)
        continue;
      for (const Leg &leg : llvm::ArrayRef(program.legs).slice(step.first, step.number)) {
        if (leg.kind != Leg::Kind::ReadPeer && leg.kind != Leg::Kind::WritePeer)
          continue;
        const int64_t peer = workload.peerOf(uint32_t(rank), leg.channel), nodeOfPeer = placement.nodeOf(peer);
        const double bytes = double(step.bytes) * leg.bytes;
        const int64_t from = leg.kind == Leg::Kind::ReadPeer ? peer : rank, to = from == rank ? peer : rank;
        if (nodeOfPeer != node && countsLevels)
          outcome.levels[machine.commonLevel(node, nodeOfPeer)].bytes += bytes;
        else if (nodeOfPeer == 0 && node == 0)
          traffic[size_t(placement.deviceOf(from))][size_t(placement.deviceOf(to))] += bytes;
      }
    }
  }
}

std::string Simulation::Parts::describe(uint32_t statement) const {
  const SimulatedLine &line = statements.lines[statement];
  return line.line ? fmt::format("{}:{}", line.file, line.line) : line.file;
}

std::optional<CostMistake> Simulation::Parts::explain(const SimulationResult &result) const {
  if (result.hasTooManyFlows)
    return CostMistake{fmt::format("the simulation follows {} transfers at a time, and this program has more: take "
                                   "fewer ranks, or the closed form",
                                   SimulatorLimits().mostFlows)};
  if (result.hasTooManyRecords)
    return CostMistake{fmt::format("the timeline has more than {} entries: take fewer ranks, calls or slices",
                                   SimulatorLimits().mostRecords)};
  if (!result.deadlock)
    return std::nullopt;
  return CostMistake{fmt::format("the program does not end: rank {} waits for ever at {}", result.deadlock->rank,
                                 describe(result.deadlock->statement))};
}

Prediction Simulation::Parts::summarise(const SimulationResult &result, const Network &network) const {
  Prediction prediction;
  double calls = double(options.numCalls), launch = machine.device().launch, slowest = 0;
  if (launch > 0)
    prediction.statements.push_back({"launch", 0, 1, launch, launch, 0, ""});
  prediction.latencySeconds = launch;
  std::vector<double> all(network.bandwidths().size()), allMessages(network.bytesPerMessage().size());
  for (size_t number = 0; number < result.statements.size(); ++number) {
    const SimulatedStatement &statement = result.statements[number];
    for (size_t resource = 0; resource < statement.bytes.size(); ++resource)
      all[resource] += statement.bytes[resource] / calls;
    for (size_t resource = 0; resource < statement.messages.size(); ++resource)
      allMessages[resource] += statement.messages[resource] / calls;
    std::optional<size_t> worst = network.slowest(statement.bytes, statement.messages);
    if (statement.executions == 0 && statement.seconds == 0)
      continue;
    StatementCost &row = prediction.statements.emplace_back();
    row.file = statements.lines[number].file;
    row.line = statements.lines[number].line;
    row.executions = number == 0 ? 1 : statement.executions / options.numCalls;
    row.seconds = statement.seconds / calls;
    row.latencySeconds = statement.latencySeconds / calls;
    row.bytes = worst ? statement.bytes[*worst] / calls : 0;
    row.bottleneck = worst ? network.nameOf(*worst) : "";
    prediction.latencySeconds += row.latencySeconds;
    if (row.seconds > slowest) {
      slowest = row.seconds;
      prediction.bottleneck = row.seconds > row.latencySeconds && worst ? row.bottleneck : "latency";
    }
  }
  prediction.seconds = result.seconds / calls + launch;
  prediction.loads = network.loads(all, allMessages, prediction.seconds);
  return prediction;
}

Simulation::Simulation(std::unique_ptr<Parts> parts) : parts(std::move(parts)) {}
Simulation::Simulation(Simulation &&) noexcept = default;
Simulation &Simulation::operator=(Simulation &&) noexcept = default;
Simulation::~Simulation() = default;

std::variant<Simulation, CostMistake> Simulation::create(ProgramOp program, const Machine &machine,
                                                         const Placement &placement, const SimulationOptions &options) {
  if (placement.numRanks() > mostRanks)
    return CostMistake{fmt::format("{} ranks are more than the {} that can be simulated; the closed form (kolo cost) "
                                   "takes any number",
                                   placement.numRanks(), mostRanks)};
  auto code = Code::create(program);
  if (auto *mistake = std::get_if<CodeMistake>(&code))
    return CostMistake{mistake->message};
  if (std::optional<TableObstacle> obstacle = options.counts ? findTableObstacle(program) : std::nullopt)
    return CostMistake{"--counts: the program takes no block tables: " + obstacle->text};
  auto parts = std::make_unique<Parts>(std::get<Code>(std::move(code)), machine, placement, options);
  if (std::optional<CostMistake> refused = machine.refuse(protocolOf(parts->code)))
    return *refused;
  if (std::optional<CostMistake> mistake = parts->trace())
    return *mistake;
  return Simulation(std::move(parts));
}

std::span<const SimulatedLine> Simulation::statements() const { return parts->statements.lines; }

std::variant<SimulationOutcome, CostMistake> Simulation::predict(int64_t bytes, Timeline *timeline) const {
  if (std::optional<CostMistake> mistake = parts->makeCounts(bytes))
    return *mistake;
  CallSize call = parts->callFor(bytes);
  if (std::optional<CostMistake> mistake = parts->checkSteps(parts->isUniform(call)))
    return *mistake;
  Workload workload = parts->workloadFor(call);
  Network network(parts->machine, parts->placement,
                  {parts->options.rates, parts->protocol, parts->options.lanes, parts->workingSet(call)});
  SimulationResult result = simulate(workload, network, timeline);
  if (std::optional<CostMistake> mistake = parts->explain(result))
    return *mistake;
  SimulationOutcome outcome{parts->summarise(result, network), result.numTransfers};
  outcome.prediction.bytes = bytes;
  parts->addTraffic(workload, outcome);
  return outcome;
}

} // namespace kolo::cost
