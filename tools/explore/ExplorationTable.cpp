#include "tools/explore/ExplorationTable.h"
#include "tools/compile/Schedules.h"
#include "tools/explore/Coster.h"

#include "kolo/runtime/Device.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace kolo::tools {

runtime::Mesh toMesh(const cost::PlacedMesh &mesh) {
  std::vector<runtime::MeshDim> dims;
  for (size_t i = 0; i < mesh.names.size(); ++i)
    dims.push_back({mesh.names[i], mesh.sizes[i]});
  auto result = runtime::Mesh::create(std::move(dims));
  if (!result.isOk())
    throw ToolError(ExitCode::Usage, result.status().message());
  return std::move(result).value();
}

std::vector<size_t> rankedIn(const Exploration &found) {
  std::set<size_t> numbers;
  for (const SizeResult &size : found.sizes)
    for (const Choice &choice : size.best)
      numbers.insert(choice.candidate);
  return {numbers.begin(), numbers.end()};
}

namespace {

/// The numbers of lanes that a table may name.
constexpr int tableLanes[] = {1, 2, 3, 4, 6, 8, 12, 16, runtime::mostTableLanes};
/// Fewer lanes leave more of a device to other work: they are taken where they take at most so much longer.
constexpr double hardlySlower = 1.05;

class TableMaker {
public:
  TableMaker(const ExploreRequest &request, const Exploration &found)
      : request(request), found(found), ranked(rankedIn(found)),
        knowsLanes(request.machine.device().laneBandwidth.at(cost::beyondCaches) > 0) {}

  void addEntries(const cost::PlacedMesh &mesh, runtime::MemoryKind memory);

  std::vector<Selected> table;

private:
  double secondsOf(size_t number, size_t size) const;
  std::optional<size_t> fastestOn(const cost::PlacedMesh &mesh, size_t size) const;
  const std::vector<int> &lanesOf(size_t number);

  const ExploreRequest &request;
  const Exploration &found;
  const std::vector<size_t> ranked;
  const bool knowsLanes;
  std::map<size_t, std::vector<int>> lanes; // of candidates, by size
};

/// In closed form, corrected as at the nearest size at which it is ranked.
double TableMaker::secondsOf(size_t number, size_t size) const {
  std::optional<double> correction;
  size_t nearest = SIZE_MAX;
  for (size_t other = 0; other < found.sizes.size(); ++other)
    for (const Choice &choice : found.sizes[other].best)
      if (size_t distance = other < size ? size - other : other - size;
          choice.candidate == number && distance < nearest) {
        nearest = distance;
        correction = choice.correction;
      }
  return found.candidates[number].seconds[size] * correction.value_or(1);
}

/// Of the candidates that are proved and allowed, the fastest at a size on a mesh, or in one dimension. Nothing where
/// there is none.
std::optional<size_t> TableMaker::fastestOn(const cost::PlacedMesh &mesh, size_t size) const {
  std::optional<size_t> best;
  for (size_t number : ranked) {
    const PlacedCandidate &candidate = found.candidates[number];
    bool fits = candidate.mesh.names.size() == 1 || candidate.mesh.names == mesh.names;
    if (fits && std::isfinite(candidate.seconds[size]) && (!best || secondsOf(number, size) < secondsOf(*best, size)))
      best = number;
  }
  return best;
}

/// At each size the fewest that are hardly slower than the most. 0 where the models do not say: of a candidate that is
/// scaled from fewer nodes, and on a machine that does not say what a lane moves.
const std::vector<int> &TableMaker::lanesOf(size_t number) {
  auto [place, isNew] = lanes.try_emplace(number, request.sizes.size(), 0);
  std::vector<int> &fewest = place->second;
  const PlacedCandidate &candidate = found.candidates[number];
  if (!isNew || !knowsLanes || candidate.isScaled)
    return fewest;
  std::vector<std::vector<cost::Prediction>> predictions; // by number of lanes
  for (int count : tableLanes) {
    if (request.mostLanes && count > request.mostLanes)
      break;
    ExploreRequest limited = request;
    limited.mostLanes = count;
    predictions.push_back(predict(candidate, limited));
  }
  for (size_t size = 0; size < fewest.size(); ++size) {
    const double least = predictions.back()[size].seconds * hardlySlower;
    auto first = std::ranges::find_if(predictions, [&](const auto &of) { return of[size].seconds <= least; });
    fewest[size] = tableLanes[first - predictions.begin()];
  }
  return fewest;
}

void TableMaker::addEntries(const cost::PlacedMesh &mesh, runtime::MemoryKind memory) {
  const std::vector<int64_t> &sizes = request.sizes;
  for (size_t size = 0; size < sizes.size(); ++size) {
    const std::optional<size_t> number = fastestOn(mesh, size);
    if (!number)
      return; // larger calls take more scratch memory
    const bool isLast = size + 1 == sizes.size();
    const std::vector<int> &lanesBySize = lanesOf(*number);
    if (!isLast && fastestOn(mesh, size + 1) == number && lanesBySize[size + 1] == lanesBySize[size])
      continue;
    const PlacedCandidate &candidate = found.candidates[*number];
    TableEntry entry{runtime::CollectiveKind(int(request.collective)),
                     int(mesh.numRanks()),
                     memory,
                     {},
                     candidate.definition.name,
                     candidate.schedule};
    entry.lanes = lanesBySize[size];
    if (mesh.names.size() > 1)
      entry.mesh = toMesh(mesh);
    if (!isLast) // a size between two goes by the nearer, by ratio
      entry.upToBytes = int64_t(std::sqrt(double(sizes[size]) * double(sizes[size + 1])));
    table.push_back({std::move(entry), *number});
  }
}

} // namespace

std::vector<Selected> tableOf(const ExploreRequest &request, const Exploration &found) {
  std::map<std::vector<std::pair<int64_t, std::string>>, cost::PlacedMesh> meshes; // in the order of tables
  for (size_t number : rankedIn(found)) {
    const cost::PlacedMesh &mesh = found.candidates[number].mesh;
    std::vector<std::pair<int64_t, std::string>> key;
    for (size_t i = 0; mesh.names.size() > 1 && i < mesh.names.size(); ++i)
      key.emplace_back(mesh.sizes[i], mesh.names[i]);
    meshes.try_emplace(key, mesh);
  }
  TableMaker maker(request, found);
  for (const auto &[key, mesh] : meshes)
    for (runtime::MemoryKind memory : {runtime::MemoryKind::Windows, runtime::MemoryKind::Ordinary})
      maker.addEntries(mesh, memory); // the models do not tell the kinds of memory apart
  return std::move(maker.table);
}

CompileRequest requestFor(const ExploreRequest &explored, const Exploration &found,
                          const std::vector<Selected> &table) {
  CompileRequest request;
  std::set<std::string> network;
  for (const auto &[entry, number] : table) {
    const PlacedCandidate &candidate = found.candidates[number];
    for (const std::string &dim : networkDimsOf(candidate.mesh))
      network.insert(dim);
    std::string name = entry.algorithm + suffixFor(entry.schedule);
    auto program =
        std::ranges::find(request.programs, name, [](const ProgramRequest &known) { return known.definition.name; });
    if (program == request.programs.end()) {
      program = request.programs.insert(program, {candidate.definition, {}, candidate.schedule});
      program->definition.name = name;
    }
    if (runtime::Mesh mesh = toMesh(candidate.mesh); std::ranges::find(program->meshes, mesh) == program->meshes.end())
      program->meshes.push_back(mesh);
    request.selection.push_back(
        {entry.collective, entry.ranks, entry.memory, entry.upToBytes, name, entry.mesh, "", false, entry.lanes});
  }
  if (explored.network && explored.numNodes > 1) {
    request.network = {{network.begin(), network.end()}, *explored.network};
  }
  return request;
}

} // namespace kolo::tools
