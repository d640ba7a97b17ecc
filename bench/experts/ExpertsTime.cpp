// Times ExpertExchange on hosts: dispatch, with its routing, and combine, by tokens, in one process for each rank.
//
//   kolo-bench-experts PLUGIN[,PLUGIN] MESH TOKENS [HIDDEN EXPERTS PER_TOKEN ITERATIONS] [FOLDER]
//
// Experts answer with what they get. With FOLDER, each rank leaves the combined tokens of its last iteration there.
// Where RANK is set, this process is that rank, and other processes are the others; then each says how many rows it
// sends to other nodes in a dispatch. Otherwise it starts all ranks.
#include "kolo/runtime/Experts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace kolo::runtime;

namespace {

struct Case {
  const char *plugins, *folder;
  Mesh mesh;
  int64_t numTokens, hidden, numExperts, perToken, iterations;
};

/// Routing, tokens and weights, which bench/experts/gloo.py draws alike.
uint32_t draw(uint32_t seed) {
  seed = (seed ^ 61) ^ (seed >> 16);
  seed *= 9;
  seed ^= seed >> 4;
  seed *= 0x27d4eb2d;
  return seed ^ (seed >> 15);
}

/// `perToken` different experts for each token: of random order.
std::vector<int32_t> drawExperts(const Case &given, int rank) {
  std::vector<int32_t> chosen;
  std::vector<std::pair<uint32_t, int32_t>> order;
  for (int64_t token = 0; token < given.numTokens; ++token) {
    order.clear();
    for (int64_t expert = 0; expert < given.numExperts; ++expert)
      order.emplace_back(draw(uint32_t((rank * given.numTokens + token) * given.numExperts + expert)), int32_t(expert));
    std::sort(order.begin(), order.end());
    for (int64_t k = 0; k < given.perToken; ++k)
      chosen.push_back(order[size_t(k)].second);
  }
  return chosen;
}

/// A small integer, so that every sum is exact.
uint16_t tokenBits(int rank, int64_t token, int64_t i) {
  const float value = float((rank * 7 + token * 3 + i) % 5);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t(bits >> 16);
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void report(const char *what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s %.1f %.1f %.1f\n", what, times[times.size() / 2] * 1e6, times.front() * 1e6, times.back() * 1e6);
}

/// Exits with a message: what a failed call of one rank means for all.
void require(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "kolo-bench-experts: %s\n", status.message().c_str());
  std::exit(1);
}

void keep(const Case &given, int rank, const uint16_t *output) {
  if (!given.folder)
    return;
  std::FILE *file = std::fopen((std::string(given.folder) + "/" + std::to_string(rank)).c_str(), "wb");
  const size_t number = size_t(given.numTokens * given.hidden);
  if (!file || std::fwrite(output, sizeof(uint16_t), number, file) != number || std::fclose(file) != 0)
    require(Status(StatusCode::SystemError, "cannot write to the folder"));
}

int runRank(const Case &given, Result<Communicator> communicator, bool saysRows) {
  require(communicator.status());
  const int rank = communicator->rank();
  std::vector<Plugin> loaded;
  std::istringstream paths(given.plugins);
  for (std::string path; std::getline(paths, path, ',');) {
    Result<Plugin> plugin = Plugin::load(path);
    require(plugin.status());
    loaded.push_back(std::move(plugin).value());
  }
  std::vector<const Plugin *> plugins;
  for (const Plugin &plugin : loaded)
    plugins.push_back(&plugin);
  ExpertOptions options{given.mesh,     given.numExperts, given.hidden,
                        DataType::BF16, given.numTokens,  ExpertLayout::Compact};
  Result<ExpertExchange> exchange = ExpertExchange::create(*communicator, plugins, options);
  require(exchange.status());
  const std::vector<int32_t> experts = drawExperts(given, rank);
  const std::vector<float> weights(experts.size(), 1.0f / float(given.perToken));
  const auto tokenBytes = size_t(given.numTokens * given.hidden) * sizeof(uint16_t);
  Result<Window> tokens = communicator->allocate(tokenBytes), output = communicator->allocate(tokenBytes);
  require(tokens.status());
  require(output.status());
  for (int64_t token = 0; token < given.numTokens; ++token)
    for (int64_t i = 0; i < given.hidden; ++i)
      static_cast<uint16_t *>(tokens->data())[token * given.hidden + i] = tokenBits(rank, token, i);
  std::optional<Window> rows;
  std::vector<double> dispatches, combines;
  for (int64_t iteration = -1; iteration < given.iterations; ++iteration) { // the first one is not counted
    require(communicator->barrier());
    double start = seconds();
    require(exchange->route(experts, given.perToken));
    if (!rows) { // their number is the same in every iteration
      Result<Window> made = communicator->allocate(size_t(exchange->routed().numRows * given.hidden) * 2 + 2);
      require(made.status());
      rows.emplace(std::move(made).value());
    }
    require(exchange->dispatch(tokens->data(), rows->data()));
    require(communicator->barrier());
    double middle = seconds();
    require(exchange->combine(rows->data(), weights, output->data()));
    require(communicator->barrier());
    double end = seconds();
    if (iteration >= 0) {
      dispatches.push_back(middle - start);
      combines.push_back(end - middle);
    }
  }
  if (saysRows)
    std::printf("%lld rows to other nodes\n", (long long)exchange->routed().numToNodes);
  keep(given, rank, static_cast<const uint16_t *>(output->data()));
  if (rank == 0) {
    report("dispatch", dispatches);
    report("combine", combines);
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "kolo-bench-experts PLUGIN[,PLUGIN] MESH TOKENS [HIDDEN EXPERTS PER_TOKEN ITERATIONS] [FOLDER]\n");
    return 2;
  }
  auto number = [&](int index, int64_t otherwise) { return argc > index ? std::atoll(argv[index]) : otherwise; };
  Result<Mesh> mesh = Mesh::parse(argv[2]);
  require(mesh.status());
  const Case given = {
      argv[1],     argc > 8 ? argv[8] : nullptr, *mesh, number(3, 0), number(4, 7168), number(5, 64), number(6, 8),
      number(7, 5)};
  if (std::getenv("RANK"))
    return runRank(given, Communicator::createFromEnvironment(), true);
  Result<ForkedRanks> forked = ForkedRanks::create(given.mesh.numRanks());
  require(forked.status());
  for (int rank = 0; rank < given.mesh.numRanks(); ++rank)
    if (fork() == 0)
      std::exit(runRank(given, Communicator::createForked(*forked, rank), false));
  int worst = 0, status = 0;
  while (wait(&status) > 0)
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  return worst;
}
