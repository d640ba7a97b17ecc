#include "compiler/import/PlanSchedule.h"
#include "compiler/import/PlanReader.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>
#include <string_view>

namespace kolo::foreign {

namespace plan {

static constexpr int64_t mostChunksInAll = int64_t(1) << 26;

void PlanReader::readHead() {
  static const std::map<std::string_view, Collective> collectives{{"allgather", Collective::AllGather},
                                                                  {"allreduce", Collective::AllReduce},
                                                                  {"alltoall", Collective::AllToAll},
                                                                  {"reducescatter", Collective::ReduceScatter}};
  if (root.kind != PlanNode::Kind::Object)
    throw Refusal{root.line, "is no plan: an object is missing"};
  schedule.interpreter = "MSCCL++";
  schedule.line = root.line;
  schedule.name = text(root, "name");
  const std::string &name = text(root, "collective");
  auto found = collectives.find(name);
  if (found == collectives.end())
    refuse(member(root, "collective", PlanNode::Kind::Text),
           fmt::format("'collective' is {}: only allgather, allreduce, alltoall and reducescatter can be imported",
                       quote(name)));
  schedule.collective = found->second;
  schedule.runsInPlace = truth(root, "inplace");
  schedule.runsOutOfPlace = !schedule.runsInPlace;
  schedule.hasTwoPacketBuffers = root.find("use_double_scratch_buffer") && truth(root, "use_double_scratch_buffer");
  schedule.numRanks = int32_t(member(root, "gpus", PlanNode::Kind::Array).elements.size());
  if (schedule.numRanks == 0)
    refuse(root, "'gpus' is empty");
}

/// The executor cuts the input, or the output where the input has no chunks.
void PlanReader::readSizes(const PlanNode &gpu, int32_t number) {
  if (plan::number(gpu, "id", 0, mostChunks) != number)
    refuse(gpu, fmt::format("is rank {} of 'gpus', and its id is another: the executor refuses that", number));
  int32_t input = plan::number(gpu, "input_chunks", 0, mostChunks);
  int32_t output = plan::number(gpu, "output_chunks", 0, mostChunks);
  int32_t scratch = plan::number(gpu, "scratch_chunks", 0, mostChunks);
  int32_t inputBlocks = schedule.numInputBlocks(), outputBlocks = schedule.numOutputBlocks();
  int32_t perBlock = input != 0 ? input / inputBlocks : output / outputBlocks;
  bool fits = perBlock > 0 && (input == 0 || input == perBlock * inputBlocks) &&
              (output == 0 || output == perBlock * outputBlocks);
  if (!fits || (number > 0 && perBlock * pieces != schedule.chunksPerBlock))
    refuse(gpu, fmt::format("{} chunks of input and {} of output do not fit the collective on {} ranks", input, output,
                            schedule.numRanks));
  schedule.chunksPerBlock = perBlock * pieces;
  if (int64_t(scratch) * pieces > mostChunks || int64_t(perBlock) * pieces * schedule.numRanks > mostChunksInAll / 4)
    refuse(gpu, "has too many chunks");
  schedule.scratchChunks.push_back(scratch * pieces);
}

/// Blocks that share an operation move equal parts of it. A chunk is cut so that each part is whole.
void PlanReader::findPieces() {
  for (const PlanNode &gpu : list(root, "gpus"))
    for (const PlanNode &each : list(gpu, "threadblocks"))
      for (const PlanNode &op : list(each, "ops"))
        if (const PlanNode *group = op.find("tbg_info")) {
          pieces = std::lcm(pieces, number(*group, "tbg_size", 1, mostPieces));
          if (pieces > mostPieces)
            refuse(*group, fmt::format("chunks would be cut into more than {} pieces", mostPieces));
        }
  schedule.pieces = pieces;
}

void PlanReader::readChannels(const PlanNode &gpu, int32_t owner) {
  auto &own = channels.emplace_back();
  std::map<std::pair<ChannelType, int32_t>, int32_t> ordinals;
  for (const PlanNode &channel : list(gpu, "channels"))
    if (std::optional<ChannelType> type = channelType(channel, "channel_type"))
      for (const PlanNode &peer : list(channel, "connected_to")) {
        int32_t other = number(peer, "a rank of 'connected_to'", schedule.numRanks - 1);
        if (other == owner)
          refuse(peer, "a rank is connected to itself");
        own[size_t(*type)].push_back({other, ordinals[{*type, other}]++});
      }
}

void PlanReader::readRemoteBuffers(const PlanNode &gpu, int32_t) {
  auto &own = remoteBuffers.emplace_back();
  for (const PlanNode &buffer : list(gpu, "remote_buffers"))
    own.push_back({number(buffer, "rank", 0, schedule.numRanks - 1), memory(buffer, "type")});
}

void PlanReader::countBarriers(const PlanNode &gpu) {
  barrierEvents.clear();
  barrierBlocks.clear();
  int32_t number = 0;
  for (const PlanNode &each : list(gpu, "threadblocks")) {
    for (const PlanNode &op : list(each, "ops"))
      if (text(op, "name") == "barrier")
        barrierBlocks[plan::number(op, "barrier_id", 0, mostChunks)].insert(number);
    ++number;
  }
}

void PlanReader::readBlock(const PlanNode &node, int32_t id) {
  if (number(node, "id", 0, mostChunks) != id)
    refuse(node, fmt::format("is block {} of 'threadblocks', and its id is another", id));
  block = id;
  numBarriers.clear();
  tables = {};
  for (const PlanNode &channel : list(node, "channels"))
    if (std::optional<ChannelType> type = channelType(channel, "channel_type"))
      for (const PlanNode &each : list(channel, "channel_ids"))
        tables.channels[size_t(*type)].push_back(
            number(each, "a number of 'channel_ids'", int64_t(channels[size_t(rank)][size_t(*type)].size()) - 1));
  for (const PlanNode &reference : list(node, "remote_buffer_refs"))
    if (std::optional<ChannelType> type = channelType(reference, "access_channel_type"))
      for (const PlanNode &each : list(reference, "remote_buffer_ids"))
        tables.buffers[size_t(*type)].push_back(remoteBuffers[size_t(rank)][size_t(
            number(each, "a number of 'remote_buffer_ids'", int64_t(remoteBuffers[size_t(rank)].size()) - 1))]);
  dataThread = int32_t(schedule.threads.size());
  controlThread = dataThread + 1;
  schedule.threads.push_back({rank, fmt::format("block {}", id), node.line, {}});
  schedule.threads.push_back({rank, fmt::format("the first threads of block {}", id), node.line, {}});
  for (const PlanNode &op : list(node, "ops"))
    readOperation(op);
}

/// Which of two waits takes a signal would depend on timing.
void PlanReader::checkWaiters() const {
  std::vector<std::pair<int32_t, int32_t>> waiters(schedule.semaphores.size(), {-1, 0});
  for (size_t thread = 0; thread < schedule.threads.size(); ++thread)
    for (const Action &action : schedule.threads[thread].actions)
      for (int32_t semaphore : action.acquires) {
        auto &[known, line] = waiters[size_t(semaphore)];
        if (known >= 0 && known != int32_t(thread))
          throw Refusal{action.line,
                        fmt::format("two blocks wait for {}, line {} too: which of them takes a signal depends "
                                    "on timing",
                                    schedule.semaphores[size_t(semaphore)].name, line)};
        known = int32_t(thread);
        line = action.line;
      }
}

ForeignSchedule PlanReader::read() {
  readHead();
  findPieces();
  std::span<const PlanNode> gpus = list(root, "gpus");
  for (const PlanNode &gpu : gpus) {
    auto number = int32_t(channels.size());
    readSizes(gpu, number);
    readChannels(gpu, number);
    readRemoteBuffers(gpu, number);
    int32_t numSemaphores = 0;
    for (const PlanNode &semaphore : list(gpu, "semaphores")) {
      rankSemaphores[{number, numSemaphores}] = int32_t(schedule.semaphores.size());
      schedule.semaphores.push_back({fmt::format("semaphore {} of rank {}", numSemaphores, number), number,
                                     plan::number(semaphore, "init_value", 0, mostChunks)});
      ++numSemaphores;
    }
  }
  for (const PlanNode &gpu : gpus) {
    countBarriers(gpu);
    int32_t number = 0;
    for (const PlanNode &each : list(gpu, "threadblocks"))
      readBlock(each, number++);
    ++rank;
  }
  checkWaiters();
  return std::move(schedule);
}

} // namespace plan

std::variant<ForeignSchedule, Refusal> readPlan(const ForeignText &source, const std::string &path) {
  auto parsed = readPlanText(source);
  if (auto *refusal = std::get_if<Refusal>(&parsed))
    return std::move(*refusal);
  try {
    return plan::PlanReader(std::get<PlanNode>(parsed), path).read();
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

} // namespace kolo::foreign
