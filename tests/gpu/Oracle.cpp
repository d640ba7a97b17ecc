// Definitions of the collectives, and data that tells ranks apart.
#include "Oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

namespace kolo::test {

using runtime::CollectiveKind;
using runtime::DataType;
using runtime::Reduction;

namespace {

/// f16 and bf16 in memory. Conversions are for zero, infinity, NaN, and for what f16 holds as a normal number; they
/// round to nearest, ties to even.
struct Half {
  uint16_t bits;
  explicit Half(float value) {
    uint32_t wide = std::bit_cast<uint32_t>(value), sign = wide >> 16 & 0x8000, magnitude = wide & 0x7fffffff;
    uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t narrow = std::isfinite(value) ? rounded - (112u << 10) : 0x7c00 | (magnitude >> 13 & 0x3ff);
    bits = uint16_t(magnitude == 0 ? sign : sign | narrow);
  }
  explicit operator float() const {
    uint32_t magnitude = bits & 0x7fffu, sign = uint32_t(bits & 0x8000u) << 16;
    uint32_t wide = magnitude < 0x7c00 ? (magnitude << 13) + (112u << 23) : 0x7f800000 | magnitude << 13;
    return std::bit_cast<float>(magnitude == 0 ? sign : sign | wide);
  }
};
struct Bfloat16 {
  uint16_t bits;
  explicit Bfloat16(float value) {
    uint32_t wide = std::bit_cast<uint32_t>(value);
    bits = uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// What elements that memory has as `T` are computed with.
template <class T>
using Value = std::conditional_t<
    std::is_class_v<T>, float,
    std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>>;

/// Calls `action` with the representation of a type, as a template argument.
template <class Action> void withType(DataType type, Action action) {
  switch (type) {
  case DataType::F16:
    return action.template operator()<Half>();
  case DataType::BF16:
    return action.template operator()<Bfloat16>();
  case DataType::F32:
    return action.template operator()<float>();
  case DataType::F64:
    return action.template operator()<double>();
  case DataType::I8:
    return action.template operator()<int8_t>();
  case DataType::U8:
    return action.template operator()<uint8_t>();
  case DataType::I32:
    return action.template operator()<int32_t>();
  case DataType::U32:
    return action.template operator()<uint32_t>();
  case DataType::I64:
    return action.template operator()<int64_t>();
  case DataType::U64:
    return action.template operator()<uint64_t>();
  }
}

template <class T> Value<T> load(const std::byte *element) {
  std::array<std::byte, sizeof(T)> bytes;
  std::copy_n(element, sizeof(T), bytes.begin());
  return Value<T>(std::bit_cast<T>(bytes));
}
template <class T> void store(std::byte *element, Value<T> value) {
  T kept = T(value);
  std::memcpy(element, &kept, sizeof(T));
}

/// Any NaN as the one of its type, without sign and payload.
template <class V> V withOneNan(V value) {
  if constexpr (std::is_floating_point_v<V>)
    if (std::isnan(value))
      return std::numeric_limits<V>::quiet_NaN();
  return value;
}

/// A NaN wins, and -0 is below +0.
template <class V> V chosen(Reduction reduction, V left, V right) {
  bool isLeftBelow = left < right;
  if constexpr (std::is_floating_point_v<V>) {
    if (std::isnan(left) || std::isnan(right))
      return std::numeric_limits<V>::quiet_NaN();
    isLeftBelow = isLeftBelow || (left == right && std::signbit(left));
  }
  return isLeftBelow == (reduction == Reduction::Min) ? left : right;
}

/// Integers wrap, in 64 bits; the caller keeps the low ones.
template <class V> V combine(Reduction reduction, V left, V right) {
  using Wide = std::conditional_t<std::is_integral_v<V>, uint64_t, V>;
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Average:
    return withOneNan(V(Wide(left) + Wide(right)));
  case Reduction::Product:
    return withOneNan(V(Wide(left) * Wide(right)));
  case Reduction::Min:
  case Reduction::Max:
    return chosen(reduction, left, right);
  }
  return left;
}

/// A well-mixed number (splitmix64, Steele et al., OOPSLA 2014).
uint64_t mix(uint64_t seed, uint64_t next) {
  uint64_t bits = (seed + next + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// All integers up to this one are exact in the type.
int64_t largestTag(DataType type) {
  switch (type) {
  case DataType::BF16:
    return 256;
  case DataType::F16:
    return 2048;
  case DataType::I8:
    return 127;
  case DataType::U8:
    return 255;
  default:
    return 1 << 24;
  }
}

/// An eighth of the elements: zeros or numbers of either sign on all ranks; or infinities or NaNs on some.
template <class T> void makeSpecial(std::byte *element, uint64_t seed, size_t rank) {
  using V = Value<T>;
  uint64_t special = mix(seed, ~uint64_t(0)), choice = mix(special, rank);
  if (special % 8 != 0)
    return;
  bool isOther = choice / 2 % 4 == 0;
  V value = load<T>(element), infinity = std::numeric_limits<V>::infinity(), nan = std::nan("1");
  V specials[] = {0, value, isOther ? infinity : value, isOther ? nan : value};
  store<T>(element, std::copysign(specials[special / 8 % 4], choice % 2 ? V(-1) : V(1)));
}

size_t bytesOf(const DeviceCall &call, KoloExtent extent) {
  size_t blocks = runtime::isPerRank(extent) ? size_t(call.groupSize()) : 1;
  return blocks * size_t(call.count) * runtime::sizeBytes(call.type);
}

std::span<const std::byte> blockOf(const DeviceCall &call, const Bytes &bytes, int block) {
  size_t sizeBytes = size_t(call.count) * runtime::sizeBytes(call.type);
  return std::span(bytes).subspan(size_t(block) * sizeBytes, sizeBytes);
}

/// Block `block` of the inputs of all members, reduced in the order of their numbers.
Bytes reduced(const DeviceCall &call, const std::vector<Bytes> &inputs, const std::vector<int> &group, int block) {
  Bytes result(blockOf(call, inputs[size_t(group[0])], block).size());
  withType(call.type, [&]<class T>() {
    for (size_t at = 0; at < result.size(); at += sizeof(T)) {
      auto element = [&](int rank) { return load<T>(&blockOf(call, inputs[size_t(rank)], block)[at]); };
      store<T>(&result[at], element(group[0]));
      for (size_t member = 1; member < group.size(); ++member)
        store<T>(&result[at], combine(call.reduction, load<T>(&result[at]), element(group[member])));
      if (call.reduction == Reduction::Average)
        store<T>(&result[at], withOneNan(load<T>(&result[at]) / Value<T>(group.size())));
    }
  });
  return result;
}

/// Block `block` of the inputs of these ranks, one after the other.
Bytes gathered(const DeviceCall &call, const std::vector<Bytes> &inputs, const std::vector<int> &ranks, int block) {
  Bytes result;
  for (int rank : ranks) {
    std::span<const std::byte> part = blockOf(call, inputs[size_t(rank)], block);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

} // namespace

std::vector<int> DeviceCall::groupOf(int rank) const {
  std::vector<int64_t> own = mesh.coordinates(rank);
  std::vector<std::pair<int64_t, int>> members; // with their number inside the group: its first dimension is slowest
  for (int other = 0; other < mesh.numRanks(); ++other) {
    std::vector<int64_t> coordinates = mesh.coordinates(other);
    int64_t number = 0;
    for (int dim : groupDims) {
      number = number * mesh.dims()[size_t(dim)].size + coordinates[size_t(dim)];
      coordinates[size_t(dim)] = own[size_t(dim)];
    }
    if (coordinates == own)
      members.emplace_back(number, other);
  }
  std::ranges::sort(members);
  std::vector<int> group;
  for (const auto &[number, member] : members)
    group.push_back(member);
  return group;
}

size_t DeviceCall::inputBytes() const { return bytesOf(*this, runtime::factsOf(collective).input); }
size_t DeviceCall::outputBytes() const { return bytesOf(*this, runtime::factsOf(collective).output); }

std::vector<Bytes> taggedInputs(const DeviceCall &call, uint64_t salt, bool hasSpecials) {
  bool reduces = runtime::factsOf(call.collective).reduces;
  bool isSummed = reduces && (call.reduction == Reduction::Sum || call.reduction == Reduction::Average);
  int64_t limit = largestTag(call.type) / (isSummed ? call.groupSize() : 1);
  if (reduces && call.reduction == Reduction::Product)
    limit = 2;
  std::vector<Bytes> inputs(size_t(call.mesh.numRanks()), Bytes(call.inputBytes()));
  withType(call.type, [&]<class T>() {
    for (size_t rank = 0; rank < inputs.size(); ++rank)
      for (size_t at = 0; at < inputs[rank].size(); at += sizeof(T)) {
        uint64_t tag = 1 + mix(mix(salt, at / sizeof(T)), rank) % uint64_t(limit);
        store<T>(&inputs[rank][at], Value<T>(tag));
        if constexpr (std::is_floating_point_v<Value<T>>)
          if (hasSpecials)
            makeSpecial<T>(&inputs[rank][at], mix(salt, at / sizeof(T)), rank);
      }
  });
  return inputs;
}

std::optional<Bytes> expectedOutput(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank) {
  std::vector<int> group = call.groupOf(rank);
  int member = int(std::ranges::find(group, rank) - group.begin()), root = group[size_t(call.root)];
  if (runtime::isAtRoot(runtime::factsOf(call.collective).output) && member != call.root)
    return std::nullopt;
  if (call.collective == CollectiveKind::Exscan && member == 0)
    return std::nullopt;
  switch (call.collective) {
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    return gathered(call, inputs, group, 0);
  case CollectiveKind::AllToAll:
    return gathered(call, inputs, group, member);
  case CollectiveKind::AllReduce:
  case CollectiveKind::Reduce:
    return reduced(call, inputs, group, 0);
  case CollectiveKind::ReduceScatter:
    return reduced(call, inputs, group, member);
  case CollectiveKind::Scan:
    return reduced(call, inputs, {group.begin(), group.begin() + member + 1}, 0);
  case CollectiveKind::Exscan:
    return reduced(call, inputs, {group.begin(), group.begin() + member}, 0);
  case CollectiveKind::Broadcast:
    return gathered(call, inputs, {root}, 0);
  case CollectiveKind::Scatter:
    return gathered(call, inputs, {root}, member);
  }
  return std::nullopt;
}

std::string checkOutput(const DeviceCall &call, const std::vector<Bytes> &inputs, int rank, const Bytes &actual) {
  std::optional<Bytes> expected = expectedOutput(call, inputs, rank);
  if (!expected)
    return std::ranges::all_of(actual, [](std::byte byte) { return byte == poison; })
               ? ""
               : "the output of rank " + std::to_string(rank) + " is written, and must not be";
  if (expected->size() != actual.size())
    return "the output of rank " + std::to_string(rank) + " has a wrong size";
  size_t differs = size_t(std::ranges::mismatch(actual, *expected).in1 - actual.begin());
  if (differs == actual.size())
    return "";
  size_t element = differs / runtime::sizeBytes(call.type), at = element * runtime::sizeBytes(call.type);
  std::string text;
  withType(call.type, [&]<class T>() {
    text = std::to_string(load<T>(&actual[at])) + " and not " + std::to_string(load<T>(&(*expected)[at]));
  });
  return "element " + std::to_string(element) + " of the output of rank " + std::to_string(rank) + " is " + text;
}

} // namespace kolo::test
