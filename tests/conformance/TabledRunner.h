// Runs calls whose blocks have counts and places of their own, by programs that take block tables, and compares what
// arrives with what the collective's definition says.
#pragma once

#include "Blockwise.h"

#include "tests/support/CodedCalls.h"

#include "ir/reference/Interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

namespace kolo::conformance {

using kolo::test::Launch;
using kolo::test::ScopedVariable;

inline constexpr std::byte unwritten{0xa7};

struct TabledCase {
  Distribution distribution = Distribution::Equal;
  runtime::DataType type = runtime::DataType::U8;
  int64_t most = 0;
  int64_t root = 0;
  bool isInPlace = false, hasPlaces = true;
  bool isCoded = false; // then elements are such as every codec here keeps
  uint64_t seed = 0;    // of its counts and places
};

/// One call, as all ranks know it.
class TabledCall {
public:
  TabledCall(const TabledCase &choices, kolo::CollectiveAttr collective, const Sizes &mesh)
      : choices(choices), call{collective, mesh}, kind(runtime::CollectiveKind(int(collective.getKind()))),
        facts(runtime::factsOf(kind)), size(size_t(reference::groupSize(call))) {
    call.root = choices.root;
    std::mt19937_64 random(choices.seed);
    for (int64_t rank = 0; rank < reference::numRanks(call); ++rank)
      if (reference::memberNumber(call, rank) == 0)
        drawGroup(reference::groupOf(call, rank), random);
  }

  const TabledCase choices;
  reference::Call call;
  const runtime::CollectiveKind kind;
  const runtime::CollectiveFacts facts;
  const size_t size; // of a group

  /// Of the block that member `giver` of a rank's group gives to member `taker`.
  int64_t count(int64_t rank, size_t giver, size_t taker) const {
    const Counts &counts = matrices.at(reference::groupOf(call, rank).front());
    return counts[giver * size + taker];
  }

  /// What the choreography gives for the first data of the call.
  void interpret(kolo::ChoreographyOp choreography);
  /// A block of a rank's output by that.
  llvm::ArrayRef<std::byte> interpretedBlock(int64_t rank, size_t block) const {
    const reference::Range range = reference::blockRange(interpreted, kolo::BufferRole::Output, rank, int64_t(block));
    const int64_t bytes = reference::elementBytes(interpreted.type);
    return llvm::ArrayRef(interpreted.outputs[size_t(rank)])
        .slice(size_t(range.begin * bytes), size_t(range.size * bytes));
  }

private:
  void drawGroup(const std::vector<int64_t> &group, std::mt19937_64 &random) {
    Counts &matrix = matrices[group.front()];
    matrix.resize(size * size);
    const Counts drawn = drawCounts(
        choices.distribution, kind == runtime::CollectiveKind::AllToAll ? size * size : size, choices.most, random);
    for (size_t giver = 0; giver < size; ++giver)
      for (size_t taker = 0; taker < size; ++taker)
        matrix[giver * size + taker] =
            kind == runtime::CollectiveKind::AllToAll
                ? drawn[choices.isInPlace ? std::min(giver, taker) * size + std::max(giver, taker)
                                          : giver * size + taker]
                : drawn[runtime::isPerRank(facts.output) ? giver : taker];
  }

  std::map<int64_t, Counts> matrices; // by the first rank of the group
  reference::SimulatedCall interpreted;
};

/// Element i of the block that one rank gives another.
uint64_t valueOf(int64_t giver, int64_t taker, int64_t i, uint64_t salt) {
  uint64_t value = salt + uint64_t(giver) * 0x9e3779b97f4a7c15 + uint64_t(taker) * 0xc2b2ae3d27d4eb4f + uint64_t(i);
  value ^= value >> 31;
  value *= 0xbf58476d1ce4e5b9;
  return value ^ (value >> 27);
}

/// The same for programs whose codecs have a scale for each few elements: all of a block are as large as the largest.
uint64_t codedValueOf(runtime::DataType type, int64_t giver, int64_t taker, int64_t i, uint64_t salt) {
  const float size = std::ldexp(127.0f, int(valueOf(giver, taker, 0, salt) % 6));
  const float value = valueOf(giver, taker, i, salt) % 2 ? size : -size;
  uint64_t bits = 0;
  kolo::test::storeElement(reference::ElementType(int(type)), value, reinterpret_cast<std::byte *>(&bits));
  return bits;
}

uint64_t elementOf(const TabledCase &choices, int64_t giver, int64_t taker, int64_t i, uint64_t salt) {
  return choices.isCoded ? codedValueOf(choices.type, giver, taker, i, salt) : valueOf(giver, taker, i, salt);
}

void TabledCall::interpret(kolo::ChoreographyOp choreography) {
  reference::Call tabled = call;
  tabled.collective = choreography.getCollective(); // of this context
  tabled.type = reference::ElementType(int(choices.type));
  reference::setTables(tabled, [&](int64_t giver, int64_t taker) {
    return count(giver, size_t(reference::memberNumber(call, giver)), size_t(reference::memberNumber(call, taker)));
  });
  interpreted = reference::makeSimulatedCall(tabled);
  const auto elementBytes = size_t(reference::elementBytes(tabled.type));
  for (int64_t rank = 0; rank < reference::numRanks(tabled); ++rank)
    for (int64_t block = 0; block < reference::numBlocks(tabled, kolo::BufferRole::Input); ++block) {
      const reference::Range range = reference::blockRange(tabled, kolo::BufferRole::Input, rank, block);
      const int64_t taker = runtime::isPerRank(facts.input) ? reference::groupOf(tabled, rank)[size_t(block)] : -1;
      for (int64_t i = 0; i < range.size; ++i) {
        const uint64_t value = elementOf(choices, rank, taker, i, choices.seed);
        std::memcpy(&interpreted.inputs[size_t(rank)][size_t(range.begin + i) * elementBytes], &value, elementBytes);
      }
    }
  EXPECT_EQ(llvm::toString(reference::interpretChoreography(choreography, interpreted)), "");
}

/// One rank's buffers and tables in a call.
class TabledRank {
public:
  TabledRank(const TabledCall &tabled, runtime::Communicator &communicator, bool inWindow)
      : tabled(tabled), rank(communicator.rank()), group(reference::groupOf(tabled.call, rank)),
        self(size_t(reference::memberNumber(tabled.call, rank))), elementBytes(runtime::sizeBytes(tabled.choices.type)),
        random(tabled.choices.seed + uint64_t(rank) + 1) {
    const bool isRoot = int64_t(self) == tabled.choices.root;
    for (size_t peer = 0; peer < tabled.size; ++peer) {
      if ((isRoot || !runtime::isAtRoot(tabled.facts.input)) && (runtime::isPerRank(tabled.facts.input) || peer == 0))
        counts[0].push_back(tabled.count(rank, self, runtime::isPerRank(tabled.facts.input) ? peer : self));
      if ((isRoot || !runtime::isAtRoot(tabled.facts.output)) && (runtime::isPerRank(tabled.facts.output) || peer == 0))
        counts[1].push_back(tabled.count(rank, runtime::isPerRank(tabled.facts.output) ? peer : self, self));
    }
    size_t sizes[2];
    for (int side : {0, 1})
      sizes[side] = drawPlaces(side);
    if (tabled.choices.isInPlace)
      shareMemory(sizes);
    size_t numBytes = sizes[0] + sizes[1] + 64;
    if (inWindow)
      window.emplace(communicator.allocate(numBytes).value());
    else
      heap.resize(numBytes);
    std::byte *base = inWindow ? static_cast<std::byte *>(window->data()) : heap.data();
    buffers[0] = base;
    buffers[1] = base + (sizes[0] + 15) / 16 * 16;
    bufferBytes[0] = sizes[0], bufferBytes[1] = sizes[1];
    if (tabled.choices.isInPlace)
      placeInside();
  }

  std::string run(runtime::Communicator &communicator, const runtime::Plugin &plugin, const runtime::Mesh &mesh,
                  uint64_t salt) {
    std::fill_n(buffers[0], bufferBytes[0], unwritten);
    std::fill_n(buffers[1], bufferBytes[1], unwritten);
    fillInput(salt);
    reference::Bytes expected = expectedOutput(salt);
    runtime::BlockTables tables;
    for (auto [side, table] : {std::pair(0, &tables.input), {1, &tables.output}}) {
      table->counts = counts[side];
      if (tabled.choices.hasPlaces)
        table->places = places[side];
    }
    runtime::CallArguments arguments;
    arguments.mesh = mesh;
    arguments.type = tabled.choices.type;
    arguments.root = int(tabled.choices.root);
    arguments.input = buffers[0], arguments.output = buffers[1];
    arguments.blocks = &tables;
    if (runtime::Status status = communicator.run(plugin, arguments); !status.isOk())
      return status.message() + "; ";
    for (size_t i = 0; i < bufferBytes[1]; ++i)
      if (buffers[1][i] != expected[i])
        return "byte " + std::to_string(i) + " of the output is " + std::to_string(int(buffers[1][i])) + ", not " +
               std::to_string(int(expected[i])) + describe() + "; ";
    return salt == tabled.choices.seed ? compareWithInterpreted() : "";
  }

private:
  std::string compareWithInterpreted() const {
    for (size_t block = 0; block < counts[1].size(); ++block) {
      const llvm::ArrayRef<std::byte> wanted = tabled.interpretedBlock(rank, block);
      if (wanted.size() != size_t(counts[1][block]) * elementBytes ||
          !std::equal(wanted.begin(), wanted.end(), blockAt(1, block)))
        return "block " + std::to_string(block) + " is not what the interpreter gives" + describe() + "; ";
    }
    return "";
  }

  std::string describe() const {
    std::string text = " (distribution " + std::to_string(int(tabled.choices.distribution)) + ", counts";
    for (int64_t count : counts[1])
      text += " " + std::to_string(count);
    return text + ", places" + (tabled.choices.hasPlaces ? "" : " none") +
           (tabled.choices.isInPlace ? ", in place)" : ")");
  }

  /// In another order than the blocks have, and with gaps. Returns how many bytes the buffer has.
  size_t drawPlaces(int side) {
    places[side].resize(counts[side].size());
    std::vector<size_t> order(counts[side].size());
    std::iota(order.begin(), order.end(), size_t(0));
    if (tabled.choices.hasPlaces)
      std::shuffle(order.begin(), order.end(), random);
    int64_t next = 0;
    for (size_t block : order) {
      next += tabled.choices.hasPlaces ? int64_t(random() % 40) : 0;
      places[side][block] = next;
      next += counts[side][block];
    }
    return size_t(next + (tabled.choices.hasPlaces ? 7 : 0)) * elementBytes;
  }

  /// The smaller buffer takes no memory of its own.
  void shareMemory(size_t (&sizes)[2]) {
    const int inner = runtime::isPerRank(tabled.facts.input) ? 1 : 0;
    if (tabled.kind == runtime::CollectiveKind::AllToAll)
      places[1] = places[0], sizes[1] = sizes[0];
    sizes[inner] = 0;
    places[inner].assign(places[inner].size(), 0);
  }

  void placeInside() {
    const bool isInput = !runtime::isPerRank(tabled.facts.input); // is inside of the other one
    const int outer = isInput ? 1 : 0, inner = isInput ? 0 : 1;
    if (tabled.kind == runtime::CollectiveKind::AllToAll) {
      places[inner] = places[outer];
      buffers[inner] = buffers[outer];
      bufferBytes[inner] = bufferBytes[outer];
      return;
    }
    buffers[inner] = buffers[outer] + size_t(places[outer][self]) * elementBytes;
    bufferBytes[inner] = size_t(counts[inner][0]) * elementBytes;
  }

  std::byte *blockAt(int side, size_t block) const {
    return buffers[side] + size_t(places[side][block]) * elementBytes;
  }

  uint64_t element(int64_t giver, int64_t taker, int64_t i, uint64_t salt) const {
    return elementOf(tabled.choices, giver, taker, i, salt);
  }

  void fillInput(uint64_t salt) {
    for (size_t block = 0; block < counts[0].size(); ++block)
      for (int64_t i = 0; i < counts[0][block]; ++i) {
        const bool isForAll = !runtime::isPerRank(tabled.facts.input);
        uint64_t value = element(rank, isForAll ? -1 : group[block], i, salt);
        std::memcpy(blockAt(0, block) + size_t(i) * elementBytes, &value, elementBytes);
      }
  }

  reference::Bytes expectedOutput(uint64_t salt) const {
    reference::Bytes expected(buffers[1], buffers[1] + bufferBytes[1]);
    for (size_t block = 0; block < counts[1].size(); ++block)
      for (int64_t i = 0; i < counts[1][block]; ++i) {
        const int64_t taker = runtime::isPerRank(tabled.facts.input) ? rank : -1;
        uint64_t value = 0;
        if (tabled.facts.reduces)
          for (int64_t giver : group)
            value += element(giver, taker, i, salt);
        else if (runtime::isAtRoot(tabled.facts.input))
          value = element(group[size_t(tabled.choices.root)], taker, i, salt);
        else
          value = element(group[block], taker, i, salt);
        std::memcpy(expected.data() + size_t(places[1][block] + i) * elementBytes, &value, elementBytes);
      }
    return expected;
  }

  const TabledCall &tabled;
  const int rank;
  const std::vector<int64_t> group;
  const size_t self;
  const size_t elementBytes;
  std::mt19937_64 random;
  Counts counts[2], places[2];
  std::byte *buffers[2] = {};
  size_t bufferBytes[2] = {};
  std::optional<runtime::Window> window;
  reference::Bytes heap;
};

/// Runs cases back to back, each twice with the same tables.
class TabledRunner {
public:
  TabledRunner(const std::string &name, const kolo::Schedule &schedule, const std::vector<std::string> &network = {})
      : algorithm(name, /*optimize=*/true, schedule, network), definition(definitionOf(name)),
        context(mlir::MLIRContext::Threading::DISABLED),
        emitted(kolo::test::emit(context, name, meshesOf(definition))) {}

  bool takesTables(const Sizes &mesh) { return algorithm.info().proofOf(mesh)->takesTables; }

  void run(const Setup &setup, size_t numCases) {
    std::optional<ScopedVariable> ordinary;
    if (!setup.ordinaryMemory.empty())
      ordinary.emplace("KOLO_ORDINARY_MEMORY", setup.ordinaryMemory.c_str());
    Calls calls = drawCalls(setup.mesh, numCases);
    runtime::Mesh named = namedMesh(definition, setup.mesh);
    auto body = [&](runtime::Communicator &communicator) { return runAll(communicator, calls, named, setup.inWindow); };
    EXPECT_EQ(kolo::test::runRanks(setup.launch, named.numRanks(), {60000, setup.lanes}, body), "")
        << definition.name << ", mesh " << kolo::test::textOf(setup.mesh) << ", lanes " << setup.lanes << ", memory "
        << setup.ordinaryMemory << (setup.inWindow ? " windows" : "") << ", launch " << setup.launch
        << ", KOLO_SEED=" << testSeed();
  }

  void runOnHosts(const Sizes &mesh, const kolo::test::HostOf &hostOf, int lanes, size_t numCases) {
    Calls calls = drawCalls(mesh, numCases);
    runtime::Mesh named = namedMesh(definition, mesh);
    auto body = [&](runtime::Communicator &communicator) { return runAll(communicator, calls, named, false); };
    EXPECT_EQ(kolo::test::onHosts(named.numRanks(), hostOf, {60000, lanes}, body), "")
        << definition.name << ", mesh " << kolo::test::textOf(mesh) << ", KOLO_SEED=" << testSeed();
  }

  void runSetups(bool inAll) {
    std::vector<Sizes> meshes = meshesOf(definition);
    std::erase_if(meshes, [&](const Sizes &mesh) { return !takesTables(mesh); });
    ASSERT_FALSE(meshes.empty()) << definition.name;
    for (const Sizes &mesh : meshes) {
      run({mesh, Launch::Threads, "", random() % 2 ? 1 : 3, false}, 12);
      const bool isSmall = mesh == meshes[meshes.size() / 2];
      if (!isSmall && !inAll)
        continue;
      run({mesh, Launch::Forked, "attach", 1, false}, 12);
      run({mesh, Launch::Forked, "staged", 3, false}, 12);
      run({mesh, Launch::Forked, "", 2, true}, 12);
    }
  }

  CompiledAlgorithm algorithm;

private:
  using Calls = std::vector<std::unique_ptr<TabledCall>>;

  Calls drawCalls(const Sizes &mesh, size_t number) {
    Calls calls;
    for (size_t i = 0; i < number; ++i) {
      calls.push_back(std::make_unique<TabledCall>(draw(mesh, i), algorithm.collective(), mesh));
      calls.back()->interpret(*emitted->getOps<kolo::ChoreographyOp>().begin());
    }
    return calls;
  }

  std::string runAll(runtime::Communicator &communicator, const Calls &calls, const runtime::Mesh &mesh,
                     bool inWindow) {
    std::string said;
    std::vector<std::unique_ptr<TabledRank>> ranks; // all live, so that windows do
    for (const auto &call : calls) {
      ranks.push_back(std::make_unique<TabledRank>(*call, communicator, inWindow));
      for (uint64_t again = 0; again < 3 && said.empty(); ++again)
        said += ranks.back()->run(communicator, algorithm.plugin(), mesh, call->choices.seed + again);
    }
    (void)communicator.barrier();
    return said;
  }

  TabledCase draw(const Sizes &mesh, size_t number) {
    using enum runtime::DataType;
    TabledCase drawn;
    drawn.distribution = allDistributions[number % std::size(allDistributions)];
    // Of types that may be summed in any order, where anything is summed.
    const std::vector<runtime::DataType> exactTypes =
        algorithm.info().reduces ? std::vector{U8, I32, U64} : std::vector{U8, BF16, I32, F64};
    drawn.isCoded = algorithm.info().granule != 0;
    const std::vector<runtime::DataType> types = drawn.isCoded ? std::vector{F16, BF16, F32} : exactTypes;
    drawn.type = types[random() % types.size()];
    int64_t numBlocks = algorithm.numBlocks(mesh);
    const std::vector<int64_t> sizes = {1, 7, 100, 1023, 5000, 600000 / (numBlocks * numBlocks)};
    drawn.most = sizes[random() % sizes.size()];
    drawn.root = int64_t(random() % uint64_t(algorithm.groupSize(mesh)));
    const bool isRooted = algorithm.isRooted();
    drawn.isInPlace = !isRooted && random() % 4 == 0;
    drawn.hasPlaces = random() % 4 != 0;
    drawn.seed = random();
    return drawn;
  }

  const kolo::dsl::Definition &definition;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> emitted;
  std::mt19937_64 random{testSeed()};
};

} // namespace kolo::conformance
