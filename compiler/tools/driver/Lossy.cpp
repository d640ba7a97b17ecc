// The reference's outputs for ordinary data, and what they lose.
#include "driver/Lossy.h"
#include "driver/Data.h"
#include "driver/ReferenceKinds.h"

#include "codec/Codec.h"
#include "ir/reference/Interpreter.h"
#include "ir/reference/Oracle.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace kolo::tools {

using reference::Bytes;
using reference::ElementType;
using reference::SimulatedCall;

namespace {

constexpr int64_t largestNeighbourhood = codec::granule; // no block of a codec is larger

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

/// Independent standard normal numbers.
void fillNormally(SimulatedCall &call) {
  for (size_t rank = 0; rank < call.inputs.size(); ++rank) {
    std::mt19937_64 random(rank + 1);
    std::normal_distribution<float> normal;
    auto size = size_t(reference::elementBytes(call.type));
    for (size_t at = 0; at < call.inputs[rank].size(); at += size)
      storeElement(call.type, normal(random), &call.inputs[rank][at]);
  }
}

/// The same inputs in f64, as the collective's definition combines them, or as `reduction` does.
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
  std::optional<Bytes> bytes = reference::expectedOutput(wide, rank);
  std::vector<double> values(bytes ? bytes->size() / sizeof(double) : 0);
  if (bytes)
    std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

/// The largest number of each neighbourhood, in place of every number in it; `count` elements are a block.
void spreadLargest(std::vector<double> &values, int64_t count) {
  for (auto block = values.begin(); block != values.end(); block += count)
    for (int64_t first = 0; first < count; first += largestNeighbourhood) {
      auto begin = block + first, end = block + std::min(first + largestNeighbourhood, count);
      std::fill(begin, end, *std::max_element(begin, end));
    }
}

} // namespace

LossyCalls::LossyCalls(const RankJob &job)
    : context(std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED)) {
  context->loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  for (const SizeJob &size : job.sizes) {
    std::optional<SimulatedCall> &call = calls.emplace_back();
    const runtime::ProgramInfo *info = job.programFor(size);
    if (!info || info->choreography.empty())
      continue;
    auto module = mlir::parseSourceString<mlir::ModuleOp>(info->choreography, mlir::ParserConfig(context.get()));
    if (!module || module->getOps<ChoreographyOp>().empty())
      throw ToolError(ExitCode::Usage, info->name + ": the manifest's choreography cannot be read");
    ChoreographyOp choreography = *module->getOps<ChoreographyOp>().begin();
    reference::Call shape;
    shape.collective = choreography.getCollective();
    for (const runtime::MeshDim &dim : job.mesh.dims())
      shape.meshSizes.push_back(dim.size);
    shape.count = size.count;
    shape.type = referenceTypeOf(job.type);
    shape.reduction = referenceReductionOf(job.reduction);
    shape.root = job.root;
    call = reference::makeSimulatedCall(shape);
    fillNormally(*call);
    if (llvm::Error error = reference::interpretChoreography(choreography, *call))
      throw ToolError(ExitCode::Usage, info->name + ": " + llvm::toString(std::move(error)));
  }
}

void LossyCalls::fillInput(size_t size, int rank, void *input) const {
  const Bytes &bytes = calls[size]->inputs[size_t(rank)];
  std::copy(bytes.begin(), bytes.end(), static_cast<std::byte *>(input));
}

std::optional<std::string> LossyCalls::check(size_t size, int rank, const void *output) const {
  const Bytes &wanted = calls[size]->outputs[size_t(rank)];
  if (wanted.empty() || std::memcmp(wanted.data(), output, wanted.size()) == 0)
    return std::nullopt;
  auto at = size_t(std::mismatch(wanted.begin(), wanted.end(), static_cast<const std::byte *>(output)).first -
                   wanted.begin());
  return "rank " + std::to_string(rank) + ": element " +
         std::to_string(at / size_t(reference::elementBytes(calls[size]->type))) +
         " of the output is not what the reference interpreter gives";
}

Loss LossyCalls::lossOf(size_t size) const {
  const SimulatedCall &call = *calls[size];
  SimulatedCall wide = widened(call, false), magnitudes = widened(call, true);
  Loss loss;
  double signal = 0, noise = 0;
  for (int64_t rank = 0; rank < reference::numRanks(call); ++rank) {
    std::vector<double> exact = exactOutput(wide, rank), largest = exactOutput(magnitudes, rank);
    spreadLargest(largest, call.count);
    for (size_t i = 0; i < exact.size(); ++i) {
      double error =
          loadElement(call.type, &call.outputs[size_t(rank)][i * size_t(reference::elementBytes(call.type))]) -
          exact[i];
      signal += exact[i] * exact[i];
      noise += error * error;
      if (error != 0)
        loss.worstError = std::max(loss.worstError, std::fabs(error) / largest[i]);
    }
  }
  loss.signalToNoise = noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
  return loss;
}

} // namespace kolo::tools
