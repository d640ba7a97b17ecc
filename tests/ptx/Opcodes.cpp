#include "Opcodes.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

namespace kolo::ptx {

namespace {

const std::pair<const char *, Type> typeNames[] = {
    {"pred", Type::Pred},   {"b8", Type::B8},         {"b16", Type::B16}, {"b32", Type::B32}, {"b64", Type::B64},
    {"u8", Type::U8},       {"u16", Type::U16},       {"u32", Type::U32}, {"u64", Type::U64}, {"s8", Type::S8},
    {"s16", Type::S16},     {"s32", Type::S32},       {"s64", Type::S64}, {"f16", Type::F16}, {"bf16", Type::BF16},
    {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2}, {"f32", Type::F32}, {"f64", Type::F64}};

const std::pair<const char *, Comparison> comparisons[] = {
    {"eq", Comparison::Eq}, {"ne", Comparison::Ne}, {"lt", Comparison::Lt},   {"le", Comparison::Le},
    {"gt", Comparison::Gt}, {"ge", Comparison::Ge}, {"nan", Comparison::Nan}, {"neu", Comparison::Neu}};

/// The last word of a type of this list is the type itself: "rn.f32".
struct Family {
  const char *name;
  Op op;
  const char *types, *operands;
};

const Family families[] = {
    {"abs", Op::Abs, "s32 s64 f16x2 bf16x2", "tt"},
    {"add", Op::Add, "s16 s32 s64 rn.f16 rn.bf16 rn.f16x2 rn.bf16x2 rn.f32 rn.f64", "ttt"},
    {"add.cc", Op::AddCarry, "s64", "ttt"},
    {"addc.cc", Op::AddWithCarry, "s64", "ttt"},
    {"and", Op::And, "pred b16 b32 b64", "ttt"},
    {"or", Op::Or, "pred b16 b32 b64", "ttt"},
    {"xor", Op::Xor, "pred b16 b32 b64", "ttt"},
    {"not", Op::Not, "pred b16 b32 b64", "tt"},
    {"bfe", Op::Bfe, "u32 s32 u64 s64", "ttrr"},
    {"clz", Op::Clz, "b32 b64", "rt"},
    {"popc", Op::Popc, "b32 b64", "rt"},
    {"div", Op::Div, "s32 u32 s64 u64 rn.f32 rn.f64", "ttt"},
    {"mad.lo", Op::Mad, "s32 s64", "tttt"},
    {"max", Op::Max, "s16 u16 s32 u32 s64 u64 f32", "ttt"},
    {"min", Op::Min, "s16 u16 s32 u32 s64 u64 f32", "ttt"},
    {"mul.hi", Op::MulHigh, "s64 u64", "ttt"},
    {"mul.lo", Op::MulLow, "s16 s32 s64", "ttt"},
    {"mul", Op::MulLow, "rn.f16 rn.bf16 rn.f16x2 rn.bf16x2 rn.f32 rn.f64", "ttt"},
    {"mul.wide", Op::MulWide, "u16 s16 u32 s32", "wtt"},
    {"neg", Op::Neg, "s16 s32 s64", "tt"},
    {"prmt", Op::Permute, "b32", "tttt"},
    {"rcp", Op::Reciprocal, "rn.f32 rn.f64", "tt"},
    {"selp", Op::Select, "b16 b32 b64 f32 f64", "tttp"},
    {"shl", Op::ShiftLeft, "b16 b32 b64", "ttr"},
    {"shr", Op::ShiftRight, "u16 u32 u64 s16 s32 s64", "ttr"},
    {"sub", Op::Sub, "s16 s32 s64", "ttt"},
};

const char *const comparedTypes = "b16 b32 b64 s16 u16 s32 u32 s64 u64 f16 bf16 f32 f64";

/// Without modifiers, an integer is cut or extended; rn rounds to nearest, ties to even.
const char *const conversions =
    "u16.u32 u16.u64 u32.u16 u32.u64 u64.u16 u64.u32 s8.s32 s8.s64 s16.s8 s32.s16 f32.f16 "
    "f32.bf16 rn.f16.f32 rn.bf16.f32 rn.f32.s16 rn.f32.s32 rn.f32.s64 rn.f32.u32 rn.f32.u64 "
    "rn.f64.s64 rn.f64.u64";

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

std::unordered_map<std::string, Opcode> makeOpcodes() {
  std::unordered_map<std::string, Opcode> opcodes;
  for (const Family &family : families)
    for (const std::string &typed : split(family.types, ' ')) {
      Type type = *readType(split(typed, '.').back());
      opcodes[std::string(family.name) + "." + typed] = {family.op, type, type, Comparison::Eq, family.operands};
    }
  for (auto [name, comparison] : comparisons)
    for (const std::string &typed : split(comparedTypes, ' '))
      opcodes[std::string("setp.") + name + "." + typed] = {Op::Compare, *readType(typed), *readType(typed), comparison,
                                                            "ptt"};
  for (const std::string &pair : split(conversions, ' ')) {
    std::vector<std::string> parts = split(pair, '.');
    opcodes["cvt." + pair] = {Op::Convert, *readType(parts[parts.size() - 2]), *readType(parts.back()), Comparison::Eq,
                              "aa"};
  }
  opcodes["cvt.rn.f16x2.f32"] = {Op::ConvertPair, Type::F16x2, Type::F32, Comparison::Eq, "ttt"};
  opcodes["cvt.rn.bf16x2.f32"] = {Op::ConvertPair, Type::BF16x2, Type::F32, Comparison::Eq, "ttt"};
  return opcodes;
}

std::optional<Scope> readScope(std::string_view word) {
  if (word == "cta")
    return Scope::Block;
  if (word == "gpu")
    return Scope::Device;
  return word == "sys" ? std::optional(Scope::System) : std::nullopt;
}

} // namespace

int sizeOf(Type type) {
  switch (type) {
  case Type::Pred:
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
    return 8;
  default:
    return 4;
  }
}

bool isSigned(Type type) { return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64; }

std::optional<Type> readType(std::string_view name) {
  for (auto [text, type] : typeNames)
    if (name == text)
      return type;
  return std::nullopt;
}

std::optional<Opcode> findOpcode(std::string_view name) {
  static const std::unordered_map<std::string, Opcode> opcodes = makeOpcodes();
  auto found = opcodes.find(std::string(name));
  return found == opcodes.end() ? std::nullopt : std::optional(found->second);
}

/// In this order: ld or st, how, scope, space, nc, vector, type. Generic addresses are not among them.
std::optional<MemoryOpcode> readMemoryOpcode(std::string_view name) {
  std::vector<std::string> words = split(std::string(name), '.');
  MemoryOpcode opcode;
  size_t next = 1;
  auto word = [&] { return next < words.size() ? words[next] : std::string(); };
  opcode.isStore = words[0] == "st";
  Access &access = opcode.access;
  if (word() == "volatile") // as relaxed ones at system scope
    access.order = Order::Relaxed, access.scope = Scope::System, ++next;
  else if (word() == "relaxed" || word() == (opcode.isStore ? "release" : "acquire")) {
    access.order = word() == "relaxed" ? Order::Relaxed : opcode.isStore ? Order::Release : Order::Acquire;
    ++next;
    auto scope = readScope(word());
    if (!scope)
      return std::nullopt;
    access.scope = *scope, ++next;
  }
  if (word() == "param")
    opcode.isParam = true;
  else if (word() == "shared")
    access.space = Space::Shared;
  else if (word() != "global")
    return std::nullopt;
  ++next;
  if (word() == "nc" && !opcode.isStore && access.space == Space::Global && access.order == Order::Weak)
    access.isNonCoherent = true, ++next;
  if (word() == "v2" || word() == "v4")
    opcode.numElements = uint8_t(word()[1] - '0'), ++next;
  auto type = readType(word());
  if (!type || *type == Type::Pred || next + 1 != words.size() || (opcode.isParam && access.order != Order::Weak))
    return std::nullopt;
  opcode.type = *type;
  if (opcode.numElements * sizeOf(*type) > 16)
    return std::nullopt;
  return opcode;
}

std::optional<Access> readFence(std::string_view name) {
  std::vector<std::string> words = split(std::string(name), '.');
  if (words.size() != 3 || words[0] != "fence" || (words[1] != "acq_rel" && words[1] != "sc"))
    return std::nullopt;
  auto scope = readScope(words[2]);
  if (!scope)
    return std::nullopt;
  return Access{Space::Global, words[1] == "sc" ? Order::SequentiallyConsistent : Order::AcquireRelease, *scope, false};
}

} // namespace kolo::ptx
