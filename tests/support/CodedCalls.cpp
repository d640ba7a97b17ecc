#include "CodedCalls.h"

#include "codec/Presets.h"
#include "ir/reference/Element.h"

#include <kolo/dsl/Language.h>

#include "algorithms/Blocks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace kolo::test {
using namespace reference;

dsl::Definition twoShot(const std::string &name, const codec::Codec &wire) {
  auto body = [wire](dsl::Choreography &c) {
    auto [d] = c.dims<1>();
    dsl::Rank me = c.rank();
    dsl::Buffer in = c.input().grid(d), out = c.output().grid(d);
    dsl::Buffer sum = c.scratch("sum", out).as(dsl::f32()), packed = c.scratch("packed", out).as(wire);
    c.copy(in[me], sum[me]);
    algorithms::slottedAllPairsReduceScatter(c, d, in, sum, c.slots("arrived", out, d.size()).as(wire));
    c.copy(sum[me], packed[me]);
    algorithms::allPairsAllGather(c, d, packed);
    c.copy(packed, out);
  };
  return {name, dsl::AllReduce, dsl::Mesh("rank"), body, std::source_location::current()};
}

std::vector<codec::Codec> allCodecs() {
  std::vector<codec::Codec> codecs;
  for (const codec::Preset &preset : codec::presets())
    codecs.push_back(preset.codec);
  using dsl::Element, dsl::Scale, dsl::Rule;
  auto nf4 = dsl::levels({-1, -0.6962f, -0.5251f, -0.3949f, -0.2844f, -0.1848f, -0.0911f, 0, 0.0796f, 0.1609f, 0.2461f,
                          0.3379f, 0.4407f, 0.5626f, 0.723f, 1});
  for (const codec::Codec &other :
       {dsl::int8(16), dsl::int8(1024), dsl::int8(64, Rule::Signed), dsl::int4(32, Rule::Fit), nf4.per(64, Scale::BF16),
        dsl::Codec(Element::E3M2).per(32, Scale::E8M0, Rule::Power),
        dsl::Codec(Element::E5M2).per(32, Scale::E8M0, Rule::Power), dsl::Codec(Element::I6).per(128, Scale::BF16),
        dsl::Codec(Element::I8).per(32, Scale::E4M3), dsl::sign(16), dsl::Codec(Element::E4M3),
        dsl::Codec(Element::E5M2), dsl::int8().stochastic(), dsl::mxfp4().stochastic(), nf4.per(32).stochastic(),
        dsl::bf16().stochastic(), dsl::Codec(Element::E4M3).stochastic()})
    codecs.push_back(other);
  return codecs;
}

void storeElement(ElementType type, float value, std::byte *at) {
  uint16_t half = type == ElementType::F16 ? halfFromFloat(value) : bfloat16FromFloat(value);
  if (type == ElementType::F32)
    std::memcpy(at, &value, sizeof value);
  else
    std::memcpy(at, &half, sizeof half);
}

void fillOrdinary(SimulatedCall &call, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (Bytes &input : call.inputs) {
    auto size = size_t(elementBytes(call.type));
    float factor = 1;
    for (size_t i = 0; i * size < input.size(); ++i) {
      if (i % 32 == 0) {
        uint64_t choice = random() % 64;
        factor = choice == 0   ? 0
                 : choice == 1 ? 1e-41f
                 : choice == 2 ? 1e37f
                               : std::ldexp(1.0f, int(random() % 24) - 12);
      }
      uint64_t rare = random() % 8192;
      float value = rare == 0   ? std::numeric_limits<float>::infinity()
                    : rare == 1 ? std::numeric_limits<float>::quiet_NaN()
                    : rare < 64 ? -0.0f
                                : normal(random) * factor;
      storeElement(call.type, value, &input[i * size]);
    }
  }
}

} // namespace kolo::test
