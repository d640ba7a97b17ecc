// The model's sizes of chunks are those of the reference, and what a program moves adds up to what its collective
// needs.
#include "Support.h"

#include "compiler/Pipeline.h"
#include "compiler/model/ChunkSizes.h"
#include "ir/reference/Layout.h"

#include "mlir/Pass/PassManager.h"

using namespace kolo;
using namespace kolo::test;

namespace {

constexpr int64_t counts[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 63, 64, 100, 127, 1000, 4096, 99991, int64_t(1) << 40};

Grid makeGrid(int32_t blocks, int32_t chunksPerBlock, bool isSlots) {
  Grid grid;
  grid.extents = {blocks, chunksPerBlock};
  grid.numChunks = isSlots ? blocks : int64_t(blocks) * chunksPerBlock;
  grid.chunksPerBlock = chunksPerBlock;
  grid.isSlots = isSlots;
  return grid;
}

reference::Layout layoutOf(const Grid &grid, const CallSize &call) {
  reference::Layout layout{{grid.extents[0], grid.extents[1]}, 1, call.count, call.unit()};
  if (grid.isSlots)
    layout = {{grid.extents[0]}, 1, call.count, call.unit(), grid.chunksPerBlock};
  return layout;
}

ElementRange toElements(const reference::Range &range) { return {range.begin, range.size}; }

void expectLikeReference(const Grid &grid, const CallSize &call) {
  reference::Layout layout = layoutOf(grid, call);
  EXPECT_EQ(bufferElements(grid, call), layout.numElements());
  EXPECT_EQ(slotElements(grid.chunksPerBlock, call), layout.slotSize());
  for (int64_t chunk = 0; chunk < grid.numChunks; ++chunk) {
    ASSERT_EQ(chunkRange(grid, chunk, call), toElements(layout.chunk(chunk)));
    for (int64_t numParts : {1, 2, 3, 7})
      for (int64_t part = 0; part < numParts; ++part)
        ASSERT_EQ(partRange(chunkRange(grid, chunk, call), grid.chunksPerBlock, part, numParts, call),
                  toElements(partOf(layout.chunk(chunk), layout.slotSize(), part, numParts, call.unit())));
  }
}

/// One algorithm's channel program on one mesh.
class Model {
public:
  Model(const std::string &name, const Sizes &mesh, const Schedule &schedule = {})
      : context(makeContext()), module(emit(*context, name, {mesh})) {
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.schedule = std::get<ResolvedSchedule>(resolve(schedule, {}))});
    EXPECT_TRUE(mlir::succeeded(manager.run(*module)));
    code.emplace(std::get<Code>(Code::create(*module->getOps<ProgramOp>().begin())));
    tracer.emplace(*code, mesh, 0, false);
    for (int64_t rank = 0; rank < tracer->numRanks(); ++rank)
      EXPECT_TRUE(tracer->run(rank, traces.emplace_back()));
  }

  /// Bytes that all ranks move from one rank to another.
  int64_t bytesBetweenRanks(const CallSize &call) const {
    int64_t total = 0;
    for (auto [rank, trace] : llvm::enumerate(traces))
      for (const Event &event : trace.events)
        if (event.peer != int32_t(rank))
          total += bytesMoved(*tracer, trace, event, call);
    return total;
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Code> code;
  std::optional<Tracer> tracer;
  std::vector<Trace> traces;
};

} // namespace

TEST(ChunkSizes, AreThoseOfTheReference) {
  for (int64_t count : counts)
    for (int64_t elementBytes : {1, 2, 4, 8})
      for (int32_t chunksPerBlock : {1, 2, 3, 5, 8, 63})
        for (bool isSlots : {false, true})
          for (bool isCoded : {false, true})
            expectLikeReference(makeGrid(3, chunksPerBlock, isSlots), {count, elementBytes, isCoded});
}

TEST(ChunkSizes, OfAProgramAddUpToWhatItsCollectiveMoves) {
  Model allGather("ringAllGather", {3}), allReduce("slottedRingAllReduce", {3}), allToAll("directAllToAll", {4});
  Model pipelined("ringAllReduce", {3}, {.pipelineDepth = 3}), broadcast("binomialBroadcast", {5});
  Model reduced("twoShotAllReduce", {4}), packets("twoShotAllReduce", {4}, {.protocol = Protocol::LL});
  for (int64_t count : counts)
    for (int64_t elementBytes : {1, 2, 4, 8}) {
      CallSize call{count, elementBytes};
      int64_t bytes = count * elementBytes;
      EXPECT_EQ(allGather.bytesBetweenRanks(call), 3 * 2 * bytes);
      // Every chunk goes around the ring twice, but for one step each time.
      EXPECT_EQ(allReduce.bytesBetweenRanks(call), 2 * 2 * bytes);
      EXPECT_EQ(pipelined.bytesBetweenRanks(call), 2 * 2 * bytes);
      EXPECT_EQ(allToAll.bytesBetweenRanks(call), 4 * 3 * bytes);
      EXPECT_EQ(broadcast.bytesBetweenRanks(call), 4 * bytes);
      EXPECT_EQ(reduced.bytesBetweenRanks(call), 2 * 3 * bytes);
      EXPECT_EQ(packets.bytesBetweenRanks(call), 2 * 3 * bytes);
    }
}
