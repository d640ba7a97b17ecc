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

/// One statement of random shape on a buffer of random grid, as text. The grid has as many dimensions as the mesh.
class RandomStatement {
public:
  RandomStatement(uint64_t seed, size_t numDims) : random(seed), numDims(numDims) {}

  std::string text() {
    std::vector<std::string> extents{"%c2", "%c3", "%c5"};
    std::string sizes, names, mesh, over;
    for (size_t dim = 0; dim < numDims; ++dim) {
      std::string number = std::to_string(dim), size = "%n" + number, twice = "%twice" + number;
      sizes += size + " = kolo.dim_size " + number + "\n" + twice + " = arith.muli " + size + ", %c2 : index\n";
      extents.insert(extents.end(), {size, size, twice});
      names += (dim ? ", \"d" : "\"d") + number + "\"";
      mesh += dim ? ", 4" : "4";
      over += (dim ? ", " : "") + number;
    }
    std::vector<std::string> grid = forEachDim([&](size_t) { return pick(extents); });
    std::vector<std::string> relation = forEachDim([&](size_t) { return pick(relations); });
    std::string arguments;
    for (const std::string &name : coordinates())
      arguments += (arguments.empty() ? "" : ", ") + name + ": index";
    std::string type = "!kolo.buffer<" + std::to_string(numDims) + ">";
    return "kolo.choreography @random #kolo.collective<all_reduce over " + over + "> mesh [" + names + "] meshes [[" +
           mesh +
           "]] {\n"
           "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c2 = arith.constant 2 : index\n"
           "%c3 = arith.constant 3 : index\n%c5 = arith.constant 5 : index\n" +
           sizes + "%b = kolo.buffer scratch \"b\" grid(" + join(grid) + ") blocks 0 : " + type +
           "\nscf.for %i = %c0 to %c2 step %c1 {\n"
           "kolo.transfer %b -> %b to [" +
           join(relation) + "] {\n^bb0(" + arguments + "):\n" + body(grid) + "} : " + type + " -> " + type + "\n}\n}\n";
  }

private:
  const std::vector<std::string> relations{"next %c1", "next %c2", "next %i", "others", "at %c0", "keep"};
  const std::vector<std::string> ops{"addi", "subi", "subi", "addi", "muli"};

  const std::string &pick(const std::vector<std::string> &choices) { return choices[random() % choices.size()]; }
  template <typename Make> std::vector<std::string> forEachDim(Make make) {
    std::vector<std::string> made;
    for (size_t dim = 0; dim < numDims; ++dim)
      made.push_back(make(dim));
    return made;
  }
  static std::string join(const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts)
      text += (text.empty() ? "" : ", ") + part;
    return text;
  }
  /// Of the sender, then of the receiver.
  std::vector<std::string> coordinates() {
    std::vector<std::string> names = forEachDim([](size_t dim) { return "%me" + std::to_string(dim); });
    for (size_t dim = 0; dim < numDims; ++dim)
      names.push_back("%peer" + std::to_string(dim));
    return names;
  }

  /// An expression of a few operations; the last line defines %name.
  std::string expression(const std::string &name, int numOps) {
    std::vector<std::string> leaves = coordinates();
    leaves.insert(leaves.end(), {"%i", "%c1", "%c2"});
    std::string lines, last = pick(leaves);
    for (int i = 0; i < numOps; ++i) {
      std::string result = "%" + name + std::to_string(i);
      lines += result + " = arith." + pick(ops) + " " + last + ", " + pick(leaves) + " : index\n";
      last = result;
    }
    return lines + "%" + name + " = arith.addi " + last + ", %c0 : index\n";
  }

  /// Sizes between 1 and the extent, or all of it.
  std::string body(const std::vector<std::string> &grid) {
    std::string lines, condition;
    auto offset = [&](const std::string &name) {
      lines += expression(name, int(random() % 3));
      return "%" + name;
    };
    std::vector<std::string> from = forEachDim([&](size_t dim) { return offset("from" + std::to_string(dim) + "_"); }),
                             to = forEachDim([&](size_t dim) { return offset("to" + std::to_string(dim) + "_"); });
    std::vector<std::string> sizes = forEachDim([&](size_t dim) -> std::string {
      if (random() % 4 != 0)
        return "%c1";
      std::string number = std::to_string(dim);
      lines += expression("wide" + number + "_", 1) + "%rest" + number + " = arith.remsi %wide" + number +
               "_, %c2 : index\n%wanted" + number + " = arith.addi %rest" + number + ", %c1 : index\n%atLeast" +
               number + " = arith.maxsi %wanted" + number + ", %c1 : index\n%size" + number +
               " = arith.minsi %atLeast" + number + ", " + grid[dim] + " : index\n";
      return "%size" + number;
    });
    if (random() % 3 == 0) {
      lines += expression("left", 1) + "%when = arith.cmpi sgt, %left, %c0 : index\n";
      condition = " when %when";
    }
    return lines + "kolo.slices from [" + join(from) + "] size [" + join(sizes) + "] to [" + join(to) + "] size [" +
           join(sizes) + "]" + condition + "\n";
  }

  std::mt19937_64 random;
  size_t numDims;
};

/// Compares what the analysis finds on the meshes with what enumeration finds. Gives the number of hazards.
int compareOnMeshes(uint64_t seed, const std::vector<Sizes> &meshes) {
  auto context = makeContext();
  std::string text = RandomStatement(seed, meshes.front().size()).text();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  EXPECT_TRUE(module) << text;
  int numHazards = 0;
  for (const Sizes &mesh : meshes) {
    ChoreographyOp choreography = *module->getOps<ChoreographyOp>().begin();
    std::optional<Statements> expected = enumerateHazards(choreography, mesh);
    EXPECT_TRUE(expected) << text;
    numHazards += int(expected->size());
    EXPECT_EQ(findOn(choreography, mesh).size(), expected->size())
        << "seed " << seed << ", mesh " << testing::PrintToString(mesh) << "\n"
        << text;
  }
  return numHazards;
}

} // namespace

TEST(Hazards, OfRandomStatementsAreThoseThatEnumerationFinds) {
  int numHazards = 0;
  for (uint64_t seed = 0; seed < 3000 && !HasFailure(); ++seed)
    numHazards += compareOnMeshes(seed, {{1}, {2}, {3}, {4}, {7}});
  EXPECT_GT(numHazards, 1000);
}

TEST(Hazards, OfRandomStatementsOnMeshesOfTwoDimensionsAreThoseThatEnumerationFinds) {
  int numHazards = 0;
  for (uint64_t seed = 0; seed < 3000 && !HasFailure(); ++seed)
    numHazards += compareOnMeshes(seed, {{1, 3}, {2, 2}, {4, 1}, {3, 2}, {2, 5}});
  EXPECT_GT(numHazards, 500);
}

/// Each sum is used twice by the next one: all paths between them are more than can be walked.
TEST(Hazards, OfAStatementThatDoublesSixtyTimesAreFoundAtOnce) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += "%x" + std::to_string(i + 1) + " = arith.addi %x" + std::to_string(i) + ", %x" + std::to_string(i) +
             " : index\n";
  std::string text =
      "kolo.choreography @doubles #kolo.collective<all_reduce over 0> mesh [\"d\"] meshes [[4]] {\n"
      "%c1 = arith.constant 1 : index\n%c5 = arith.constant 5 : index\n"
      "%b = kolo.buffer scratch \"b\" grid(%c5) blocks 0 : !kolo.buffer<1>\n"
      "kolo.transfer %b -> %b to [next %c1] {\n^bb0(%x0: index, %peer: index):\n" +
      lines + "kolo.slices from [%x60] size [%c1] to [%x60] size [%c1]\n} : !kolo.buffer<1> -> !kolo.buffer<1>\n}\n";
  auto context = makeContext();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  ChoreographyOp choreography = *module->getOps<ChoreographyOp>().begin();
  for (int64_t size : {2, 5})
    EXPECT_EQ(findOn(choreography, {size}), enumerateHazards(choreography, {size})) << size << " ranks";
}
