// Tokens to experts and back, against what a dense computation gives: every token and every answer, to the bit. Tokens
// and weights are small powers of two and small integers, of which all sums are exact in every type.
#include "ExpertPrograms.h"

#include "tests/support/CodedCalls.h"

#include "ir/reference/Element.h"

#include <cmath>
#include <cstring>

using namespace kolo::conformance;
using namespace kolo::runtime;
using kolo::test::Launch;
using kolo::test::ScopedVariable;

namespace {

enum class Choice { Random, Skewed, OneExpert, None, Few };

struct Layer {
  ExpertOptions options;
  int64_t numTokens, perToken;
  Choice choice;
  uint64_t seed;
};

/// What all ranks know of each other here, so that each can say what it should get.
class Dense {
public:
  Dense(const Layer &layer, int numRanks) : layer(layer) {
    for (int rank = 0; rank < numRanks; ++rank) {
      chosen.push_back(choose(rank));
      kept.push_back(chosen.back());
      std::vector<int64_t> numOf(size_t(layer.options.numExperts));
      dropped.push_back(0);
      for (int32_t &expert : kept.back())
        if (expert >= 0 && numOf[size_t(expert)]++ >= layer.options.capacity)
          expert = -1, ++dropped.back();
    }
  }

  /// Element i of a token, and what an expert makes of it. Codecs keep 1 and -1.
  float token(int rank, int64_t number, int64_t i) const {
    const uint64_t drawn = uint64_t(rank) * 7 + uint64_t(number) * 3 + uint64_t(i) + layer.seed;
    return layer.options.allowsLoss ? (drawn % 5 < 2 ? -1.0f : 1.0f) : float(drawn % 5);
  }
  static float answer(int64_t expert, float value) { return value * float(expert % 3 + 1); }
  float weight(int rank, int64_t index) const { return float(1 << (uint64_t(rank + index) % 3)) / 2; }

  /// Tokens of a rank that go to an expert, in order.
  std::vector<int64_t> tokensFor(int rank, int64_t expert) const {
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < kept[size_t(rank)].size(); ++i)
      if (kept[size_t(rank)][i] == expert)
        tokens.push_back(int64_t(i) / layer.perToken);
    return tokens;
  }
  float sum(int rank, int64_t number, int64_t i) const {
    float result = 0;
    for (int64_t k = 0; k < layer.perToken; ++k)
      if (int32_t expert = kept[size_t(rank)][size_t(number * layer.perToken + k)]; expert >= 0)
        result += weight(rank, number * layer.perToken + k) * answer(expert, token(rank, number, i));
    return result;
  }

  const Layer layer;
  std::vector<std::vector<int32_t>> chosen, kept; // by rank
  std::vector<int64_t> dropped;

private:
  std::vector<int32_t> choose(int rank) const {
    std::mt19937_64 random(layer.seed * 64 + uint64_t(rank));
    const auto numExperts = uint64_t(layer.options.numExperts);
    std::vector<int32_t> result;
    for (int64_t token = 0; token < layer.numTokens; ++token) {
      std::vector<int32_t> experts;
      for (int64_t k = 0; k < layer.perToken; ++k) {
        int32_t expert = -1;
        if (layer.choice == Choice::Random)
          expert = int32_t(random() % numExperts);
        else if (layer.choice == Choice::Skewed)
          expert = int32_t(std::min(random() % numExperts, random() % numExperts));
        else if (layer.choice == Choice::OneExpert)
          expert = k == 0 ? int32_t(layer.seed % numExperts) : -1;
        else if (layer.choice == Choice::Few)
          expert = random() % 4 == 0 ? int32_t(random() % numExperts) : -1;
        experts.push_back(llvm::is_contained(experts, expert) ? -1 : expert);
      }
      result.insert(result.end(), experts.begin(), experts.end());
    }
    return result;
  }
};

void store(DataType type, float value, std::byte *to) {
  kolo::test::storeElement(kolo::reference::ElementType(int(type)), value, to);
}

float load(DataType type, const std::byte *from) {
  float value;
  uint16_t narrow;
  if (type == DataType::F32)
    return std::memcpy(&value, from, sizeof value), value;
  std::memcpy(&narrow, from, sizeof narrow);
  return type == DataType::F16 ? kolo::reference::floatFromHalf(narrow) : kolo::reference::floatFromBfloat16(narrow);
}

constexpr std::byte unwritten{0xa7};

/// Rows in a window or in ordinary memory.
class Rows {
public:
  Rows(Communicator &communicator, int64_t numBytes, bool inWindow) : numBytes(size_t(numBytes)) {
    if (inWindow)
      window.emplace(communicator.allocate(size_t(numBytes) + 64).value());
    else
      heap.resize(size_t(numBytes) + 64);
    std::fill_n(data(), size_t(numBytes) + 64, unwritten);
  }
  std::byte *data() { return window ? static_cast<std::byte *>(window->data()) : heap.data(); }
  /// Whether nobody wrote behind the end.
  bool isWhole() {
    return std::all_of(data() + numBytes, data() + numBytes + 64, [](auto byte) { return byte == unwritten; });
  }

private:
  size_t numBytes;
  std::optional<Window> window;
  std::vector<std::byte> heap;
};

/// One rank of one layer.
class Member {
public:
  Member(Communicator &communicator, const Dense &dense, bool inWindow)
      : communicator(communicator), dense(dense), options(dense.layer.options), rank(communicator.rank()),
        rowBytes(options.rowElements * int64_t(sizeBytes(options.type))),
        perRank(options.numExperts / communicator.size()), inWindow(inWindow),
        tokens(communicator, dense.layer.numTokens * rowBytes, inWindow),
        output(communicator, dense.layer.numTokens * rowBytes, inWindow) {
    for (int64_t token = 0; token < dense.layer.numTokens; ++token)
      for (int64_t i = 0; i < options.rowElements; ++i)
        store(options.type, dense.token(rank, token, i), tokens.data() + token * rowBytes + i * elementBytes());
    for (int64_t i = 0; i < dense.layer.numTokens * dense.layer.perToken; ++i)
      weights.push_back(dense.weight(rank, i));
  }

  std::string run(ExpertExchange &exchange) {
    if (Status status = exchange.route(dense.chosen[size_t(rank)], dense.layer.perToken); !status.isOk())
      return "route: " + status.message() + "; ";
    const Routed routed = exchange.routed();
    if (routed.numDropped != dense.dropped[size_t(rank)])
      return "dropped " + std::to_string(routed.numDropped) + "; ";
    Rows rows(communicator, routed.numRows * rowBytes, inWindow);
    if (Status status = exchange.dispatch(tokens.data(), rows.data()); !status.isOk())
      return "dispatch: " + status.message() + "; ";
    if (std::string said = applyExperts(routed, rows); !said.empty())
      return said;
    if (Status status = exchange.combine(rows.data(), weights, output.data()); !status.isOk())
      return "combine: " + status.message() + "; ";
    for (int64_t token = 0; token < dense.layer.numTokens; ++token)
      for (int64_t i = 0; i < options.rowElements; ++i)
        if (float found = at(output, token, i); found != dense.sum(rank, token, i))
          return "element " + std::to_string(i) + " of token " + std::to_string(token) + " is " +
                 std::to_string(found) + ", not " + std::to_string(dense.sum(rank, token, i)) + "; ";
    return output.isWhole() && rows.isWhole() ? "" : "memory behind the rows was written; ";
  }

private:
  int64_t elementBytes() const { return int64_t(sizeBytes(options.type)); }
  float at(Rows &rows, int64_t row, int64_t i) const {
    return load(options.type, rows.data() + row * rowBytes + i * elementBytes());
  }

  /// Checks the rows on the way.
  std::string applyExperts(const Routed &routed, Rows &rows) {
    std::vector<bool> isUsed(size_t(routed.numRows));
    int64_t next = 0;
    for (int64_t own = 0; own < perRank; ++own)
      for (int source = 0; source < communicator.size(); ++source) {
        const std::vector<int64_t> expected = dense.tokensFor(source, rank * perRank + own);
        const size_t index = size_t(own * communicator.size() + source);
        if (routed.counts[index] != int64_t(expected.size()))
          return "expert " + std::to_string(own) + " gets " + std::to_string(routed.counts[index]) + " from rank " +
                 std::to_string(source) + ", not " + std::to_string(expected.size()) + "; ";
        const int64_t first = options.layout == ExpertLayout::Slots ? int64_t(index) * options.capacity : next;
        if (routed.firstRows[index] != first)
          return "rows begin at " + std::to_string(routed.firstRows[index]) + "; ";
        for (size_t row = 0; row < expected.size(); ++row)
          for (int64_t i = 0; i < options.rowElements; ++i) {
            const float token = dense.token(source, expected[row], i);
            if (float found = at(rows, first + int64_t(row), i); found != token)
              return "row " + std::to_string(row) + " from rank " + std::to_string(source) + " has " +
                     std::to_string(found) + ", not " + std::to_string(token) + "; ";
            isUsed[size_t(first) + row] = true;
            store(options.type, Dense::answer(rank * perRank + own, token),
                  rows.data() + (first + int64_t(row)) * rowBytes + i * elementBytes());
          }
        next += int64_t(expected.size());
      }
    for (int64_t row = 0; row < routed.numRows; ++row)
      if (!isUsed[size_t(row)] && (options.layout == ExpertLayout::Compact || rows.data()[row * rowBytes] != unwritten))
        return "row " + std::to_string(row) + " is nobody's; ";
    return "";
  }

  Communicator &communicator;
  const Dense &dense;
  const ExpertOptions &options;
  const int rank;
  const int64_t rowBytes, perRank;
  const bool inWindow;
  Rows tokens, output;
  std::vector<float> weights;
};

std::string runLayer(Communicator &communicator, const Plugin &plugin, const Dense &dense, bool inWindow) {
  Result<ExpertExchange> exchange = ExpertExchange::create(communicator, {&plugin}, dense.layer.options);
  if (!exchange.isOk())
    return exchange.status().message();
  Member member(communicator, dense, inWindow);
  std::string said = member.run(*exchange);
  if (said.empty())
    said = member.run(*exchange); // the same tokens once more
  (void)communicator.barrier();
  return said;
}

/// Layers of a mesh, of all kinds.
std::vector<Dense> layersOf(const std::string &mesh, bool allowsLoss, std::mt19937_64 &random) {
  std::vector<Dense> layers;
  const int numRanks = Mesh::parse(mesh)->numRanks();
  for (Choice choice : {Choice::Random, Choice::Skewed, Choice::OneExpert, Choice::None, Choice::Few})
    for (ExpertLayout layout : {ExpertLayout::Slots, ExpertLayout::Compact}) {
      const DataType types[] = {DataType::BF16, DataType::F32, DataType::F16};
      ExpertOptions options{*Mesh::parse(mesh), numRanks * int64_t(1 + random() % 3)};
      options.rowElements = std::vector<int64_t>{1, 24, 257, 1100}[random() % 4];
      options.type = types[random() % 3];
      options.capacity = std::vector<int64_t>{3, 40}[random() % 2];
      options.layout = layout;
      options.overflow = Overflow::Drop;
      options.allowsLoss = allowsLoss;
      layers.emplace_back(Layer{options, int64_t(random() % 40), int64_t(1 + random() % 4), choice, random() % 1000},
                          numRanks);
    }
  return layers;
}

struct MemorySetup {
  Launch launch;
  const char *ordinaryMemory; // empty: the default
  int lanes;
  bool inWindow;
};

void expectDense(const Plugin &plugin, const std::string &mesh, const MemorySetup &place, bool allowsLoss = false) {
  std::optional<ScopedVariable> ordinary;
  if (*place.ordinaryMemory)
    ordinary.emplace("KOLO_ORDINARY_MEMORY", place.ordinaryMemory);
  std::mt19937_64 random(testSeed());
  const std::vector<Dense> layers = layersOf(mesh, allowsLoss, random);
  auto body = [&](Communicator &communicator) {
    for (size_t i = 0; i < layers.size(); ++i)
      if (std::string said = runLayer(communicator, plugin, layers[i], place.inWindow); !said.empty())
        return "layer " + std::to_string(i) + ": " + said;
    return std::string();
  };
  EXPECT_EQ(kolo::test::runRanks(place.launch, Mesh::parse(mesh)->numRanks(), {60000, place.lanes}, body), "")
      << mesh << ", launch " << place.launch << ", memory " << place.ordinaryMemory << ", lanes " << place.lanes
      << (place.inWindow ? ", windows" : "") << ", KOLO_SEED=" << testSeed();
}

constexpr MemorySetup everyPlace[] = {{Launch::Threads, "", 1, false},
                                      {Launch::Forked, "attach", 1, false},
                                      {Launch::Forked, "staged", 3, false},
                                      {Launch::Forked, "", 2, true}};

} // namespace

TEST(Experts, GetTheirTokensDirectly) {
  for (const char *mesh : {"rank=1", "rank=2", "rank=3", "rank=8"})
    expectDense(directExperts(), mesh, everyPlace[0]);
  for (const MemorySetup &place : everyPlace)
    expectDense(directExperts(), "rank=4", place);
}

TEST(Experts, GetTheirTokensByNodes) {
  for (const char *mesh : {"node=1,gpu=3", "node=3,gpu=1", "node=2,gpu=4", "node=4,gpu=2"})
    expectDense(expertsByNodes(), mesh, everyPlace[0]);
  for (const MemorySetup &place : everyPlace)
    expectDense(expertsByNodes(), "node=2,gpu=2", place);
}

TEST(Experts, GetTokensThatWereEncoded) {
  const ExpertPrograms oneStep({"directAllToAll", "quantisedAllToAll"}, {"rank=3", "rank=4"});
  const ExpertPrograms twoSteps({"nodeAllToAll", "railAllToAll", "quantisedRailAllToAll"}, {"node=2,gpu=2"});
  expectDense(oneStep.plugin(), "rank=3", everyPlace[0], true);
  for (const MemorySetup &place : everyPlace) {
    expectDense(oneStep.plugin(), "rank=4", place, true);
    expectDense(twoSteps.plugin(), "node=2,gpu=2", place, true);
  }
}

/// In f32, e4m3(128) makes 129 bytes of 512, and an element that no codec keeps changes.
TEST(Experts, GetFewerBytesOfEncodedTokens) {
  const ExpertPrograms programs({"directAllToAll", "quantisedAllToAll"}, {"rank=2"});
  constexpr int64_t numTokens = 64, width = 1024;
  CommunicatorOptions counting{60000, 1};
  counting.countsTraffic = true;
  auto body = [&](Communicator &communicator) {
    const std::vector<int32_t> experts(numTokens, 1 - communicator.rank());
    std::vector<float> tokens(numTokens * width, 1.0f);
    tokens[1] = 0.51f;
    int64_t sent[2];
    float second[2];
    std::string said;
    for (bool allowsLoss : {false, true}) {
      ExpertOptions options{*Mesh::parse("rank=2"), 2, width, DataType::F32, numTokens};
      options.layout = ExpertLayout::Compact;
      options.allowsLoss = allowsLoss;
      Result<ExpertExchange> exchange = ExpertExchange::create(communicator, {&programs.plugin()}, options);
      std::vector<float> rows(numTokens * width);
      said += exchange->route(experts, 1).message();
      const int64_t before = communicator.traffic().sentBytes;
      said += exchange->dispatch(tokens.data(), rows.data()).message();
      sent[allowsLoss] = communicator.traffic().sentBytes - before;
      second[allowsLoss] = rows[1];
    }
    if (sent[false] != numTokens * width * 4 || sent[true] >= sent[false] / 3)
      said += "sent " + std::to_string(sent[false]) + " and " + std::to_string(sent[true]) + " bytes; ";
    return second[false] == 0.51f && second[true] != 0.51f && std::abs(second[true] - 0.51f) < 0.04f
               ? said
               : said + "0.51 became " + std::to_string(second[true]);
  };
  for (Launch launch : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(kolo::test::runRanks(launch, 2, counting, body), "");
}

TEST(Experts, GetTheirTokensFromOtherHosts) {
  const ExpertPrograms railOverNetwork({"nodeAllToAll", "railAllToAll", "quantisedRailAllToAll"}, {"node=2,gpu=2"},
                                       {"node"});
  const ExpertPrograms directOverNetwork({"directAllToAll"}, {"rank=3"}, {"rank"});
  auto runAll = [](const Plugin &plugin, const std::string &mesh, int ranksPerHost, bool allowsLoss) {
    std::mt19937_64 random(testSeed());
    const std::vector<Dense> layers = layersOf(mesh, allowsLoss, random);
    auto body = [&](Communicator &communicator) {
      std::string said;
      for (size_t i = 0; i < layers.size() && said.empty(); ++i)
        said = runLayer(communicator, plugin, layers[i], false);
      return said;
    };
    auto hostOf = [&](int rank) { return "host" + std::to_string(rank / ranksPerHost); };
    EXPECT_EQ(kolo::test::onHosts(Mesh::parse(mesh)->numRanks(), hostOf, {60000, 1}, body), "") << mesh;
  };
  runAll(railOverNetwork.plugin(), "node=2,gpu=2", 2, false);
  runAll(railOverNetwork.plugin(), "node=2,gpu=2", 2, true);
  runAll(directOverNetwork.plugin(), "rank=3", 1, false);
}
