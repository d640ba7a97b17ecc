// Conversions between codecs, through f32.
#include "ir/reference/Conversion.h"

#include <algorithm>
#include <cstring>

namespace kolo::reference {

llvm::Error validateCodecs(const Call &call, mlir::Operation *program) {
  BufferOp coded = findCoded(program);
  if (!coded)
    return llvm::Error::success();
  std::string buffer = "buffer '" + coded.getName().str() + "' has a codec: ";
  bool isFloat = call.type == ElementType::F16 || call.type == ElementType::BF16 || call.type == ElementType::F32;
  if (!isFloat)
    return llvm::createStringError("bad call: " + buffer + "elements are f16, bf16 or f32, not " + nameOf(call.type));
  if (isReduction(call.collective.getKind()) && call.reduction == Reduction::Product)
    return llvm::createStringError("bad call: " + buffer + "nothing is multiplied");
  return llvm::Error::success();
}

/// As f32, exactly.
static std::vector<float> load(ElementType type, const Stored &stored, int64_t numElements) {
  std::vector<float> values(static_cast<size_t>(numElements));
  if (!codec::isNone(stored.codec)) {
    codec::decode(stored.codec, stored.bytes, values);
    return values;
  }
  if (type == ElementType::F32) {
    std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &stored.bytes[2 * i], sizeof bits);
    values[i] = type == ElementType::F16 ? floatFromHalf(bits) : floatFromBfloat16(bits);
  }
  return values;
}

static void store(ElementType type, const std::vector<float> &values, const codec::Codec &codec,
                  llvm::MutableArrayRef<std::byte> bytes, const codec::DrawKey &key) {
  if (!codec::isNone(codec))
    return codec::encode(codec, values, bytes, key);
  if (type == ElementType::F32)
    return void(std::memcpy(bytes.data(), values.data(), bytes.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = type == ElementType::F16 ? halfFromFloat(values[i]) : bfloat16FromFloat(values[i]);
    std::memcpy(&bytes[2 * i], &bits, sizeof bits);
  }
}

static llvm::MutableArrayRef<std::byte> bytesOf(std::vector<float> &values) {
  return {reinterpret_cast<std::byte *>(values.data()), values.size() * sizeof(float)};
}

void moveElements(const Call &call, bool isCombining, const Stored &source, const codec::Codec &codec,
                  llvm::MutableArrayRef<std::byte> bytes, int64_t numElements, const codec::DrawKey &key) {
  if (numElements == 0)
    return;
  if (source.codec == codec && !isCombining)
    return void(std::memmove(bytes.data(), source.bytes.data(), bytes.size()));
  if (codec::isNone(source.codec) && codec::isNone(codec))
    return combine(call.type, call.reduction, bytes, source.bytes);
  std::vector<float> values = load(call.type, source, numElements);
  if (isCombining) {
    std::vector<float> sum = load(call.type, {codec, bytes}, numElements);
    combine(ElementType::F32, call.reduction, bytesOf(sum), bytesOf(values));
    values = std::move(sum);
  }
  store(call.type, values, codec, bytes, key);
}

} // namespace kolo::reference
