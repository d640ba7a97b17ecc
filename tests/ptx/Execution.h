// A group of threads of a warp, which execute one instruction after the other until they part or wait.
#pragma once

#include "Compute.h"
#include "Executor.h"

namespace kolo::ptx {

class Execution {
public:
  Execution(Executor &onExecutor, Executor::Warp &ofWarp, const Executor::Group &group);
  /// At most so many instructions; gives how many.
  uint32_t run(uint32_t budget);

private:
  enum class Next : uint8_t { Instruction, Leave };
  Next execute(const Instruction &instruction, uint32_t active);
  Next branch(const Instruction &instruction, uint32_t active);
  Next branchIndexed(const Instruction &instruction, uint32_t active);
  Next call(const Instruction &instruction);
  Next leaveFunction();
  Next leaveKernel();
  Next barrier(const Instruction &instruction);
  void release(uint32_t number);
  Next meetInWarp();
  void warpBarrier(uint32_t members);
  void shuffle(const Instruction &instruction, uint32_t members);
  void readSpecial(const Instruction &instruction, uint32_t active);
  void access(const Instruction &instruction, uint32_t active);
  void settle(const Instruction &instruction);
  bool delayLoad(const Instruction &instruction, int lane, uint64_t address);
  uint32_t accessLines(const Instruction &instruction, uint32_t active, const Row<uint64_t> &addresses);
  void count(const Instruction &instruction, uint32_t active, const Row<uint64_t> &addresses);
  void put(uint32_t lanes, uint32_t place);
  uint32_t threadOf(int lane) const { return warp.firstThread + uint32_t(lane); }

  Executor &executor;
  Executor::Warp &warp;
  const Module &module;
  Registers registers;
  uint32_t mask, pc;
  Executor::Bases bases;
};

} // namespace kolo::ptx
