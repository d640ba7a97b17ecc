// The arithmetic of instructions, for the threads of a warp at once.
#pragma once

#include "Module.h"

namespace kolo::ptx {

/// The registers of one frame.
struct Registers {
  uint32_t *preds = nullptr; // a bit for each thread
  Row<uint32_t> *narrow = nullptr;
  Row<uint64_t> *wide = nullptr;
  uint32_t *carry = nullptr; // likewise
  const Constants *constants = nullptr;

  const uint32_t *narrowOf(const Operand &operand) const {
    return (operand.isConstant ? constants->narrow[operand.index] : narrow[operand.index]).data();
  }
  const uint64_t *wideOf(const Operand &operand) const {
    return (operand.isConstant ? constants->wide[operand.index] : wide[operand.index]).data();
  }
  uint32_t predOf(const Operand &operand) const {
    return operand.isConstant ? (operand.index ? ~uint32_t(0) : 0) : preds[operand.index];
  }
  uint64_t valueOf(const Operand &operand, int lane) const {
    return operand.bank == Bank::Wide ? wideOf(operand)[lane] : narrowOf(operand)[lane];
  }
  void setPred(uint32_t index, uint32_t mask, uint32_t bits) { preds[index] = (preds[index] & ~mask) | (bits & mask); }
  void set(const Operand &operand, int lane, uint64_t value) {
    if (operand.bank == Bank::Wide)
      wide[operand.index][size_t(lane)] = value;
    else
      narrow[operand.index][size_t(lane)] = uint32_t(value);
  }
};

/// For the threads of the mask. False: not an instruction that only computes.
bool compute(const Instruction &instruction, Registers &registers, uint32_t mask);

/// Calls body(lane) for the threads of a mask.
template <class Body> inline void forLanes(uint32_t mask, Body &&body) {
  if (mask == ~uint32_t(0)) {
    for (int lane = 0; lane < warpThreads; ++lane)
      body(lane);
    return;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
    body(__builtin_ctz(rest));
}

} // namespace kolo::ptx
