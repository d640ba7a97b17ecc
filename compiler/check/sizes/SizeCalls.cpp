// The calls of a run: its buffers, the application before and after a call, and what the collective asks for.
#include "compiler/check/sizes/SizeRun.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo::sizes {

bool SizeRun::isInGroup(size_t meshDim) const {
  return llvm::is_contained(program.getCollective().getGroupDims(), int64_t(meshDim));
}

/// The buffers of all ranks, from the arithmetic at the top level.
bool SizeRun::defineBuffers() {
  for (Operation &op : program.getBody().front())
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      if (!defineBuffer(buffer))
        return false;
    } else if (op.getNumRegions() == 0 && op.getNumResults() == 1)
      for (IndexTable &table : tables)
        table.compute(&op);
  if (!findParts() || (setting.isInPlace && !findAlias()))
    return false;
  size_t numCells = 0;
  for (Buffer &buffer : buffers) {
    buffer.firstCell = numCells;
    buffer.numCells = size_t(buffer.numParts);
    for (auto [gridDim, extent] : llvm::enumerate(buffer.extents))
      buffer.numCells *= gridDim == buffer.grownDim ? 1 : size_t(extent.constant);
    numCells += buffer.numCells;
    constexpr size_t mostCells = 1 << 20;
    if (numCells * size_t(numOrbits) > mostCells)
      return fail("'" + buffer.name + "' has too many chunks on the ranks that differ along other dimensions");
  }
  return !hasFailed();
}

bool SizeRun::defineBuffer(BufferOp op) {
  if (op.getRole() == BufferRole::Packets || op.getRole() == BufferRole::Published)
    return fail("calls use packets and published buffers in turn");
  if (isOfCaller(op.getRole()))
    for (auto [number, other] : llvm::enumerate(buffers))
      if (other.role == op.getRole()) { // the same memory, with an equal grid: see model/Code.h
        bufferNumbers[op] = number;
        return true;
      }
  Buffer buffer;
  buffer.role = op.getRole();
  buffer.name = op.getName().str();
  buffer.numBlockDims = size_t(op.getBlocks());
  for (auto [gridDim, value] : llvm::enumerate(op.getGrid())) {
    Index extent = tables.front().at(value);
    for (const IndexTable &table : tables)
      if (!table.at(value).isSame() || table.at(value).rest != extent.rest)
        return fail("the grid of '" + buffer.name + "' is not the same on all ranks, or not affine in the size");
    buffer.extents.push_back(extent.rest);
    if (extent.rest.isConstant()) {
      if (extent.rest.constant < 0)
        return fail("the grid of '" + buffer.name + "' is negative");
      continue;
    }
    if (buffer.grownDim || extent.rest.size != 1 || !decisions.isLess(0, extent.rest))
      return fail("the grid of '" + buffer.name + "' grows in more than one way");
    buffer.grownDim = gridDim;
  }
  buffer.isMoved = buffer.grownDim && buffer.extents[*buffer.grownDim] == Affine::n() && isMoved(op, *buffer.grownDim);
  for (auto [gridDim, extent] : llvm::enumerate(buffer.extents))
    if (gridDim >= buffer.numBlockDims) {
      if (!buffer.chunksPerBlock.isConstant() && !extent.isConstant())
        return fail("a block of '" + buffer.name + "' grows in more than one way");
      buffer.chunksPerBlock =
          extent.isConstant() ? buffer.chunksPerBlock * extent.constant : extent * buffer.chunksPerBlock.constant;
    }
  if (Value cut = op.getCut()) {
    Index number = tables.front().at(cut);
    if (!number.isSame())
      return fail("the slots of '" + buffer.name + "' are not affine in the size");
    buffer.isSlots = true;
    buffer.chunksPerBlock = decisions.larger(number.rest, 1);
  }
  if (isOfCaller(buffer.role) && !checkBlocks(buffer))
    return false;
  (buffer.role == BufferRole::Input ? input : output) =
      isOfCaller(buffer.role) ? std::optional(buffers.size()) : (buffer.role == BufferRole::Input ? input : output);
  bufferNumbers[op] = buffers.size();
  buffers.push_back(std::move(buffer));
  return !hasFailed();
}

/// Whether the blocks of a caller's buffer are cut along the dimensions of the group, one each, as contents ask for.
bool SizeRun::checkBlocks(const Buffer &buffer) {
  CollectiveAttr collective = program.getCollective();
  SmallVector<Affine, 4> wanted;
  if (hasBlockPerMember(collective.getKind(), buffer.role))
    for (int64_t meshDim : collective.getGroupDims())
      wanted.push_back(size_t(meshDim) == setting.dim ? Affine::n() : Affine(setting.mesh[size_t(meshDim)]));
  ArrayRef<Affine> blocks = ArrayRef(buffer.extents).take_front(buffer.numBlockDims);
  bool areMoved = buffer.isMoved || !buffer.grownDim || *buffer.grownDim >= buffer.numBlockDims;
  return (blocks == ArrayRef(wanted) && areMoved) ||
         fail("the blocks of '" + buffer.name + "' are not numbered by the coordinates of the ranks in the group");
}

/// Whether the indices along a dimension of n chunks are those of ranks: taken from the rank's coordinate, all, or
/// those of a loop over all. Others, such as the number of an iteration, are the same on all ranks.
bool SizeRun::isMoved(BufferOp op, size_t gridDim) {
  llvm::DenseMap<Value, bool> known;
  std::function<bool(Value)> dependsOnPlace = [&](Value value) -> bool {
    if (auto [entry, isNew] = known.try_emplace(value, false); !isNew)
      return entry->second;
    bool depends = false;
    if (Operation *definition = value.getDefiningOp()) {
      auto coordinate = dyn_cast<CoordOp>(definition);
      depends = (coordinate && size_t(coordinate.getDim()) == setting.dim) ||
                llvm::any_of(definition->getOperands(), dependsOnPlace);
    }
    return known[value] = depends;
  };
  auto isOverAll = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
    auto size = loop ? loop.getUpperBound().getDefiningOp<DimSizeOp>() : DimSizeOp();
    return size && size_t(size.getDim()) == setting.dim && isZeroInteger(loop.getLowerBound());
  };
  bool areOfRanks = true;
  auto look = [&](Value buffer, OperandRange offsets, OperandRange sizes) {
    auto other = buffer.getDefiningOp<BufferOp>();
    bool isSameMemory = other == op || (isOfCaller(op.getRole()) && other.getRole() == op.getRole());
    if (isSameMemory)
      areOfRanks &= isRanged(sizes[gridDim]) || dependsOnPlace(offsets[gridDim]) || isOverAll(offsets[gridDim]);
  };
  program.walk([&](Operation *each) {
    if (auto move = dyn_cast<MoveInterface>(each)) {
      look(move.getSource(), move.getSourceOffsets(), move.getSourceSizes());
      look(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes());
    }
  });
  return areOfRanks;
}

/// How many parts every chunk of a buffer is moved in.
bool SizeRun::findParts() {
  std::vector<int64_t> parts(buffers.size(), 0);
  WalkResult result = program.walk([&](Operation *op) {
    auto move = dyn_cast<MoveInterface>(op);
    auto divide = dyn_cast<DivideOp>(op);
    if (!move && !divide)
      return WalkResult::advance();
    Value value = move ? move.getParts() : divide.getParts();
    std::optional<int64_t> number = 1;
    if (value && !value.getDefiningOp<NumLanesOp>()) {
      auto product = value.getDefiningOp<arith::MulIOp>();
      number = product ? getConstantIntValue(product.getLhs().getDefiningOp<NumLanesOp>() ? product.getRhs()
                                                                                          : product.getLhs())
                       : std::nullopt;
    }
    auto agree = [&](Value buffer) {
      int64_t &known = parts[bufferNumbers.at(buffer)];
      bool isSame = number && *number > 0 && (known == 0 || known == *number);
      known = number.value_or(0);
      return isSame;
    };
    bool isSame = divide ? agree(divide.getBuffer()) : agree(move.getSource()) && agree(move.getDestination());
    return isSame ? WalkResult::advance() : WalkResult::interrupt();
  });
  for (auto [buffer, number] : llvm::zip_equal(buffers, parts))
    buffer.numParts = std::max<int64_t>(number, 1);
  return !result.wasInterrupted() || fail("chunks of one buffer are moved in different numbers of parts");
}

bool SizeRun::findAlias() {
  if (!input || !output)
    return true;
  auto isOwnBlock = [&](size_t inside, size_t around) {
    const Buffer &in = buffers[inside], &out = buffers[around];
    return in.numBlockDims == 0 && ArrayRef(out.extents).drop_front(out.numBlockDims) == ArrayRef(in.extents);
  };
  CollectiveKind kind = program.getCollective().getKind();
  bool isInCut = hasBlockPerMember(kind, BufferRole::Input), isOutCut = hasBlockPerMember(kind, BufferRole::Output);
  if (isOutCut && !isInCut && isOwnBlock(*input, *output))
    alias = Alias{*input, *output, true};
  else if (isInCut && !isOutCut && isOwnBlock(*output, *input))
    alias = Alias{*output, *input, true};
  else if (isInCut == isOutCut && buffers[*input].extents == buffers[*output].extents)
    alias = Alias{*input, *output, false};
  else
    return fail("calls in place have inputs and outputs that are cut differently");
  Buffer &inside = buffers[alias->inside], &around = buffers[alias->around];
  bool isSameKind = alias->isOwnBlock ? !inside.grownDim || !inside.isMoved : true;
  if (!isSameKind)
    return fail("a block of a call in place grows");
  if (!alias->isOwnBlock)
    inside.isMoved = around.isMoved = inside.isMoved || around.isMoved;
  int64_t parts = std::max(inside.numParts, around.numParts);
  bool haveSameParts = inside.numParts == around.numParts;
  inside.numParts = around.numParts = parts;
  return haveSameParts || fail("calls in place move inputs and outputs in different numbers of parts");
}

std::vector<Contribution> SizeRun::wholeGroup(int64_t orbit) const {
  std::vector<Contribution> result;
  for (int64_t other = 0; other < numOrbits; ++other) {
    bool isMember = true;
    for (size_t meshDim = 0; meshDim < setting.mesh.size(); ++meshDim)
      isMember &= meshDim == setting.dim || isInGroup(meshDim) ||
                  coordinates[size_t(other)][meshDim] == coordinates[size_t(orbit)][meshDim];
    if (isMember)
      result.push_back({other, 0, isInGroup(setting.dim) ? Affine::n() : Affine(1)});
  }
  return result;
}

/// What the collective asks of output chunks of these indices, as a function of the place.
std::optional<Content> SizeRun::wantedContent(ArrayRef<int64_t> indices, int64_t orbit, int64_t call) {
  const Buffer &out = buffers[*output], &in = buffers[*input];
  CollectiveKind kind = program.getCollective().getKind();
  ArrayRef<int64_t> groupDims = program.getCollective().getGroupDims();
  Content content;
  content.call = call;
  content.isDivided = isReduction(kind);
  auto addIndex = [&](size_t gridDim, int64_t index, const Affine &place) {
    content.chunk.push_back(gridDim == in.grownDim ? 0 : index);
    if (gridDim == in.grownDim)
      content.place = place;
  };
  if (hasBlockPerMember(kind, BufferRole::Input)) // this rank's own block
    for (auto [gridDim, meshDim] : llvm::enumerate(groupDims))
      addIndex(gridDim, size_t(meshDim) == setting.dim ? 0 : coordinates[size_t(orbit)][size_t(meshDim)], 0);
  if (ArrayRef(in.extents).drop_front(in.numBlockDims) != ArrayRef(out.extents).drop_front(out.numBlockDims) ||
      (in.grownDim && *in.grownDim >= in.numBlockDims && in.isMoved != out.isMoved)) {
    fail("inputs and outputs have blocks that are cut differently");
    return std::nullopt;
  }
  for (size_t gridDim = out.numBlockDims; gridDim < out.extents.size(); ++gridDim)
    addIndex(content.chunk.size(), indices[gridDim], Affine::k());
  if (content.isDivided) {
    content.contributions = wholeGroup(orbit);
    return content;
  }
  // One member of the group, whose coordinates number the block.
  SmallVector<int64_t, 4> member(coordinates[size_t(orbit)]);
  Affine place = 0;
  for (auto [gridDim, meshDim] : llvm::enumerate(groupDims))
    if (size_t(meshDim) == setting.dim)
      place = Affine::k();
    else
      member[size_t(meshDim)] = indices[gridDim];
  int64_t number = llvm::find(coordinates, member) - coordinates.begin();
  content.contributions.push_back({number, place, 1});
  return content;
}

/// The chunks of a caller's buffer, as the application of a rank finds them.
std::vector<SizeRun::CallerChunk> SizeRun::chunksOfCaller(size_t number, int64_t orbit) const {
  bool isInside = alias && alias->inside == number, isOwnBlock = isInside && alias->isOwnBlock;
  size_t around = isInside ? alias->around : number;
  const Buffer &buffer = buffers[number], &memory = buffers[around];
  Box whole;
  whole.buffer = number;
  for (auto [gridDim, extent] : llvm::enumerate(buffer.extents)) {
    whole.offsets.push_back(0);
    whole.sizes.push_back(gridDim == buffer.grownDim ? 1 : extent.constant);
  }
  bool isPoint = isOwnBlock && memory.grownDim && *memory.grownDim < memory.numBlockDims;
  SmallVector<int64_t, 4> block;
  if (isOwnBlock)
    for (int64_t meshDim : program.getCollective().getGroupDims())
      block.push_back(size_t(meshDim) == setting.dim ? 0 : coordinates[size_t(orbit)][size_t(meshDim)]);
  std::vector<CallerChunk> result;
  for (const auto &indices : indicesOf(whole)) {
    SmallVector<int64_t, 4> place(block);
    llvm::append_range(place, indices);
    for (int64_t part = 0; part < memory.numParts; ++part)
      result.push_back({indices, cellNumber(around, place, part), isPoint ? Affine(1) : memory.grownExtent()});
  }
  return result;
}

/// The application has written its input and spoilt its output.
bool SizeRun::startCall(int64_t call) {
  state.now = state.now + 1;
  if (!input || !output)
    return fail("it has no input or no output");
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit)
    for (size_t number : {*output, *input})
      for (const CallerChunk &chunk : chunksOfCaller(number, orbit)) {
        Runs<Cell> &runs = state.cells[size_t(orbit)][chunk.cell].change();
        if (!access(orbit, {0, orbit}, runs, 0, chunk.end, true, stepOf(orbit)))
          return false;
        for (Run<Cell> &run : runs) {
          if (!decisions.isLess(run.begin, chunk.end)) // in place, the block of another rank
            continue;
          Content &content = run.value.content;
          content = {};
          if (number != *input)
            continue;
          content.call = call;
          content.chunk.assign(chunk.indices.begin(), chunk.indices.end());
          content.place = buffers[number].grownDim ? Affine::k() : Affine(0);
          content.contributions = {{orbit, 0, 1}};
        }
        normalise(runs);
      }
  return !hasFailed();
}

/// The application reads its output, which must be what the collective asks for.
bool SizeRun::endCall(int64_t call) {
  state.now = state.now + 1;
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit)
    for (const CallerChunk &chunk : chunksOfCaller(*output, orbit)) {
      std::optional<Content> wanted = wantedContent(chunk.indices, orbit, call);
      Runs<Cell> &runs = state.cells[size_t(orbit)][chunk.cell].change();
      if (!wanted || !access(orbit, {0, orbit}, runs, 0, chunk.end, false, stepOf(orbit)))
        return false;
      for (const Run<Cell> &run : runs) {
        if (!decisions.isLess(run.begin, chunk.end))
          continue;
        Cell held = run.value, expected = run.value;
        expected.content = *wanted;
        expected.content.origin = held.content.origin;
        for (Contribution &each : held.content.contributions)
          if (each.number == Affine::n()) // the whole circle, wherever it begins
            each.first = 0;
        bool isRight = run.isPoint() ? flatten(withPlaces(held, run.begin)) == flatten(withPlaces(expected, run.begin))
                                     : flatten(held) == flatten(expected);
        if (!isRight)
          return fail("nothing shows that an output is what the collective asks for");
      }
      normalise(runs);
    }
  return !hasFailed() && (!setting.followsBits || checkBits());
}

/// Whether the outputs of the ranks of a group have one origin, chunk by chunk. They are what the collective asks for.
bool SizeRun::checkBits() {
  const bool isAlong = isInGroup(setting.dim);
  if (isAlong && !(buffers[*output].grownDim && buffers[*output].isMoved))
    return fail("every rank along the dimension combines for itself");
  std::map<std::pair<SmallVector<int64_t, 4>, size_t>, Flat> known; // by the group's other coordinates and the chunk
  for (int64_t orbit = 0; orbit < numOrbits; ++orbit) {
    SmallVector<int64_t, 4> group(coordinates[size_t(orbit)]);
    for (size_t meshDim = 0; meshDim < group.size(); ++meshDim)
      if (meshDim == setting.dim || isInGroup(meshDim))
        group[meshDim] = 0;
    for (auto [number, chunk] : llvm::enumerate(chunksOfCaller(*output, orbit))) {
      Runs<ValueOrigin> origins;
      for (const Run<Cell> &run : *state.cells[size_t(orbit)][chunk.cell]) {
        ValueOrigin origin = run.isPoint() ? withPlaces(run.value, run.begin).content.origin : run.value.content.origin;
        if (isAlong) // as the chunk sees it, which all ranks of the orbit have
          origin.rank = origin.rank - (run.isPoint() ? run.begin : Affine::k());
        origins.push_back({run.begin, run.end, origin});
      }
      if (isAlong) {
        Flat first = flatten(origins.front().value);
        for (const Run<ValueOrigin> &run : origins)
          if (flatten(run.value) != first || run.value.rank.place != 0 || run.value.time.place != 0)
            return fail("ranks along the dimension hold results that were combined at different places");
        origins = {{0, 1, origins.front().value}};
      }
      auto [entry, isNew] = known.try_emplace({group, number}, flatten(origins));
      if (!isNew && entry->second != flatten(origins))
        return fail("ranks hold results that were combined at different places");
    }
  }
  return true;
}

} // namespace kolo::sizes
