#include "EmulatedRanks.h"

#include "targets/TableKernels.h"

#include <algorithm>
#include <random>
#include <thread>

namespace kolo::test {
using reference::Bytes;

void EmulatedRanks::place(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto elementBytes = size_t(reference::elementBytes(call.type));
  const reference::SimulatedCall &simulated = simulatedCalls.front();
  size_t largest = 0;
  for (const Bytes &output : simulated.outputs)
    largest = std::max(largest, output.size());
  for (const Bytes &input : simulated.inputs)
    largest = std::max(largest, input.size());
  // How much memory of its own a program takes, its host code knows, which is not here.
  size_t numBuffers[KOLO_NUM_BUFFER_ROLES + 1] = {}; // inboxes last
  for (BufferOp buffer : program.program.getBody().getOps<BufferOp>())
    ++numBuffers[size_t(buffer.getRole())];
  size_t mostParts = numRanks * numRanks * numRanks * size_t(shape.lanes);
  const PacketFormat &format = program.format;
  packetBytes = numBuffers[KOLO_PACKETS] * size_t(format.bytes) *
                ((largest + 64 * numRanks) * numRanks / size_t(format.dataBytes) + mostParts);
  size_t unitBytes = findCoded(program.program) ? 16384 : 4096;
  const size_t ownBytes = (largest + unitBytes) * (numRanks + 2) * 4;
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    buffers[role].clear(), addresses[role].clear();
    for (size_t rank = 0; rank < numRanks; ++rank) {
      size_t size = role == KOLO_INPUT      ? simulated.inputs[rank].size()
                    : role == KOLO_OUTPUT   ? simulated.outputs[rank].size()
                    : role == KOLO_PACKETS  ? 2 * packetBytes
                    : numBuffers[role] == 0 ? 0
                                            : ownBytes;
      buffers[role].emplace_back(size, elementBytes, role == KOLO_INPUT || role == KOLO_OUTPUT ? random() % 20 : 0);
    }
  }
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
    for (Guarded &buffer : buffers[isInPlace && role == KOLO_INPUT ? int(KOLO_OUTPUT) : role])
      addresses[role].push_back(buffer.data());
  inboxes.clear();
  inboxBytes = network && numBuffers[size_t(BufferRole::Inbox)] ? ownBytes : 0;
  for (size_t rank = 0; network && rank < numRanks; ++rank)
    inboxes.emplace_back(inboxBytes, 1, 0);
  if (network)
    mapPeers();
  for (size_t rank = 0; rank < numRanks; ++rank) {
    buffers[KOLO_PACKETS][rank].fill(Bytes(2 * packetBytes));
    std::ranges::fill(numCalls[rank], 0);
    std::ranges::fill(packetCalls[rank], 0);
  }
}

void EmulatedRanks::placeOn(std::vector<int> ofRanks) {
  const EmulatedNetwork::Size size = {numRanks, size_t(shape.lanes), size_t(program.program.getSemaphores())};
  network = std::make_unique<EmulatedNetwork>(size, std::move(ofRanks));
}

/// Ranks of other hosts have no addresses here.
void EmulatedRanks::mapPeers() {
  std::vector<void *> ofInboxes;
  for (Guarded &inbox : inboxes)
    ofInboxes.push_back(inbox.data());
  for (auto &tables : mapped)
    tables.clear();
  mappedInboxes.clear(), mappedSemaphores.clear();
  for (size_t rank = 0; rank < numRanks; ++rank) {
    for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      mapped[role].push_back(network->seenBy(rank, addresses[role]));
    mappedInboxes.push_back(network->seenBy(rank, ofInboxes));
    mappedSemaphores.push_back(network->seenBy(rank, peerSemaphores));
  }
}

KoloDeviceNetworkInvocation EmulatedRanks::describeAmongHosts(size_t rank) {
  KoloDeviceNetworkInvocation invocation = {};
  invocation.call = describe(rank);
  if (!network)
    return invocation;
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
    invocation.call.peers[role] = mapped[role][rank].data();
  invocation.call.peerSemaphores = mappedSemaphores[rank].data();
  invocation.inbox = inboxes[rank].data();
  invocation.peerInboxes = mappedInboxes[rank].data();
  network->describe(rank, invocation);
  return invocation;
}

void EmulatedRanks::placeBlocks() {
  for (auto role : {BufferRole::Input, BufferRole::Output}) {
    const auto side = size_t(role);
    blockPlaces[side].assign(numRanks, {});
    peerPlaces[side].clear();
    for (size_t rank = 0; rank < numRanks; ++rank) {
      for (int64_t block = 0; block < reference::numBlocks(call, role); ++block)
        blockPlaces[side][rank].push_back(reference::blockRange(call, role, int64_t(rank), block).begin);
      peerPlaces[side].push_back(blockPlaces[side][rank].data());
    }
  }
}

KoloDeviceInvocation EmulatedRanks::describe(size_t rank) {
  KoloDeviceInvocation invocation = {};
  std::ranges::fill(invocation.dimSizes, 1);
  std::ranges::copy(call.meshSizes, invocation.dimSizes);
  std::ranges::copy(reference::coordinatesOf(call, int64_t(rank)), invocation.coordinates);
  invocation.rank = int64_t(rank), invocation.numRanks = int64_t(numRanks);
  invocation.count = call.count, invocation.elementBytes = reference::elementBytes(call.type);
  invocation.root = call.root;
  invocation.type = int64_t(call.type), invocation.reduction = int64_t(call.reduction);
  for (int role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    invocation.local[role] = addresses[role][rank];
    invocation.peers[role] = addresses[role].data();
  }
  invocation.peerSemaphores = peerSemaphores.data();
  invocation.semaphores = semaphores[rank].data(), invocation.sent = sent[rank].data();
  invocation.awaited = awaited[rank].data(), invocation.abort = &abort;
  invocation.calls = numCalls[rank].data();
  invocation.packetCalls = packetCalls[rank].data(), invocation.packetBytes = int64_t(packetBytes);
  invocation.failures = failures[rank].data(), invocation.timeoutNs = timeoutNs;
  std::ranges::transform(invocation.dimSizes, invocation.dimReciprocals, kolo_reciprocal);
  invocation.laneReciprocal = kolo_reciprocal(shape.lanes);
  if (!reference::hasTables(call))
    return invocation;
  for (auto [side, counts] : {std::pair(KOLO_INPUT, &call.inputCounts), {KOLO_OUTPUT, &call.outputCounts}}) {
    invocation.blockCounts[side] = (*counts)[rank].data();
    invocation.blockPlaces[side] = blockPlaces[side][rank].data();
    invocation.peerPlaces[side] = peerPlaces[side].data();
  }
  return invocation;
}

void EmulatedRanks::runRank(size_t rank, const Check &check, std::string &wrong) {
  const KoloDeviceNetworkInvocation invocation = describeAmongHosts(rank);
  const std::string kernel = reference::hasTables(call) ? tableKernelName(program.name) : program.name;
  for (size_t number = 0; number < simulatedCalls.size(); ++number) {
    const reference::SimulatedCall &simulated = simulatedCalls[number];
    buffers[KOLO_INPUT][rank].fill(simulated.inputs[rank]);
    buffers[KOLO_OUTPUT][rank].fill(isInPlace ? simulated.inputs[rank] : simulated.outputs[rank]);
    program.emulator->launch(kernel, shape, invocation.call);
    if (std::ranges::any_of(failures[rank], [](const KoloDeviceFailure &failure) { return failure.code != 0; })) {
      wrong = "rank " + std::to_string(rank) + " failed";
      return;
    }
    wrong += check(number, rank, buffers[KOLO_OUTPUT][rank].content());
    if (buffers[KOLO_INPUT][rank].content() != simulated.inputs[rank])
      wrong += "the input has changed";
    for (auto &role : buffers)
      if (!role[rank].isIntact())
        wrong += "something beside a buffer has changed";
    if (network && !inboxes[rank].isIntact())
      wrong += "something beside an inbox has changed";
  }
}

std::string EmulatedRanks::run(int numBackToBack, uint64_t seed, const TakesPart &takesPart) {
  simulatedCalls.clear();
  for (int number = 0; number < numBackToBack; ++number) {
    reference::SimulatedCall &simulated = simulatedCalls.emplace_back(reference::makeSimulatedCall(call));
    reference::tagInput(simulated, seed + uint64_t(number));
    reference::poisonOutputs(simulated);
  }
  auto check = [&](size_t number, size_t rank, const Bytes &output) {
    llvm::Error problem = reference::checkOutput(simulatedCalls[number], int64_t(rank), output);
    return problem ? llvm::toString(std::move(problem)) : "";
  };
  return runAll(seed, check, takesPart);
}

std::string EmulatedRanks::run(const std::vector<reference::SimulatedCall> &calls, const std::vector<Outputs> &expected,
                               uint64_t seed) {
  simulatedCalls = calls;
  auto check = [&](size_t number, size_t rank, const Bytes &output) -> std::string {
    const std::optional<Bytes> &wanted = expected[number][rank];
    if (!wanted || *wanted == output)
      return "";
    auto place = std::ranges::mismatch(*wanted, output).in1 - wanted->begin();
    return "call " + std::to_string(number) + ", rank " + std::to_string(rank) + ": element " +
           std::to_string(place / reference::elementBytes(call.type)) + " differs";
  };
  return runAll(seed, check, all);
}

std::string EmulatedRanks::runAll(uint64_t seed, const Check &check, const TakesPart &takesPart) {
  place(seed);
  placeBlocks();
  std::vector<std::string> wrong(numRanks);
  std::vector<std::byte *> ofInboxes;
  for (Guarded &inbox : inboxes)
    ofInboxes.push_back(static_cast<std::byte *>(inbox.data()));
  if (network)
    network->start(ofInboxes, inboxBytes, seed);
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < numRanks; ++rank)
      if (takesPart(rank))
        ranks.emplace_back([&, rank] { runRank(rank, check, wrong[rank]); });
  }
  std::string together = network ? network->stop() : "";
  for (const std::string &text : wrong)
    together += text.empty() ? "" : text + "\n";
  return together;
}

} // namespace kolo::test
