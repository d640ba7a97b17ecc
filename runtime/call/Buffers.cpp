#include "call/Buffers.h"

#include "base/Error.h"
#include "call/RowLists.h"
#include "memory/Copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kolo::runtime {
namespace {

constexpr size_t alignmentBytes = 4096;
// Bytes of the buffers of one piece. Smaller pieces need more signals; larger copies leave the near caches.
constexpr int64_t pieceBytes = int64_t(512) << 10;
// Attach makes a system call for every transfer, which walks pages. Staging copies on each side, between the caches of
// two cores. Below these sizes staging is faster. Data that is combined also passes through a tile.
constexpr int64_t leastMovedBytes = int64_t(1) << 15, leastCombinedBytes = int64_t(1) << 18;

size_t alignedBytes(size_t sizeBytes) { return (sizeBytes + alignmentBytes - 1) / alignmentBytes * alignmentBytes; }

/// A window or other directly usable memory, else memory for cross-memory attach.
Location locateForPeers(const SegmentTable &segments, std::byte *pointer, size_t sizeBytes) {
  if (std::optional<Location> location = segments.locate(pointer, sizeBytes))
    return *location;
  Location location;
  location.kind = LocationKind::Attach;
  location.addressOrOffset = reinterpret_cast<uintptr_t>(pointer);
  location.sizeBytes = sizeBytes;
  return location;
}

/// Whether a staged call copies a buffer. A program without entry barrier copies both, because all its pieces must have
/// one shape: a smaller last piece would be another shape, before which all ranks must have left the previous piece. A
/// call with row lists copies both: then no program sees rows.
bool isCopied(const Call &call, size_t role) {
  return !call.info->enters || call.rows || (role == KOLO_INPUT ? call.info->sharesInput : call.info->sharesOutput);
}

int64_t wholeLines(const Call &call, int64_t count) {
  int64_t line = std::max<int64_t>(1, static_cast<int64_t>(cacheLineBytes) / call.elementBytes);
  return (count + line - 1) / line * line;
}

/// As few pieces as possible, of about one size. The result is the same on all ranks.
Result<Pieces> cutPublished(const Call &call) {
  int64_t count = call.key.count, most = count;
  auto fits = [&](int64_t each) { return call.publishedBytesFor(each) <= static_cast<int64_t>(publishedBytesPerTurn); };
  while (most > 0 && !fits(wholeLines(call, most)))
    most /= 2;
  if (most == 0 && count > 0)
    return error(StatusCode::InvalidArgument,
                 "program '{}' publishes {} bytes for one element; at most {} are possible", call.info->name,
                 call.publishedBytesFor(1), publishedBytesPerTurn);
  if (most == count)
    return Pieces{1, count};
  // Pieces would be cut into other chunks than the whole, and what is rounded where would change.
  if (call.info->granule != 0)
    return error(StatusCode::InvalidArgument,
                 "program '{}' has codecs and publishes {} bytes; at most {} are possible at once", call.info->name,
                 call.publishedBytesFor(count), publishedBytesPerTurn);
  int64_t each = wholeLines(call, most);
  return Pieces{(count + each - 1) / each, each};
}

/// The pieces of a staged call. The result is the same on all ranks, of which some may have row lists.
Pieces cut(const Call &call, Staging staging) {
  int64_t count = call.key.count;
  // To the program pieces are calls, and only its proof says that calls back to back are right.
  // With codecs, pieces would be cut into other chunks than the whole, and what is rounded where would change.
  if (staging != Staging::Pieces || !call.isProved || count == 0 || call.info->granule != 0)
    return {1, count};
  auto mayBeCopied = [&](size_t role) { return call.takesRows || isCopied(call, role); };
  int64_t copied =
      (mayBeCopied(KOLO_INPUT) ? call.largest.input : 0) + (mayBeCopied(KOLO_OUTPUT) ? call.largest.output : 0);
  int64_t elementBytes = copied * call.elementBytes + (static_cast<int64_t>(call.scratchBytes) + count - 1) / count;
  int64_t most = std::max<int64_t>(1, pieceBytes / elementBytes);
  if (count <= most)
    return {1, count};
  int64_t number = (count + most - 1) / most;
  int64_t each = wholeLines(call, (count + number - 1) / number);
  return {(count + each - 1) / each, each};
}

/// Reserves one range of the arena for all roles with a size.
Status reserveArena(Buffers &buffers, const size_t (&sizes)[KOLO_NUM_BUFFER_ROLES], const ArenaOf &memory) {
  size_t arenaBytes = 0;
  for (size_t sizeBytes : sizes) {
    if (sizeBytes > PTRDIFF_MAX - alignmentBytes || arenaBytes > PTRDIFF_MAX - alignedBytes(sizeBytes))
      return error(StatusCode::OutOfMemory, "the call needs more than {} bytes of scratch memory", PTRDIFF_MAX);
    arenaBytes += alignedBytes(sizeBytes);
  }
  if (arenaBytes == 0)
    return {};
  Result<std::byte *> reserved = memory.arena.reserve(memory.segments, memory.holding, arenaBytes);
  if (!reserved.isOk())
    return reserved.status();
  std::byte *next = *reserved;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    if (sizes[role] == 0)
      continue;
    buffers.local[role] = next;
    buffers.remote[role] = *memory.segments.locate(next, sizes[role]);
    next += alignedBytes(sizes[role]);
  }
  return {};
}

/// A buffer of the whole call, and the runtime's memory for one piece of it.
struct Strided {
  size_t role;
  std::byte *whole, *piece;
  int64_t numBlocks;
};

template <class Copy> void forEachBlock(const Call &call, const Pieces &pieces, int64_t number, Strided at, Copy copy) {
  int64_t begin = number * pieces.count;
  for (int64_t block = 0; block < at.numBlocks; ++block) {
    int64_t whole = call.bytesToBlock(at.role, block) + begin * call.elementBytes;
    std::byte *piece = at.piece + block * pieces.count * call.elementBytes;
    int64_t rest = elementsInPiece(call, pieces, number, at.role, block) * call.elementBytes;
    while (rest > 0) {
      const RowRange range = call.rows ? rangeOf(*call.rows, at.role, whole, rest) : RowRange{whole, rest};
      copy(at.whole + range.offsetBytes, piece, static_cast<size_t>(range.sizeBytes));
      whole += range.sizeBytes;
      piece += range.sizeBytes;
      rest -= range.sizeBytes;
    }
  }
}

} // namespace

/// A rank announces the places of input and output, if peers access its buffers. The same on all ranks.
static bool arePlacesAnnounced(const Call &call) {
  const size_t numBytes = static_cast<size_t>(call.largest.input + call.largest.output) * sizeof(int64_t);
  return !call.publishes && numBytes <= Announcement::maxPublishedBytes;
}

Result<std::byte *> Arena::reserve(SegmentTable &segments, Holding &holding, size_t sizeBytes) {
  if (Status status = holding.begin(); !status.isOk())
    return status;
  if (segment && segment->sizeBytes() >= sizeBytes)
    return segment->data();
  constexpr size_t leastBytes = size_t(1) << 16, mostDoubledBytes = size_t(1) << 26;
  size_t grown =
      sizeBytes <= mostDoubledBytes ? std::bit_ceil(std::max(sizeBytes, leastBytes)) : alignedBytes(sizeBytes);
  Result<std::unique_ptr<Segment>> created = holding.create(segments, grown);
  if (!created.isOk())
    return created.status();
  if (segment)
    replaced.push_back(std::move(segment));
  segment = std::move(created).value();
  return segment->data();
}

void Arena::dropReplaced(Holding &holding) {
  for (std::unique_ptr<Segment> &each : replaced)
    holding.drop(std::move(each));
  replaced.clear();
}

Staging stagingFor(const Call &call, const SegmentTable &segments, const MemoryRules &rules) {
  // Peers must know where blocks are: on other hosts, and of more blocks than are announced, they are in staged memory.
  const bool areBlocksKnown = !call.tables || (rules.hasOneHost && arePlacesAnnounced(call));
  bool isReachable = areBlocksKnown && (rules.isAlone || call.memoryKind(segments) == MemoryKind::Windows);
  // All ranks decide by the largest buffer of any rank, so that none attaches while another stages.
  bool isLarge = areBlocksKnown && call.largestBytes >= (call.info->reduces ? leastCombinedBytes : leastMovedBytes);
  bool isAttached = (rules.ordinaryMemory == OrdinaryMemory::Attach && areBlocksKnown) ||
                    (rules.ordinaryMemory == OrdinaryMemory::Auto && isLarge);
  if (isReachable || isAttached || !call.isShared())
    return call.mustCopyInput() ? Staging::Aside : Staging::None;
  return call.overlap() == Overlap::Other ? Staging::Whole : Staging::Pieces;
}

Status checkPublished(const Call &call) { return call.publishes ? cutPublished(call).status() : Status(); }

Result<Buffers> placeBuffers(const Call &call, Staging least, const ArenaOf &memory, const MemoryRules &rules) {
  Buffers buffers;
  buffers.wanted = stagingFor(call, memory.segments, rules);
  buffers.staging = std::max(least, buffers.wanted);
  if (!call.publishes) {
    buffers.pieces = cut(call, buffers.staging);
  } else {
    Result<Pieces> pieces = cutPublished(call);
    if (!pieces.isOk())
      return pieces.status();
    buffers.pieces = *pieces;
    buffers.publishesMuch = call.publishesMuch();
    buffers.publishedSlotBytes = alignedBytes(static_cast<size_t>(call.publishedBytesFor(buffers.pieces.count)));
  }
  int64_t scratchBytes = call.scratchBytesFor(buffers.pieces.count);
  if (scratchBytes < 0)
    return error(StatusCode::BadPlugin, "program '{}' asks for {} bytes of scratch memory", call.info->name,
                 scratchBytes);
  size_t sizes[KOLO_NUM_BUFFER_ROLES] = {0, 0, static_cast<size_t>(scratchBytes)}; // in the arena
  constexpr size_t addressBits = 56;                                               // no process has more
  if (isStaged(buffers.staging) && (call.inputBytes | call.outputBytes) >> addressBits)
    return error(StatusCode::OutOfMemory, "buffers of {} and {} bytes are too large", call.inputBytes,
                 call.outputBytes);
  auto blockBytes = static_cast<size_t>(buffers.pieces.count * call.elementBytes);
  buffers.isInputAside = call.mustCopyInput() && !(isStaged(buffers.staging) && isCopied(call, KOLO_INPUT));
  if (call.overlap() == Overlap::Other && !buffers.isInputAside && buffers.pieces.number > 1)
    return error(StatusCode::InvalidArgument,
                 "input and output overlap, and program '{}' publishes them piece by piece", call.info->name);
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    bool isInput = role == KOLO_INPUT, isShared = isInput ? call.info->sharesInput : call.info->sharesOutput;
    size_t wholeBytes = isInput ? call.inputBytes : call.outputBytes;
    std::byte *whole = isInput ? call.input : call.output;
    buffers.isCopied[role] = isStaged(buffers.staging) && isCopied(call, role);
    if (buffers.isCopied[role])
      sizes[role] = static_cast<size_t>(isInput ? call.extent.input : call.extent.output) * blockBytes;
    else if (isInput && buffers.isInputAside)
      sizes[role] = wholeBytes;
    else
      buffers.local[role] = wholeBytes ? whole : nullptr;
    if (sizes[role] == 0 && wholeBytes && isShared)
      buffers.remote[role] = locateForPeers(memory.segments, whole, wholeBytes);
  }
  buffers.mustBypassCaches = call.accessedBytes() > rules.cachedBytes;
  buffers.exceedCaches = buffers.mustBypassCaches;
  if (buffers.isCopied[KOLO_OUTPUT])
    buffers.exceedCaches = sizes[KOLO_INPUT] + sizes[KOLO_OUTPUT] > rules.cachedBytes;
  buffers.sharesPlaces = call.tables && call.isShared() && !isStaged(buffers.staging);
  if (size_t sharedBytes = sizes[KOLO_SCRATCH] + sizes[KOLO_OUTPUT]; buffers.pieces.count > 0)
    buffers.sharedElementBytes = sharedBytes / static_cast<size_t>(buffers.pieces.count);
  if (Status status = reserveArena(buffers, sizes, memory); !status.isOk())
    return status;
  return buffers;
}

void copyInput(const Call &call, std::byte *aside) {
  if (!call.tables) {
    std::memcpy(aside, call.input, call.inputBytes);
    return;
  }
  for (int64_t block = 0; block < call.extent.input; ++block)
    if (int64_t count = call.countOf(KOLO_INPUT, block); count > 0)
      std::memcpy(aside + call.bytesToBlock(KOLO_INPUT, block), call.input + call.bytesToBlock(KOLO_INPUT, block),
                  static_cast<size_t>(count * call.elementBytes));
}

int64_t elementsInPiece(const Call &call, const Pieces &pieces, int64_t piece, size_t role, int64_t block) {
  return std::clamp<int64_t>(call.countOf(role, block) - piece * pieces.count, 0, pieces.count);
}

int64_t pieceCount(const Call &call, const Pieces &pieces, int64_t piece) {
  return call.info->enters ? std::min(pieces.count, call.key.count - piece * pieces.count) : pieces.count;
}

void Buffers::copyIn(const Call &call, int64_t piece, StoreChoice &stores) const {
  auto *staged = static_cast<std::byte *>(local[KOLO_INPUT]);
  if (isInputAside && piece == 0)
    copyInput(call, staged);
  if (!isCopied[KOLO_INPUT] || !call.inputBytes)
    return;
  size_t sizeBytes = 0;
  for (int64_t block = 0; block < call.extent.input; ++block)
    sizeBytes += static_cast<size_t>(elementsInPiece(call, pieces, piece, KOLO_INPUT, block) * call.elementBytes);
  stores.run(sizeBytes, [&](bool isNonTemporal) {
    auto copy = isNonTemporal ? copyNonTemporal : copyCached;
    forEachBlock(call, pieces, piece, {KOLO_INPUT, call.input, staged, call.extent.input},
                 [&](std::byte *whole, std::byte *block, size_t blockBytes) { copy(block, whole, blockBytes); });
  });
}

void Buffers::copyOut(const Call &call, int64_t piece) const {
  if (!isCopied[KOLO_OUTPUT] || !call.outputBytes)
    return;
  auto copy = mustBypassCaches ? copyNonTemporal : copyCached;
  forEachBlock(call, pieces, piece,
               {KOLO_OUTPUT, call.output, static_cast<std::byte *>(local[KOLO_OUTPUT]), call.extent.output}, copy);
}

} // namespace kolo::runtime
