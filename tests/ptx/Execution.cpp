#include "Execution.h"

#include <cstring>

namespace kolo::ptx {

Execution::Execution(Executor &onExecutor, Executor::Warp &ofWarp, const Executor::Group &group)
    : executor(onExecutor), warp(ofWarp), module(*onExecutor.devices[ofWarp.block->device].launch->module),
      mask(group.mask), pc(group.pc), bases(group.bases) {
  registers = {warp.preds.get() + bases.preds, warp.narrow.get() + bases.narrow, warp.wide.get() + bases.wide,
               &warp.carry, &module.constants};
}

uint32_t Execution::run(uint32_t budget) {
  const uint32_t whole = mask;
  const bool isParted = warp.runnable != mask;
  uint32_t done = 0;
  Next next = Next::Instruction;
  while (done < budget && next == Next::Instruction) {
    const Instruction &instruction = module.code[pc];
    if (!executor.delayed.empty())
      settle(instruction);
    if (isParted && instruction.isTarget && done > 0)
      break; // others may have come here, too
    if (warp.together != 0 && (pc != warp.togetherAt || (mask & warp.together) == 0))
      warp.together &= ~mask;
    uint32_t active = mask;
    if (instruction.isGuarded)
      active &= instruction.isGuardNegated ? ~registers.preds[instruction.guard] : registers.preds[instruction.guard];
    ++done;
    next = execute(instruction, active);
  }
  if (next == Next::Instruction)
    put(mask, pc);
  forLanes(whole, [&](int lane) { warp.executed[size_t(lane)] += done; });
  return done;
}

void Execution::put(uint32_t lanes, uint32_t place) {
  forLanes(lanes, [&](int lane) { warp.pc[size_t(lane)] = place; });
}

Execution::Next Execution::execute(const Instruction &instruction, uint32_t active) {
  executor.executedLines[instruction.line] = true;
  switch (instruction.op) {
  case Op::Branch:
    return branch(instruction, active);
  case Op::BranchIndexed:
    return branchIndexed(instruction, active);
  case Op::Call:
  case Op::Return:
  case Op::Exit:
  case Op::Trap:
  case Op::Barrier:
  case Op::BarrierOr:
  case Op::WarpBarrier:
  case Op::Shuffle:
  case Op::Nanosleep:
    if (active == 0)
      return ++pc, Next::Instruction;
    if (active != mask) // the others go on later
      put(mask & ~active, pc + 1), mask = active;
    break;
  case Op::Load:
  case Op::Store:
    access(instruction, active);
    return ++pc, Next::Instruction;
  case Op::Fence:
    forLanes(active, [&](int lane) { executor.ownMemory->fence(threadOf(lane), instruction.access); });
    executor.counted.fences += uint64_t(__builtin_popcount(active));
    return ++pc, Next::Instruction;
  case Op::ReadSpecial:
    readSpecial(instruction, active);
    return ++pc, Next::Instruction;
  default:
    if (!compute(instruction, registers, active))
      throw Problem("line " + std::to_string(instruction.line) + ": nothing computes this");
    return ++pc, Next::Instruction;
  }
  switch (instruction.op) {
  case Op::Call:
    return call(instruction);
  case Op::Return:
    return leaveFunction();
  case Op::Exit:
    return leaveKernel();
  case Op::Trap:
    throw Problem("line " + std::to_string(instruction.line) + ": trap");
  case Op::Nanosleep:
    put(mask, pc + 1);
    warp.runnable &= ~mask, warp.sleeping |= mask;
    warp.wake = executor.now + executor.random.below(300 * uint32_t(executor.warps.size()));
    return Next::Leave;
  case Op::Barrier:
  case Op::BarrierOr:
    return barrier(instruction);
  default:
    put(mask, pc);
    warp.runnable &= ~mask;
    forLanes(mask, [&](int lane) { warp.waitsAt[size_t(lane)] = Executor::atWarp; });
    return meetInWarp();
  }
}

Execution::Next Execution::branch(const Instruction &instruction, uint32_t active) {
  auto target = uint32_t(instruction.immediate);
  if (active == mask)
    return pc = target, Next::Instruction;
  if (active == 0)
    return ++pc, Next::Instruction;
  put(active, target), put(mask & ~active, pc + 1);
  return Next::Leave;
}

Execution::Next Execution::branchIndexed(const Instruction &instruction, uint32_t active) {
  const std::vector<uint32_t> &targets = module.lists[instruction.list];
  const uint32_t *index = registers.narrowOf(instruction.src[0]);
  put(mask & ~active, pc + 1);
  forLanes(active, [&](int lane) {
    if (index[lane] >= targets.size())
      throw Problem("line " + std::to_string(instruction.line) + ": an index past the targets");
    warp.pc[size_t(lane)] = targets[index[lane]];
  });
  return Next::Leave;
}

Execution::Next Execution::call(const Instruction &instruction) {
  const auto callee = uint32_t(instruction.immediate);
  const Function &function = module.functions[callee];
  const std::vector<uint32_t> &arguments = module.lists[instruction.list];
  Executor::Bases inner;
  forLanes(mask, [&](int lane) {
    auto i = size_t(lane);
    const Sizes &sizes = module.functions[warp.function[i]].sizes;
    inner = {bases.preds + sizes[size_t(Bank::Pred)], bases.narrow + sizes[size_t(Bank::Narrow)],
             bases.wide + sizes[size_t(Bank::Wide)]};
    if (warp.depth[i] == Executor::mostFrames)
      throw Problem("line " + std::to_string(instruction.line) + ": too many calls within each other");
    warp.frames[warp.depth[i]++][i] = {pc + 1, arguments.back(), bases, warp.function[i]};
    warp.function[i] = callee, warp.bases[i] = inner, warp.pc[i] = function.first;
    for (size_t number = 0; number < function.params.size(); ++number)
      warp.wide[inner.wide + function.params[number]][i] = registers.wide[arguments[number]][i];
  });
  return Next::Leave;
}

Execution::Next Execution::leaveFunction() {
  uint32_t ending = 0;
  forLanes(mask, [&](int lane) {
    auto i = size_t(lane);
    if (warp.depth[i] == 0) {
      ending |= 1u << lane;
      return;
    }
    const Executor::Frame &frame = warp.frames[--warp.depth[i]][i];
    if (frame.result != nowhere)
      warp.wide[frame.bases.wide + frame.result][i] = registers.wide[module.functions[warp.function[i]].result][i];
    warp.function[i] = frame.function, warp.bases[i] = frame.bases, warp.pc[i] = frame.pc;
  });
  mask = ending;
  return mask ? leaveKernel() : Next::Leave;
}

Execution::Next Execution::leaveKernel() {
  warp.runnable &= ~mask, warp.alive &= ~mask;
  executor.devices[warp.block->device].numLeft -= uint32_t(__builtin_popcount(mask));
  return Next::Leave;
}

/// All threads of a block, or as many as the instruction says, of whole warps.
Execution::Next Execution::barrier(const Instruction &instruction) {
  const uint32_t *numbers = registers.narrowOf(instruction.src[0]);
  const uint32_t *counts = instruction.src[1].index == nowhere ? nullptr : registers.narrowOf(instruction.src[1]);
  put(mask, pc);
  warp.runnable &= ~mask;
  std::array<bool, Executor::mostBarriers> isComplete{};
  forLanes(mask, [&](int lane) {
    uint32_t number = numbers[lane], expected = counts ? counts[lane] : warp.block->numThreads;
    if (number >= Executor::mostBarriers || expected % warpThreads != 0)
      throw Problem("line " + std::to_string(instruction.line) + ": there is no such barrier");
    Executor::Barrier &barrier = warp.block->barriers[number];
    if (barrier.arrived != 0 && barrier.expected != expected)
      throw Problem("line " + std::to_string(instruction.line) + ": threads expect different numbers at a barrier");
    barrier.expected = expected;
    if (instruction.op == Op::BarrierOr)
      barrier.value |= registers.predOf(instruction.src[2]) >> lane & 1;
    warp.waitsAt[size_t(lane)] = uint8_t(number + 1);
    isComplete[number] = ++barrier.arrived == expected;
  });
  for (uint32_t number = 0; number < isComplete.size(); ++number)
    if (isComplete[number])
      release(number);
  return Next::Leave;
}

void Execution::release(uint32_t number) {
  Executor::Barrier &barrier = warp.block->barriers[number];
  std::vector<uint32_t> threads;
  for (Executor::Warp *other : warp.block->warps)
    forLanes(other->alive & ~other->runnable, [&](int lane) {
      auto i = size_t(lane);
      if (other->waitsAt[i] != number + 1)
        return;
      const Instruction &waiting = module.code[other->pc[i]];
      if (waiting.op == Op::BarrierOr) {
        uint32_t &pred = other->preds[other->bases[i].preds + waiting.dst.index];
        pred = (pred & ~(1u << lane)) | uint32_t(barrier.value) << lane;
      }
      other->waitsAt[i] = 0, ++other->pc[i], other->runnable |= 1u << lane;
      threads.push_back(other->firstThread + uint32_t(lane));
    });
  executor.ownMemory->meet(threads);
  barrier = {};
  ++executor.counted.barriers;
}

/// Goes on with those of the waiting threads whose named others all wait, too: by a shuffle at the same place, or by
/// barriers of the warp anywhere.
Execution::Next Execution::meetInWarp() {
  const Instruction &instruction = module.code[pc];
  const bool isShuffle = instruction.op == Op::Shuffle;
  const uint32_t *members = registers.narrowOf(instruction.src[isShuffle ? 3 : 0]);
  forLanes(mask, [&](int lane) {
    if ((members[lane] >> lane & 1) == 0)
      throw Problem("line " + std::to_string(instruction.line) + ": a thread is not among those that it waits for");
    warp.waitsFor[size_t(lane)] = members[lane];
  });
  auto meets = [&](uint32_t lane, uint32_t group) {
    if (warp.waitsAt[lane] != Executor::atWarp || warp.waitsFor[lane] != group)
      return false;
    return isShuffle ? warp.pc[lane] == pc && warp.bases[lane] == bases
                     : module.code[warp.pc[lane]].op == Op::WarpBarrier;
  };
  uint32_t met = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    uint32_t group = members[__builtin_ctz(rest)];
    bool isWhole = (group & met) == 0;
    forLanes(group, [&](int lane) { isWhole &= meets(uint32_t(lane), group); });
    if (!isWhole)
      continue;
    met |= group;
    if (isShuffle)
      shuffle(instruction, group);
    else
      warpBarrier(group);
  }
  warp.runnable |= met;
  if (!isShuffle && met != 0)
    warp.together = 0, warp.togetherAt = pc + 1;
  forLanes(met, [&](int lane) {
    auto i = size_t(lane);
    if (!isShuffle && warp.pc[i] == pc && warp.bases[i] == bases)
      warp.together |= 1u << lane;
    warp.waitsAt[i] = 0, ++warp.pc[i];
  });
  return Next::Leave;
}

void Execution::warpBarrier(uint32_t members) {
  std::vector<uint32_t> threads;
  forLanes(members, [&](int lane) { threads.push_back(threadOf(lane)); });
  executor.ownMemory->meet(threads);
}

/// shfl.idx: from the lane that the bits of `c` and the index choose.
void Execution::shuffle(const Instruction &instruction, uint32_t members) {
  const uint32_t *value = registers.narrowOf(instruction.src[0]), *index = registers.narrowOf(instruction.src[1]),
                 *c = registers.narrowOf(instruction.src[2]);
  Row<uint32_t> result;
  forLanes(members, [&](int lane) {
    uint32_t segment = c[lane] >> 8 & 31, bound = c[lane] & 31, first = uint32_t(lane) & segment;
    uint32_t from = first | (index[lane] & ~segment & 31), last = first | (bound & ~segment);
    if (from > last)
      from = uint32_t(lane);
    if ((members >> from & 1) == 0)
      throw Problem("line " + std::to_string(instruction.line) + ": a value of a thread that does not take part");
    result[size_t(lane)] = value[from];
  });
  forLanes(members, [&](int lane) { registers.narrow[instruction.dst.index][size_t(lane)] = result[size_t(lane)]; });
}

void Execution::readSpecial(const Instruction &instruction, uint32_t active) {
  const Executor::Block &block = *warp.block;
  if (instruction.special == Special::Clock) {
    forLanes(active, [&](int lane) { registers.wide[instruction.dst.index][size_t(lane)] = executor.elapsedNs(); });
    return;
  }
  uint32_t firstOfBlock = block.warps.front()->firstThread;
  forLanes(active, [&](int lane) {
    uint32_t value = instruction.special == Special::ThreadX       ? threadOf(lane) - firstOfBlock
                     : instruction.special == Special::NumThreadsX ? block.numThreads
                     : instruction.special == Special::BlockX      ? block.x
                     : instruction.special == Special::BlockY      ? block.y
                                                                   : block.gridX;
    registers.narrow[instruction.dst.index][size_t(lane)] = value;
  });
}

void Execution::access(const Instruction &instruction, uint32_t active) {
  const bool isShared = instruction.access.space == Space::Shared;
  const uint64_t *base = registers.wideOf(instruction.src[0]);
  Row<uint64_t> addresses;
  forLanes(active, [&](int lane) {
    addresses[size_t(lane)] = base[lane] + uint64_t(instruction.immediate);
    if (isShared && addresses[size_t(lane)] >= module.sharedBytes)
      throw Problem("line " + std::to_string(instruction.line) + ": there is no shared memory at this address");
    addresses[size_t(lane)] += isShared ? warp.block->sharedBase : 0;
  });
  if (!isShared && active != 0) {
    executor.addresses[instruction.line] = addresses[size_t(__builtin_ctz(active))];
    count(instruction, active, addresses);
  }
  const auto elementBytes = uint32_t(sizeOf(instruction.type)), sizeBytes = elementBytes * instruction.numElements;
  uint32_t rest = active;
  if (sizeBytes == Memory::partBytes && instruction.access.order == Order::Relaxed && warp.togetherAt == pc)
    rest &= ~accessLines(instruction, active & warp.together, addresses);
  std::array<std::byte, 16> bytes{};
  forLanes(rest, [&](int lane) {
    uint64_t address = addresses[size_t(lane)];
    if (instruction.op == Op::Store) {
      for (uint32_t element = 0; element < instruction.numElements; ++element) {
        uint64_t value = registers.valueOf(instruction.elements[element], lane);
        std::memcpy(bytes.data() + size_t(element) * elementBytes, &value, elementBytes);
      }
      executor.ownMemory->store(threadOf(lane), address, sizeBytes, instruction.access, instruction.line, bytes.data());
      return;
    }
    if (executor.ownMemory->delaysNextLoad() && delayLoad(instruction, lane, address))
      return;
    executor.ownMemory->load(threadOf(lane), address, sizeBytes, instruction.access, instruction.line, bytes.data());
    for (uint32_t element = 0; element < instruction.numElements; ++element) {
      if (instruction.elements[element].index == nowhere)
        continue;
      uint64_t value = 0;
      std::memcpy(&value, bytes.data() + size_t(element) * elementBytes, elementBytes);
      if (isSigned(instruction.type))
        value = uint64_t(int64_t(value << (64 - 8 * elementBytes)) >> (64 - 8 * elementBytes));
      registers.set(instruction.elements[element], lane, value);
    }
  });
}

/// Only loads of one register that synchronise nothing by themselves.
bool Execution::delayLoad(const Instruction &instruction, int lane, uint64_t address) {
  const Access &how = instruction.access;
  Operand target = instruction.elements[0];
  if (how.space != Space::Global || how.order == Order::Acquire || how.isNonCoherent || instruction.numElements != 1 ||
      sizeOf(instruction.type) != 8)
    return false;
  target.index += bases.wide;
  executor.delayed.push_back({&warp, lane, target, how.order != Order::Weak,
                              executor.ownMemory->delay(threadOf(lane), address, how, instruction.line)});
  return true;
}

/// Loads that wait take place before an instruction that has to do with their register, and before the thread leaves
/// its function or meets others. Strong ones do also before what they have seen is released.
void Execution::settle(const Instruction &instruction) {
  const Op op = instruction.op;
  const bool isEnd = op == Op::Call || op == Op::Return || op == Op::Exit || op == Op::Barrier || op == Op::BarrierOr ||
                     op == Op::WarpBarrier || op == Op::Shuffle;
  const bool releases = op == Op::Fence || instruction.access.order == Order::Release;
  auto names = [&](const Operand &operand, const Operand &target) {
    return operand.bank == Bank::Wide && !operand.isConstant && operand.index != nowhere &&
           operand.index + bases.wide == target.index;
  };
  std::erase_if(executor.delayed, [&](const Executor::Delayed &load) {
    if (load.warp != &warp || (mask >> load.lane & 1) == 0)
      return false;
    bool isWanted = isEnd || (releases && load.isStrong) || names(instruction.dst, load.target);
    for (size_t i = 0; i < instruction.src.size(); ++i)
      isWanted |= names(instruction.src[i], load.target) || names(instruction.elements[i], load.target);
    if (isWanted)
      warp.wide[load.target.index][size_t(load.lane)] = executor.ownMemory->settle(load.load);
    return isWanted;
  });
}

/// Of threads that have just met: those whose parts are a whole line access it at once. Gives these threads.
uint32_t Execution::accessLines(const Instruction &instruction, uint32_t active, const Row<uint64_t> &addresses) {
  constexpr uint32_t lineBytes = Memory::lineThreads * Memory::partBytes;
  uint32_t done = 0;
  for (uint32_t first = 0; first < warpThreads; first += Memory::lineThreads) {
    bool isWhole = (active >> first & 0xff) == 0xff && addresses[first] % lineBytes == 0;
    for (uint32_t i = 1; isWhole && i < Memory::lineThreads; ++i)
      isWhole = addresses[first + i] == addresses[first] + uint64_t(i) * Memory::partBytes;
    if (!isWhole)
      continue;
    done |= 0xffu << first;
    std::array<uint32_t, Memory::lineThreads> threads;
    std::array<uint64_t, lineBytes / 8> words{};
    for (uint32_t i = 0; i < Memory::lineThreads; ++i)
      threads[i] = threadOf(int(first + i));
    auto forWords = [&](auto &&body) {
      for (uint32_t word = 0; word < words.size(); ++word)
        body(words[word], instruction.elements[word % 2], int(first + word / 2));
    };
    if (instruction.op == Op::Store) {
      forWords([&](uint64_t &word, const Operand &from, int lane) { word = registers.valueOf(from, lane); });
      executor.ownMemory->storeLine(threads, addresses[first], instruction.access, instruction.line,
                                    reinterpret_cast<const std::byte *>(words.data()));
    } else {
      executor.ownMemory->loadLine(threads, addresses[first], instruction.access, instruction.line,
                                   reinterpret_cast<std::byte *>(words.data()));
      forWords([&](uint64_t &word, const Operand &to, int lane) {
        if (to.index != nowhere)
          registers.set(to, lane, word);
      });
    }
  }
  return done;
}

/// Of global memory: sectors of 32 bytes that the instruction touches.
void Execution::count(const Instruction &instruction, uint32_t active, const Row<uint64_t> &addresses) {
  constexpr uint64_t sectorBytes = 32;
  Counts &counts = executor.counted;
  auto threads = uint64_t(__builtin_popcount(active));
  (instruction.op == Op::Store ? counts.stores : counts.loads) += threads;
  counts.bytes += threads * uint64_t(sizeOf(instruction.type)) * instruction.numElements;
  counts.releases += instruction.access.order == Order::Release ? threads : 0;
  counts.acquires += instruction.access.order == Order::Acquire ? threads : 0;
  Row<uint64_t> sectors;
  size_t number = 0;
  forLanes(active, [&](int lane) {
    uint64_t sector = addresses[size_t(lane)] / sectorBytes;
    for (size_t i = number; i > 0; --i)
      if (sectors[i - 1] == sector)
        return;
    sectors[number++] = sector;
  });
  counts.transactions += number;
}

} // namespace kolo::ptx
