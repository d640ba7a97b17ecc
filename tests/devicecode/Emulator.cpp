#include "Emulator.h"

#include "compiler/lower/BufferLayout.h"
#include "ir/Kolo.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/GpuPipeline.h"
#include "tests/runtime/device/standin/Blocks.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

namespace kolo::test {
namespace {

static_assert(standin::threadsPerLine == gpu::threadsPerLine);
static_assert(standin::Block::teamRoomBytes == gpu::teamRoomBytes && standin::Block::mostTeams == gpu::mostTeams);
static_assert(standin::Block::numKept == gpu::numKept);
static_assert(standin::Block::numListEntries * sizeof(void *) == gpu::listBytes);

std::unique_ptr<llvm::Module> lower(llvm::LLVMContext &context, mlir::ModuleOp programs, const DeviceOptions &options,
                                    int64_t groupSize, int64_t listEntries) {
  mlir::OwningOpRef<mlir::ModuleOp> copy(programs.clone());
  mlir::PassManager manager(programs.getContext(), mlir::ModuleOp::getOperationName());
  gpu::buildGpuPipeline(manager, {}, options, nullptr, groupSize, listEntries);
  if (failed(manager.run(*copy)))
    llvm::report_fatal_error("lowering failed");
  return mlir::translateModuleToLLVMIR(*copy, context, "kolo");
}

} // namespace

Emulator::Emulator(mlir::ModuleOp programs, const DeviceOptions &options, int64_t groupSize, int64_t listEntries)
    : listEntries(listEntries), hasPackets(llvm::any_of(programs.getOps<ProgramOp>(), [](ProgramOp program) {
        return packetFormatOf(program).has_value();
      })) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  // What is judged is what the code says, not how LLVM optimises it for the host.
  auto host = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  host.setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  jit = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(host)).create());
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = lower(*context, programs, options, groupSize, listEntries);
  code->setDataLayout(jit->getDataLayout());
  // The primitives that it calls are functions of this process.
  llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
}

Emulator::~Emulator() = default;

void Emulator::launch(const std::string &kernel, const LaunchShape &shape, const KoloDeviceInvocation &invocation) {
  auto run = llvm::cantFail(jit->lookup(kernel)).toPtr<void (*)(const KoloDeviceInvocation *)>();
  std::vector<std::unique_ptr<standin::Block>> blocks;
  std::vector<std::jthread> threads;
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    StandInBlock place = {lane, 0, uint32_t(shape.lanes), 1, uint32_t(shape.threads)};
    standin::Block *here = blocks.emplace_back(std::make_unique<standin::Block>(place, int(shape.threads))).get();
    threads.emplace_back([=, &invocation] { here->run([&] { run(&invocation); }); });
  }
  threads.clear(); // waits for them; before the blocks go
  constexpr int64_t packetWords = gpu::packetEntryBytes / 8, packetListWords = gpu::packetListBytes / 8;
  const int64_t listWords = hasPackets ? packetListWords : gpu::mostListEntries;
  const int64_t most = std::min(listEntries * (hasPackets ? packetWords : 1), listWords);
  for (const auto &here : blocks)
    for (int64_t first = 0; first < standin::Block::numListEntries; first += listWords)
      if (!std::all_of(here->lists + first + most, here->lists + first + listWords, std::logical_not()))
        llvm::report_fatal_error("a list is longer than it may be");
}

} // namespace kolo::test
