#include "device/DevicePlaces.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

constexpr uint64_t nanosecondsPerMs = 1000000;

/// The number of a rank inside its group, as in planCall.
int64_t groupRankOf(const Call &call, int64_t rank) {
  int64_t coordinates[KOLO_MAX_MESH_DIMS] = {}, inGroup = 0;
  for (size_t dim = KOLO_MAX_MESH_DIMS; dim-- > 0; rank /= call.dimSizes[dim])
    coordinates[dim] = rank % call.dimSizes[dim];
  for (int dim : call.info->groupDims)
    inGroup = inGroup * call.dimSizes[dim] + coordinates[dim];
  return inGroup;
}

/// Of a call in place: the buffer of one block that lies inside the other one, at this rank's block.
bool isBlockOf(KoloExtent own, KoloExtent other) { return !isPerRank(own) && isPerRank(other); }

} // namespace

MemoryKind DevicePlaces::memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const {
  if (!ranks.meeting)
    return MemoryKind::Windows;
  bool isOutside = (isEverywhere(collective, KOLO_INPUT) && windows.numberAt(buffers.front().input) == 0) ||
                   (isEverywhere(collective, KOLO_OUTPUT) && windows.numberAt(buffers.front().output) == 0);
  return isOutside ? MemoryKind::Ordinary : MemoryKind::Windows;
}

LocatedBuffers DevicePlaces::locate(const RankBuffers &own) const {
  if (!ranks.meeting)
    return {own.input, own.output, 0, 0, own.blocks};
  return {own.input, own.output, windows.numberAt(own.input), windows.numberAt(own.output), own.blocks};
}

Status DevicePlaces::placeBuffers(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  plan.isWhole = call.info->granule != 0 || !call.isProved || call.tables;
  plan.pieces.count = call.key.count;
  if (!ranks.meeting)
    return {};
  const CollectiveKind kind = call.info->collective;
  const LocatedBuffers &own = plan.buffers.front();
  auto mustStage = [](bool isShared, bool isOnAllRanks, uint64_t window) {
    return isShared && (!isOnAllRanks || window == 0);
  };
  plan.isStaged =
      call.isShared() &&
      (call.key.count == 0 || mustStage(call.info->sharesInput, isEverywhere(kind, KOLO_INPUT), own.inputWindow) ||
       mustStage(call.info->sharesOutput, isEverywhere(kind, KOLO_OUTPUT), own.outputWindow) ||
       (call.info->sharesInput && call.mustCopyInput()));
  if (plan.isStaged) {
    cutIntoPieces(plan);
    return {};
  }
  if (Status status = placeInWindows(plan); !status.isOk() || !call.tables || !call.isShared())
    return status;
  return placeBlocks(plan);
}

/// Ranks then agree on windows alone, and their buffers may be anywhere in these.
Status DevicePlaces::placeBlocks(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  const LocatedBuffers &own = plan.buffers.front();
  std::array<int64_t, 2> &fromWindow = plan.windowElements.emplace();
  const struct {
    const char *name;
    bool isShared;
    uint64_t window;
    const std::byte *address;
    DevicePlace &place;
  } roles[] = {{"input", call.info->sharesInput, own.inputWindow, call.input, plan.key.input},
               {"output", call.info->sharesOutput, own.outputWindow, call.output, plan.key.output}};
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    const auto &[name, isShared, window, address, place] = roles[role];
    if (!isShared)
      continue;
    const auto offset = static_cast<int64_t>(offsetOf(windows.placeOf(window, address)));
    if (offset % call.elementBytes != 0)
      return error(
          StatusCode::InvalidArgument,
          "{} begins at byte {} of its window, which is no multiple of {}: a call with block tables needs that", name,
          offset, call.elementBytes);
    fromWindow[role] = offset / call.elementBytes;
    place = placeAt(window, 0);
  }
  return {};
}

/// Notes the places that ranks must agree on. In a call in place, a buffer that is one block of the other one counts as
/// if it were at the other one's begin.
Status DevicePlaces::placeInWindows(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  const LocatedBuffers &own = plan.buffers.front();
  const CollectiveFacts facts = factsOf(call.info->collective);
  const bool isInPlace = call.overlap() == Overlap::InPlace;
  const struct {
    const char *name;
    bool isShared;
    uint64_t window;
    const std::byte *address;
    size_t sizeBytes;
  } roles[] = {{"input", call.info->sharesInput, own.inputWindow, call.input, call.inputBytes},
               {"output", call.info->sharesOutput, own.outputWindow, call.output, call.outputBytes}};
  for (const auto &role : roles) {
    if (!role.isShared)
      continue;
    if (size_t left = windows.leftAt(windows.placeOf(role.window, role.address)); role.sizeBytes > left)
      return error(StatusCode::InvalidArgument, "{} has {} bytes, and only {} are left in its window", role.name,
                   role.sizeBytes, left);
  }
  if (call.info->sharesInput)
    plan.key.input =
        windows.placeOf(own.inputWindow, isInPlace && isBlockOf(facts.input, facts.output) ? call.output : call.input);
  if (call.info->sharesOutput)
    plan.key.output =
        windows.placeOf(own.outputWindow, isInPlace && isBlockOf(facts.output, facts.input) ? call.input : call.output);
  return {};
}

void DevicePlaces::cutIntoPieces(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  const int64_t count = call.key.count;
  const int64_t blocks = std::max<int64_t>({call.largest.input, call.largest.output, 1});
  int64_t perPiece = static_cast<int64_t>(resources.stagingBytes()) / (blocks * call.elementBytes);
  constexpr int64_t rounding = 64; // keeps the beginnings of pieces aligned
  perPiece -= perPiece % rounding;
  if (plan.isWhole || count <= perPiece || perPiece == 0) // in one piece, with staging of its own if it needs that
    return;
  plan.pieces.count = perPiece;
  plan.rest.count = count % perPiece;
}

void *DevicePlaces::bufferOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn, size_t role,
                             int rank) const {
  const size_t place = ranks.placeHere(rank);
  if (role == KOLO_SCRATCH)
    return resources.at(pieces.shape->scratch, place);
  if (role == KOLO_PACKETS)
    return resources.at(pieces.shape->packets, place);
  const bool isInput = role == KOLO_INPUT;
  if (!plan.isStaged)
    return userBufferOf(plan, isInput, rank);
  const HeapBlock &ownStaging = isInput ? pieces.shape->input : pieces.shape->output;
  return resources.at(ownStaging.sizeBytes ? ownStaging : resources.staging(isInput, turn), place);
}

void *DevicePlaces::userBufferOf(const DevicePlan &plan, bool isInput, int rank) const {
  if (!ranks.meeting || rank == ranks.meeting->rank()) {
    size_t local = ranks.meeting ? 0 : static_cast<size_t>(rank);
    return isInput ? plan.inputOf(local) : plan.calls[local].output;
  }
  const Call &call = plan.calls.front();
  DevicePlace place = isInput ? plan.key.input : plan.key.output;
  if (place == 0)
    return nullptr;
  const CollectiveFacts facts = factsOf(call.info->collective);
  bool isBlock = !call.tables && call.overlap() == Overlap::InPlace &&
                 (isInput ? isBlockOf(facts.input, facts.output) : isBlockOf(facts.output, facts.input));
  std::byte *begin = windows.addressAt(place, rank);
  return isBlock ? begin + groupRankOf(call, rank) * call.unitBytes() : begin;
}

/// What the stream of `rank` copies there before it launches; null: this process has the places.
void *DevicePlaces::placesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t role, int rank) const {
  if (!plan.sharesPlaces() || rank == ranks.numbers.front() || ranks.isRemote(rank))
    return nullptr;
  auto *shared = static_cast<std::byte *>(resources.at(pieces.shape->places, ranks.placeHere(rank)));
  return shared + role * static_cast<size_t>(ranks.size) * sizeof(int64_t);
}

TableAddresses DevicePlaces::addressesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn) const {
  TableAddresses addresses;
  addresses.timeoutNs = static_cast<uint64_t>(ranks.options.timeoutMs) * nanosecondsPerMs;
  addresses.mostLanes = static_cast<size_t>(ranks.mostLanes());
  addresses.count = pieces.count;
  for (int rank : ranks.ranksHere()) {
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      addresses.buffers[role].push_back(bufferOf(plan, pieces, turn, role, rank));
    addresses.semaphores.push_back(resources.at(plan.program->semaphores, ranks.placeHere(rank)));
    addresses.inboxes.push_back(resources.hostNetwork().at(pieces.shape->inbox, ranks.placeHere(rank)));
  }
  for (int rank = 0; plan.hasBlocks() && rank < ranks.size; ++rank)
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
      addresses.peerPlaces[role].push_back(placesOf(plan, pieces, role, rank));
  if (!plan.isForNetwork())
    return addresses;
  addresses.network = resources.hostNetwork().addressesOf(pieces.shape->inbox);
  addresses.numHere = static_cast<int64_t>(addresses.semaphores.size());
  for (std::vector<void *> &ofRanks : addresses.buffers)
    ofRanks.push_back(nullptr);
  for (std::vector<void *> *ofRanks : {&addresses.semaphores, &addresses.inboxes})
    ofRanks->push_back(nullptr);
  return addresses;
}

} // namespace kolo::runtime
