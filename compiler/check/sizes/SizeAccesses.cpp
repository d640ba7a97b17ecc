// The moves of a run: what they access, and what chunks hold then.
#include "compiler/check/sizes/SizeRun.h"

using namespace mlir;

namespace kolo::sizes {

std::vector<SmallVector<int64_t, 4>> SizeRun::indicesOf(const Box &box) const {
  std::vector<SmallVector<int64_t, 4>> result(1);
  const Buffer &buffer = buffers[box.buffer];
  for (size_t gridDim = 0; gridDim < box.offsets.size(); ++gridDim) {
    std::vector<SmallVector<int64_t, 4>> longer;
    for (const SmallVector<int64_t, 4> &indices : result)
      for (int64_t i = 0; i < box.sizes[gridDim]; ++i) {
        longer.push_back(indices);
        bool isGrown = gridDim == buffer.grownDim;
        longer.back().push_back(isGrown ? 0 : (box.offsets[gridDim] + i) % buffer.extents[gridDim].constant);
      }
    result = std::move(longer);
  }
  return result;
}

size_t SizeRun::cellNumber(size_t number, ArrayRef<int64_t> indices, int64_t part) const {
  const Buffer &buffer = buffers[number];
  size_t cell = 0;
  for (auto [gridDim, index] : llvm::enumerate(indices))
    if (gridDim != buffer.grownDim)
      cell = cell * size_t(buffer.extents[gridDim].constant) + size_t(index);
  return buffer.firstCell + cell * size_t(buffer.numParts) + size_t(part);
}

std::optional<int64_t> SizeRun::partOf(Value part, int64_t orbit) {
  std::optional<int64_t> number = part ? tables[size_t(orbit)].at(part).asConstant() : std::optional<int64_t>(0);
  if (!number)
    fail("a part is not the same for all sizes");
  return number;
}

/// As the owner sees it, who is `owner.place` from this rank.
std::optional<SizeRun::Box> SizeRun::boxOf(Operation *op, Value value, OperandRange offsets, OperandRange sizes,
                                           int64_t orbit, const Peer &owner) {
  Box box;
  box.buffer = bufferNumbers.at(value);
  const Buffer &buffer = buffers[box.buffer];
  const IndexTable &table = tables[size_t(orbit)];
  for (auto [gridDim, offsetValue, sizeValue] : llvm::enumerate(offsets, sizes)) {
    Index offset = table.at(offsetValue), size = table.at(sizeValue);
    const Affine &extent = buffer.extents[gridDim];
    if (!size.isSame()) {
      fail("a move takes a number of chunks that is not affine in the size");
      return std::nullopt;
    }
    if (isRanged(sizeValue))
      box.ranges.push_back(size.rest);
    if (gridDim != buffer.grownDim) {
      std::optional<int64_t> number = size.asConstant(), first;
      if (extent.constant == 0)
        first = 0;
      else if (offset.isSame())
        first = decisions.residues.modulo(offset.rest, extent.constant);
      if (!first || !number || *number < 0 || *number > extent.constant) {
        fail("a move takes chunks of '" + buffer.name + "' that are not the same for all sizes");
        return std::nullopt;
      }
      box.offsets.push_back(*first);
      box.sizes.push_back(*number);
      continue;
    }
    box.offsets.push_back(0);
    box.sizes.push_back(1);
    bool isFromFirst = offset.asConstant() == 0;
    bool isAtRank = offset.kind != Index::Kind::Unknown && offset.scale == 1;
    if (size.rest == extent) {
      box.grown = Box::Grown::All;
      box.isPlaceAbsolute = isFromFirst;
      box.place = isAtRank ? offset.part + offset.rest : Affine(0);
      if (isFromFirst || (isAtRank && buffer.isMoved))
        continue;
    } else if (size.asConstant() == 1) {
      box.grown = Box::Grown::Point;
      if (buffer.isMoved && isAtRank) {
        box.place = decisions.reduce(offset.part + offset.rest - owner.place);
        continue;
      }
      if (!buffer.isMoved && offset.isSame() && decisions.region.isAtLeast(offset.rest, 0) &&
          decisions.region.isAtLeast(extent - offset.rest, 1)) {
        box.place = offset.rest;
        continue;
      }
    }
    fail("a move takes chunks of '" + buffer.name +
         "' that are not at the same distance from every rank along the dimension");
    return std::nullopt;
  }
  if (!alias || alias->inside != box.buffer)
    return box;
  Box around = box;
  around.buffer = alias->around;
  if (alias->isOwnBlock) {
    around.offsets.clear();
    around.sizes.clear();
    const Buffer &whole = buffers[alias->around];
    for (auto [gridDim, meshDim] : llvm::enumerate(program.getCollective().getGroupDims())) {
      bool isGrown = size_t(meshDim) == setting.dim;
      around.offsets.push_back(isGrown ? 0 : coordinates[size_t(owner.orbit)][size_t(meshDim)]);
      around.sizes.push_back(1);
      if (!isGrown)
        continue;
      if (box.grown != Box::Grown::None || whole.grownDim != gridDim) {
        fail("a move takes chunks of a call in place that grow in two ways");
        return std::nullopt;
      }
      around.grown = Box::Grown::Point;
      around.place = 0; // the owner's own
    }
    llvm::append_range(around.offsets, box.offsets);
    llvm::append_range(around.sizes, box.sizes);
  }
  return around;
}

/// Whether the slices have equal shapes, and the chunks that are moved onto each other equal sizes.
bool SizeRun::arePaired(Operation *op, const Box &source, const Peer &sourceOwner, const Box &destination,
                        const Peer &destinationOwner) {
  const Buffer &from = buffers[source.buffer], &to = buffers[destination.buffer];
  if (source.ranges != destination.ranges)
    return fail("a move pairs slices of different shapes");
  bool isAll = source.grown == Box::Grown::All, areBothAll = isAll && destination.grown == Box::Grown::All;
  if (isAll != (destination.grown == Box::Grown::All))
    return fail("a move pairs chunks along the dimension with others");
  if (areBothAll && (from.isMoved != to.isMoved || source.isPlaceAbsolute != destination.isPlaceAbsolute ||
                     from.grownExtent() != to.grownExtent()))
    return fail("a move pairs chunks along the dimension with others");
  if (from.isSlots && to.isSlots)
    return fail("a move goes from slots to slots");
  if (from.chunksPerBlock != to.chunksPerBlock)
    return fail("a move pairs chunks of different size");
  if (from.isSlots || to.isSlots || from.chunksPerBlock == Affine(1))
    return true;
  ArrayRef<Affine> inFrom = ArrayRef(from.extents).drop_front(from.numBlockDims);
  ArrayRef<Affine> inTo = ArrayRef(to.extents).drop_front(to.numBlockDims);
  auto isInner = [](const Buffer &buffer) { return buffer.grownDim && *buffer.grownDim >= buffer.numBlockDims; };
  bool areAlike = inFrom == inTo && isInner(from) == isInner(to);
  for (const auto &[a, b] : llvm::zip(indicesOf(source), indicesOf(destination)))
    areAlike &= ArrayRef(a).drop_front(from.numBlockDims) == ArrayRef(b).drop_front(to.numBlockDims);
  if (areAlike && isInner(from)) {
    Affine a = source.place, b = destination.place;
    if (!areBothAll) { // as this rank sees them
      a = a + (from.isMoved ? sourceOwner.place : Affine(0));
      b = b + (to.isMoved ? destinationOwner.place : Affine(0));
    }
    areAlike = from.isMoved == to.isMoved && (from.isMoved ? (a - b).modSize() == Affine() : a == b);
  }
  return areAlike || fail("a move pairs chunks whose sizes may differ");
}

/// Later reads of a rank take the place of earlier ones; puts that follow each other are one epoch.
static void addRead(std::vector<Epoch> &reads, const Epoch &read) {
  for (Epoch &other : reads) {
    if (other.orbit != read.orbit || other.put != read.put || (other.rank - read.rank).modSize() != Affine())
      continue;
    if (read.put < 0) {
      other.time = read.time;
      return;
    }
    if (other.endPut == read.firstPut) {
      other.endPut = read.endPut;
      return;
    }
  }
  reads.push_back(read);
}

/// A later read of a rank takes the place of an earlier one.
static void addReader(Runs<Time> &readers, const Affine &rank, const Time &time, Decisions &decisions) {
  size_t place = 0;
  while (place < readers.size() && !decisions.hasFailed() && decisions.isAtMost(readers[place].end, rank))
    ++place;
  if (place < readers.size() && decisions.isAtMost(readers[place].begin, rank)) {
    place = cutAt(readers, rank, decisions);
    cutAt(readers, rank + 1, decisions);
    if (!decisions.hasFailed())
      readers[place].value = time;
  } else {
    readers.insert(readers.begin() + std::ptrdiff_t(place), {rank, rank + 1, time});
  }
  normalise(readers);
}

/// Of the chunks at the places from `begin` to before `end`.
bool SizeRun::access(int64_t orbit, const Peer &owner, Runs<Cell> &runs, const Affine &begin, const Affine &end,
                     bool isWrite, const Epoch &epoch) {
  bool hasOnePlace = runs.size() == 1 && runs.front().begin == Affine(0) && runs.front().end == Affine(1);
  size_t first = cutAt(runs, begin, decisions), last = cutAt(runs, end, decisions);
  for (size_t i = first; i < last && !hasFailed(); ++i) {
    Run<Cell> &run = runs[i];
    if (run.isPoint())
      run.value = valueAt(run, run.begin);
    auto check = [&](const Epoch &other, bool isOtherWrite) {
      bool isSameStep = other.put >= 0 && other.put == epoch.put && other.firstPut == epoch.firstPut &&
                        other.endPut == epoch.endPut && (other.rank - epoch.rank).modSize() == Affine();
      return isSameStep || isOver(orbit, owner, other, isOtherWrite, run.begin, run.end) ||
             fail("nothing shows that two accesses to a chunk are ordered");
    };
    for (const Epoch &other : run.value.lastWrite)
      if (!check(other, true))
        return false;
    if (!isWrite) {
      if (hasOnePlace && epoch.put < 0)
        addReader(run.value.readers[epoch.orbit], decisions.reduce(epoch.rank), {epoch.time}, decisions);
      else
        addRead(run.value.reads, epoch);
      continue;
    }
    for (const auto &[other, readers] : run.value.readers)
      for (const Run<Time> &reader : readers)
        if (!knows(orbit, other, owner.place + Affine::k(), reader.value.time, reader.begin, reader.end))
          return fail("nothing shows that a write comes after all reads of a chunk");
    run.value.readers.clear();
    for (const Epoch &other : run.value.reads)
      if (!check(other, false))
        return false;
    run.value.reads.clear();
    run.value.lastWrite = {epoch};
  }
  return !hasFailed();
}

/// What an owner holds, as another one sees it from whom it is `by` away.
Content SizeRun::moved(Content content, const Affine &by) const {
  if (input && buffers[*input].isMoved)
    content.place = (content.place + by).modSize();
  for (Contribution &each : content.contributions)
    if (each.number != Affine::n())
      each.first = (each.first + by).modSize();
  if (content.origin.orbit >= 0)
    content.origin.rank = (content.origin.rank + by).modSize();
  return content;
}

bool SizeRun::combine(Content &content, const Content &other, const Affine &begin, const Affine &end) {
  bool isPlaceModSize = input && buffers[*input].isMoved;
  Affine apart = content.place - other.place;
  bool fits = content.call >= 0 && content.call == other.call && !content.isDivided && !other.isDivided &&
              content.chunk == other.chunk && (isPlaceModSize ? apart.modSize() : apart) == Affine();
  if (!fits)
    return fail("different chunks are combined");
  for (const Contribution &more : other.contributions) {
    auto known =
        llvm::find_if(content.contributions, [&](const Contribution &each) { return each.orbit >= more.orbit; });
    if (known == content.contributions.end() || known->orbit != more.orbit) {
      content.contributions.insert(known, more);
      continue;
    }
    // Two neighbours on the circle that together are no more than all of it share no rank.
    Affine number = known->number + more.number;
    bool isBefore = (known->first + known->number - more.first).modSize() == Affine();
    bool isAfter = (more.first + more.number - known->first).modSize() == Affine();
    if ((!isBefore && !isAfter) || !decisions.region.isAtLeast(Affine::n() - number, 0, begin, end))
      return fail("nothing shows that two sets of contributions have no rank in common");
    if (!isBefore)
      known->first = more.first;
    known->number = number;
    if (number == Affine::n())
      known->first = 0;
  }
  return true;
}

bool SizeRun::setOrigin(Content &content, const Epoch &writing, size_t cell, bool isAll) {
  if (!setting.followsBits)
    return true;
  // The chunks of one cell that a step combines onto are told apart by what they hold.
  if (isAll && content.place.place == 0)
    return fail("a step combines several chunks of the same contributions");
  content.origin = {writing.orbit, writing.rank, state.now, int64_t(cell)};
  return true;
}

/// Whether a slot's content goes to a chunk of the same number in its block, as far as sizes differ.
bool SizeRun::mayLeaveSlot(const Content &content, const Buffer &buffer, ArrayRef<int64_t> indices,
                           const Affine &place) {
  if (content.call < 0 || buffer.chunksPerBlock == Affine(1))
    return true;
  const Buffer &from = buffers[*input];
  auto isInner = [](const Buffer &each) { return each.grownDim && *each.grownDim >= each.numBlockDims; };
  bool areAlike = ArrayRef(from.extents).drop_front(from.numBlockDims) ==
                      ArrayRef(buffer.extents).drop_front(buffer.numBlockDims) &&
                  isInner(from) == isInner(buffer) &&
                  ArrayRef(content.chunk).drop_front(from.numBlockDims) == indices.drop_front(buffer.numBlockDims);
  if (areAlike && isInner(from))
    areAlike = from.isMoved == buffer.isMoved &&
               (from.isMoved ? (content.place - place).modSize() == Affine() : content.place == place);
  return areAlike || fail("what leaves a slot may have another size than the chunk that it goes to");
}

/// Puts of a family that follow each other, to one target, are one entry.
static void addUncovered(Runs<Puts> &uncovered, const Affine &target, const Puts &puts) {
  for (Run<Puts> &run : uncovered)
    if (run.isPoint() && run.begin == target && run.value.family == puts.family && run.value.end == puts.first) {
      run.value.end = puts.end;
      return;
    }
  uncovered.push_back({target, target + 1, puts});
  normalise(uncovered);
}

bool SizeRun::move(MoveInterface op, int64_t orbit) {
  const bool isReduce = isa<ChannelReduceOp>(op);
  std::optional<Peer> sourceOwner = peerOf(op.getSourceRank(), orbit),
                      destinationOwner = peerOf(op.getDestinationRank(), orbit);
  if (!sourceOwner || !destinationOwner || hasFailed())
    return false;
  std::optional<Box> source =
                         boxOf(op, op.getSource(), op.getSourceOffsets(), op.getSourceSizes(), orbit, *sourceOwner),
                     destination = boxOf(op, op.getDestination(), op.getDestinationOffsets(), op.getDestinationSizes(),
                                         orbit, *destinationOwner);
  std::optional<int64_t> part = partOf(op.getPart(), orbit);
  if (!source || !destination || !part || hasFailed() ||
      !arePaired(op, *source, *sourceOwner, *destination, *destinationOwner))
    return false;
  const Buffer &from = buffers[source->buffer], &to = buffers[destination->buffer];
  if (*part < 0 || *part >= from.numParts || *part >= to.numParts)
    return fail("a move takes a part that is not there");
  if (buffers[bufferNumbers.at(op.getDestination())].role == BufferRole::Input)
    return fail("a move writes to the input");
  auto sources = indicesOf(*source), destinations = indicesOf(*destination);
  bool isAll = source->grown == Box::Grown::All;
  if (source->buffer == destination->buffer && sourceOwner->orbit == destinationOwner->orbit &&
      sourceOwner->place == destinationOwner->place) {
    bool isOntoItself = sources == destinations && source->place == destination->place && !isReduce;
    bool isApart =
        !isAll &&
        (source->place == destination->place
             ? llvm::none_of(sources, [&](const auto &each) { return llvm::is_contained(destinations, each); })
             : decisions.isLess(source->place, destination->place) ||
                   decisions.isLess(destination->place, source->place));
    if (!isOntoItself && !isApart)
      return fail("a move reads what it writes");
  }
  Epoch epoch = stepOf(orbit);
  if (auto put = dyn_cast<PutOp>(op.getOperation())) {
    epoch.put = addPut(put, orbit, *destinationOwner);
    PutFamily &family = state.families[size_t(epoch.put)].change();
    epoch.time = 0;
    epoch.firstPut = family.number;
    epoch.endPut = family.number = family.number + 1;
    addUncovered(state.uncovered[{orbit, destinationOwner->orbit}].change(), destinationOwner->place,
                 {epoch.put, epoch.firstPut, epoch.endPut});
  }
  auto rangeOf = [&](const Box &box) {
    switch (box.grown) {
    case Box::Grown::None:
      return std::pair(Affine(0), Affine(1));
    case Box::Grown::Point:
      return std::pair(box.place, box.place + 1);
    case Box::Grown::All:
      return std::pair(Affine(0), buffers[box.buffer].grownExtent());
    }
    llvm_unreachable("every kind is handled");
  };
  auto [sourceBegin, sourceEnd] = rangeOf(*source);
  auto [begin, end] = rangeOf(*destination);
  // All sources first: what is written here is not what is read here.
  std::vector<Runs<Cell>> read;
  Epoch reading = epoch, writing = epoch;
  reading.rank = (sourceOwner->place * -1).modSize();
  writing.rank = (destinationOwner->place * -1).modSize();
  for (const auto &indices : sources) {
    Runs<Cell> &runs = state.cells[size_t(sourceOwner->orbit)][cellNumber(source->buffer, indices, *part)].change();
    if (!access(orbit, *sourceOwner, runs, sourceBegin, sourceEnd, false, reading))
      return false;
    Runs<Cell> &taken = read.emplace_back();
    for (const Run<Cell> &run : runs)
      if (!isAll ? run.begin == sourceBegin : true)
        taken.push_back(run);
    normalise(runs);
  }
  for (const auto &[indices, taken] : llvm::zip_equal(destinations, read)) {
    const size_t cell = cellNumber(destination->buffer, indices, *part);
    Runs<Cell> &runs = state.cells[size_t(destinationOwner->orbit)][cell].change();
    if (!access(orbit, *destinationOwner, runs, begin, end, true, writing))
      return false;
    Runs<Cell> arrived = taken;
    if (isAll) {
      if (from.isMoved) {
        Affine turn = (destination->place - destinationOwner->place) - (source->place - sourceOwner->place);
        arrived = rotate(std::move(arrived), decisions.reduce(turn), decisions);
      }
      for (size_t i = 0; i < arrived.size() && !hasFailed(); ++i)
        cutAt(runs, arrived[i].begin, decisions);
      for (size_t i = 0; i < runs.size() && !hasFailed(); ++i)
        cutAt(arrived, runs[i].begin, decisions);
    } else {
      arrived.front() = {begin, end, valueAt(arrived.front(), sourceBegin)};
    }
    if (hasFailed())
      return false;
    size_t number = 0;
    for (Run<Cell> &run : runs) {
      if (!isAll && run.begin != begin)
        continue;
      if (number == arrived.size() || arrived[number].begin != run.begin || arrived[number].end != run.end)
        return fail("a move pairs chunks along the dimension with others");
      Content content = moved(arrived[number++].value.content, sourceOwner->place - destinationOwner->place);
      if (from.isSlots && !mayLeaveSlot(content, to, indices, isAll ? Affine::k() : begin))
        return false;
      if (isReduce) {
        if (!combine(run.value.content, content, run.begin, run.end) ||
            !setOrigin(run.value.content, writing, cell, isAll))
          return false;
      } else {
        run.value.content = content;
      }
    }
    normalise(runs);
  }
  return !hasFailed();
}

bool SizeRun::divide(DivideOp op, int64_t orbit) {
  Peer self{0, orbit};
  std::optional<Box> box = boxOf(op, op.getBuffer(), op.getOffsets(), op.getSizes(), orbit, self);
  std::optional<int64_t> part = partOf(op.getPart(), orbit);
  if (!box || !part || hasFailed())
    return false;
  const Buffer &buffer = buffers[box->buffer];
  if (*part < 0 || *part >= buffer.numParts || buffers[bufferNumbers.at(op.getBuffer())].role == BufferRole::Input)
    return fail("a division is of what is not there, or of the input");
  bool isAll = box->grown == Box::Grown::All;
  Affine begin = isAll ? Affine(0) : box->place, end = isAll ? buffer.grownExtent() : box->place + 1;
  Epoch epoch = stepOf(orbit);
  for (const auto &indices : indicesOf(*box)) {
    Runs<Cell> &runs = state.cells[size_t(orbit)][cellNumber(box->buffer, indices, *part)].change();
    if (!access(orbit, self, runs, begin, end, true, epoch))
      return false;
    for (Run<Cell> &run : runs) {
      if (!isAll && run.begin != begin)
        continue;
      if (run.value.content.call < 0 || run.value.content.isDivided)
        return fail("a division is of what is no sum");
      run.value.content.isDivided = true;
    }
    normalise(runs);
  }
  return !hasFailed();
}

} // namespace kolo::sizes
