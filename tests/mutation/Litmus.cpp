// Parses litmus tests, and compares verdicts with what is expected.
#include "Litmus.h"
#include "Shipped.h"

#include "mlir/Parser/Parser.h"

#include <set>

namespace kolo::mutation {

constexpr int64_t numInterleavings = 1000;

std::string program(const std::string &collective, int numSemaphores, const std::string &body) {
  return "kolo.chan.program @litmus #kolo.collective<" + collective +
         " over 0> mesh [\"rank\"] meshes [[2]] semaphores " + std::to_string(numSemaphores) + " {" + R"(
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %n = kolo.dim_size 0
    %n1 = arith.subi %n, %c1 : index
    %me = kolo.chan.coord 0
    %l = kolo.chan.lane
    %L = kolo.chan.num_lanes
    %up = arith.addi %me, %c1 : index
    %next = arith.remsi %up, %n : index
    %down = arith.addi %me, %n1 : index
    %prev = arith.remsi %down, %n : index
)" + body +
         "}\n";
}

namespace {
class Litmus {
public:
  explicit Litmus(const std::string &text) : context(makeContext()) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get(), "litmus.mlir");
    EXPECT_TRUE(module) << text;
    int line = 1;
    for (llvm::StringRef rest = text; !rest.empty(); ++line) {
      auto [first, next] = rest.split('\n');
      if (first.ends_with(mark))
        markedLines.insert(line);
      rest = next;
    }
  }
  ProgramOp operator*() { return *module->getOps<ProgramOp>().begin(); }

  std::set<int> markedLines;

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

std::string describe(const Verdict &verdict) {
  if (verdict.tooLarge)
    return "too large: " + *verdict.tooLarge;
  if (!verdict.refutation)
    return "proved";
  return "refuted, " + shortName(verdict.refutation->property) + ": " + verdict.refutation->message;
}

int lineOf(mlir::Location location) {
  auto file = location->findInstanceOf<mlir::FileLineColLoc>();
  return file ? int(file.getLine()) : 0;
}

std::set<int> linesOf(const Refutation &refutation) {
  std::set<int> lines = {lineOf(refutation.loc)};
  if (refutation.other)
    lines.insert(lineOf(*refutation.other));
  return lines;
}

CheckOptions optionsFor(const char *transport) {
  CheckOptions options;
  options.transport = *parseTransport(transport);
  return options;
}

std::string firstHarm(Litmus &litmus, const Sizes &mesh) {
  std::optional<Harm> harm = Judge((*litmus).getCollective(), mesh, testSeed()).firstHarm(*litmus, numInterleavings);
  return harm ? harm->text() : "";
}

} // namespace

void expectProved(const std::string &text, const Sizes &mesh, const char *transport) {
  SCOPED_TRACE(text);
  Litmus litmus(text);
  Verdict verdict = checkProgram(*litmus, mesh, optionsFor(transport));
  EXPECT_TRUE(verdict.isProved()) << describe(verdict);
  EXPECT_EQ(firstHarm(litmus, mesh), "");
}

/// The refutation must be for this property and name exactly the marked lines.
static void compare(Litmus &litmus, const Verdict &verdict, Property property) {
  ASSERT_TRUE(verdict.refutation) << describe(verdict);
  EXPECT_EQ(shortName(verdict.refutation->property), shortName(property)) << describe(verdict);
  EXPECT_EQ(linesOf(*verdict.refutation), litmus.markedLines) << describe(verdict);
}

void expectRefuted(const std::string &text, const Sizes &mesh, Property property, const char *transport) {
  SCOPED_TRACE(text);
  Litmus litmus(text);
  compare(litmus, checkProgram(*litmus, mesh, optionsFor(transport)), property);
  if (property != Property::PutOrder) // the interpreter's transport keeps that order
    EXPECT_NE(firstHarm(litmus, mesh), "");
}

void expectRefutedInPlace(const std::string &text, const Sizes &mesh, Property property) {
  SCOPED_TRACE(text);
  Litmus litmus(text);
  Verdict verdict = checkProgram(*litmus, mesh);
  compare(litmus, verdict, property);
  EXPECT_TRUE(verdict.refutation && verdict.refutation->isInPlace);
  EXPECT_EQ(firstHarm(litmus, mesh), "");
}

std::string lines(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string &part : parts)
    text += part + "\n";
  return text;
}

std::string copyBlock(const std::string &from, const std::string &to) {
  bool fromBlocks = from.find("[]") == std::string::npos, toBlocks = to.find("[]") == std::string::npos;
  return "kolo.chan.copy " + from + (fromBlocks ? " size [%c1]" : " size []") + " -> " + to +
         (toBlocks ? " size [%c1]" : " size []") + " part %l of %L : !kolo.buffer<" + (fromBlocks ? "1" : "0") +
         "> -> !kolo.buffer<" + (toBlocks ? "1" : "0") + ">";
}

std::string exchange(std::initializer_list<std::string> parts) {
  return program("all_to_all", 4,
                 blocksIn + blocksOut + oneSlot +
                     "%packed = kolo.buffer scratch \"packed\" grid() blocks 0 : !kolo.buffer<0>\n" + lines(parts));
}

} // namespace kolo::mutation
