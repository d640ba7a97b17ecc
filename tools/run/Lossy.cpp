// The reference's outputs for ordinary data.
#include "tools/run/Lossy.h"
#include "tools/run/Data.h"
#include "tools/run/ReferenceKinds.h"

#include "codec/Codec.h"
#include "ir/reference/Interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>

namespace kolo::tools {

using reference::Bytes;
using reference::ElementType;
using reference::SimulatedCall;

namespace {

/// Every other granule has numbers of extreme sizes, which the figures leave out.
bool isExtreme(int64_t place) { return place / codec::granule % 2 == 1; }

float sizeOf(int64_t place) {
  constexpr float sizes[] = {7e-7f, 1e6f, 1e9f, 1e-44f, 3e38f, 6e4f, 1e-38f, 1e36f};
  return isExtreme(place) ? sizes[size_t(place / codec::granule / 2) % std::size(sizes)] : 1;
}

/// Independent normal numbers, as far as they are finite.
void fillNormally(SimulatedCall &call) {
  float largest = call.type == ElementType::F16    ? 65504.0f
                  : call.type == ElementType::BF16 ? 0x1.fep127f
                                                   : std::numeric_limits<float>::max();
  for (size_t rank = 0; rank < call.inputs.size(); ++rank) {
    std::mt19937_64 random(rank + 1);
    std::normal_distribution<float> normal;
    auto size = size_t(reference::elementBytes(call.type));
    if (!reference::exists(call, BufferRole::Input, int64_t(rank)))
      continue;
    for (int64_t block = 0; block < reference::numBlocks(call, BufferRole::Input); ++block) {
      const reference::Range range = reference::blockRange(call, BufferRole::Input, int64_t(rank), block);
      for (int64_t i = 0; i < range.size; ++i) {
        float number = normal(random) * sizeOf(i);
        storeElement(call.type, std::clamp(number, -largest, largest),
                     &call.inputs[rank][size_t(range.begin + i) * size]);
      }
    }
  }
}

/// Gives a call the tables of a size that has some.
void setTables(reference::Call &call, const SizeJob &size) {
  const BufferRole tabled = reference::numBlocks(call, BufferRole::Input) > 1 ? BufferRole::Input : BufferRole::Output;
  reference::setTables(call, [&](int64_t giver, int64_t taker) {
    const int64_t from = reference::memberNumber(call, giver), to = reference::memberNumber(call, taker);
    return tabled == BufferRole::Input ? size.tabled(BufferSide::Input, from, to)
                                       : size.tabled(BufferSide::Output, to, from);
  });
}

} // namespace

LossyCalls::LossyCalls(const RankJob &job)
    : context(std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED)) {
  context->loadDialect<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  for (const SizeJob &size : job.sizes) {
    std::optional<SimulatedCall> &call = calls.emplace_back();
    losses.emplace_back();
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
    if (size.tabled)
      setTables(shape, size);
    call = reference::makeSimulatedCall(shape);
    fillNormally(*call);
    if (llvm::Error error = reference::interpretAsCalled(choreography, *call))
      throw ToolError(ExitCode::Usage, info->name + ": " + llvm::toString(std::move(error)));
    auto proved = std::ranges::find(info->lossy, call->meshSizes, &runtime::Loss::mesh);
    losses.back() = measureLoss(*call, proved == info->lossy.end() ? nullptr : &*proved, isExtreme);
    if (!losses.back().beyond.empty())
      throw ToolError(ExitCode::Refused, info->name + ": " + losses.back().beyond);
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

} // namespace kolo::tools
