// What opcodes mean: every one that code for devices has, and no other.
#pragma once

#include "Module.h"

#include <optional>

namespace kolo::ptx {

/// `operands`: a letter for each. t: as the type wants; p, r, d: predicate, narrow, wide; w: twice the type; a: any
/// register; the first one is written.
struct Opcode {
  Op op = Op::Exit;
  Type type = Type::B32, from = Type::B32;
  Comparison comparison = Comparison::Eq;
  const char *operands = "";
};

/// Of instructions that only compute.
std::optional<Opcode> findOpcode(std::string_view name);

struct MemoryOpcode {
  bool isStore = false, isParam = false;
  Access access;
  uint8_t numElements = 1;
  Type type = Type::B32;
};

/// Of ld and st; nothing: unknown.
std::optional<MemoryOpcode> readMemoryOpcode(std::string_view name);
std::optional<Access> readFence(std::string_view name);
std::optional<Type> readType(std::string_view name);

} // namespace kolo::ptx
