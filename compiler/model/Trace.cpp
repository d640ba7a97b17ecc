// Runs a program for one rank, and checks every step by itself.
#include "compiler/model/Trace.h"

#include "ir/Members.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace kolo {

void expandBox(const Trace &trace, const Box &box, const Grid &grid, std::vector<int32_t> &chunks) {
  expandNumbers(trace.numbersOf(box, grid.extents.size()), grid, chunks);
}

void expandNumbers(ArrayRef<int32_t> numbers, const Grid &grid, std::vector<int32_t> &chunks) {
  chunks.assign(1, 0);
  for (auto [dim, extent] : llvm::enumerate(grid.extents)) {
    int32_t offset = numbers[2 * dim], size = numbers[2 * dim + 1];
    if (size == 1) {
      for (int32_t &chunk : chunks)
        chunk = chunk * extent + offset;
      continue;
    }
    if (size == 0)
      return chunks.clear();
    size_t numBefore = chunks.size();
    chunks.resize(numBefore * size_t(size));
    for (size_t number = numBefore; number-- > 0;) { // from the back: each becomes `size` that lie no farther in front
      int32_t base = chunks[number] * extent;
      for (int32_t i = 0; i < size; ++i)
        chunks[number * size_t(size) + size_t(i)] = base + (offset + i < extent ? offset + i : offset + i - extent);
    }
  }
}

Tracer::Tracer(Code &code, ArrayRef<int64_t> mesh, int64_t root, bool isInPlace)
    : code(code), sizes(mesh), root(root), kind(code.program.getCollective().getKind()) {
  for (int64_t size : sizes)
    ranks *= size;
  code.evaluator.setMesh(mesh, root);
  if (startGrids(0) && isInPlace)
    findAlias();
}

SmallVector<int64_t, 4> Tracer::coordinatesOf(int64_t rank) const {
  SmallVector<int64_t, 4> result(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0; rank /= sizes[dim])
    result[dim] = rank % sizes[dim];
  return result;
}

int64_t Tracer::numberInGroup(int64_t rank) const {
  SmallVector<int64_t, 4> coordinates = coordinatesOf(rank);
  int64_t number = 0;
  for (int64_t dim : code.program.getCollective().getGroupDims())
    number = number * sizes[size_t(dim)] + coordinates[size_t(dim)];
  return number;
}

int64_t memberOfGroup(const Tracer &tracer, int64_t rank, int64_t number) {
  SmallVector<int64_t, 4> coordinates = tracer.coordinatesOf(rank);
  for (int64_t dim : llvm::reverse(tracer.program().program.getCollective().getGroupDims())) {
    coordinates[size_t(dim)] = number % tracer.mesh()[size_t(dim)];
    number /= tracer.mesh()[size_t(dim)];
  }
  int64_t member = 0;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, tracer.mesh()))
    member = member * size + coordinate;
  return member;
}

bool Tracer::exists(int64_t rank, BufferRole role) const {
  return isEverywhere(kind, role) || isAtMember(kind, role, numberInGroup(rank), root);
}

std::optional<uint32_t> Tracer::bufferOf(BufferRole role) const {
  for (auto [number, buffer] : llvm::enumerate(code.buffers))
    if (buffer.role == role)
      return uint32_t(number);
  return std::nullopt;
}

bool Tracer::refuse(uint32_t op, const std::string &message) {
  Location loc = op == UINT32_MAX ? code.program.getLoc() : code.ops[op].op->getLoc();
  if (!mistake)
    mistake = TraceMistake{op, loc, message, tracedRank};
  return false;
}

/// Runs the arithmetic at the top level, where buffers are made.
bool Tracer::startGrids(int64_t rank) {
  tracedRank = rank;
  code.evaluator.setCoordinates(coordinatesOf(rank));
  std::optional<std::string> failure;
  ScopedDiagnosticHandler handler(code.program.getContext(), [&](Diagnostic &diagnostic) {
    failure = diagnostic.str();
    mistake = TraceMistake{UINT32_MAX, diagnostic.getLocation(), *failure, rank};
    return success();
  });
  for (uint32_t i = 0; i < code.lines.size();) {
    const Code::Line &line = code.lines[i];
    if (line.kind == Code::Kind::Compute && failed(code.evaluator.run(code.instructions[line.number])))
      return false;
    bool isJump =
        line.kind == Code::Kind::ForBegin || line.kind == Code::Kind::JumpUnless || line.kind == Code::Kind::Jump;
    i = isJump ? line.target : i + 1;
  }
  bufferGrids.clear();
  for (const BufferInfo &buffer : code.buffers) {
    Grid grid;
    for (auto [dim, extentRegister] : llvm::enumerate(buffer.gridRegisters)) {
      int64_t extent = code.evaluator.valueIn(extentRegister);
      // One rank alone may have no slots for what others would send; its program then never touches them.
      int64_t least = isOfCaller(buffer.role) || buffer.role == BufferRole::Published ? 1 : 0;
      if (extent < least)
        return refuse(UINT32_MAX, "grid dimension " + std::to_string(dim) + " of '" + buffer.name + "' has " +
                                      std::to_string(extent) + " chunks");
      if (grid.numChunks > INT32_MAX / std::max<int64_t>(extent, 1)) {
        bufferOfTooManyChunks = buffer.name;
        return false;
      }
      grid.extents.push_back(int32_t(extent));
      grid.numChunks *= extent;
      if (dim >= buffer.numBlockDims)
        grid.chunksPerBlock *= extent;
    }
    if (buffer.cutRegister) {
      grid.isSlots = true;
      grid.chunksPerBlock = std::max<int64_t>(code.evaluator.valueIn(*buffer.cutRegister), 1);
    }
    if (isOfCaller(buffer.role) && !hasBlocksOfCall(buffer, grid))
      return false;
    bufferGrids.push_back(std::move(grid));
  }
  return true;
}

/// The table of blocks in ir/README.md. Chunks of blocks beyond it lie outside of the caller's buffer.
bool Tracer::hasBlocksOfCall(const BufferInfo &buffer, const Grid &grid) {
  int64_t groupSize = 1, numBlocks = grid.numChunks / grid.chunksPerBlock;
  CollectiveAttr collective = code.program.getCollective();
  for (int64_t dim : collective.getGroupDims())
    groupSize *= sizes[size_t(dim)];
  int64_t wanted = hasBlockPerMember(kind, buffer.role) ? groupSize : 1;
  return numBlocks == wanted ||
         refuse(UINT32_MAX, llvm::formatv("'{0}' has {1} blocks of the call's count; the {2} of "
                                          "{3} has {4} on this mesh",
                                          buffer.name, numBlocks, stringifyBufferRole(buffer.role),
                                          stringifyCollectiveKind(kind), wanted)
                                .str());
}

bool Tracer::findAlias() {
  std::optional<uint32_t> input = bufferOf(BufferRole::Input), output = bufferOf(BufferRole::Output);
  if (!input || !output)
    return true;
  const Grid &in = bufferGrids[*input], &out = bufferGrids[*output];
  auto isOwnBlock = [&](uint32_t inner, uint32_t outer) {
    size_t blocks = code.buffers[outer].numBlockDims;
    return code.buffers[inner].numBlockDims == 0 &&
           ArrayRef(bufferGrids[outer].extents).drop_front(blocks) == ArrayRef(bufferGrids[inner].extents);
  };
  switch (kind) {
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    if (isOwnBlock(*input, *output))
      alias = Alias{*input, *output, true};
    break;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter:
    if (isOwnBlock(*output, *input))
      alias = Alias{*output, *input, true};
    break;
  default:
    if (in.extents == out.extents)
      alias = Alias{*input, *output, false};
  }
  return alias || refuse(UINT32_MAX, "calls in place cannot be checked, since input and output are cut differently");
}

/// Where the outer buffer does not exist, as the output of a reduce elsewhere than at the root, nothing lies inside of
/// it.
bool Tracer::liesInside(int64_t rank, uint32_t buffer) const {
  return alias && alias->inner == buffer && exists(rank, code.buffers[alias->outer].role);
}

/// Indices along the dimensions that enumerate blocks.
static SmallVector<int32_t, 4> blockIndices(const Grid &grid, size_t numBlockDims, int64_t block) {
  SmallVector<int32_t, 4> result(numBlockDims);
  for (size_t dim = numBlockDims; dim-- > 0; block /= grid.extents[dim])
    result[dim] = int32_t(block % grid.extents[dim]);
  return result;
}

std::pair<uint32_t, int64_t> Tracer::resolve(int64_t rank, uint32_t buffer, int64_t chunk) const {
  if (!liesInside(rank, buffer))
    return {buffer, chunk};
  return {alias->outer,
          alias->isOwnBlock ? numberInGroup(rank) * bufferGrids[alias->outer].chunksPerBlock + chunk : chunk};
}

bool Tracer::run(int64_t rank, Trace &trace) {
  if (mistake || bufferOfTooManyChunks)
    return false;
  tracedRank = rank;
  trace.events.clear();
  trace.numbers.clear();
  trace.numTicks = 0;
  ++numRuns;
  numFuses = currentFuse = 0;
  int64_t linesAtStep = numLinesRun;
  IndexEvaluator &evaluator = code.evaluator;
  evaluator.setMesh(sizes, root);
  evaluator.setCoordinates(coordinatesOf(rank));
  ScopedDiagnosticHandler handler(code.program.getContext(), [&](Diagnostic &diagnostic) {
    if (!mistake)
      mistake = TraceMistake{UINT32_MAX, diagnostic.getLocation(), diagnostic.str(), rank};
    return success();
  });
  for (uint32_t i = 0; i < code.lines.size(); ++numLinesRun) {
    const Code::Line &line = code.lines[i++];
    switch (line.kind) {
    case Code::Kind::Compute:
      if (failed(evaluator.run(code.instructions[line.number])))
        return false;
      break;
    case Code::Kind::ForBegin:
      if (evaluator.valueIn(line.d) < 1) {
        mistake = TraceMistake{UINT32_MAX, code.loops[line.number],
                               "a loop with a step of " + std::to_string(evaluator.valueIn(line.d)), rank};
        return false;
      }
      evaluator.valueIn(line.a) = evaluator.valueIn(line.b);
      if (evaluator.valueIn(line.a) >= evaluator.valueIn(line.c))
        i = line.target;
      break;
    case Code::Kind::ForNext: {
      // The index is below the bound; what comes after it may be no number of 64 bits.
      uint64_t left = uint64_t(evaluator.valueIn(line.c)) - uint64_t(evaluator.valueIn(line.a));
      if (isIdle(numLinesRun - linesAtStep))
        return false;
      if (left > uint64_t(evaluator.valueIn(line.d))) {
        evaluator.valueIn(line.a) += evaluator.valueIn(line.d);
        i = line.target;
      }
      break;
    }
    case Code::Kind::JumpUnless:
      if (evaluator.valueIn(line.a))
        break;
      [[fallthrough]];
    case Code::Kind::Jump:
      i = line.target;
      trace.numTicks += line.numPassed;
      break;
    case Code::Kind::FuseBegin:
      currentFuse = ++numFuses;
      break;
    case Code::Kind::FuseEnd:
      currentFuse = 0;
      break;
    case Code::Kind::Event:
      if (int64_t(trace.events.size()) >= maxEvents || numLinesRun > maxLines)
        return endHere(line.number);
      linesAtStep = numLinesRun;
      if (!addEvent(code.ops[line.number], line.number, rank, trace))
        return false;
    }
  }
  for (auto [buffer, grid] : llvm::zip_equal(code.buffers, bufferGrids))
    for (auto [extentRegister, extent] : llvm::zip_equal(buffer.gridRegisters, grid.extents))
      if (evaluator.valueIn(extentRegister) != extent)
        return refuse(UINT32_MAX, "the grid of '" + buffer.name + "' differs between ranks");
  return true;
}

/// A loop that goes on without any step ends nowhere else.
bool Tracer::isIdle(int64_t numLines) {
  if (numLines <= mostIdleLines && (numLinesRun <= maxLines || numLines <= int64_t(code.lines.size())))
    return false;
  endHere(std::nullopt);
  end->idleLines = numLines;
  return true;
}

bool Tracer::endHere(std::optional<uint32_t> op) {
  isTooLong = true;
  double share = std::max(1.0, double(numLinesRun) / double(maxLines)) * double(ranks) / double(numRuns);
  end = End{tracedRank, op, share, numRuns <= 1 + int64_t(sizes.size())};
  return false;
}

bool Tracer::isMoreThanAllowed(double numMore) {
  numLinesNeeded = double(numLinesRun) + numMore;
  isTooLong = numLinesNeeded > double(maxLines);
  return isTooLong;
}

bool Tracer::addEvent(const OpInfo &info, uint32_t op, int64_t rank, Trace &trace) {
  Event event{op, info.kind, int32_t(rank), info.semaphore, {}, {}, 0, currentFuse, uint32_t(trace.numTicks++)};
  if (info.peerRegister) {
    int64_t peer = code.evaluator.valueIn(*info.peerRegister);
    if (peer < 0 || peer >= ranks)
      return refuse(op, "there is no rank " + std::to_string(peer) + " among " + std::to_string(ranks));
    event.peer = int32_t(peer);
  }
  if (info.isMove() && !addMove(info, op, rank, event, trace))
    return false;
  if (info.kind == EventKind::Divide &&
      (!addBox(info.destination, op, rank, event.destination, trace) ||
       !checkAccess(op, info.destination.buffer, rank, true) || !setPart(info, op, event.destination.buffer, event)))
    return false;
  trace.events.push_back(event);
  return true;
}

bool Tracer::addMove(const OpInfo &info, uint32_t op, int64_t rank, Event &event, Trace &trace) {
  bool isPut = info.kind == EventKind::Put;
  int64_t sourceOwner = isPut ? rank : event.peer, destinationOwner = isPut ? event.peer : rank;
  return addBox(info.source, op, sourceOwner, event.source, trace) &&
         addBox(info.destination, op, destinationOwner, event.destination, trace) &&
         checkPair(info, op, event, trace) && checkAccess(op, info.source.buffer, sourceOwner, false) &&
         checkAccess(op, info.destination.buffer, destinationOwner, true) &&
         setPart(info, op, event.source.buffer, event) && setPart(info, op, event.destination.buffer, event);
}

bool Tracer::addBox(const SliceRegisters &slice, uint32_t op, int64_t owner, Box &box, Trace &trace) {
  const Grid &grid = bufferGrids[slice.buffer];
  box = {slice.buffer, uint32_t(trace.numbers.size())};
  if (liesInside(owner, slice.buffer)) {
    box.buffer = alias->outer;
    if (alias->isOwnBlock)
      for (int32_t index :
           blockIndices(bufferGrids[alias->outer], code.buffers[alias->outer].numBlockDims, numberInGroup(owner))) {
        trace.numbers.push_back(index);
        trace.numbers.push_back(1);
      }
  }
  for (auto [dim, extent] : llvm::enumerate(grid.extents)) {
    int64_t offset = code.evaluator.valueIn(slice.offsets[dim]), size = code.evaluator.valueIn(slice.sizes[dim]);
    if (size < 0 || size > extent)
      return refuse(op, "a slice takes " + std::to_string(size) + " chunks along dimension " + std::to_string(dim) +
                            " of '" + code.buffers[slice.buffer].name + "', which has " + std::to_string(extent) +
                            " there");
    trace.numbers.push_back(extent ? int32_t(llvm::mod<int64_t>(offset, extent)) : 0);
    trace.numbers.push_back(int32_t(size));
  }
  return true;
}

bool Tracer::checkPair(const OpInfo &info, uint32_t op, const Event &event, const Trace &trace) {
  bool haveEqualShapes =
      llvm::equal(info.source.rangedSizes, info.destination.rangedSizes,
                  [&](unsigned a, unsigned b) { return code.evaluator.valueIn(a) == code.evaluator.valueIn(b); });
  if (!haveEqualShapes) {
    auto shape = [&](const SliceRegisters &slice) {
      return llvm::map_to_vector(slice.rangedSizes, [&](unsigned size) { return code.evaluator.valueIn(size); });
    };
    std::string text = "the source slice has [";
    llvm::raw_string_ostream out(text);
    llvm::interleaveComma(shape(info.source), out);
    out << "] chunks, the destination slice [";
    llvm::interleaveComma(shape(info.destination), out);
    out << "]";
    return refuse(op, text);
  }
  return checkSizes(op, event, trace);
}

/// Chunks that are moved onto each other have equal sizes: they have the same place in blocks that are cut alike.
bool Tracer::checkSizes(uint32_t op, const Event &event, const Trace &trace) {
  const Grid &source = bufferGrids[event.source.buffer], &destination = bufferGrids[event.destination.buffer];
  if (source.isSlots && destination.isSlots)
    return refuse(op, "moves from slots to slots, so that nothing says how much");
  if (source.chunksPerBlock != destination.chunksPerBlock)
    return refuse(op, "chunks of different size: a block of '" + code.buffers[event.source.buffer].name + "' has " +
                          std::to_string(source.chunksPerBlock) + ", one of '" +
                          code.buffers[event.destination.buffer].name + "' " +
                          std::to_string(destination.chunksPerBlock));
  if (source.isSlots || destination.isSlots || source.chunksPerBlock == 1)
    return true;
  // Mostly the dimensions inside of blocks are the same on both sides.
  auto inner = [&](const Box &box, const Grid &grid) {
    size_t first = code.buffers[box.buffer].numBlockDims;
    return trace.numbersOf(box, grid.extents.size()).drop_front(2 * first);
  };
  size_t sourceBlocks = code.buffers[event.source.buffer].numBlockDims;
  size_t destinationBlocks = code.buffers[event.destination.buffer].numBlockDims;
  if (ArrayRef(source.extents).drop_front(sourceBlocks) ==
          ArrayRef(destination.extents).drop_front(destinationBlocks) &&
      inner(event.source, source) == inner(event.destination, destination))
    return true;
  std::vector<int32_t> from, to;
  expandBox(trace, event.source, source, from);
  expandBox(trace, event.destination, destination, to);
  for (auto [a, b] : llvm::zip_equal(from, to))
    if (a % source.chunksPerBlock != b % destination.chunksPerBlock)
      return refuse(op, "chunks of different size: number " + std::to_string(a % source.chunksPerBlock) +
                            " of a block of '" + code.buffers[event.source.buffer].name + "' and number " +
                            std::to_string(b % destination.chunksPerBlock) + " of one of '" +
                            code.buffers[event.destination.buffer].name + "'");
  return true;
}

bool Tracer::checkAccess(uint32_t op, uint32_t buffer, int64_t owner, bool isWrite) {
  const BufferInfo &info = code.buffers[buffer];
  if (isWrite && info.role == BufferRole::Input)
    return refuse(op, "writes to the input '" + info.name + "'");
  const char *where = isAtRoot(kind, info.role) ? "', which exists at the root only" : "', which the first rank lacks";
  return exists(owner, info.role) || refuse(op, "rank " + std::to_string(owner) + " has no '" + info.name + where);
}

bool Tracer::setPart(const OpInfo &info, uint32_t op, uint32_t buffer, Event &event) {
  int64_t part = info.partRegister ? code.evaluator.valueIn(*info.partRegister) : 0;
  int64_t parts = info.partsRegister ? code.evaluator.valueIn(*info.partsRegister) : 1;
  if (part < 0 || part >= parts)
    return refuse(op, "part " + std::to_string(part) + " of " + std::to_string(parts));
  int32_t &known = bufferGrids[buffer].numParts;
  if (known != 0 && known != parts)
    return refuse(op, "moves chunks of '" + code.buffers[buffer].name + "' in " + std::to_string(parts) +
                          " slices, which are moved in " + std::to_string(known) + " elsewhere");
  known = int32_t(parts);
  event.part = int32_t(part);
  return true;
}

} // namespace kolo
