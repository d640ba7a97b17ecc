// Compiled arithmetic of codecs beside mutants of it: on the data of these tests, a plain model gives the bits of the
// compiled program, and the model with any one mistake does not. So comparing bits catches each of these mistakes.
// Another encoding, and an owner that keeps its unrounded value, are the checker's: tests/cli/codec_test.py.
#include "Shipped.h"

#include "codec/Convert.h"
#include "codec/Elements.h"
#include "codec/Presets.h"
#include "tools/compile/Compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace kolo;
using kolo::test::Launch;

namespace {

using Numbers = std::vector<float>;

constexpr int numRanks = 3;
constexpr int64_t chunk = 2 * codec::granule, count = numRanks * chunk;

enum class Mutant { None, NeighboursScale, ShiftedBlock, HalvesUp, Contraction, SwappedNibbles, EncodedAgain };

const char *nameOf(Mutant mutant) {
  constexpr const char *names[] = {"none",
                                   "scale of the neighbour",
                                   "block shifted by one",
                                   "halves rounded up",
                                   "product and sum contracted",
                                   "nibbles swapped",
                                   "one encoding too many"};
  return names[size_t(mutant)];
}

/// Half of the blocks hold multiples of half a step: so that many codes are halfway between two.
Numbers inputOf(int rank, const codec::Codec &codec) {
  auto largest = int(codec::largestValue(codec));
  std::mt19937 random(uint32_t(rank) + 1);
  std::normal_distribution<float> normal;
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    float size = std::ldexp(1.0f, int(i / 32 % 7) - 3);
    bool isInHalves = i / 256 % 2 == 0;
    float halves = float(int(random() % uint32_t(4 * largest - 3)) - 2 * (largest - 1)) / 2;
    values.push_back(!isInHalves ? normal(random) * size : i % 32 == 0 ? float(largest) : halves);
  }
  return values;
}

/// Of codecs of rule fit with integers and f32 scales, which this model knows.
class Model {
public:
  Model(const codec::Codec &codec, Mutant mutant) : codec(codec), mutant(mutant) {}

  Numbers decoded(const Numbers &values) const { return decode(encode(values)); }
  /// sum += what a receiver makes of the values.
  void combine(const Numbers &values, Numbers &sum) const {
    std::vector<std::byte> bytes = encode(values);
    Numbers arrived = decode(bytes);
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] =
          mutant == Mutant::Contraction ? std::fma(codeAt(bytes, i), scaleAt(bytes, i), sum[i]) : sum[i] + arrived[i];
  }

private:
  static constexpr size_t granule = codec::granule;
  size_t bits() const { return size_t(codec::bitsOf(codec.element())); }
  size_t granuleBytes() const { return size_t(codec::bytes(codec, codec::granule)); }
  size_t scalePlace(size_t i) const {
    return i / granule * granuleBytes() + granule * bits() / 8 + i % granule / size_t(codec.block()) * sizeof(float);
  }
  float scaleAt(const std::vector<std::byte> &bytes, size_t i) const {
    float scale;
    std::memcpy(&scale, &bytes[scalePlace(i)], sizeof scale);
    return scale;
  }
  float codeAt(const std::vector<std::byte> &bytes, size_t i) const {
    size_t bit = i % granule * bits();
    int code = int(bytes[i / granule * granuleBytes() + bit / 8]) >> bit % 8;
    int limit = 1 << (bits() - 1);
    return float(((code & (2 * limit - 1)) ^ limit) - limit);
  }
  void setCode(std::vector<std::byte> &bytes, size_t i, int code) const {
    size_t bit = i % granule * bits();
    std::byte &place = bytes[i / granule * granuleBytes() + bit / 8];
    int mask = (1 << bits()) - 1;
    place = (place & std::byte(~(mask << bit % 8))) | std::byte((code & mask) << bit % 8);
  }

  std::vector<std::byte> encode(Numbers values) const {
    Numbers original = values;
    if (mutant == Mutant::ShiftedBlock)
      std::rotate(values.begin(), values.begin() + 1, values.end());
    std::vector<std::byte> bytes(size_t(codec::bytes(codec, int64_t(values.size()))));
    codec::encode(codec, values, bytes);
    float largest = std::floor(codec::largestValue(codec));
    for (size_t i = 0; mutant == Mutant::HalvesUp && i < values.size(); ++i)
      setCode(bytes, i, int(std::clamp(std::floor(values[i] * (1 / scaleAt(bytes, i)) + 0.5f), -largest, largest)));
    for (size_t i = 0; mutant == Mutant::SwappedNibbles && i < values.size() * bits() / 8; ++i) {
      std::byte &place = bytes[i / (granule * bits() / 8) * granuleBytes() + i % (granule * bits() / 8)];
      place = (place << 4) | (place >> 4);
    }
    for (size_t i = 0; mutant == Mutant::NeighboursScale && i < values.size(); i += 2 * size_t(codec.block()))
      std::swap_ranges(&bytes[scalePlace(i)], &bytes[scalePlace(i)] + sizeof(float),
                       &bytes[scalePlace(i + size_t(codec.block()))]);
    return bytes;
  }
  Numbers decode(const std::vector<std::byte> &bytes) const {
    Numbers values(bytes.size() / granuleBytes() * granule);
    codec::decode(codec, bytes, values);
    if (mutant == Mutant::ShiftedBlock)
      std::rotate(values.begin(), values.end() - 1, values.end());
    return values;
  }

  codec::Codec codec;
  Mutant mutant;
};

Numbers chunkOf(const Numbers &values, int64_t number) {
  return {values.begin() + number * chunk, values.begin() + (number + 1) * chunk};
}

/// Two shots: each owner adds to its own chunk what the others send, by number from its own on, and sends the sum.
Numbers allReduced(const codec::Codec &codec, Mutant mutant) {
  Model model(codec, mutant);
  std::vector<Numbers> inputs;
  for (int rank = 0; rank < numRanks; ++rank)
    inputs.push_back(inputOf(rank, codec));
  Numbers output;
  for (int owner = 0; owner < numRanks; ++owner) {
    Numbers sum = chunkOf(inputs[size_t(owner)], owner);
    for (int i = 1; i < numRanks; ++i) {
      model.combine(chunkOf(inputs[size_t(owner + i) % numRanks], owner), sum);
      if (mutant == Mutant::EncodedAgain) // after every addition
        sum = model.decoded(sum);
    }
    Numbers received = model.decoded(sum);
    output.insert(output.end(), received.begin(), received.end());
  }
  return output;
}

/// Every rank's output, which all are the same.
Numbers compiled(const codec::Codec &wire) {
  tools::CompileRequest request;
  request.definitions = {test::definitionOf("quantisedTwoShotAllReduce")};
  runtime::Mesh mesh = *runtime::Mesh::create({{"rank", numRanks}});
  request.meshes = {mesh};
  request.codecs = {{"wire", wire}};
  test::TemporaryFolder folder;
  request.output = folder.file("mutants.so");
  tools::compile(request);
  auto plugin = runtime::Plugin::load(request.output);
  EXPECT_TRUE(plugin.isOk()) << plugin.status().message();
  std::vector<Numbers> outputs(numRanks, Numbers(size_t(count)));
  auto body = [&](runtime::Communicator &communicator) -> std::string {
    Numbers input = inputOf(communicator.rank(), wire);
    runtime::CallArguments arguments{"", mesh, count};
    arguments.input = input.data();
    arguments.output = outputs[size_t(communicator.rank())].data();
    runtime::Status status = communicator.run(*plugin, arguments);
    return status.isOk() ? "" : status.message();
  };
  EXPECT_EQ(test::runRanks(Launch::Threads, numRanks, {60000, 2}, body), "");
  for (const Numbers &output : outputs)
    EXPECT_EQ(output, outputs.front());
  return outputs.front();
}

} // namespace

TEST(CodecMutants, AreAllCaught) {
  for (const codec::Codec &codec :
       {dsl::int8(32), dsl::Codec(dsl::Element::I4).per(32, dsl::Scale::F32, dsl::Rule::Fit)}) {
    Numbers output = compiled(codec);
    EXPECT_EQ(output, allReduced(codec, Mutant::None)) << codec::textOf(codec);
    for (Mutant mutant : {Mutant::NeighboursScale, Mutant::ShiftedBlock, Mutant::HalvesUp, Mutant::Contraction,
                          Mutant::SwappedNibbles, Mutant::EncodedAgain})
      if (mutant != Mutant::SwappedNibbles || codec::bitsOf(codec.element()) == 4)
        EXPECT_NE(output, allReduced(codec, mutant)) << codec::textOf(codec) << ": " << nameOf(mutant);
  }
}
