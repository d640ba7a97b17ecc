#include "compiler/import/ChannelForm.h"

#include "ir/Kolo.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace kolo::foreign {

namespace {

class ProgramBuilder {
public:
  ProgramBuilder(MLIRContext &context, const ForeignSchedule &schedule, const Sequence &sequence)
      : builder(&context), schedule(schedule), sequence(sequence) {}
  OwningOpRef<ModuleOp> build();

private:
  Location locationOf(int32_t line) {
    return FileLineColLoc::get(builder.getContext(), schedule.path, unsigned(std::max(line, 1)), 1);
  }
  Value constant(int64_t value);
  void addBuffers();
  void addRank(int32_t rank);
  void addStep(const SequenceStep &step);
  void addMove(const SequenceStep &step);
  bool hasBlocks(BufferName buffer) const;
  void addSlice(const SequenceSlice &slice, int32_t count, SmallVectorImpl<Value> &offsets,
                SmallVectorImpl<Value> &sizes);
  Value bufferOf(const SequenceSlice &slice) const { return buffers[size_t(slice.buffer)]; }

  OpBuilder builder;
  const ForeignSchedule &schedule;
  const Sequence &sequence;
  std::map<int64_t, Value> constants;
  Block *top = nullptr;
  Value lane, numLanes, coordinate;
  std::array<Value, numBuffers> buffers;
};

} // namespace

CollectiveKind kindOf(Collective collective) {
  static constexpr std::array kinds{CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::AllToAll,
                                    CollectiveKind::ReduceScatter};
  return kinds[size_t(collective)];
}

std::string programName(const ForeignSchedule &schedule) {
  std::string name = schedule.name.substr(0, 64);
  for (char &character : name)
    if (!llvm::isAlnum(character))
      character = '_';
  return name.empty() || llvm::isDigit(name[0]) ? "imported_" + name : name;
}

/// At the top of the program, where every branch sees it.
Value ProgramBuilder::constant(int64_t value) {
  Value &known = constants[value];
  if (!known) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(top);
    known = arith::ConstantIndexOp::create(builder, locationOf(schedule.line), value);
  }
  return known;
}

/// The caller's buffers have one block or one per rank, as the collective says; the others have a grid of blocks.
bool ProgramBuilder::hasBlocks(BufferName buffer) const {
  switch (buffer) {
  case BufferName::Input:
    return schedule.collective == Collective::AllToAll || schedule.collective == Collective::ReduceScatter;
  case BufferName::Output:
    return schedule.collective == Collective::AllToAll || schedule.collective == Collective::AllGather;
  default:
    return true;
  }
}

void ProgramBuilder::addBuffers() {
  static constexpr std::array names{"input", "output", "scratch", "arrived", "work"};
  static constexpr std::array roles{BufferRole::Input, BufferRole::Output, BufferRole::Scratch, BufferRole::Scratch,
                                    BufferRole::Scratch};
  for (size_t number = 0; number < numBuffers; ++number) {
    if (sequence.numBlocks[number] == 0)
      continue;
    SmallVector<Value> grid;
    if (hasBlocks(BufferName(number)))
      grid.push_back(constant(sequence.numBlocks[number]));
    grid.push_back(constant(schedule.chunksPerBlock));
    auto type = BufferType::get(builder.getContext(), unsigned(grid.size()));
    buffers[number] = BufferOp::create(builder, locationOf(schedule.line), type, roles[number], names[number], grid,
                                       uint64_t(grid.size() - 1), Value(), CodecAttr(), /*ll128=*/false);
  }
}

void ProgramBuilder::addSlice(const SequenceSlice &slice, int32_t count, SmallVectorImpl<Value> &offsets,
                              SmallVectorImpl<Value> &sizes) {
  if (hasBlocks(slice.buffer)) {
    offsets.push_back(constant(slice.block));
    sizes.push_back(constant(1));
  }
  offsets.push_back(constant(slice.chunk));
  sizes.push_back(constant(count));
}

void ProgramBuilder::addMove(const SequenceStep &step) {
  Location location = locationOf(step.line);
  SmallVector<Value> sourceOffsets, sourceSizes, offsets, sizes;
  addSlice(step.source, step.count, sourceOffsets, sourceSizes);
  addSlice(step.destination, step.count, offsets, sizes);
  Value source = bufferOf(step.source), destination = bufferOf(step.destination);
  Value peer = step.peer < 0 ? Value() : constant(step.peer);
  if (step.kind == StepKind::Put)
    PutOp::create(builder, location, source, sourceOffsets, sourceSizes, destination, offsets, sizes, peer, lane,
                  numLanes);
  else if (step.kind == StepKind::Reduce)
    ChannelReduceOp::create(builder, location, source, sourceOffsets, sourceSizes, destination, offsets, sizes, peer,
                            lane, numLanes);
  else if (peer)
    GetOp::create(builder, location, source, sourceOffsets, sourceSizes, destination, offsets, sizes, peer, lane,
                  numLanes);
  else
    ChannelCopyOp::create(builder, location, source, sourceOffsets, sourceSizes, destination, offsets, sizes, lane,
                          numLanes);
}

void ProgramBuilder::addStep(const SequenceStep &step) {
  Location location = locationOf(step.line);
  auto credit = step.isEntry ? CreditKindAttr::get(builder.getContext(), CreditKind::Entry) : CreditKindAttr();
  switch (step.kind) {
  case StepKind::Copy:
  case StepKind::Reduce:
  case StepKind::Put:
    addMove(step);
    break;
  case StepKind::Signal:
    SignalOp::create(builder, location, uint64_t(step.semaphore), constant(step.peer), credit);
    break;
  case StepKind::Wait:
    WaitOp::create(builder, location, uint64_t(step.semaphore), constant(step.peer), credit);
    break;
  case StepKind::Flush:
    FlushOp::create(builder, location);
    break;
  case StepKind::Divide:
    SmallVector<Value> offsets, sizes;
    addSlice(step.destination, step.count, offsets, sizes);
    DivideOp::create(builder, location, bufferOf(step.destination), offsets, sizes, lane, numLanes);
  }
}

void ProgramBuilder::addRank(int32_t rank) {
  Location location = locationOf(schedule.line);
  Value isRank = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, coordinate, constant(rank));
  auto branch = scf::IfOp::create(builder, location, isRank, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  for (const SequenceStep &step : sequence.ranks[size_t(rank)])
    addStep(step);
}

OwningOpRef<ModuleOp> ProgramBuilder::build() {
  Location location = locationOf(schedule.line);
  OwningOpRef<ModuleOp> module(ModuleOp::create(location));
  builder.setInsertionPointToStart(module->getBody());
  MLIRContext *context = builder.getContext();
  auto collective = CollectiveAttr::get(context, kindOf(schedule.collective), {0});
  auto sizes = builder.getDenseI64ArrayAttr({schedule.numRanks});
  auto program =
      ProgramOp::create(builder, location, builder.getStringAttr(programName(schedule)), collective,
                        builder.getStrArrayAttr({"rank"}), builder.getArrayAttr({sizes}),
                        uint64_t(sequence.numSemaphores), sequence.mayRunInPlace ? InPlace::Direct : InPlace::CopyInput,
                        /*needs_handshake=*/false, /*proved=*/nullptr);
  top = &program.getBody().emplaceBlock();
  builder.setInsertionPointToStart(top);
  coordinate = CoordOp::create(builder, location, uint64_t(0));
  lane = LaneOp::create(builder, location);
  numLanes = NumLanesOp::create(builder, location);
  addBuffers();
  for (int32_t rank = 0; rank < schedule.numRanks; ++rank)
    addRank(rank);
  return module;
}

OwningOpRef<ModuleOp> makeChannelForm(MLIRContext &context, const ForeignSchedule &schedule, const Sequence &sequence) {
  return ProgramBuilder(context, schedule, sequence).build();
}

} // namespace kolo::foreign
