#include "Emulator.h"

#include "ir/reference/Element.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/GpuPipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <functional>
#include <thread>
#include <vector>

namespace kolo::test {
namespace {

/// Threads that have a line together.
struct Group {
  std::barrier<> barrier{gpu::threadsPerLine};
  int32_t shared = 0;
};

struct Block {
  explicit Block(int64_t lane, const LaunchShape &shape)
      : lane(lane), shape(shape), barrier(shape.threads), groups(size_t(shape.threads / gpu::threadsPerLine)) {}
  int64_t lane;
  LaunchShape shape;
  std::barrier<> barrier;
  int32_t shared = 0;
  std::vector<Group> groups;
  void *lists[gpu::destinationEntries + gpu::mostListEntries] = {};
};

thread_local Block *block;
thread_local int64_t thread;

int64_t laneNumber() { return block->lane; }
int64_t numLanes() { return block->shape.lanes; }
int64_t entryNumber() { return 0; }
int64_t threadNumber() { return thread; }
int64_t numThreads() { return block->shape.threads; }
void waitAtBarrier() { block->barrier.arrive_and_wait(); }
int32_t share(int32_t value) {
  if (thread == 0)
    block->shared = value;
  waitAtBarrier();
  int32_t result = block->shared;
  waitAtBarrier();
  return result;
}
int32_t any(int32_t value) {
  std::atomic_ref(block->shared).store(0);
  waitAtBarrier();
  if (value != 0)
    std::atomic_ref(block->shared).store(1);
  waitAtBarrier();
  int32_t result = std::atomic_ref(block->shared).load();
  waitAtBarrier();
  return result;
}
/// What one thread has of a line.
struct Part {
  uint64_t low, high;
};
Group &group() { return block->groups[size_t(thread / gpu::threadsPerLine)]; }
bool isLast() { return thread % gpu::threadsPerLine == gpu::threadsPerLine - 1; }
/// The others' parts, relaxed, before the last one's: with release and acquire they are there when that is.
void storeLine(Part *part, uint64_t low, uint64_t high) {
  if (isLast())
    group().barrier.arrive_and_wait();
  std::atomic_ref(part->low).store(low, std::memory_order_relaxed);
  std::atomic_ref(part->high).store(high, std::memory_order_release);
  if (!isLast())
    group().barrier.arrive_and_wait();
}
Part loadLine(Part *part) {
  if (!isLast())
    group().barrier.arrive_and_wait();
  uint64_t high = std::atomic_ref(part->high).load(std::memory_order_acquire);
  Part found = {std::atomic_ref(part->low).load(std::memory_order_relaxed), high};
  if (isLast())
    group().barrier.arrive_and_wait();
  return found;
}
int32_t fromLast(int32_t value) {
  if (isLast())
    group().shared = value;
  group().barrier.arrive_and_wait();
  int32_t result = group().shared;
  group().barrier.arrive_and_wait();
  return result;
}
void doNothing() {}
void raise(uint64_t *counter, uint64_t value) { std::atomic_ref(*counter).store(value, std::memory_order_release); }
uint64_t peek(uint64_t *counter) { return std::atomic_ref(*counter).load(std::memory_order_acquire); }
int64_t uniform(int64_t value) { return value; }
void **lists() { return block->lists; }
void pause(int64_t) { std::this_thread::yield(); }
/// What LLVM calls to round to bf16; the result is in the lowest bits of the register.
float roundToBfloat16(float value) { return std::bit_cast<float>(uint32_t(reference::bfloat16FromFloat(value))); }

const std::pair<llvm::StringRef, void *> primitives[] = {
    {gpu::laneFunction, reinterpret_cast<void *>(laneNumber)},
    {gpu::numLanesFunction, reinterpret_cast<void *>(numLanes)},
    {gpu::entryFunction, reinterpret_cast<void *>(entryNumber)},
    {gpu::threadFunction, reinterpret_cast<void *>(threadNumber)},
    {gpu::numThreadsFunction, reinterpret_cast<void *>(numThreads)},
    {gpu::barrierFunction, reinterpret_cast<void *>(waitAtBarrier)},
    {gpu::shareFunction, reinterpret_cast<void *>(share)},
    {gpu::anyFunction, reinterpret_cast<void *>(any)},
    {gpu::publishFunction, reinterpret_cast<void *>(doNothing)},
    {gpu::raiseFunction, reinterpret_cast<void *>(raise)},
    {gpu::peekFunction, reinterpret_cast<void *>(peek)},
    {gpu::acquireFunction, reinterpret_cast<void *>(doNothing)},
    {gpu::uniformFunction, reinterpret_cast<void *>(uniform)},
    {gpu::listFunction, reinterpret_cast<void *>(lists)},
    {gpu::storeLineFunction, reinterpret_cast<void *>(storeLine)},
    {gpu::loadLineFunction, reinterpret_cast<void *>(loadLine)},
    {gpu::fromLastFunction, reinterpret_cast<void *>(fromLast)},
    {gpu::pauseFunction, reinterpret_cast<void *>(pause)},
    {"__truncsfbf2", reinterpret_cast<void *>(roundToBfloat16)}};

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
    : listEntries(listEntries) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = lower(*context, programs, options, groupSize, listEntries);
  code->setDataLayout(jit->getDataLayout());
  llvm::orc::SymbolMap symbols;
  for (auto [name, address] : primitives)
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
}

Emulator::~Emulator() = default;

void Emulator::launch(const std::string &kernel, const LaunchShape &shape, const KoloDeviceInvocation &invocation) {
  auto run = llvm::cantFail(jit->lookup(kernel)).toPtr<void (*)(const KoloDeviceInvocation *)>();
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::jthread> threads;
  for (int64_t lane = 0; lane < shape.lanes; ++lane) {
    Block *here = blocks.emplace_back(std::make_unique<Block>(lane, shape)).get();
    for (int64_t number = 0; number < shape.threads; ++number)
      threads.emplace_back([=, &invocation] {
        block = here, thread = number;
        run(&invocation);
      });
  }
  threads.clear(); // waits for them; before the blocks go
  for (const auto &here : blocks)
    for (int64_t first : {int64_t(0), gpu::destinationEntries})
      if (!std::all_of(here->lists + first + listEntries, here->lists + first + gpu::mostListEntries, std::logical_not()))
        llvm::report_fatal_error("a list is longer than it may be");
}

} // namespace kolo::test
