// Programs from text, and calls to run them with. Shared by the tests of this folder.
#pragma once

#include "ir/reference/Interpreter.h"
#include "ir/reference/Oracle.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace kolo::reference {

/// A program of either phase, parsed and verified.
template <typename Op> class Parsed {
public:
  explicit Parsed(const std::string &text) : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, "program.mlir");
    EXPECT_TRUE(module) << text;
  }
  Op operator*() { return *module->getOps<Op>().begin(); }

  SimulatedCall callOn(std::vector<int64_t> meshSizes, int64_t count, ElementType type = ElementType::F32,
                       Reduction reduction = Reduction::Sum) {
    Call call;
    call.collective = (**this).getCollective();
    call.meshSizes = std::move(meshSizes);
    call.count = count;
    call.type = type;
    call.reduction = reduction;
    SimulatedCall result = makeSimulatedCall(call);
    tagInput(result);
    return result;
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};
using ParsedChoreography = Parsed<ChoreographyOp>;
using ParsedProgram = Parsed<ProgramOp>;

/// What both phases' programs over a one-dimensional mesh start with.
inline std::string choreography(const std::string &collective, const std::string &body) {
  return "kolo.choreography @test #kolo.collective<" + collective +
         " over 0> mesh [\"rank\"] meshes [[4]] {\n"
         "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c2 = arith.constant 2 : index\n"
         "%n = kolo.dim_size 0\n%n1 = arith.subi %n, %c1 : index\n" +
         body + "}\n";
}
inline std::string program(const std::string &collective, int numSemaphores, const std::string &body) {
  return "kolo.chan.program @test #kolo.collective<" + collective +
         " over 0> mesh [\"rank\"] meshes [[4]] semaphores " + std::to_string(numSemaphores) +
         " {\n"
         "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%n = kolo.dim_size 0\n"
         "%n1 = arith.subi %n, %c1 : index\n%n2 = arith.subi %n1, %c1 : index\n"
         "%me = kolo.chan.coord 0\n%l = kolo.chan.lane\n%L = kolo.chan.num_lanes\n"
         "%up = arith.addi %me, %c1 : index\n%next = arith.remsi %up, %n : index\n"
         "%down = arith.addi %me, %n1 : index\n%prev = arith.remsi %down, %n : index\n" +
         body + "}\n";
}

/// Buffers of n blocks or of one, by name.
inline const std::string wholeIn = "%in = kolo.buffer input \"in\" grid() blocks 0 : !kolo.buffer<0>\n";
inline const std::string wholeOut = "%out = kolo.buffer output \"out\" grid() blocks 0 : !kolo.buffer<0>\n";
inline const std::string blocksIn = "%in = kolo.buffer input \"in\" grid(%n) blocks 1 : !kolo.buffer<1>\n";
inline const std::string blocksOut = "%out = kolo.buffer output \"out\" grid(%n) blocks 1 : !kolo.buffer<1>\n";
inline const std::string chunksOut = "%out = kolo.buffer output \"out\" grid(%n) blocks 0 : !kolo.buffer<1>\n";

/// The text of an error, empty for success.
inline std::string messageOf(llvm::Error error) { return llvm::toString(std::move(error)); }

inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Runs a choreography and compares with the definition: empty, or what is wrong.
inline std::string outcome(ParsedChoreography &parsed, SimulatedCall simulated) {
  if (llvm::Error error = interpretChoreography(*parsed, simulated))
    return messageOf(std::move(error));
  return messageOf(checkOutputs(simulated));
}

/// The same for one interleaving of a channel program.
inline std::string outcome(ParsedProgram &parsed, SimulatedCall simulated, uint64_t seed) {
  if (llvm::Error error = interpretChannel(*parsed, simulated, seed))
    return messageOf(std::move(error));
  return messageOf(checkOutputs(simulated));
}

} // namespace kolo::reference
