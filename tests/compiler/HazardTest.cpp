// The analysis of hazards, which looks at one rank where all see the same picture, finds what looking at every chunk on
// every rank finds.
#include "Support.h"

#include "compiler/check/ChunkState.h"
#include "compiler/schedule/Hazards.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <random>
#include <set>

using namespace kolo;
using namespace kolo::test;

namespace {

constexpr int64_t unlimited = INT64_MAX;
using Statements = std::set<mlir::Operation *>;
using Place = std::pair<int64_t, int64_t>; // rank and chunk

/// Statements that, in one execution, read and write one chunk on one rank; nothing when the mesh is refused.
std::optional<Statements> enumerateHazards(ChoreographyOp choreography, const Sizes &mesh, int64_t root) {
  IndexEvaluator evaluator = *IndexEvaluator::create(choreography);
  evaluator.setMesh(mesh, root);
  Unfold unfold(evaluator);
  Statements hazards;
  auto visit = [&](StatementInterface statement) {
    std::set<Place> read, written;
    auto collect = [&](const ConcreteMove &move) {
      for (int64_t chunk : ChunkState::chunksOf(move.source))
        read.insert({move.sender, chunk});
      for (int64_t chunk : ChunkState::chunksOf(move.destination))
        written.insert({move.receiver, chunk});
      return mlir::success();
    };
    for (int64_t sender = 0; sender < evaluator.numRanks(); ++sender)
      if (mlir::failed(unfold.forEachMoveFrom(statement, sender, collect)))
        return mlir::failure();
    bool sharesBuffer = statement.getSource() == statement.getDestination();
    if (sharesBuffer && llvm::any_of(read, [&](const Place &place) { return written.contains(place); }))
      hazards.insert(statement);
    return mlir::success();
  };
  if (mlir::failed(unfold.forEachExecution(choreography, visit)))
    return std::nullopt;
  return hazards;
}

std::optional<Statements> enumerateHazards(ChoreographyOp choreography, const Sizes &mesh) {
  int64_t numRoots = 1;
  if (hasRoot(choreography.getCollective().getKind()))
    for (int64_t dim : choreography.getCollective().getGroupDims())
      numRoots *= mesh[size_t(dim)];
  Statements hazards;
  for (int64_t root = 0; root < numRoots; ++root) {
    std::optional<Statements> ofRoot = enumerateHazards(choreography, mesh, root);
    if (!ofRoot)
      return std::nullopt;
    hazards.merge(*ofRoot);
  }
  return hazards;
}

Statements findOn(ChoreographyOp choreography, const Sizes &mesh) {
  auto attribute = mlir::DenseI64ArrayAttr::get(choreography.getContext(), mesh);
  choreography.setMeshesAttr(mlir::ArrayAttr::get(choreography.getContext(), {attribute}));
  auto found = findHazards(choreography, unlimited);
  EXPECT_TRUE(mlir::succeeded(found));
  return mlir::failed(found) ? Statements() : Statements(found->begin(), found->end());
}

/// All meshes of at most 12 ranks.
void addMeshes(size_t numDims, int64_t atMost, Sizes prefix, std::vector<Sizes> &meshes) {
  if (prefix.size() == numDims) {
    meshes.push_back(prefix);
    return;
  }
  for (int64_t size = 1; size <= atMost; ++size) {
    prefix.push_back(size);
    addMeshes(numDims, atMost / size, prefix, meshes);
    prefix.pop_back();
  }
}

std::string locationsOf(const Statements &statements) {
  std::string text;
  for (mlir::Operation *statement : statements) {
    text += text.empty() ? "" : ", ";
    llvm::raw_string_ostream(text) << statement->getLoc();
  }
  return text;
}

} // namespace

TEST_P(EveryAlgorithm, HasTheHazardsThatEnumerationFindsOnEveryMeshOfUpToTwelveRanks) {
  auto context = makeContext();
  mlir::ScopedDiagnosticHandler silent(context.get(), [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::OwningOpRef<mlir::ModuleOp> module = emit(*context, GetParam(), {smallMesh(definitionOf(GetParam()))});
  ChoreographyOp choreography = *module->getOps<ChoreographyOp>().begin();
  std::vector<Sizes> meshes;
  addMeshes(definitionOf(GetParam()).mesh.dims.size(), 12, {}, meshes);
  int numMeshes = 0;
  for (const Sizes &mesh : meshes)
    if (std::optional<Statements> expected = enumerateHazards(choreography, mesh)) {
      EXPECT_EQ(locationsOf(findOn(choreography, mesh)), locationsOf(*expected)) << testing::PrintToString(mesh);
      ++numMeshes;
    }
  EXPECT_GE(numMeshes, 4);
}

namespace {

/// One statement of random shape on a buffer of random grid, as text.
class RandomStatement {
public:
  explicit RandomStatement(uint64_t seed) : random(seed) {}

  std::string text() {
    static const char *extents[] = {"%n", "%n", "%c2", "%c3", "%c5", "%twice"};
    std::string grid = pick(extents);
    return "kolo.choreography @random #kolo.collective<all_reduce over 0> mesh [\"rank\"] meshes [[4]] {\n"
           "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c2 = arith.constant 2 : index\n"
           "%c3 = arith.constant 3 : index\n%c5 = arith.constant 5 : index\n%n = kolo.dim_size 0\n"
           "%twice = arith.muli %n, %c2 : index\n"
           "%b = kolo.buffer scratch \"b\" grid(" +
           grid +
           ") blocks 0 : !kolo.buffer<1>\n"
           "scf.for %i = %c0 to %c2 step %c1 {\n"
           "kolo.transfer %b -> %b to [" +
           relation() + "] {\n^bb0(%me: index, %peer: index):\n" + body(grid) +
           "} : !kolo.buffer<1> -> !kolo.buffer<1>\n}\n}\n";
  }

private:
  template <size_t N> std::string pick(const char *(&choices)[N]) { return choices[random() % N]; }

  std::string relation() {
    static const char *relations[] = {"next %c1", "next %c2", "next %i", "others", "at %c0", "keep"};
    return pick(relations);
  }

  /// An expression of a few operations; the last line defines %name.
  std::string expression(const std::string &name, int numOps) {
    static const char *leaves[] = {"%me", "%peer", "%me", "%peer", "%i", "%c1", "%c2"};
    static const char *ops[] = {"addi", "subi", "subi", "addi", "muli"};
    std::string lines, last = pick(leaves);
    for (int i = 0; i < numOps; ++i) {
      std::string result = "%" + name + std::to_string(i);
      lines += result + " = arith." + pick(ops) + " " + last + ", " + pick(leaves) + " : index\n";
      last = result;
    }
    return lines + "%" + name + " = arith.addi " + last + ", %c0 : index\n";
  }

  /// Sizes between 1 and the extent, or all of it.
  std::string body(const std::string &grid) {
    std::string lines = expression("from", int(random() % 3)) + expression("to", int(random() % 3));
    std::string size = "%c1", condition;
    if (random() % 4 == 0) {
      lines += expression("wide", 1) +
               "%rest = arith.remsi %wide, %c2 : index\n%wanted = arith.addi %rest, %c1 : index\n"
               "%atLeast = arith.maxsi %wanted, %c1 : index\n%size = arith.minsi %atLeast, " +
               grid + " : index\n";
      size = "%size";
    }
    if (random() % 3 == 0) {
      lines += expression("left", 1) + "%when = arith.cmpi sgt, %left, %c0 : index\n";
      condition = " when %when";
    }
    return lines + "kolo.slices from [%from] size [" + size + "] to [%to] size [" + size + "]" + condition + "\n";
  }

  std::mt19937_64 random;
};

} // namespace

TEST(Hazards, OfRandomStatementsAreThoseThatEnumerationFinds) {
  int numHazards = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    auto context = makeContext();
    std::string text = RandomStatement(seed).text();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
    ASSERT_TRUE(module) << text;
    ChoreographyOp choreography = *module->getOps<ChoreographyOp>().begin();
    for (int64_t size : {1, 2, 3, 4, 7}) {
      std::optional<Statements> expected = enumerateHazards(choreography, {size});
      ASSERT_TRUE(expected) << text;
      numHazards += int(expected->size());
      ASSERT_EQ(findOn(choreography, {size}).size(), expected->size()) << "seed " << seed << ", " << size << " ranks\n"
                                                                       << text;
    }
  }
  EXPECT_GT(numHazards, 1000);
}
