// Where the buffers of a call are for all ranks: in windows, or in internal memory piece by piece. Every rank decides
// that alone, from what ranks must agree on.
#include "device/DeviceState.h"

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

/// The memory by which a plugin selects a program: see DeviceCommunicator::run. A buffer that only the root has counts
/// for nothing, because other ranks do not know where it is.
MemoryKind DeviceState::memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const {
  if (!meeting)
    return MemoryKind::Windows;
  CollectiveFacts facts = factsOf(collective);
  bool isOutside = (!isAtRoot(facts.input) && windowAt(buffers.front().input) == 0) ||
                   (!isAtRoot(facts.output) && windowAt(buffers.front().output) == 0);
  return isOutside ? MemoryKind::Ordinary : MemoryKind::Windows;
}

Status DeviceState::placeBuffers(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  plan.isWhole = call.info->granule != 0 || !call.isProved;
  plan.pieces.count = call.key.count;
  if (!meeting)
    return {};
  const CollectiveFacts facts = factsOf(call.info->collective);
  const LocatedBuffers &own = plan.buffers.front();
  auto mustStage = [](bool isShared, KoloExtent extent, uint64_t window) {
    return isShared && (isAtRoot(extent) || window == 0);
  };
  plan.isStaged =
      call.isShared() && (call.key.count == 0 || mustStage(call.info->sharesInput, facts.input, own.inputWindow) ||
                          mustStage(call.info->sharesOutput, facts.output, own.outputWindow) ||
                          (call.info->sharesInput && call.mustCopyInput()));
  if (plan.isStaged) {
    cutIntoPieces(plan);
    return {};
  }
  return placeInWindows(plan);
}

/// Notes the places that ranks must agree on. In a call in place, a buffer that is one block of the other one counts as
/// if it were at the other one's begin.
Status DeviceState::placeInWindows(DevicePlan &plan) const {
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
    size_t offset = offsetOf(placeOf(role.window, role.address));
    size_t rest = findWindow(role.window)->sizeBytes() - offset;
    if (role.sizeBytes > rest)
      return error(StatusCode::InvalidArgument, "{} has {} bytes, and only {} are left in its window", role.name,
                   role.sizeBytes, rest);
  }
  if (call.info->sharesInput)
    plan.key.input = isInPlace && isBlockOf(facts.input, facts.output) ? placeOf(own.inputWindow, call.output)
                                                                       : placeOf(own.inputWindow, call.input);
  if (call.info->sharesOutput)
    plan.key.output = isInPlace && isBlockOf(facts.output, facts.input) ? placeOf(own.outputWindow, call.input)
                                                                        : placeOf(own.outputWindow, call.output);
  return {};
}

void DeviceState::cutIntoPieces(DevicePlan &plan) const {
  const Call &call = plan.calls.front();
  const int64_t count = call.key.count;
  const int64_t blocks = std::max<int64_t>({call.largest.input, call.largest.output, 1});
  int64_t perPiece = static_cast<int64_t>(stagedInput[0].sizeBytes) / (blocks * call.elementBytes);
  constexpr int64_t rounding = 64; // keeps the beginnings of pieces aligned
  perPiece -= perPiece % rounding;
  if (plan.isWhole || count <= perPiece || perPiece == 0) // in one piece, with staging of its own if it needs that
    return;
  plan.pieces.count = perPiece;
  plan.rest.count = count % perPiece;
}

/// The address of a buffer of `rank`, as mapped here. Null: nobody here accesses it.
void *DeviceState::bufferOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn, size_t role,
                            int rank) const {
  if (role == KOLO_SCRATCH)
    return heap.at(pieces.shape->scratch, rank);
  if (role == KOLO_PACKETS)
    return heap.at(pieces.shape->packets, rank);
  const bool isInput = role == KOLO_INPUT;
  if (plan.isStaged) {
    const HeapBlock &ownStaging = isInput ? pieces.shape->input : pieces.shape->output;
    return heap.at(ownStaging.sizeBytes ? ownStaging : (isInput ? stagedInput : stagedOutput)[turn], rank);
  }
  if (!meeting || rank == meeting->rank()) {
    size_t local = meeting ? 0 : static_cast<size_t>(rank);
    return isInput ? plan.inputOf(local) : plan.calls[local].output;
  }
  const Call &call = plan.calls.front();
  DevicePlace place = isInput ? plan.key.input : plan.key.output;
  if (place == 0)
    return nullptr;
  const CollectiveFacts facts = factsOf(call.info->collective);
  bool isBlock = call.overlap() == Overlap::InPlace &&
                 (isInput ? isBlockOf(facts.input, facts.output) : isBlockOf(facts.output, facts.input));
  int64_t shift = isBlock ? groupRankOf(call, rank) * call.unitBytes() : 0;
  void *begin = findWindow(windowOf(place))->mapped.bases[static_cast<size_t>(rank)];
  return static_cast<std::byte *>(begin) + offsetOf(place) + shift;
}

TableAddresses DeviceState::addressesOf(const DevicePlan &plan, const DevicePlan::Pieces &pieces, size_t turn) const {
  TableAddresses addresses;
  addresses.abort = static_cast<uint64_t *>(abortFlag.data());
  addresses.timeoutNs = static_cast<uint64_t>(options.timeoutMs) * nanosecondsPerMs;
  addresses.numLanes = options.lanes;
  addresses.count = pieces.count;
  for (int rank = 0; rank < numRanks; ++rank) {
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role)
      addresses.buffers[role].push_back(bufferOf(plan, pieces, turn, role, rank));
    addresses.semaphores.push_back(heap.at(plan.program->semaphores, rank));
  }
  return addresses;
}

/// Makes the tables of pieces, or takes those of an earlier staged call, which differs in the user's buffers alone.
Status DeviceState::writeTables(DevicePlan &plan, DevicePlan::Pieces &pieces) {
  auto write = [&](size_t turn) {
    std::shared_ptr<DeviceTable> spare;
    if (!spareTables.empty()) {
      spare = std::move(spareTables.back());
      spareTables.pop_back();
    }
    return writeTable(plan, *pieces.shape, locals, devices, addressesOf(plan, pieces, turn), std::move(spare));
  };
  const CallKey &key = plan.calls.front().key;
  auto known = pieces.shape->staged.find({key.type, key.reduction});
  if (plan.isStaged && known != pieces.shape->staged.end()) {
    pieces.tables = known->second;
    return {};
  }
  for (size_t turn = 0; turn < (plan.isStaged ? 2 : 1); ++turn) {
    Result<std::shared_ptr<DeviceTable>> table = write(turn);
    if (!table.isOk())
      return table.status();
    pieces.tables[turn] = std::move(table).value();
  }
  if (plan.isStaged)
    pieces.shape->staged[{key.type, key.reduction}] = pieces.tables;
  else
    pieces.tables[1] = pieces.tables[0];
  return {};
}

} // namespace kolo::runtime
