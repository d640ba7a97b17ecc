// KoloDevicePlugin.peers of a program, run on the host: it names the ranks that the program's steps signal or wait for,
// and no others.
#include "tests/support/Algorithms.h"

#include "compiler/Pipeline.h"
#include "compiler/model/Trace.h"
#include "kolo/runtime/DeviceAbi.h"
#include "targets/cpu/CpuPipeline.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

using namespace kolo;
using namespace kolo::test;

namespace {

using Peers = std::set<int64_t>;

std::vector<int64_t> coordinatesOf(const Sizes &mesh, int64_t rank) {
  std::vector<int64_t> coordinates(mesh.size());
  for (size_t dim = mesh.size(); dim-- > 0; rank /= mesh[dim])
    coordinates[dim] = rank % mesh[dim];
  return coordinates;
}

/// The host's code of one program, of which this test runs one function.
class PeersFunction {
public:
  PeersFunction(mlir::ModuleOp programs, const std::string &program) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    mlir::OwningOpRef<mlir::ModuleOp> copy(programs.clone());
    mlir::PassManager manager(programs.getContext(), mlir::ModuleOp::getOperationName());
    cpu::buildCpuPipeline(manager, {});
    if (failed(manager.run(*copy)))
      llvm::report_fatal_error("lowering failed");
    auto context = std::make_unique<llvm::LLVMContext>();
    std::unique_ptr<llvm::Module> code = mlir::translateModuleToLLVMIR(*copy, *context, "kolo");
    const std::string name = cpu::peersFunctionName(program);
    for (llvm::Function &function : *code) // those of the others need kernels
      if (function.getName() != name && !function.isDeclaration())
        function.deleteBody();
    code->getFunction(name)->setLinkage(llvm::GlobalValue::ExternalLinkage);
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    code->setDataLayout(jit->getDataLayout());
    llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
    function = llvm::cantFail(jit->lookup(name)).toPtr<void (*)(const KoloDevicePeers *)>();
  }

  Peers operator()(const Sizes &mesh, int64_t rank, int64_t root) const {
    KoloDevicePeers question = {};
    std::ranges::fill(question.dimSizes, 1);
    std::ranges::copy(mesh, question.dimSizes);
    std::ranges::copy(coordinatesOf(mesh, rank), question.coordinates);
    question.root = root;
    Peers found;
    question.context = &found;
    question.note = [](void *context, int64_t peer) { static_cast<Peers *>(context)->insert(peer); };
    function(&question);
    return found;
  }

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
  void (*function)(const KoloDevicePeers *) = nullptr;
};

struct ChannelProgram {
  explicit ChannelProgram(const std::string &algorithm, const Sizes &mesh) : context(makeContext()) {
    cpu::loadCpuTarget(*context);
    module = emit(*context, algorithm, {mesh});
    useStagedNetwork(*module);
    mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
    buildChannelPipeline(manager, {.check = false});
    if (failed(manager.run(*module)))
      llvm::report_fatal_error("no channel program");
  }
  ProgramOp program() { return *module->getOps<ProgramOp>().begin(); }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

Peers peersInSteps(Code &code, const Sizes &mesh, int64_t rank, int64_t root) {
  Trace trace;
  EXPECT_TRUE(Tracer(code, mesh, root, /*isInPlace=*/false).run(rank, trace));
  Peers peers;
  for (const Event &event : trace.events)
    if (event.kind == EventKind::Signal || event.kind == EventKind::Wait)
      peers.insert(event.peer);
  return peers;
}

} // namespace

class PeersOfAlgorithm : public testing::TestWithParam<std::string> {};

TEST_P(PeersOfAlgorithm, AreThoseThatItsStepsSignalOrWaitFor) {
  const Sizes mesh = smallMesh(definitionOf(GetParam()));
  ChannelProgram made(GetParam(), mesh);
  PeersFunction peersOf(*made.module, made.program().getSymName().str());
  Code code = std::get<Code>(Code::create(made.program()));
  const int64_t numRanks = std::accumulate(mesh.begin(), mesh.end(), int64_t(1), std::multiplies<>());
  int64_t numRoots = 1;
  if (hasRoot(made.program().getCollective().getKind()))
    for (int64_t dim : made.program().getCollective().getGroupDims())
      numRoots *= mesh[size_t(dim)];
  for (int64_t root = 0; root < numRoots; ++root)
    for (int64_t rank = 0; rank < numRanks; ++rank)
      EXPECT_EQ(peersOf(mesh, rank, root), peersInSteps(code, mesh, rank, root))
          << "rank " << rank << ", root " << root;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, PeersOfAlgorithm, testing::ValuesIn(exampleNames(algorithmNames())),
                         [](const auto &info) { return info.param; });

TEST(Peers, OfARankInALargeRingAreItsTwoNeighbours) {
  ChannelProgram made("ringAllGather", {75264});
  PeersFunction peersOf(*made.module, made.program().getSymName().str());
  EXPECT_EQ(peersOf({75264}, 0, 0), (Peers{1, 75263}));
  EXPECT_EQ(peersOf({75264}, 70000, 0), (Peers{69999, 70001}));
}

TEST(Peers, ThatDependOnTheLaneAreRefused) {
  auto context = makeContext();
  cpu::loadCpuTarget(*context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
kolo.chan.program @byLane #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] semaphores 1
    attributes {network_dims = array<i64: 0>, network_staged} {
  %c1 = arith.constant 1 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %next = arith.addi %me, %lane : index
  %peer = arith.remui %next, %n : index
  kolo.chan.signal 0 to %peer
}
)",
                                                        mlir::ParserConfig(context.get()));
  ASSERT_TRUE(module);
  std::string said;
  mlir::ScopedDiagnosticHandler handler(context.get(), [&](mlir::Diagnostic &diagnostic) {
    said += diagnostic.str();
    return mlir::success();
  });
  mlir::PassManager manager(context.get(), mlir::ModuleOp::getOperationName());
  cpu::buildCpuPipeline(manager, {});
  EXPECT_TRUE(failed(manager.run(*module)));
  EXPECT_NE(said.find("depends on the lane, which a staged network forbids"), std::string::npos) << said;
}
