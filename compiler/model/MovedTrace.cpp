// Runs a program for all translations of a rank at once, and compares it with the trace of that rank, step by step.
#include "compiler/model/MovedTrace.h"

#include "ir/Members.h"

#include "llvm/Support/MathExtras.h"

#include <bit>

using namespace mlir;

namespace kolo {

MovedTrace::MovedTrace(const Tracer &tracer, const RankGroup &group, bool rootMoves)
    : tracer(tracer), group(group), rootMoves(rootMoves), root(tracer.rootNumber()),
      registers(tracer.program().evaluator.numRegisters()), loopDims(tracer.program().lines.size(), -1) {
  if (!rootMoves)
    return;
  root = 0;
  for (int64_t dim : tracer.program().program.getCollective().getGroupDims())
    root = root * tracer.mesh()[size_t(dim)] + coordinate(size_t(dim), 0);
}

MovedNumber MovedTrace::coordinate(size_t dim, int64_t offset) const {
  auto size = int32_t(tracer.mesh()[dim]);
  return MovedNumber::coordinate(uint8_t(dim), size == 1 ? Translation::None : group.kinds[dim], size, int32_t(offset));
}

bool MovedTrace::coversOrbit(int64_t rank, const Trace &trace, int64_t &numLinesRun, bool mayReorder) {
  CollectiveAttr collective = tracer.program().program.getCollective();
  if (!areMembersAlike(collective.getKind()) && !rootMoves)
    for (int64_t dim : collective.getGroupDims())
      if (group.kinds[size_t(dim)] != Translation::None)
        return false; // ranks would be moved to and from those that have, or lack, some buffers
  coordinates = tracer.coordinatesOf(rank);
  if (!mayReorder)
    llvm::fill(loopDims, int8_t(-1));
  constexpr int mostAttempts = 32;
  for (int attempt = 0; attempt < mostAttempts; ++attempt) {
    numEvents = 0;
    numConditions = 0;
    loops.clear();
    movedLoops.clear();
    if (run(trace, numLinesRun))
      return numEvents == trace.events.size() && keepsGrids() && areIterationsIndependent(trace);
    if (!mayReorder || !reinterpretLoop())
      return false;
  }
  return false;
}

/// The innermost loop around the place where a run failed that can be read in another way.
bool MovedTrace::reinterpretLoop() {
  for (const Loop &loop : llvm::reverse(loops)) {
    int8_t &chosen = loopDims[loop.line];
    for (auto dim = size_t(chosen + 1); dim < group.kinds.size(); ++dim)
      if (group.kinds[dim] != Translation::None && tracer.mesh()[dim] == loop.numIterations) {
        chosen = int8_t(dim);
        return true;
      }
    chosen = -1;
  }
  return false;
}

/// Of a loop over 0, 1, ... whose order does not matter, iteration i is that of the coordinate i, moved.
void MovedTrace::beginLoop(const Code::Line &line, uint32_t number) {
  std::optional<int64_t> lower = constantIn(line.b), upper = constantIn(line.c), step = constantIn(line.d);
  bool countsAll = *lower == 0 && *step == 1;
  loops.push_back({number, countsAll ? *upper : -1, 0, {}});
  registers[line.a] = countsAll && loopDims[number] >= 0 ? coordinate(size_t(loopDims[number]), 0) : *lower;
  if (loopDims[number] >= 0)
    loops.back().starts.push_back(numEvents);
}

bool MovedTrace::continueLoop(const Code::Line &line) {
  Loop &loop = loops.back();
  ++loop.iteration;
  bool isMoved = loopDims[loop.line] >= 0;
  if (isMoved) {
    loop.starts.push_back(numEvents);
    if (loop.iteration < loop.numIterations) {
      registers[line.a] = coordinate(size_t(loopDims[loop.line]), loop.iteration);
      return true;
    }
    movedLoops.push_back(std::move(loop));
  } else {
    registers[line.a] = registers[line.a] + registers[line.d];
    if (*constantIn(line.a) < *constantIn(line.c))
      return true;
  }
  loops.pop_back();
  return false;
}

/// Whether a translated order is the order of the loop itself: ToFront moves the first iteration alone.
bool MovedTrace::keepsOrder(const Loop &loop) const {
  return group.kinds[size_t(loopDims[loop.line])] == Translation::ToFront && loop.starts[0] == loop.starts[1];
}

/// Whether nobody can tell in which order the iterations of loops come that have a translated order. Waits that follow
/// each other may change places, since the rank goes on after all of them; so may signals, since nothing lies between
/// them. Moves may if none touches what another iteration writes.
bool MovedTrace::areIterationsIndependent(const Trace &trace) const {
  return llvm::all_of(movedLoops, [&](const Loop &loop) {
    ArrayRef<Event> events =
        ArrayRef(trace.events).slice(loop.starts.front(), loop.starts.back() - loop.starts.front());
    auto areAll = [&](EventKind kind) { return llvm::all_of(events, [&](const Event &e) { return e.kind == kind; }); };
    return keepsOrder(loop) || areAll(EventKind::Wait) || areAll(EventKind::Signal) || areMovesIndependent(loop, trace);
  });
}

bool MovedTrace::areMovesIndependent(const Loop &loop, const Trace &trace) const {
  struct Touch {
    size_t iteration;
    bool isWrite;
  };
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, Touch> touched; // by owner, buffer, chunk and part
  std::vector<int32_t> chunks;
  auto touch = [&](const Event &event, const Box &box, int64_t owner, bool isWrite, size_t iteration) {
    if (tracer.program().buffers[box.buffer].role == BufferRole::Packets)
      return false; // packets order what comes after them
    expandBox(trace, box, tracer.grids()[box.buffer], chunks);
    return llvm::all_of(chunks, [&](int32_t chunk) {
      std::pair<uint64_t, uint64_t> key(uint64_t(owner) << 32 | uint32_t(chunk),
                                        uint64_t(box.buffer) << 32 | uint32_t(event.part));
      auto [known, isNew] = touched.try_emplace(key, Touch{iteration, isWrite});
      bool isFine = isNew || known->second.iteration == iteration || !(isWrite || known->second.isWrite);
      known->second.isWrite |= isWrite;
      return isFine;
    });
  };
  int64_t rank = 0;
  for (auto [place, size] : llvm::zip_equal(coordinates, tracer.mesh()))
    rank = rank * size + place;
  for (size_t iteration = 0; iteration + 1 < loop.starts.size(); ++iteration)
    for (size_t number = loop.starts[iteration]; number < loop.starts[iteration + 1]; ++number) {
      const Event &event = trace.events[number];
      bool isPut = event.kind == EventKind::Put;
      bool isMove = isPut || event.kind == EventKind::Copy || event.kind == EventKind::Reduce;
      if (!isMove && event.kind != EventKind::Divide)
        return false;
      if (isMove && !touch(event, event.source, isPut ? rank : event.peer, false, iteration))
        return false;
      if (!touch(event, event.destination, isPut ? event.peer : rank, true, iteration))
        return false;
    }
  return true;
}

/// As Tracer::run. Ends where a jump depends on the translation.
bool MovedTrace::run(const Trace &trace, int64_t &numLinesRun) {
  const Code &code = tracer.program();
  for (uint32_t i = 0; i < code.lines.size(); ++numLinesRun) {
    const Code::Line &line = code.lines[i++];
    switch (line.kind) {
    case Code::Kind::Compute: {
      const IndexEvaluator::Instruction &instruction = code.instructions[line.number];
      registers[instruction.result] = evaluate(instruction);
      break;
    }
    case Code::Kind::ForBegin: {
      std::optional<int64_t> lower = constantIn(line.b), upper = constantIn(line.c), step = constantIn(line.d);
      if (!lower || !upper || !step || *step < 1)
        return false;
      if (*lower >= *upper)
        i = line.target;
      else
        beginLoop(line, i - 1);
      break;
    }
    case Code::Kind::ForNext:
      if (continueLoop(line))
        i = line.target;
      break;
    case Code::Kind::JumpUnless: {
      std::optional<int64_t> condition = constantIn(line.a);
      if (!condition)
        return false;
      if (!*condition)
        i = line.target;
      break;
    }
    case Code::Kind::Jump:
      i = line.target;
      break;
    case Code::Kind::FuseBegin:
    case Code::Kind::FuseEnd:
      break;
    case Code::Kind::Event:
      if (!isNext(trace, line.number))
        return false;
    }
  }
  return true;
}

MovedNumber MovedTrace::evaluate(const IndexEvaluator::Instruction &instruction) {
  using Opcode = IndexEvaluator::Opcode;
  const MovedNumber &a = registers[instruction.a], &b = registers[instruction.b], &c = registers[instruction.c];
  std::optional<int64_t> left = a.asConstant(), right = b.asConstant();
  switch (instruction.opcode) {
  case Opcode::Constant:
    return instruction.immediate;
  case Opcode::DimSize:
    return tracer.mesh()[size_t(instruction.immediate)];
  case Opcode::Coord:
    return coordinate(size_t(instruction.immediate), coordinates[size_t(instruction.immediate)]);
  case Opcode::Root:
    return root;
  case Opcode::Lookup: {
    ArrayRef<int64_t> table = cast<LookupOp>(instruction.op).getTable();
    return left && *left >= 0 && *left < int64_t(table.size()) ? table[size_t(*left)] : MovedNumber::unknown();
  }
  case Opcode::Add:
    return a + b;
  case Opcode::Sub:
    return a - b;
  case Opcode::Mul:
    return a * b;
  case Opcode::FloorDiv:
    return a.floorDiv(right.value_or(0));
  case Opcode::Div:
    return a.isNeverNegative() ? a.floorDiv(right.value_or(0)) : MovedNumber::unknown();
  case Opcode::Rem:
    return a.remainder(right.value_or(0), ++numConditions);
  case Opcode::Min:
    return MovedNumber::select(MovedNumber::isLess(b, a), b, a);
  case Opcode::Max:
    return MovedNumber::select(MovedNumber::isLess(a, b), b, a);
  case Opcode::And:
    if (left && right)
      return *left & *right;
    return a.isBoolean() && b.isBoolean() ? a * b : MovedNumber::unknown();
  case Opcode::Or:
    if (left && right)
      return *left | *right;
    return a.isBoolean() && b.isBoolean() ? a + b - a * b : MovedNumber::unknown();
  case Opcode::Xor:
    return a ^ b;
  case Opcode::Shl:
    if (!right || *right < 0 || *right > 62)
      return MovedNumber::unknown();
    return left ? MovedNumber(*left << *right) : a * (int64_t(1) << *right);
  case Opcode::Ctlz:
    return left && *left > 0 ? MovedNumber(std::countl_zero(uint64_t(*left))) : MovedNumber::unknown();
  case Opcode::Cast:
    return a;
  case Opcode::Equal:
    return MovedNumber::isEqual(a, b);
  case Opcode::NotEqual:
    return 1 - MovedNumber::isEqual(a, b);
  case Opcode::Less:
    return MovedNumber::isLess(a, b);
  case Opcode::LessEqual:
    return 1 - MovedNumber::isLess(b, a);
  case Opcode::Greater:
    return MovedNumber::isLess(b, a);
  case Opcode::GreaterEqual:
    return 1 - MovedNumber::isLess(a, b);
  case Opcode::Select:
    return MovedNumber::select(a, b, c);
  }
  llvm_unreachable("every opcode is handled");
}

/// Whether an op, as it is executed now, is the next event of the trace, moved.
bool MovedTrace::isNext(const Trace &trace, uint32_t op) {
  if (numEvents == trace.events.size() || trace.events[numEvents].op != op)
    return false;
  const Event &event = trace.events[numEvents++];
  const OpInfo &info = tracer.program().ops[op];
  Permutations source, destination;
  if (!isPeer(info, event))
    return false;
  if (info.kind == EventKind::Divide)
    return isPart(info, event) && isBox(info.destination, event.destination, trace, destination);
  return !info.isMove() || (isPart(info, event) && isBox(info.source, event.source, trace, source) &&
                            isBox(info.destination, event.destination, trace, destination) && source == destination &&
                            keepsSizes(event, trace));
}

bool MovedTrace::isPeer(const OpInfo &info, const Event &event) const {
  if (!info.peerRegister)
    return true;
  SmallVector<int64_t, 4> place = tracer.coordinatesOf(event.peer);
  MovedNumber wanted;
  for (size_t dim = 0; dim < place.size(); ++dim)
    wanted = wanted * tracer.mesh()[dim] + coordinate(dim, place[dim]);
  return registers[*info.peerRegister] == wanted;
}

bool MovedTrace::isPart(const OpInfo &info, const Event &event) const {
  return (!info.partRegister || constantIn(*info.partRegister) == event.part) &&
         (!info.partsRegister || constantIn(*info.partsRegister) == tracer.grids()[event.destination.buffer].numParts);
}

/// In a call in place, a slice of the inner buffer lies in its owner's block of the outer one.
bool MovedTrace::isBlockOfOwner(const Box &box, size_t dim) const {
  ArrayRef<int64_t> groupDims = tracer.program().program.getCollective().getGroupDims();
  if (tracer.program().buffers[box.buffer].numBlockDims != groupDims.size() || dim >= groupDims.size())
    return false;
  auto meshDim = size_t(groupDims[dim]);
  int64_t size = tracer.mesh()[meshDim];
  bool isMoved = group.kinds[meshDim] != Translation::None && size > 1;
  return tracer.grids()[box.buffer].extents[dim] == size &&
         (!isMoved || group.chunkDims[box.buffer][dim] == int8_t(meshDim));
}

bool MovedTrace::isBox(const SliceRegisters &slice, const Box &box, const Trace &trace,
                       Permutations &permutations) const {
  ArrayRef<int32_t> extents = tracer.grids()[box.buffer].extents;
  ArrayRef<int32_t> numbers = trace.numbersOf(box, extents.size());
  size_t numOuter = extents.size() - slice.offsets.size();
  for (size_t dim = 0; dim < numOuter; ++dim)
    if (!isBlockOfOwner(box, dim))
      return false;
  for (size_t i = 0; i < slice.offsets.size(); ++i) {
    size_t dim = numOuter + i;
    int32_t size = numbers[2 * dim + 1];
    if (constantIn(slice.sizes[i]) != size || !isRange(registers[slice.offsets[i]], numbers[2 * dim], size,
                                                       extents[dim], group.chunkDims[box.buffer][dim], permutations))
      return false;
  }
  return true;
}

/// As RankGroup::isMovedBox, for all translations.
bool MovedTrace::isRange(const MovedNumber &offset, int32_t first, int32_t size, int32_t extent, int8_t dim,
                         Permutations &permutations) const {
  if (extent == 0)
    return false;
  MovedNumber inside = offset.floorMod(extent);
  Permutation permutation;
  if (dim < 0 || tracer.mesh()[size_t(dim)] == 1) {
    if (inside.asConstant() != first)
      return false;
  } else if (size > 1 && group.kinds[size_t(dim)] == Translation::Xor) {
    if (!llvm::isPowerOf2_32(uint32_t(size)) || first % size != 0 ||
        inside != MovedNumber::block(uint8_t(dim), extent, first, uint8_t(llvm::Log2_32(uint32_t(size)))))
      return false;
    permutation = {dim, size};
  } else if (inside != coordinate(size_t(dim), first) ||
             (size > 1 && group.kinds[size_t(dim)] == Translation::ToFront)) {
    if (size != extent || size == 1 || inside.asConstant() != first)
      return false;
    permutation = {dim, size};
  }
  if (size != 1)
    permutations.push_back(permutation);
  return true;
}

/// As Tracer::checkSizes, where the dimensions inside of blocks are the same on both sides.
bool MovedTrace::keepsSizes(const Event &event, const Trace &trace) const {
  const Grid &source = tracer.grids()[event.source.buffer], &destination = tracer.grids()[event.destination.buffer];
  if (source.isSlots || destination.isSlots || source.chunksPerBlock == 1)
    return true;
  size_t fromBlocks = tracer.program().buffers[event.source.buffer].numBlockDims;
  size_t toBlocks = tracer.program().buffers[event.destination.buffer].numBlockDims;
  auto numbersInside = [&](const Box &box, const Grid &grid, size_t numBlockDims) {
    return trace.numbersOf(box, grid.extents.size()).drop_front(2 * numBlockDims);
  };
  return ArrayRef(source.extents).drop_front(fromBlocks) == ArrayRef(destination.extents).drop_front(toBlocks) &&
         numbersInside(event.source, source, fromBlocks) == numbersInside(event.destination, destination, toBlocks) &&
         ArrayRef(group.chunkDims[event.source.buffer]).drop_front(fromBlocks) ==
             ArrayRef(group.chunkDims[event.destination.buffer]).drop_front(toBlocks);
}

bool MovedTrace::keepsGrids() const {
  for (auto [buffer, grid] : llvm::zip_equal(tracer.program().buffers, tracer.grids()))
    for (auto [extentRegister, extent] : llvm::zip_equal(buffer.gridRegisters, grid.extents))
      if (constantIn(extentRegister) != extent)
        return false;
  return true;
}

} // namespace kolo
