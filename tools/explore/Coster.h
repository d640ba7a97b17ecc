// What exploration costs candidates with: from definitions to IR, through the compiler's passes, to the closed form.
// Private to Explore.
#pragma once

#include "tools/explore/Explore.h"

#include "compiler/Schedule.h"
#include "ir/Kolo.h"
#include "tools/explore/ScratchNeed.h"
#include "tools/explore/Search.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class OpPassManager;
}

namespace kolo {
struct PipelineOptions;

namespace tools {

/// What every structure is tried with. Those that the choreography pipeline treats alike follow each other.
std::vector<Schedule> schedulesToTry();

ResolvedSchedule resolved(const Schedule &schedule);

inline constexpr int64_t mostSimulatedNodes = 4;

/// The same kind of mesh on fewer nodes, at most so many in all dimensions of nodes together; powers of two stay ones.
/// A dimension named "rank" is one of whole nodes.
cost::PlacedMesh shrink(cost::PlacedMesh mesh, int64_t devicesPerNode, int64_t mostNodes);

/// Bytes that leave every chunk as large on fewer ranks.
int64_t shrinkBytes(int64_t bytes, KoloCollective collective, const cost::PlacedMesh &from, const cost::PlacedMesh &to);

/// The dimensions of such meshes whose ranks are on several nodes.
std::vector<std::string> networkDimsOf(const cost::PlacedMesh &mesh);

/// What one thread works with.
class Workshop {
public:
  /// Choreographies are marked for such a network.
  explicit Workshop(const ExploreRequest &request) : network(request.numNodes > 1 ? request.network : std::nullopt) {}

  /// The choreography, its statements at their lines of the printed source; null with the reason when it is mistaken.
  /// Checked on this mesh: passes need not do it again. Modules of earlier calls must be gone: the context may be.
  mlir::OwningOpRef<mlir::ModuleOp> emit(const dsl::Definition &definition, const cost::PlacedMesh &mesh,
                                         std::string &reason);

  /// A module from text that the printer made, beside those of the last call of `emit`.
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

  /// Nothing, with the first error, where the choreography's arithmetic fails.
  std::optional<ScratchNeed> scratchNeedOf(ChoreographyOp choreography, const std::vector<int64_t> &sizes,
                                           std::string &reason);

  /// Runs a pipeline; gives the first error, empty where there is none.
  std::string run(mlir::ModuleOp module, void (*build)(mlir::OpPassManager &, const PipelineOptions &),
                  const PipelineOptions &options);

private:
  void renew();
  void placeOnLines(mlir::ModuleOp module, const std::string &file, const std::vector<unsigned> &lines);

  std::optional<NetworkMemory> network;
  std::unique_ptr<mlir::MLIRContext> context;
  int numUses = 0;
};

/// Costs choreographies in closed form, on several threads.
class Coster {
public:
  /// Programs that take more scratch memory than `mostScratchBytes` take for ever.
  Coster(const ExploreRequest &request, std::vector<Schedule> schedules,
         std::optional<int64_t> mostScratchBytes = std::nullopt)
      : request(request), schedules(std::move(schedules)), mostScratchBytes(mostScratchBytes),
        workshops(makeWorkshops(request)) {}

  const std::vector<Schedule> &tried() const { return schedules; }
  Workshop &workshop(unsigned thread) { return workshops[thread]; }

  /// `bytesFor`: the bytes to cost in place of one of the request's sizes.
  explore::Costs cost(
      unsigned thread, const dsl::Definition &definition, const cost::PlacedMesh &mesh, const std::string &placement,
      const std::function<int64_t(int64_t)> &bytesFor = [](int64_t bytes) { return bytes; });

private:
  static std::vector<Workshop> makeWorkshops(const ExploreRequest &request);
  void costGroup(Workshop &workshop, mlir::ModuleOp module, const cost::Placement &placement, size_t first, size_t last,
                 const std::function<int64_t(int64_t)> &bytesFor, explore::Costs &costs);

  void limitScratch(Workshop &workshop, ChoreographyOp choreography, const cost::PlacedMesh &mesh, size_t schedule,
                    explore::Costs &costs) const;

  const ExploreRequest &request;
  std::vector<Schedule> schedules;
  std::optional<int64_t> mostScratchBytes;
  std::vector<Workshop> workshops;
};

} // namespace tools
} // namespace kolo
