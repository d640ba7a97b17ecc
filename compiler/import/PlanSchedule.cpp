// A thread block of a plan becomes two threads. Its data thread stands for all threads of the block: they move data
// together, an element each. Its control thread stands for the few that signal and wait. Only `nop`, which is
// __syncthreads, and `barrier` order the two, as in the kernel. What goes through a port channel is done by a thread of
// the proxy.
#include "compiler/import/PlanSchedule.h"
#include "compiler/import/PlanText.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>

namespace kolo::foreign {

namespace {

enum class ChannelType : uint8_t { Memory, Port };

/// A rank's end of a channel: the peer, and how many of that type to this peer come before it.
struct PlanChannel {
  int32_t peer = 0, ordinal = 0;
};

struct RemoteBuffer {
  int32_t rank = 0;
  Memory memory = Memory::Input;
};

/// What a block refers to by small numbers.
struct ThreadBlockTables {
  std::array<std::vector<int32_t>, 2> channels;     // numbers of the rank's channels, by type
  std::array<std::vector<RemoteBuffer>, 2> buffers; // by type
};

[[noreturn]] void refuse(const PlanNode &node, const std::string &message) { throw Refusal{node.line, message}; }

const PlanNode &member(const PlanNode &node, const char *name, PlanNode::Kind kind) {
  const PlanNode *found = node.find(name);
  if (!found || found->kind != kind)
    refuse(node, fmt::format("'{}' {}", name, found ? "has another type than in a plan" : "is missing"));
  return *found;
}

const std::string &text(const PlanNode &node, const char *name) {
  return member(node, name, PlanNode::Kind::Text).text;
}

bool truth(const PlanNode &node, const char *name) { return member(node, name, PlanNode::Kind::Truth).number != 0; }

std::span<const PlanNode> list(const PlanNode &node, const char *name) {
  return node.find(name) ? member(node, name, PlanNode::Kind::Array).elements : std::span<const PlanNode>();
}

Memory memory(const PlanNode &node, const char *name) {
  const std::string &letter = text(node, name);
  size_t found = letter.size() == 1 ? std::string_view("ios").find(letter) : std::string_view::npos;
  if (found == std::string_view::npos)
    refuse(node, fmt::format("'{}' is {}: it must be i, o or s", name, quote(letter)));
  return Memory(found);
}

/// Nothing: a switch channel, which only operations use that are refused.
std::optional<ChannelType> channelType(const PlanNode &node, const char *name) {
  const std::string &word = text(node, name);
  if (word == "switch")
    return std::nullopt;
  if (word != "memory" && word != "port")
    refuse(node, fmt::format("'{}' is {}: it must be memory, port or switch", name, quote(word)));
  return word == "memory" ? ChannelType::Memory : ChannelType::Port;
}

class PlanReader {
public:
  PlanReader(const PlanNode &root, const std::string &path) : root(root) { schedule.path = path; }
  ForeignSchedule read();

private:
  // JSON.
  static int32_t number(const PlanNode &node, const char *name, int64_t least, int64_t most);
  static int32_t number(const PlanNode &value, const std::string &what, int64_t most);

  // The plan.
  void readHead();
  void readSizes(const PlanNode &gpu, int32_t rank);
  void findPieces();
  void readChannels(const PlanNode &gpu, int32_t rank);
  void readRemoteBuffers(const PlanNode &gpu, int32_t rank);
  void readBlock(const PlanNode &block, int32_t number);
  void countBarriers(const PlanNode &gpu);

  // One operation.
  void readOperation(const PlanNode &op);
  void synchronise(const PlanNode &op, bool isBarrier);
  void signalOrWait(const PlanNode &op, bool isSignal, bool isRelaxed);
  void useSemaphores(const PlanNode &op, bool isRelease);
  void putByPort(const PlanNode &op, bool isPackets, bool signals, bool flushes);
  void readPutByPort(const PlanNode &op);
  void flush(const PlanNode &op);
  void put(const PlanNode &op, bool isPackets, bool readsPackets);
  void get(const PlanNode &op);
  void copy(const PlanNode &op, bool readsPackets, bool writesPackets);
  void reduce(const PlanNode &op, bool isPackets, bool isRemote, size_t numPacketOutputs);
  struct PlanRun {
    ChunkPlace place;
    int32_t count;
  };
  PlanRun run(const PlanNode &op, const PlanNode &buffer, bool isPackets) const;
  PlanRun packetSource(const PlanNode &op, const PlanNode &buffer) const;
  std::span<const PlanNode> buffers(const PlanNode &op, const char *name, size_t least) const;
  const PlanChannel &channelOf(const PlanNode &op, const PlanNode &id, ChannelType type) const;
  void checkCount(const PlanNode &op, int32_t count, int32_t other) const;

  Action &data(const PlanNode &op) { return add(dataThread, op); }
  Action &control(const PlanNode &op) { return add(controlThread, op); }
  Action &add(int32_t thread, const PlanNode &op) {
    Action &action = schedule.threads[size_t(thread)].actions.emplace_back();
    action.line = op.line;
    return action;
  }
  int32_t newEvent() { return schedule.numEvents++; }
  int32_t channelSemaphore(ChannelType type, int32_t sender, int32_t receiver, int32_t ordinal);
  int32_t proxy(const PlanNode &op, const PlanChannel &channel, const PlanNode &id);
  Action &tell(const PlanNode &op, int32_t proxy);
  void checkWaiters() const;

  const PlanNode &root;
  ForeignSchedule schedule;
  int32_t pieces = 1;                                            // of a chunk, for operations that several blocks share
  std::vector<std::array<std::vector<PlanChannel>, 2>> channels; // by rank and type
  std::vector<std::vector<RemoteBuffer>> remoteBuffers;          // by rank
  std::map<std::tuple<ChannelType, int32_t, int32_t, int32_t>, int32_t> channelSemaphores;
  std::map<std::pair<int32_t, int32_t>, int32_t> rankSemaphores; // by rank and number
  std::map<std::pair<int32_t, int32_t>, int32_t> proxies;        // by rank and port channel
  std::map<int32_t, int32_t> blockOfProxy;                       // that tells it, by thread

  // The block that is read.
  int32_t rank = 0, block = 0, dataThread = 0, controlThread = 0;
  ThreadBlockTables tables;
  std::map<int32_t, int32_t> numBarriers;                                 // passed by this block, by number
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> barrierEvents; // of this rank: barrier, turn, block
  std::map<int32_t, std::set<int32_t>> barrierBlocks;                     // of this rank
};

constexpr int64_t mostChunks = 1 << 20;
constexpr int32_t mostPieces = 1024;
constexpr int64_t mostChunksInAll = int64_t(1) << 26;

} // namespace

int32_t PlanReader::number(const PlanNode &value, const std::string &what, int64_t most) {
  if (value.kind != PlanNode::Kind::Number || value.number < 0 || value.number > most)
    refuse(value, fmt::format("{} must be a number from 0 to {}", what, most));
  return int32_t(value.number);
}

int32_t PlanReader::number(const PlanNode &node, const char *name, int64_t least, int64_t most) {
  const PlanNode &value = member(node, name, PlanNode::Kind::Number);
  if (value.number < least || value.number > most)
    refuse(value, fmt::format("'{}' is {}: it must be from {} to {}", name, value.number, least, most));
  return int32_t(value.number);
}

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
  if (this->number(gpu, "id", 0, mostChunks) != number)
    refuse(gpu, fmt::format("is rank {} of 'gpus', and its id is another: the executor refuses that", number));
  int32_t input = this->number(gpu, "input_chunks", 0, mostChunks);
  int32_t output = this->number(gpu, "output_chunks", 0, mostChunks);
  int32_t scratch = this->number(gpu, "scratch_chunks", 0, mostChunks);
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
        barrierBlocks[this->number(op, "barrier_id", 0, mostChunks)].insert(number);
    ++number;
  }
}

PlanReader::PlanRun PlanReader::run(const PlanNode &op, const PlanNode &buffer, bool isPackets) const {
  PlanRun result{{rank, Memory::Input, 0, isPackets}, 0};
  if (buffer.find("switch_channel_id"))
    refuse(op, fmt::format("{} uses a switch channel, which Kolo has not", quote(text(op, "name"))));
  if (buffer.find("buffer_id")) {
    std::optional<ChannelType> type = channelType(op, "channel_type");
    const std::vector<RemoteBuffer> &known = tables.buffers[size_t(type.value_or(ChannelType::Memory))];
    const RemoteBuffer &remote =
        known.empty() ? RemoteBuffer{} : known[size_t(number(buffer, "buffer_id", 0, int64_t(known.size()) - 1))];
    if (known.empty())
      refuse(buffer, "'buffer_id' is of no remote buffer of this block");
    result.place.rank = remote.rank;
    result.place.memory = remote.memory;
  } else {
    result.place.memory = memory(buffer, "type");
  }
  int32_t first = number(buffer, "index", 0, mostChunks) * pieces,
          count = number(buffer, "size", 0, mostChunks) * pieces;
  int32_t part = 0, parts = 1;
  if (const PlanNode *group = op.find("tbg_info")) {
    parts = number(*group, "tbg_size", 1, mostPieces);
    part = number(*group, "tb_id", 0, parts - 1);
  }
  result.place.chunk = first + count / parts * part;
  result.count = count / parts;
  return result;
}

/// The executor reads packets from the scratch memory, whatever buffer the plan names.
PlanReader::PlanRun PlanReader::packetSource(const PlanNode &op, const PlanNode &buffer) const {
  PlanRun source = run(op, buffer, true);
  if (source.place.memory != Memory::Scratch || source.place.rank != rank)
    refuse(op,
           fmt::format("{} reads packets elsewhere than in the rank's scratch memory: the executor reads them there",
                       quote(text(op, "name"))));
  return source;
}

std::span<const PlanNode> PlanReader::buffers(const PlanNode &op, const char *name, size_t least) const {
  std::span<const PlanNode> all = list(op, name);
  if (all.size() < least)
    refuse(op, fmt::format("{} has {} of '{}', and needs {}", quote(text(op, "name")), all.size(), name, least));
  return all;
}

void PlanReader::checkCount(const PlanNode &op, int32_t count, int32_t other) const {
  if (count != other)
    refuse(op, fmt::format("{} moves {} chunks to a place for {}", quote(text(op, "name")), count, other));
}

const PlanChannel &PlanReader::channelOf(const PlanNode &op, const PlanNode &id, ChannelType type) const {
  const std::vector<int32_t> &own = tables.channels[size_t(type)];
  if (own.empty())
    refuse(op, fmt::format("{} uses a channel, and its block has none of that type", quote(text(op, "name"))));
  int32_t index = own[size_t(number(id, "a number of 'channel_ids'", int64_t(own.size()) - 1))];
  return channels[size_t(rank)][size_t(type)][size_t(index)];
}

int32_t PlanReader::channelSemaphore(ChannelType type, int32_t sender, int32_t receiver, int32_t ordinal) {
  auto [found, isNew] =
      channelSemaphores.try_emplace({type, sender, receiver, ordinal}, int32_t(schedule.semaphores.size()));
  if (isNew)
    schedule.semaphores.push_back(
        {fmt::format("{} channel {} from rank {} to rank {}", type == ChannelType::Memory ? "memory" : "port", ordinal,
                     sender, receiver),
         receiver});
  return found->second;
}

/// The proxy's thread for a port channel. It does what one block tells it in order.
int32_t PlanReader::proxy(const PlanNode &op, const PlanChannel &channel, const PlanNode &id) {
  int32_t ofRank = tables.channels[1][size_t(id.number)];
  auto [found, isNew] = proxies.try_emplace({rank, ofRank}, int32_t(schedule.threads.size()));
  if (isNew)
    schedule.threads.push_back(
        {rank, fmt::format("the proxy's port channel {} to rank {}", ofRank, channel.peer), 0, {}, true});
  if (int32_t owner = blockOfProxy.try_emplace(found->second, block).first->second; owner != block)
    refuse(op, fmt::format("block {} uses port channel {}, too: whose operations come first depends on timing", owner,
                           ofRank));
  return found->second;
}

/// What the proxy does once the control thread has come to it.
Action &PlanReader::tell(const PlanNode &op, int32_t proxy) {
  int32_t told = newEvent();
  control(op).raises = {told};
  Action &done = add(proxy, op);
  done.waits = {told};
  return done;
}

/// __syncthreads, and of a barrier also a meeting of blocks.
void PlanReader::synchronise(const PlanNode &op, bool isBarrier) {
  std::vector<int32_t> all{newEvent(), newEvent()};
  data(op).raises = {all[0]};
  control(op).raises = {all[1]};
  if (isBarrier) {
    int32_t id = number(op, "barrier_id", 0, mostChunks);
    const std::set<int32_t> &blocks = barrierBlocks[id];
    if (int32_t wanted = number(op, "num_threadblocks", 1, mostChunks); size_t(wanted) != blocks.size())
      refuse(op,
             fmt::format("barrier {} is for {} blocks, and {} of rank {} come to it", id, wanted, blocks.size(), rank));
    // Each event of a barrier's turn is raised by the data thread once it has met its own control thread.
    int32_t turn = numBarriers[id]++;
    auto eventOf = [&](int32_t each) {
      auto [found, isNew] = barrierEvents.try_emplace({id, turn, each}, 0);
      if (isNew)
        found->second = newEvent();
      return found->second;
    };
    Action &arrive = data(op);
    arrive.waits = all;
    arrive.raises = {eventOf(block)};
    for (int32_t each : blocks)
      all.push_back(eventOf(each));
  }
  data(op).waits = all;
  control(op).waits = all;
}

void PlanReader::signalOrWait(const PlanNode &op, bool isSignal, bool isRelaxed) {
  std::optional<ChannelType> type = channelType(op, "channel_type");
  if (!type)
    refuse(op, fmt::format("{} on a switch channel", quote(text(op, "name"))));
  for (const PlanNode &id : list(op, "channel_ids")) {
    const PlanChannel &channel = channelOf(op, id, *type);
    int32_t sender = isSignal ? rank : channel.peer, receiver = isSignal ? channel.peer : rank;
    int32_t semaphore = channelSemaphore(*type, sender, receiver, channel.ordinal);
    if (isSignal && *type == ChannelType::Port) {
      tell(op, proxy(op, channel, id)).signals = {semaphore};
      continue;
    }
    Action &action = control(op);
    action.isRelaxed = isRelaxed && *type == ChannelType::Memory; // port channels have no other signals
    (isSignal ? action.signals : action.acquires) = {semaphore};
  }
}

void PlanReader::useSemaphores(const PlanNode &op, bool isRelease) {
  for (const PlanNode &id : list(op, "semaphore_ids")) {
    auto found = rankSemaphores.find({rank, number(id, "a number of 'semaphore_ids'", mostChunks)});
    if (found == rankSemaphores.end())
      refuse(op, fmt::format("semaphore {} does not exist", id.number));
    Action &action = control(op);
    (isRelease ? action.signals : action.acquires) = {found->second};
  }
}

void PlanReader::putByPort(const PlanNode &op, bool isPackets, bool signals, bool flushes) {
  bool sharesSource = text(op, "name") == "rppkt";
  std::span<const PlanNode> to = buffers(op, "dst_buff", 1),
                            from = buffers(op, "src_buff", sharesSource ? 1 : to.size()), ids = list(op, "channel_ids");
  if (ids.size() < to.size())
    refuse(op, fmt::format("{} has fewer channels than destinations", quote(text(op, "name"))));
  for (size_t each = 0; each < to.size(); ++each) {
    PlanRun source = run(op, from[sharesSource ? 0 : each], false), destination = run(op, to[each], isPackets);
    checkCount(op, source.count, destination.count);
    const PlanChannel &channel = channelOf(op, ids[each], ChannelType::Port);
    int32_t thread = proxy(op, channel, ids[each]);
    Action &move = tell(op, thread);
    move.count = source.count;
    move.sources = {source.place};
    move.destinations = {destination.place};
    move.copiesPackets = isPackets;
    if (signals)
      add(thread, op).signals = {channelSemaphore(ChannelType::Port, rank, channel.peer, channel.ordinal)};
    if (flushes)
      control(op).flushes = {{thread, int32_t(schedule.threads[size_t(thread)].actions.size())}};
  }
}

/// All threads wait for their packets, and meet; then the proxy copies the packets as they are.
void PlanReader::readPutByPort(const PlanNode &op) {
  PlanRun source = packetSource(op, buffers(op, "src_buff", 1)[0]);
  Action &action = data(op);
  action.count = source.count;
  action.sources = {source.place};
  synchronise(op, false);
  putByPort(op, true, false, false);
}

/// The executor flushes as many channels as the operation has destinations, which is none in the plans of its language.
void PlanReader::flush(const PlanNode &op) {
  std::span<const PlanNode> ids = list(op, "channel_ids");
  size_t numFlushed = list(op, "dst_buff").size();
  if (numFlushed < ids.size())
    schedule.notes.push_back(
        fmt::format("line {}: a flush without 'dst_buff' waits for nothing in MSCCL++ 0.9", op.line));
  for (const PlanNode &id : ids.first(std::min(numFlushed, ids.size()))) {
    const PlanChannel &channel = channelOf(op, id, ChannelType::Port);
    int32_t thread = proxy(op, channel, id);
    control(op).flushes = {{thread, int32_t(schedule.threads[size_t(thread)].actions.size())}};
  }
}

void PlanReader::put(const PlanNode &op, bool isPackets, bool readsPackets) {
  std::span<const PlanNode> to = buffers(op, "dst_buff", 1), from = buffers(op, "src_buff", 1);
  if (!readsPackets && from.size() < to.size())
    refuse(op, fmt::format("{} has fewer sources than destinations", quote(text(op, "name"))));
  for (size_t each = 0; each < to.size(); ++each) {
    PlanRun source = readsPackets ? packetSource(op, from[0]) : run(op, from[each], false),
            destination = run(op, to[each], isPackets);
    if (!readsPackets)
      source.place.memory = run(op, from[0], false).place.memory; // as the executor does
    checkCount(op, source.count, destination.count);
    Action &action = data(op);
    action.count = source.count;
    action.sources = {source.place};
    action.destinations = {destination.place};
  }
}

void PlanReader::get(const PlanNode &op) {
  std::span<const PlanNode> from = buffers(op, "src_buff", 1), to = buffers(op, "dst_buff", from.size());
  for (size_t each = 0; each < from.size(); ++each) {
    PlanRun source = run(op, from[each], false), destination = run(op, to[each], false);
    checkCount(op, source.count, destination.count);
    // handleGet adds the source's offset to the destination, and the other way round.
    std::swap(source.place.chunk, destination.place.chunk);
    if (source.place.chunk != destination.place.chunk)
      schedule.notes.push_back(
          fmt::format("line {}: the executor of MSCCL++ 0.9 takes the offsets of a get for each other", op.line));
    Action &action = data(op);
    action.count = source.count;
    action.sources = {source.place};
    action.destinations = {destination.place};
  }
}

void PlanReader::copy(const PlanNode &op, bool readsPackets, bool writesPackets) {
  const PlanNode &from = buffers(op, "src_buff", 1)[0];
  PlanRun source = readsPackets ? packetSource(op, from) : run(op, from, false);
  PlanRun destination = run(op, buffers(op, "dst_buff", 1)[0], writesPackets);
  checkCount(op, source.count, destination.count);
  Action &action = data(op);
  action.count = source.count;
  action.sources = {source.place};
  action.destinations = {destination.place};
}

/// The first source and the first destination are plain memory of this rank, and so are the other sources, or they are
/// packets, or memory of peers. The other destinations are at peers, after packets of this rank's own.
void PlanReader::reduce(const PlanNode &op, bool isPackets, bool isRemote, size_t numPacketOutputs) {
  if (const PlanNode *what = op.find("reduce_op"); what && what->text != "sum")
    refuse(op,
           fmt::format("'reduce_op' is {}: Kolo takes the operation of the call, and imports sums", quote(what->text)));
  std::span<const PlanNode> from = buffers(op, "src_buff", 1), to = buffers(op, "dst_buff", 1 + numPacketOutputs);
  Action action;
  action.line = op.line;
  for (size_t each = 0; each < from.size(); ++each) {
    PlanRun source = isPackets && each > 0 ? packetSource(op, from[each]) : run(op, from[each], false);
    if (each == 0)
      action.count = source.count;
    checkCount(op, action.count, source.count);
    action.sources.push_back(source.place);
  }
  for (size_t each = 0; each < (isRemote ? to.size() : 1 + numPacketOutputs); ++each) {
    PlanRun destination = run(op, to[each], isPackets && each > 0);
    checkCount(op, action.count, destination.count);
    action.destinations.push_back(destination.place);
  }
  schedule.threads[size_t(dataThread)].actions.push_back(std::move(action));
}

void PlanReader::readOperation(const PlanNode &op) {
  const std::string &name = text(op, "name");
  bool isPort = op.find("channel_type") && text(op, "channel_type") == "port";
  if (name == "nop" || name == "barrier")
    return synchronise(op, name == "barrier");
  if (name == "signal" || name == "rlxsignal" || name == "wait" || name == "rlxwait")
    return signalOrWait(op, name.ends_with("signal"), name.starts_with("rlx"));
  if (name == "sem_acquire" || name == "sem_release")
    return useSemaphores(op, name == "sem_release");
  if (name == "flush")
    return flush(op);
  if (name == "put" || name == "ppkt")
    return isPort ? putByPort(op, name == "ppkt", false, false) : put(op, name == "ppkt", false);
  if (name == "pws" || name == "pwsf") {
    if (!isPort)
      refuse(op, fmt::format("{} on a memory channel: the executor puts there, and signals nobody", quote(name)));
    return putByPort(op, false, true, name == "pwsf");
  }
  if (name == "rppkt") {
    return isPort ? readPutByPort(op) : put(op, true, true);
  }
  if (name == "get")
    return get(op);
  if (name == "copy" || name == "upkt" || name == "cpkt")
    return copy(op, name == "upkt", name == "cpkt");
  static const std::map<std::string_view, std::tuple<bool, bool, size_t>> reductions{
      {"re", {false, false, 0}},    {"res", {false, true, 0}},   {"rre", {false, false, 0}},
      {"rres", {false, true, 0}},   {"repkt", {true, false, 0}}, {"respkt", {true, true, 0}},
      {"recpkt", {true, false, 1}}, {"recspkt", {true, true, 1}}};
  if (auto found = reductions.find(name); found != reductions.end())
    return std::apply([&](bool isPackets, bool isRemote, size_t number) { reduce(op, isPackets, isRemote, number); },
                      found->second);
  if (name == "glres" || name == "gstore" || name == "gstorepkt")
    refuse(op, fmt::format("{} is done by a switch, which Kolo has not", quote(name)));
  if (name == "pipeline")
    refuse(op, "'pipeline' cuts chunks by the bytes of a call: what it does is not known from the plan");
  refuse(op, fmt::format("{} is no operation of MSCCL++ 0.9", quote(name)));
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
                                     this->number(semaphore, "init_value", 0, mostChunks)});
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

std::variant<ForeignSchedule, Refusal> readPlan(const ForeignText &source, const std::string &path) {
  auto parsed = readPlanText(source);
  if (auto *refusal = std::get_if<Refusal>(&parsed))
    return std::move(*refusal);
  try {
    return PlanReader(std::get<PlanNode>(parsed), path).read();
  } catch (Refusal &refusal) {
    return std::move(refusal);
  }
}

} // namespace kolo::foreign
