// The executor finds what is wrong: in PTX whose synchronisation was changed, it sees a race, wrong bits or a hang. The
// few changes that it does not see change nothing, and each is explained; the explanations are checked, too.
#include "ExecutedCall.h"
#include "Mutants.h"
#include "Shipped.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

using namespace kolo;
using namespace kolo::ptx;

namespace {

/// Calls of one algorithm that reach its code: few and many elements, aligned or not, and ranks that never come.
class Judge {
public:
  Judge(const Shipped &ofShipped, uint64_t ofSeeds)
      : shipped(ofShipped), algorithm(shipped.algorithm, shipped.protocol), mostSeeds(ofSeeds) {
    const std::vector<runtime::Mesh> meshes = algorithm.meshes();
    const int64_t unit = algorithm.info().granule != 0 ? 16 : 1;
    add(meshes[1], 37 * unit, runtime::DataType::F32, {}, 0);
    add(meshes[0], unit == 1 ? 9000 : 4200, runtime::DataType::BF16, {.lanes = 1}, 0);
    add(meshes[1], 700, runtime::DataType::F32, {.ranksPerDevice = 2}, 0);
    if (unit == 1)
      add(meshes[0], 9001, runtime::DataType::F32, {.lanes = 1}, 0);
    for (size_t absent : {1, 2})
      add(meshes[1], 37 * unit, runtime::DataType::F32, {.timeoutMs = 1}, absent);
    if (shipped.protocol == "ll128") // more peers than a thread has in flight
      add(meshes.back(), 512, runtime::DataType::F32, {.lanes = 1, .isAligned = true}, 0);
    if (shipped.protocol == "staged") // more puts in a row than an outbox has chunks
      add(meshes.back(), 37, runtime::DataType::F32, {.lanes = 1}, 0);
    text = runs.front().call->text();
    for (Run &run : runs)
      for (uint64_t seed = 1; seed <= 3; ++seed)
        EXPECT_EQ(execute(run, {.seed = seed, .memory = {}}), "") << shipped.algorithm << ", " << shipped.protocol;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line);
    for (Run &run : runs)
      for (uint32_t line = 0; line <= lines.size(); ++line) {
        run.reached.push_back(run.call->isExecuted(line));
        run.objects.push_back(run.call->objectOf(line));
      }
  }

  bool isReached(uint32_t line) const {
    return std::ranges::any_of(runs, [&](const Run &run) { return run.reached[line]; });
  }
  /// What is wrong with a text that differs in these lines; "": nothing.
  std::string judge(const std::string &mutated, const std::set<uint32_t> &changed) {
    for (Run &run : runs) {
      if (std::ranges::none_of(changed, [&](uint32_t line) { return run.reached[line]; }))
        continue;
      run.call->replaceText(mutated);
      for (uint64_t seed = 1; seed <= mostSeeds; ++seed)
        if (std::string why = execute(run, {.seed = seed, .memory = {}}); !why.empty())
          return why;
    }
    return "";
  }
  /// Whether all accesses of a line were to one object.
  bool isOf(uint32_t line, ExecutedCall::Object object) const {
    return std::ranges::all_of(runs, [&](const Run &run) {
      return run.objects[line] == ExecutedCall::Object::None || run.objects[line] == object;
    });
  }
  std::string withoutLines(const std::set<uint32_t> &dropped) const {
    std::string result;
    for (uint32_t number = 1; const std::string &line : lines)
      result += (dropped.contains(number++) ? withoutBarrier(line) : line) + "\n";
    return result;
  }

  Shipped shipped;
  test::DeviceAlgorithm algorithm;
  uint64_t mostSeeds;
  std::string text;
  std::vector<std::string> lines;

private:
  struct Run {
    std::unique_ptr<ExecutedCall> call;
    size_t numAbsent;
    std::vector<bool> reached;
    std::vector<ExecutedCall::Object> objects;
  };
  void add(const runtime::Mesh &mesh, int64_t count, runtime::DataType type, CallShape shape, size_t numAbsent) {
    shape.hosts = hostsFor(shipped, mesh, mesh.numRanks() == 4 ? 2 : 1);
    test::DeviceCall call = algorithm.call(mesh, count);
    call.type = type;
    if (algorithm.info().reduces && type == runtime::DataType::F32)
      call.reduction = runtime::Reduction::Average;
    runs.push_back({std::make_unique<ExecutedCall>(algorithm, call, shape), numAbsent, {}, {}});
  }
  static std::string execute(Run &run, const Style &style) {
    return run.numAbsent ? run.call->runWithout(style, run.numAbsent) : run.call->run(style, usualCalls);
  }

  std::vector<Run> runs;
};

struct Tally {
  int killed = 0, explained = 0, unreached = 0;
};

std::string functionOf(const Judge &judge, uint32_t line) {
  for (size_t i = line; i > 0; --i)
    if (const std::string &text = judge.lines[i - 1]; text.starts_with(".func") || text.starts_with(".visible"))
      return text;
  return "";
}

/// Why a change that nobody sees changes nothing; "": it is not known.
std::string explain(const Judge &judge, const Mutant &mutant) {
  if (judge.isOf(mutant.line, ExecutedCall::Object::Abort) && mutant.kind.ends_with("made relaxed"))
    return "the abort word: no data follows it";
  if (mutant.kind.starts_with("acquire") || mutant.kind.starts_with("scope"))
    if (functionOf(judge, mutant.line).find("wait_$_note") != std::string::npos &&
        judge.lines[mutant.line - 1].find("ld.acquire") != std::string::npos)
      return "the value that a failed wait saw last: it goes into the record, and nothing follows it";
  // The executor reports every such load of what was written since the kernel's start.
  if (mutant.kind == "read by ld.global.nc")
    return "nobody has written it since the kernel's start";
  return "";
}

/// Barriers that may all go together, as far as up to 8 ranks show, and what makes them so.
struct Spare {
  const char *function, *instruction, *why;
};
const Spare spares[] = {
    {"move_$_", "bar.red.or.pred", "the vote that follows meets, too"},
    {"move_$_", "bar.sync", "the signal that follows begins with a barrier"},
    {"_$_blocked", "bar.red.or.pred",
     "threads go on with what they received themselves, and meet before the next signal"},
    {"kolo_$_convert", "bar", "teams meet at barriers of their own before and after"},
    {"kolo_$_signal(", "bar.sync", "the conversion before it ends with a barrier"},
    {".visible .entry", "bar.sync", "what is called next, or was called before, meets, too"},
};

std::string explainSpare(const Judge &judge, uint32_t line) {
  for (const Spare &spare : spares)
    if (functionOf(judge, line).find(spare.function) != std::string::npos &&
        judge.lines[line - 1].find(spare.instruction) != std::string::npos)
      return spare.why;
  return "";
}

/// Of barriers that may each go alone: as many as may go together; each of the others is needed then.
std::set<uint32_t> spareTogether(Judge &judge, const std::set<uint32_t> &barriers) {
  std::set<uint32_t> spare;
  for (uint32_t line : barriers) {
    std::set<uint32_t> tried = spare;
    tried.insert(line);
    if (judge.judge(judge.withoutLines(tried), tried).empty())
      spare = tried;
  }
  return spare;
}

/// Every change is seen, or does not change what any thread may see, or is of a barrier that others make unnecessary.
void judgeAll(const Shipped &shipped, uint64_t numSeeds) {
  setDeviceOptions({{KOLO_BF16, KOLO_F32}, {KOLO_SUM, KOLO_AVERAGE}, Accumulation::F32});
  Judge judge(shipped, numSeeds);
  std::map<std::string, Tally> tallies;
  std::set<uint32_t> barriers;
  std::vector<Mutant> mutants = makeMutants(judge.text);
  for (Mutant &mutant : makeNonCoherentMutants(judge.text))
    if (!judge.isOf(mutant.line, ExecutedCall::Object::Tables))
      mutants.push_back(std::move(mutant));
  for (const Mutant &mutant : mutants) {
    Tally &tally = tallies[mutant.kind];
    if (!judge.isReached(mutant.line)) {
      ++tally.unreached;
      continue;
    }
    std::string why = judge.judge(mutant.text, {mutant.line});
    if (!why.empty()) {
      ++tally.killed;
      continue;
    }
    ++tally.explained;
    if (mutant.kind == "barrier dropped")
      barriers.insert(mutant.line);
    else
      EXPECT_NE(explain(judge, mutant), "")
          << mutant.kind << " in line " << mutant.line << ": " << judge.lines[mutant.line - 1];
  }
  for (uint32_t line : spareTogether(judge, barriers))
    EXPECT_NE(explainSpare(judge, line), "")
        << "line " << line << ": " << judge.lines[line - 1] << " in " << functionOf(judge, line);
  for (const auto &[kind, tally] : tallies)
    std::cout << "  " << kind << ": " << tally.killed << " seen, " << tally.explained << " explained, "
              << tally.unreached << " not reached\n";
}

} // namespace

class ExecutedMutants : public testing::TestWithParam<Shipped> {};
TEST_P(ExecutedMutants, AreAllSeenOrExplained) { judgeAll(GetParam(), 3); }

class HeavyExecutedMutants : public testing::TestWithParam<Shipped> {};
TEST_P(HeavyExecutedMutants, AreAllSeenOrExplained) { judgeAll(GetParam(), 20); }

const Shipped judged[] = {{"slottedRingAllReduce", "bulk"}, {"twoShotAllReduce", "bulk"},
                          {"twoShotAllReduce", "staged"},   {"twoShotAllReduce", "ll"},
                          {"twoShotAllReduce", "ll128"},    {"quantisedTwoShotAllReduce", "coded"}};
std::string nameOfJudged(const testing::TestParamInfo<Shipped> &info) {
  return info.param.algorithm + "_" + info.param.protocol;
}
INSTANTIATE_TEST_SUITE_P(Few, ExecutedMutants, testing::ValuesIn(judged), nameOfJudged);
INSTANTIATE_TEST_SUITE_P(Few, HeavyExecutedMutants, testing::ValuesIn(judged), nameOfJudged);
