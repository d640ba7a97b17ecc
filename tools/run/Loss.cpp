// Errors of all elements, beside the bound of the checker.
#include "tools/run/Loss.h"

#include "codec/Codec.h"
#include "codec/Elements.h"
#include "codec/Quality.h"
#include "ir/reference/Oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kolo::tools {

using reference::ElementType;
using reference::SimulatedCall;

float loadElement(ElementType type, const std::byte *at) {
  float value;
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  if (type == ElementType::F16)
    return reference::floatFromHalf(half);
  if (type == ElementType::BF16)
    return reference::floatFromBfloat16(half);
  std::memcpy(&value, at, sizeof value);
  return value;
}

void storeElement(ElementType type, float value, std::byte *at) {
  uint16_t half = type == ElementType::F16 ? reference::halfFromFloat(value) : reference::bfloat16FromFloat(value);
  if (type == ElementType::F32)
    std::memcpy(at, &value, sizeof value);
  else
    std::memcpy(at, &half, sizeof half);
}

namespace {

/// The same inputs in f64, as the collective's definition combines them, or their magnitudes, of which it takes the
/// largest.
SimulatedCall widened(const SimulatedCall &call, bool takesMagnitudes) {
  reference::Call shape = call;
  shape.type = ElementType::F64;
  if (takesMagnitudes)
    shape.reduction = reference::Reduction::Max;
  SimulatedCall wide = reference::makeSimulatedCall(shape);
  auto size = size_t(reference::elementBytes(call.type));
  for (size_t rank = 0; rank < call.inputs.size(); ++rank)
    for (size_t i = 0; i * size < call.inputs[rank].size(); ++i) {
      double value = loadElement(call.type, &call.inputs[rank][i * size]);
      value = takesMagnitudes ? std::fabs(value) : value;
      std::memcpy(&wide.inputs[rank][i * sizeof value], &value, sizeof value);
    }
  return wide;
}

std::vector<double> exactOutput(const SimulatedCall &wide, int64_t rank) {
  std::optional<reference::Bytes> bytes = reference::expectedOutput(wide, rank);
  std::vector<double> values(bytes ? bytes->size() / sizeof(double) : 0);
  if (bytes)
    std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

/// The blocks of a rank's output; none where it has no output.
std::vector<reference::Range> outputBlocks(const SimulatedCall &call, int64_t rank) {
  std::vector<reference::Range> blocks;
  if (reference::exists(call, BufferRole::Output, rank))
    for (int64_t block = 0; block < reference::numBlocks(call, BufferRole::Output); ++block)
      blocks.push_back(reference::blockRange(call, BufferRole::Output, rank, block));
  return blocks;
}

/// The largest of every `each` elements of a codec, in place of all of them. They begin anew in each block.
std::vector<double> largestOf(std::vector<double> values, const std::vector<reference::Range> &blocks, int64_t each) {
  for (const reference::Range &block : blocks)
    for (int64_t first = 0; first < block.size; first += each) {
      auto begin = values.begin() + block.begin + first;
      auto end = begin + std::min(each, block.size - first);
      std::fill(begin, end, *std::max_element(begin, end));
    }
  return values;
}

codec::Codec codecOf(ElementType type) {
  return type == ElementType::F16 ? dsl::f16() : type == ElementType::BF16 ? dsl::bf16() : dsl::f32();
}

/// The bound of one element, in parts: what is proved to first order, and what that leaves out.
class Bound {
public:
  Bound(const SimulatedCall &call, const runtime::Loss &proved) : groupSize(double(reference::groupSize(call))) {
    double scale = call.reduction == reference::Reduction::Average ? 1 / groupSize : 1, growth = 1, worst = 0;
    for (const runtime::CodecLoss &loss : proved.bound) {
      std::optional<codec::Codec> codec = codec::parseText(loss.codec);
      codec::Codec found = codec && !codec::isNone(*codec) ? *codec : codecOf(call.type);
      double u = codec::worstError(found), factor = double(loss.factor) * scale;
      int64_t ofScale = found.scale() == dsl::Scale::E4M3 ? codec::granule : found.block();
      terms.push_back({factor * u, std::max<int64_t>(ofScale, 1)});
      firstOrder += factor * u;
      absolute += factor * codec::leastError(found);
      limits.emplace_back(codec::largestInput(found), double(loss.factor));
      rounding += factor * 0x1p-21; // a scale, its reciprocal and a product, in f32
      worst = std::max(worst, u);
      growth *= codec && codec::isNone(*codec) ? std::pow(1 + u, double(loss.factor)) : 1;
    }
    // Whatever is encoded carries the errors before it, which the last encoding makes no larger.
    growth *= std::pow(1 + worst, double(std::max<int64_t>(proved.encodings - 1, 0)));
    rounding += groupSize * groupSize * 0x1p-23; // sums in f32
    rest = firstOrder * (growth - 1) + rounding * growth;
  }

  /// Whether the bound is proved for this largest magnitude, so that no element may be an infinity or a NaN. What is
  /// encoded is at most a sum of `factor` numbers, with all errors before it.
  bool holdsFor(double magnitude) const {
    for (auto [limit, factor] : limits)
      if (magnitude * (factor + firstOrder * groupSize + rest * groupSize) * (1 + 0x1p-20) + absolute * groupSize >
          limit)
        return false;
    return magnitude * groupSize <= double(std::numeric_limits<float>::max()) / 2;
  }
  double factor() const { return firstOrder; }
  int64_t largestBlock() const {
    int64_t largest = std::ranges::max_element(terms, {}, &Term::block)->block;
    return largest > 1 ? largest : codec::granule;
  }
  std::vector<double> of(const std::vector<double> &magnitudes, const std::vector<reference::Range> &blocks) const {
    std::vector<double> bounds = largestOf(magnitudes, blocks, largestBlock());
    for (double &bound : bounds)
      bound = bound * rest + absolute;
    for (const Term &term : terms) {
      std::vector<double> largest = largestOf(magnitudes, blocks, term.block);
      for (size_t i = 0; i < bounds.size(); ++i)
        bounds[i] += term.factor * largest[i];
    }
    return bounds;
  }

private:
  struct Term {
    double factor; // times the codec's u
    int64_t block; // elements whose largest magnitude counts
  };
  std::vector<Term> terms;
  std::vector<std::pair<double, double>> limits; // a codec's largest input, and its factor
  double groupSize, firstOrder = 0, absolute = 0, rounding = 0, rest = 0;
};

} // namespace

Loss measureLoss(const SimulatedCall &call, const runtime::Loss *proved, const IsLeftOut &isLeftOut) {
  SimulatedCall wide = widened(call, false), magnitudes = widened(call, true);
  std::optional<Bound> bound;
  if (proved && !proved->bound.empty())
    bound.emplace(call, *proved);
  Loss loss;
  if (bound)
    loss.bound = bound->factor();
  double signal = 0, noise = 0;
  for (int64_t rank = 0; rank < reference::numRanks(call); ++rank) {
    std::vector<double> exact = exactOutput(wide, rank), around = exactOutput(magnitudes, rank), bounds;
    const std::vector<reference::Range> blocks = outputBlocks(call, rank);
    if (bound)
      bounds = bound->of(around, blocks);
    std::vector<double> largest = largestOf(std::move(around), blocks, bound ? bound->largestBlock() : codec::granule);
    auto block = blocks.begin();
    for (size_t i = 0; i < exact.size(); ++i) {
      while (int64_t(i) >= block->begin + block->size)
        ++block;
      const std::byte *at = &call.outputs[size_t(rank)][i * size_t(reference::elementBytes(call.type))];
      double actual = loadElement(call.type, at), error = std::fabs(actual - exact[i]);
      if (!isLeftOut || !isLeftOut(int64_t(i) - block->begin)) {
        signal += exact[i] * exact[i];
        noise += error * error;
        loss.worstError = error == 0 ? loss.worstError : std::max(loss.worstError, error / largest[i]);
      }
      bool isFlagged = !std::isfinite(actual) && bound && !bound->holdsFor(largest[i]);
      loss.numFlagged += isFlagged;
      if (bound && !(error <= bounds[i]) && !isFlagged && loss.beyond.empty())
        loss.beyond = "rank " + std::to_string(rank) + ": element " + std::to_string(i) +
                      " of the output is further from the exact result than proved: " + std::to_string(error) +
                      ", not at most " + std::to_string(bounds[i]);
    }
  }
  loss.signalToNoise = noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
  return loss;
}

} // namespace kolo::tools
