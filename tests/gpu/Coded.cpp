#include "Coded.h"

#include "../runtime/Ranks.h"

#include <cstring>
#include <random>
#include <stdexcept>

namespace kolo::test {

namespace {

/// A type as bits: a sign, an exponent, a mantissa.
struct Format {
  int numBits, mantissaBits;
  uint32_t one; // the exponent of numbers from 1 on

  uint32_t infinity() const { return ((1u << (numBits - 1)) - 1) >> mantissaBits << mantissaBits; }
  uint32_t signBit() const { return 1u << (numBits - 1); }
};

Format formatOf(runtime::DataType type) {
  switch (type) {
  case runtime::DataType::F16:
    return {16, 10, 15};
  case runtime::DataType::BF16:
    return {16, 7, 127};
  case runtime::DataType::F32:
    return {32, 23, 127};
  default:
    throw std::logic_error("codecs are for f16, bf16 and f32");
  }
}

} // namespace

std::vector<Bytes> ordinaryInputs(const DeviceCall &call, uint64_t seed) {
  constexpr uint32_t sizes = 8;
  const Format format = formatOf(call.type);
  std::mt19937_64 random(seed);
  std::vector<Bytes> inputs(size_t(call.mesh.numRanks()), Bytes(call.inputBytes()));
  const size_t elementBytes = runtime::sizeBytes(call.type);
  for (Bytes &input : inputs) {
    uint32_t exponent = 0;
    for (size_t element = 0; element * elementBytes < input.size(); ++element) {
      uint64_t choice = random();
      if (element % 32 == 0)
        exponent = choice >> 40 & 63 ? format.one - sizes + uint32_t(choice >> 48) % (2 * sizes) : 0;
      uint32_t mantissa = uint32_t(choice) & ((1u << format.mantissaBits) - 1);
      uint32_t number = exponent == 0 ? 0 : exponent << format.mantissaBits | mantissa;
      if ((choice >> 50) % 4096 == 0)
        number = format.infinity() | (choice & 1 ? 1u << (format.mantissaBits - 1) : 0);
      else if (choice >> 33 & 1)
        number |= format.signBit();
      std::memcpy(&input[element * elementBytes], &number, elementBytes); // of the lower bytes
    }
  }
  return inputs;
}

std::vector<Bytes> hostOutputs(const runtime::Plugin &plugin, const DeviceCall &call,
                               const std::vector<Bytes> &inputs) {
  constexpr int timeoutMs = 60000;
  std::vector<Bytes> outputs(inputs.size(), Bytes(call.outputBytes(), poison));
  auto body = [&](Communicator &communicator) -> std::string {
    auto rank = size_t(communicator.rank());
    runtime::CallArguments arguments;
    arguments.mesh = call.mesh, arguments.count = call.count, arguments.type = call.type;
    arguments.reduction = call.reduction;
    arguments.input = inputs[rank].data(), arguments.output = outputs[rank].data();
    runtime::Status status = communicator.run(plugin, arguments);
    return status.isOk() ? "" : status.message();
  };
  std::string problem = runRanks(Launch::Threads, call.mesh.numRanks(), {timeoutMs, 1}, body);
  if (!problem.empty())
    throw std::runtime_error("on the host: " + problem);
  return outputs;
}

} // namespace kolo::test
