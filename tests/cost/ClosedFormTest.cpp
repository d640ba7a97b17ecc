// The closed form against the formulas of textbooks, and against what others found on Frontier.
#include "compiler/cost/ClosedForm.h"
#include "compiler/Pipeline.h"
#include "tests/support/Algorithms.h"

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

using namespace mlir;

namespace kolo::cost {
namespace {

template <typename T> T orFail(std::variant<T, CostMistake> result) {
  if (auto *mistake = std::get_if<CostMistake>(&result))
    throw std::runtime_error(mistake->message);
  return std::get<T>(std::move(result));
}

Machine alphaBeta() { return orFail(Machine::read(KOLO_TEST_MACHINES "/alpha-beta.json")); }
const Machine &frontier() {
  static const Machine machine = orFail(Machine::read("frontier"));
  return machine;
}

ResolvedSchedule resolved(const Schedule &schedule) {
  return std::get<ResolvedSchedule>(resolve(schedule, Setting{Runners::Any, true}));
}

/// A choreography, ready to be costed.
class Prepared {
public:
  Prepared(const dsl::Definition &definition, const test::Sizes &mesh, const Schedule &asked = {})
      : context(test::makeContext()), schedule(resolved(asked)) {
    names = definition.mesh.dims;
    std::unique_ptr<dsl::Recording> recording = dsl::record(definition);
    for (const dsl::Diagnostic &diagnostic : recording->diagnostics)
      ADD_FAILURE() << diagnostic.message;
    module = dsl::emitChoreography(*context, *recording, {mesh});
    PassManager manager(context.get(), ModuleOp::getOperationName());
    buildChoreographyPipeline(manager, {.schedule = schedule});
    EXPECT_TRUE(succeeded(manager.run(*module)));
  }
  Prepared(const std::string &name, const test::Sizes &mesh, const Schedule &asked = {})
      : Prepared(test::definitionOf(name), mesh, asked) {}

  /// On a mesh of the same kind, as large as it may be.
  std::variant<ClosedForm, CostMistake> tryOn(const Machine &machine, const test::Sizes &mesh,
                                              const std::string &placement = "", Rates rates = Rates::Peak) {
    Placement placed = orFail(Placement::create(machine, {names, mesh}, placement));
    return ClosedForm::create(*module->getOps<ChoreographyOp>().begin(), schedule, machine, placed, rates, 0);
  }
  ClosedForm on(const Machine &machine, const test::Sizes &mesh, const std::string &placement = "") {
    return orFail(tryOn(machine, mesh, placement));
  }

private:
  std::unique_ptr<MLIRContext> context;
  ResolvedSchedule schedule;
  std::vector<std::string> names;
  OwningOpRef<ModuleOp> module;
};

constexpr int64_t MiB = int64_t(1) << 20, GiB = int64_t(1) << 30;

double gigabytesPerSecond(const ClosedForm &cost, int64_t bytes) { return double(bytes) / cost.seconds(bytes) / 1e9; }

//===--- Oracles
//---------------------------------------------------------------------------------------------------===//

struct Oracle {
  const char *algorithm;
  double microseconds;
};

class TextbookCosts : public testing::TestWithParam<Oracle> {};

TEST_P(TextbookCosts, AreReproducedWithin0Point1Percent) {
  Machine machine = alphaBeta();
  double seconds = Prepared(GetParam().algorithm, {8}).on(machine, {8}).seconds(8 * MiB);
  EXPECT_NEAR(seconds * 1e6, GetParam().microseconds, GetParam().microseconds * 1e-3);
}

// P = 8 ranks, n = 8 MiB, a = 1 us, b = 1 s / 25 GB, without reductions' time.
// Chan et al., Collective communication: theory, practice, and experience, 2007; Patarasuk and Yuan, 2009.
INSTANTIATE_TEST_SUITE_P(Closed, TextbookCosts,
                         testing::Values(Oracle{"ringAllReduce", 601.20}, Oracle{"rabenseifnerAllReduce", 593.20},
                                         Oracle{"recursiveDoublingAllReduce", 1009.63}, Oracle{"ringAllGather", 300.60},
                                         Oracle{"recursiveDoublingAllGather", 296.60}, Oracle{"bruckAllGather", 296.60},
                                         Oracle{"ringReduceScatter", 300.60},
                                         Oracle{"recursiveHalvingReduceScatter", 296.60},
                                         Oracle{"bruckAllToAll", 506.32}, Oracle{"pairwiseAllToAll", 300.60},
                                         Oracle{"binomialBroadcast", 1009.63},
                                         Oracle{"scatterAllGatherBroadcast", 597.20}, Oracle{"directAllToAll", 294.60},
                                         Oracle{"oneShotAllReduce", 2349.81}, Oracle{"twoShotAllReduce", 589.20}),
                         [](const auto &info) { return std::string(info.param.algorithm); });

} // namespace
} // namespace kolo::cost

#include <kolo/dsl/Language.h>

namespace kolo::dsl {
namespace {

// One peer after the other: in step k, from rank r to rank r + k.
KOLO_COLLECTIVE(pairwiseAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in[me], out[me]);
  c.loop(d.size() - 1, [&, d = d](Index step) {
    Rank peer = me.next(d, step + 1);
    c.send(in[peer]).to(peer).at(out[me]);
  });
}

} // namespace
} // namespace kolo::dsl
