// PTX as the executor holds it: instructions decoded once, with registers of a warp as arrays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::ptx {

inline constexpr int warpThreads = 32;

enum class Type : uint8_t {
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F16x2,
  BF16x2,
  F32,
  F64
};
int sizeOf(Type type); // bytes
bool isSigned(Type type);

enum class Op : uint8_t {
  Abs,
  Add,
  AddCarry,
  AddWithCarry,
  And,
  Bfe,
  Clz,
  Convert,
  ConvertPair,
  Div,
  Mad,
  Max,
  Min,
  Mov,
  MulHigh,
  MulLow,
  MulWide,
  Neg,
  Not,
  Or,
  Permute,
  Popc,
  Reciprocal,
  Select,
  Compare,
  ShiftLeft,
  ShiftRight,
  Sub,
  Xor,
  Pack,
  Unpack,
  ReadSpecial,
  MoveParam, // MoveParam: between a register and a parameter, which has 64 bits
  Load,
  Store,
  Fence,
  Branch,
  BranchIndexed,
  Call,
  Return,
  Exit,
  Trap,
  Nanosleep,
  Barrier,
  BarrierOr,
  WarpBarrier,
  Shuffle,
};

enum class Comparison : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Nan, Neu };
enum class Special : uint8_t { ThreadX, NumThreadsX, BlockX, BlockY, NumBlocksX, Clock };

/// As wide as a scope is: a thread is in those of the threads near it.
enum class Scope : uint8_t { None, Block, Device, System };
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease, SequentiallyConsistent };
enum class Space : uint8_t { Global, Shared };

/// How memory is accessed.
struct Access {
  Space space = Space::Global;
  Order order = Order::Weak;
  Scope scope = Scope::None;
  bool isNonCoherent = false;
};

/// Registers are of three kinds, by size. Constants are registers that all warps share.
enum class Bank : uint8_t { Pred, Narrow, Wide };
inline constexpr uint32_t nowhere = UINT32_MAX; // the index of an operand that is not there
struct Operand {
  uint32_t index = nowhere;
  bool isConstant = false;
  Bank bank = Bank::Narrow;
};

struct Instruction {
  Op op = Op::Exit;
  Type type = Type::B32, from = Type::B32; // from: of the sources of a conversion or a wide product
  uint8_t numElements = 1;                 // of a vector
  bool isGuarded = false, isGuardNegated = false;
  bool isTarget = false; // of a branch
  Comparison comparison = Comparison::Eq;
  Special special = Special::ThreadX;
  Access access;
  uint32_t guard = 0;
  Operand dst;
  std::array<Operand, 4> src{};
  std::array<Operand, 4> elements{}; // of a vector that is loaded, stored, packed or unpacked
  int64_t immediate = 0;             // an offset; the instruction branched to; the function called
  uint32_t list = 0;                 // into Module::lists
  uint32_t line = 0;                 // of the text, from 1 on
};

/// Registers of each bank, by Bank.
using Sizes = std::array<uint32_t, 3>;

struct Function {
  std::string name;
  uint32_t first = 0, end = 0; // instructions
  Sizes sizes{};
  std::vector<uint32_t> params; // registers of the wide bank
  uint32_t result = nowhere;    // likewise
};

template <class T> using Row = std::array<T, warpThreads>;

/// One for each function, kept alike for all.
struct Constants {
  std::vector<Row<uint32_t>> narrow;
  std::vector<Row<uint64_t>> wide;
};

struct Module {
  std::vector<Instruction> code;
  std::vector<Function> functions;
  std::map<std::string, uint32_t, std::less<>> byName;
  Constants constants;
  /// Targets of an indexed branch; or of a call: a register for each parameter, at last the one for the result.
  std::vector<std::vector<uint32_t>> lists;
  uint32_t sharedBytes = 0;
  /// Constant memory, each on pages of its own.
  struct Table {
    uint64_t sizeBytes;
    std::unique_ptr<std::byte[], void (*)(void *)> content;
  };
  std::vector<Table> tables;
  bool hasFences = false;

  const Function &entry(std::string_view name) const;
};

/// Throws std::runtime_error, which names the line and what is unknown there.
Module readModule(std::string_view text);

} // namespace kolo::ptx
