// What one operation of a plan does, in actions of the threads of its block.
#include "compiler/import/PlanReader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace kolo::foreign::plan {

static std::span<const PlanNode> buffers(const PlanNode &op, const char *name, size_t least) {
  std::span<const PlanNode> all = list(op, name);
  if (all.size() < least)
    refuse(op, fmt::format("{} has {} of '{}', and needs {}", quote(text(op, "name")), all.size(), name, least));
  return all;
}

static void checkCount(const PlanNode &op, int32_t count, int32_t other) {
  if (count != other)
    refuse(op, fmt::format("{} moves {} chunks to a place for {}", quote(text(op, "name")), count, other));
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
  int32_t told = schedule.numEvents++;
  control(op).raises = {told};
  Action &done = add(proxy, op);
  done.waits = {told};
  return done;
}

/// __syncthreads, and of a barrier also a meeting of blocks.
void PlanReader::synchronise(const PlanNode &op, bool isBarrier) {
  std::vector<int32_t> all{schedule.numEvents++, schedule.numEvents++};
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
        found->second = schedule.numEvents++;
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

} // namespace kolo::foreign::plan
