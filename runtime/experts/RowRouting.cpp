#include "experts/RowRouting.h"

#include "base/Error.h"

#include <algorithm>
#include <numeric>

namespace kolo::runtime {

/// Whether a program is an all-to-all over one dimension of a mesh, for calls with row lists.
static bool isAlong(const ProgramInfo &program, const Mesh &mesh, int dim) {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const MeshDim &each : mesh.dims()) {
    names.push_back(each.name);
    sizes.push_back(each.size);
  }
  const CollectiveFacts facts = factsOf(program.collective);
  const Proof *proof = program.meshDims == names ? program.proofOf(sizes) : nullptr;
  return isPerRank(facts.input) && isPerRank(facts.output) && program.groupDims == std::vector<int>{dim} && proof &&
         proof->takesRows;
}

std::optional<GroupAllToAll> GroupAllToAll::find(Communicator &communicator, const std::vector<const Plugin *> &plugins,
                                                 const Mesh &mesh, int dim, bool hasCodecs) {
  for (const Plugin *plugin : plugins)
    for (const ProgramInfo &program : plugin->programs()) {
      if (!isAlong(program, mesh, dim) || (program.granule != 0) != hasCodecs)
        continue;
      GroupAllToAll found;
      found.communicator = &communicator;
      found.plugin = plugin;
      found.arguments.program = program.name;
      found.arguments.mesh = mesh;
      found.numMembers = mesh.dims()[static_cast<size_t>(dim)].size;
      found.member = mesh.coordinates(communicator.rank())[static_cast<size_t>(dim)];
      return found;
    }
  return std::nullopt;
}

Status GroupAllToAll::exchange(const void *input, void *output, int64_t count, DataType type) const {
  CallArguments call = arguments;
  call.input = input;
  call.output = output;
  call.count = count;
  call.type = type;
  return communicator->run(*plugin, call);
}

Status GroupAllToAll::exchange(const void *input, void *output, DataType type, const BlockTables &blocks,
                               const RowLists *rows) const {
  CallArguments call = arguments;
  call.input = input;
  call.output = output;
  call.type = type;
  call.blocks = &blocks;
  call.rows = rows;
  return communicator->run(*plugin, call);
}

namespace {

/// The tables of a call whose blocks have so many rows.
struct TablesOfRows {
  std::vector<int64_t> input, output;
  BlockTables blocks;

  TablesOfRows(std::span<const int64_t> inputRows, std::span<const int64_t> outputRows, int64_t elements)
      : input(inputRows.begin(), inputRows.end()), output(outputRows.begin(), outputRows.end()) {
    for (std::vector<int64_t> *counts : {&input, &output})
      for (int64_t &count : *counts)
        count *= elements;
    blocks = {{input, {}}, {output, {}}};
  }
  TablesOfRows(const TablesOfRows &) = delete;
  TablesOfRows &operator=(const TablesOfRows &) = delete;
};

} // namespace

/// By member and, of one member, by bucket; of one bucket, in the order in which they come.
void RowRouting::sortTargets(std::span<const RowTarget> targets, int64_t numMembers, int64_t numBuckets) {
  auto bucketOf = [&](const RowTarget &target) {
    return static_cast<size_t>(target.member * numBuckets + target.bucket);
  };
  givenCounts.assign(static_cast<size_t>(numMembers * numBuckets), 0);
  for (const RowTarget &target : targets)
    ++givenCounts[bucketOf(target)];
  std::vector<int64_t> next(givenCounts.size());
  std::exclusive_scan(givenCounts.begin(), givenCounts.end(), next.begin(), int64_t(0));
  positions.resize(targets.size());
  givenRows.resize(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    positions[i] = next[bucketOf(targets[i])]++;
    givenRows[static_cast<size_t>(positions[i])] = targets[i].row;
  }
  givenTo.assign(static_cast<size_t>(numMembers), 0);
  for (const RowTarget &target : targets)
    ++givenTo[static_cast<size_t>(target.member)];
}

/// With the report, which goes to all members.
Status RowRouting::exchangeCounts(const GroupAllToAll &group, int64_t numBuckets, RouteReport &report) {
  const auto perMember = static_cast<size_t>(numBuckets), numMembers = static_cast<size_t>(group.size());
  const size_t stride = perMember + 1;
  std::vector<int64_t> mine(numMembers * stride), theirs(numMembers * stride);
  for (size_t member = 0; member < numMembers; ++member) {
    std::copy_n(&givenCounts[member * perMember], perMember, &mine[member * stride]);
    mine[member * stride + perMember] = report.isRefused ? -1 : report.numDropped;
  }
  if (Status status = group.exchange(mine.data(), theirs.data(), static_cast<int64_t>(stride), DataType::I64);
      !status.isOk())
    return status;
  taken.resize(numMembers * perMember);
  report = {};
  for (size_t member = 0; member < numMembers; ++member) {
    std::copy_n(&theirs[member * stride], perMember, &taken[member * perMember]);
    const int64_t said = theirs[member * stride + perMember];
    report.isRefused |= said < 0;
    report.numDropped += std::max<int64_t>(said, 0);
  }
  return {};
}

/// The rows of buckets, in the order in which they arrive.
static std::vector<int32_t> listRows(std::span<const int64_t> counts, std::span<const int64_t> places) {
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t(0))));
  for (size_t i = 0; i < counts.size(); ++i)
    for (int64_t row = 0; row < counts[i]; ++row)
      rows.push_back(static_cast<int32_t>(places[i] + row));
  return rows;
}

Status RowRouting::route(const GroupAllToAll &group, std::span<const RowTarget> targets, int64_t numBuckets,
                         const BucketPlaces &placement, RouteReport &report) {
  const int64_t numMembers = group.size();
  sortTargets(targets, numMembers, numBuckets);
  if (Status status = exchangeCounts(group, numBuckets, report); !status.isOk() || report.isRefused)
    return status;
  takenFrom.assign(static_cast<size_t>(numMembers), 0);
  givenPlaces.resize(givenCounts.size());
  takenPlaces.resize(taken.size());
  for (int64_t member = 0; member < numMembers; ++member)
    for (int64_t bucket = 0; bucket < numBuckets; ++bucket) {
      const auto index = static_cast<size_t>(member * numBuckets + bucket);
      takenFrom[static_cast<size_t>(member)] += taken[index];
      if (!placement.decide) {
        givenPlaces[index] = placement.given(member, bucket);
        takenPlaces[index] = placement.taken(member, bucket);
      }
    }
  if (placement.decide) {
    takenPlaces = placement.decide(taken);
    if (Status status = group.exchange(takenPlaces.data(), givenPlaces.data(), numBuckets, DataType::I64);
        !status.isOk())
      return status;
  }
  landing = listRows(givenCounts, givenPlaces);
  takenRows = listRows(taken, takenPlaces);
  return {};
}

Status RowRouting::forward(const GroupAllToAll &group, const void *input, int64_t inputRows, void *output,
                           int64_t outputRows, int64_t elements, DataType type) const {
  const TablesOfRows tables(givenTo, takenFrom, elements);
  const RowLists rows = {elements, givenRows, takenRows, inputRows, outputRows, landing};
  return group.exchange(input, output, type, tables.blocks, &rows);
}

Status RowRouting::backward(const GroupAllToAll &group, const void *output, int64_t outputRows, void *positioned,
                            int64_t elements, DataType type) const {
  const TablesOfRows tables(takenFrom, givenTo, elements);
  const RowLists rows = {elements, takenRows, {}, outputRows, 0, {}};
  return group.exchange(output, positioned, type, tables.blocks, &rows);
}

Status RowRouting::forwardPacked(const GroupAllToAll &group, const void *input, void *output, int64_t elements,
                                 DataType type) const {
  const TablesOfRows tables(givenTo, takenFrom, elements);
  return group.exchange(input, output, type, tables.blocks, nullptr);
}

} // namespace kolo::runtime
