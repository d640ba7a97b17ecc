// Definitions of the collectives, and rank-tagged data.
#include "ir/reference/Oracle.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace kolo::reference {

/// A well-mixed number (splitmix64, Steele et al., OOPSLA 2014).
static uint64_t mix(uint64_t seed, uint64_t next) {
  uint64_t bits = (seed + next + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// All integers up to this one are exact in the type and, for integers, positive.
static int64_t largestTag(ElementType type) {
  switch (type) {
  case ElementType::BF16:
    return 256;
  case ElementType::F16:
    return 2048;
  case ElementType::I8:
    return 127;
  case ElementType::U8:
    return 255;
  default:
    return 1 << 24;
  }
}

static bool isReducing(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::Reduce ||
         kind == CollectiveKind::Scan || kind == CollectiveKind::Exscan;
}

/// A factor of 1 or 2: at least one member of the group has a 2, not all do, and at most six do, so that the product
/// fits every type.
static int64_t factor(uint64_t element, int64_t member, int64_t numMembers) {
  int64_t numPicks = std::min<int64_t>(6, numMembers - 1);
  for (int64_t pick = 0; pick < numPicks; ++pick)
    if (int64_t(mix(element, pick) % numMembers) == member)
      return 2;
  return 1;
}

/// 1 to `limit`; members 0 and 1 always differ.
static int64_t tag(uint64_t element, int64_t member, int64_t limit) {
  int64_t first = int64_t(mix(element, 0) % limit), other = int64_t(mix(element, member) % (limit - 1));
  if (member == 0)
    return 1 + first;
  return member == 1 ? 1 + (first + 1 + other) % limit : 1 + other;
}

/// Where the fraction of a floating-point type begins that says where its exponent ends; nothing for integers.
static std::optional<int> fractionBits(ElementType type) {
  switch (type) {
  case ElementType::F16:
    return 10;
  case ElementType::BF16:
    return 7;
  case ElementType::F32:
    return 23;
  case ElementType::F64:
    return 52;
  default:
    return std::nullopt;
  }
}

/// Some elements of floating-point types get what orders of operands, and comparisons, could show. In each of them, all
/// members have zeros of either sign, or tags of either sign, or some have infinities or NaNs. NaNs differ from member
/// to member. The result depends on no order: no sum has a zero beside what is not, for example.
static void makeSpecial(ElementType type, std::byte *bytes, uint64_t element, int64_t member) {
  constexpr uint64_t rarity = 8;
  std::optional<int> fraction = fractionBits(type);
  uint64_t special = mix(element, ~uint64_t(0)), choice = mix(special, uint64_t(member));
  if (!fraction || special % rarity != 0)
    return;
  int64_t size = elementBytes(type), sign = 8 * size - 1;
  uint64_t bits = 0, infinity = (uint64_t(1) << sign) - (uint64_t(1) << *fraction);
  std::memcpy(&bits, bytes, size_t(size));
  uint64_t payload = 1 + uint64_t(member) % 31, quiet = choice / 8 % 2 << (*fraction - 1);
  enum Kind { Zeros, Signs, Infinities, Nans, NumKinds };
  Kind kind = Kind(special / rarity % NumKinds);
  if (kind == Zeros)
    bits = 0;
  else if (kind != Signs && choice / 2 % 4 == 0)
    bits = kind == Infinities ? infinity : infinity | quiet | payload;
  bits |= choice % 2 << sign;
  std::memcpy(bytes, &bits, size_t(size));
}

void tagInput(SimulatedCall &simulated, uint64_t salt) {
  bool reduces = isReducing(simulated.collective.getKind());
  int64_t numMembers = groupSize(simulated), limit = largestTag(simulated.type);
  if (reduces && (simulated.reduction == Reduction::Sum || simulated.reduction == Reduction::Average))
    limit = std::max<int64_t>(2, limit / numMembers); // so that the sum is exact
  for (int64_t rank = 0; rank < numRanks(simulated); ++rank) {
    uint64_t group = mix(salt, groupOf(simulated, rank).front());
    int64_t member = memberNumber(simulated, rank);
    Bytes &input = simulated.inputs[rank];
    for (size_t at = 0, element = 0; at < input.size(); at += elementBytes(simulated.type), ++element) {
      uint64_t seed = mix(group, element);
      bool multiplies = reduces && simulated.reduction == Reduction::Product;
      storeInteger(simulated.type, &input[at],
                   multiplies ? factor(seed, member, numMembers) : tag(seed, member, limit));
      makeSpecial(simulated.type, &input[at], seed, member);
    }
  }
}

static llvm::ArrayRef<std::byte> blockOfInput(const SimulatedCall &simulated, int64_t rank, int64_t block) {
  const Range elements = blockRange(simulated, BufferRole::Input, rank, block);
  const int64_t bytes = elementBytes(simulated.type);
  return llvm::ArrayRef(simulated.inputs[rank]).slice(elements.begin * bytes, elements.size * bytes);
}

static Bytes averageInF32(const SimulatedCall &simulated, llvm::ArrayRef<int64_t> group, int64_t block) {
  auto inputOf = [&](int64_t rank) { return widened(simulated.type, blockOfInput(simulated, rank, block)); };
  Bytes sum = inputOf(group.front());
  for (int64_t rank : group.drop_front())
    combine(ElementType::F32, Reduction::Sum, sum, inputOf(rank));
  divide(ElementType::F32, sum, int64_t(group.size()));
  Bytes result(sum.size() / 2);
  narrow(simulated.type, sum, result);
  return result;
}

static Bytes reduced(const SimulatedCall &simulated, llvm::ArrayRef<int64_t> group, int64_t block) {
  if (isWidened(simulated.type, simulated.reduction))
    return averageInF32(simulated, group, block);
  llvm::ArrayRef<std::byte> first = blockOfInput(simulated, group.front(), block);
  Bytes result(first.begin(), first.end());
  for (int64_t rank : group.drop_front())
    combine(simulated.type, simulated.reduction, result, blockOfInput(simulated, rank, block));
  if (simulated.reduction == Reduction::Average)
    divide(simulated.type, result, int64_t(group.size()));
  return result;
}

/// Block `block` of every member's input, one after the other.
static Bytes gathered(const SimulatedCall &simulated, llvm::ArrayRef<int64_t> group, int64_t block) {
  Bytes result;
  for (int64_t rank : group) {
    llvm::ArrayRef<std::byte> part = blockOfInput(simulated, rank, block);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::optional<Bytes> expectedOutput(const SimulatedCall &simulated, int64_t rank) {
  if (!exists(simulated, BufferRole::Output, rank))
    return std::nullopt;
  std::vector<int64_t> group = groupOf(simulated, rank);
  int64_t member = memberNumber(simulated, rank), root = group[simulated.root];
  switch (simulated.collective.getKind()) {
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    return gathered(simulated, group, 0);
  case CollectiveKind::AllToAll:
    return gathered(simulated, group, member);
  case CollectiveKind::AllReduce:
  case CollectiveKind::Reduce:
    return reduced(simulated, group, 0);
  case CollectiveKind::ReduceScatter:
    return reduced(simulated, group, member);
  case CollectiveKind::Scan:
    return reduced(simulated, llvm::ArrayRef(group).take_front(member + 1), 0);
  case CollectiveKind::Exscan:
    return reduced(simulated, llvm::ArrayRef(group).take_front(member), 0);
  case CollectiveKind::Broadcast:
    return gathered(simulated, root, 0);
  case CollectiveKind::Scatter:
    return gathered(simulated, root, member);
  }
  llvm_unreachable("a collective");
}

llvm::Error checkOutput(const SimulatedCall &simulated, int64_t rank, const Bytes &actual) {
  auto fail = [&](const llvm::Twine &what) {
    return llvm::createStringError("output of rank " + llvm::Twine(rank) + ": " + what);
  };
  std::optional<Bytes> expected = expectedOutput(simulated, rank);
  if (!expected)
    return llvm::all_of(actual, [](std::byte byte) { return byte == poison; }) ? llvm::Error::success()
                                                                               : fail("written, and must not be");
  if (expected->size() != actual.size())
    return fail(llvm::Twine(actual.size()) + " bytes, expected " + llvm::Twine(expected->size()));
  auto [differs, wanted] = std::mismatch(actual.begin(), actual.end(), expected->begin());
  if (differs == actual.end())
    return llvm::Error::success();
  size_t element = (differs - actual.begin()) / elementBytes(simulated.type),
         at = element * elementBytes(simulated.type);
  return fail("element " + llvm::Twine(element) + " is " + show(simulated.type, &actual[at]) + ", expected " +
              show(simulated.type, &(*expected)[at]));
}

llvm::Error checkOutputs(const SimulatedCall &simulated) {
  for (int64_t rank = 0; rank < numRanks(simulated); ++rank)
    if (llvm::Error error = checkOutput(simulated, rank, simulated.outputs[rank]))
      return error;
  return llvm::Error::success();
}

} // namespace kolo::reference
