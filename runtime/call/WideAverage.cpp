// The conversions, and the call around a call.
#include "call/WideAverage.h"

#include "base/Error.h"
#include "call/CommunicatorState.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

namespace kolo::runtime {
namespace {

// Every host that a plugin can be loaded on has these instructions.
[[gnu::target("avx,f16c")]] void widenHalves(const std::byte *narrow, float *wide, size_t numElements) {
  size_t i = 0;
  for (; i + 8 <= numElements; i += 8)
    _mm256_storeu_ps(wide + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(narrow + 2 * i))));
  for (; i < numElements; ++i) {
    uint16_t bits;
    std::memcpy(&bits, narrow + 2 * i, sizeof bits);
    wide[i] = _cvtsh_ss(bits);
  }
}

[[gnu::target("avx,f16c")]] void narrowToHalves(const float *wide, std::byte *narrow, size_t numElements) {
  size_t i = 0;
  for (; i + 8 <= numElements; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(narrow + 2 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(wide + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < numElements; ++i) {
    uint16_t bits = _cvtss_sh(wide[i], _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(narrow + 2 * i, &bits, sizeof bits);
  }
}

void widenBfloat16(const std::byte *narrow, float *wide, size_t numElements) {
  for (size_t i = 0; i < numElements; ++i) {
    uint16_t bits;
    std::memcpy(&bits, narrow + 2 * i, sizeof bits);
    wide[i] = std::bit_cast<float>(uint32_t(bits) << 16);
  }
}

void narrowToBfloat16(const float *wide, std::byte *narrow, size_t numElements) {
  for (size_t i = 0; i < numElements; ++i) {
    auto bits = std::bit_cast<uint32_t>(wide[i]);
    bool isNan = (bits & 0x7fffffff) > 0x7f800000;
    auto rounded = static_cast<uint16_t>((isNan ? bits | 0x00400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    std::memcpy(narrow + 2 * i, &rounded, sizeof rounded);
  }
}

} // namespace

void widen(DataType type, const std::byte *narrow, float *wide, size_t numElements) {
  (type == DataType::F16 ? widenHalves : widenBfloat16)(narrow, wide, numElements);
}

void narrow(DataType type, const float *wide, std::byte *narrow, size_t numElements) {
  (type == DataType::F16 ? narrowToHalves : narrowToBfloat16)(wide, narrow, numElements);
}

namespace {

/// A conversion, of which every lane makes a part.
struct Conversion {
  DataType type;
  const std::byte *from;
  std::byte *to;
  size_t numElements;
  int numLanes;
  bool isWidening;
};

void convertPart(void *context, int lane) {
  const auto &all = *static_cast<const Conversion *>(context);
  constexpr size_t lineElements = cacheLineBytes / 2;
  const auto numLanes = static_cast<size_t>(all.numLanes), part = static_cast<size_t>(lane);
  const size_t numLines = (all.numElements + lineElements - 1) / lineElements;
  const size_t begin = std::min(all.numElements, numLines * part / numLanes * lineElements);
  const size_t end = std::min(all.numElements, numLines * (part + 1) / numLanes * lineElements);
  if (all.isWidening)
    widen(all.type, all.from + 2 * begin, reinterpret_cast<float *>(all.to) + begin, end - begin);
  else
    narrow(all.type, reinterpret_cast<const float *>(all.from) + begin, all.to + 2 * begin, end - begin);
}

void convert(LanePool &lanes, Conversion conversion) {
  constexpr size_t leastElements = size_t(1) << 14; // for which waking the lanes takes no longer than they save
  if (conversion.numElements < leastElements)
    conversion.numLanes = 1;
  if (conversion.numLanes == 1)
    convertPart(&conversion, 0);
  else
    lanes.run(convertPart, &conversion);
}

} // namespace

/// Like the buffers of any caller, the wide ones may be written again as soon as the call has returned here.
Status CommunicatorState::runWide(const PluginState &plugin, const CallArguments &arguments) {
  Planner planner{ranks->rank(), ranks->size()};
  planner.tag = ranks->settings().tag;
  Result<Call> planned = planCall(plugin, arguments, *segments, planner);
  bool isEmpty = !planned.isOk() || planned->inputBytes + planned->outputBytes == 0;
  if (isEmpty || !planned->isWidened()) // the peers hear of a call that cannot be planned, too
    return runAsGiven(plugin, arguments);
  size_t outputBegin = (planned->inputBytes + cacheLineBytes - 1) / cacheLineBytes * cacheLineBytes;
  Result<std::byte *> reserved = guarded([&] { return held.reserveWide(outputBegin + planned->outputBytes); });
  if (!reserved.isOk())
    if (Status status = exchange.catchUp(); !status.isOk())
      return status;
  if (!reserved.isOk() && !ranks->hosts().areSeveral())
    return agree(plugin, arguments, reserved.status()).status();
  if (!reserved.isOk()) { // the peers may be in the call already
    (void)ranks->abort(
        rankError(reserved.status().code(), ranks->rank(), "average in f32: {}", reserved.status().message()));
    return endFailedCall();
  }
  auto *wideInput = reinterpret_cast<float *>(*reserved),
       *wideOutput = reinterpret_cast<float *>(*reserved + outputBegin);
  CallArguments wide = arguments;
  wide.input = planned->inputBytes ? wideInput : nullptr;
  wide.output = planned->outputBytes ? wideOutput : nullptr;
  const int numLanes = ranks->settings().lanes;
  convert(lanes.pool(),
          {arguments.type, planned->input, *reserved, planned->inputBytes / sizeof(float), numLanes, true});
  Status status = runAsGiven(plugin, wide);
  if (status.isOk())
    convert(lanes.pool(), {arguments.type, *reserved + outputBegin, planned->output,
                           planned->outputBytes / sizeof(float), numLanes, false});
  return status;
}

} // namespace kolo::runtime
