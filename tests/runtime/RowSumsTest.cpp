// Sums of rows times weights against sums element by element: the same bits, in every type and for every length.
#include "experts/RowSums.h"
#include "call/WideAverage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kolo::runtime;

namespace {

using Bytes = std::vector<std::byte>;

Bytes encode(DataType type, const std::vector<float> &numbers) {
  Bytes bytes(numbers.size() * sizeBytes(type));
  if (type == DataType::F32)
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
  else
    narrow(type, numbers.data(), bytes.data(), numbers.size());
  return bytes;
}

std::vector<float> decode(DataType type, const Bytes &bytes) {
  std::vector<float> numbers(bytes.size() / sizeBytes(type));
  if (type == DataType::F32)
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
  else
    widen(type, bytes.data(), numbers.data(), numbers.size());
  return numbers;
}

/// Mostly of one size; some are huge, tiny, infinite or no numbers.
float drawNumber(std::mt19937_64 &random) {
  const float special[] = {0.0f,         -0.0f, 3e38f, -6e4f, 1e-7f, 1e-41f, std::numeric_limits<float>::infinity(),
                           std::nanf("")};
  return random() % 32 == 0 ? special[random() % std::size(special)]
                            : std::uniform_real_distribution<float>(-3, 3)(random);
}

} // namespace

TEST(RowSums, AreThoseOfTheirElements) {
  std::mt19937_64 random(11);
  for (DataType type : {DataType::F32, DataType::F16, DataType::BF16})
    for (size_t elements : {1u, 7u, 31u, 32u, 33u, 64u, 257u}) {
      constexpr size_t numRows = 12;
      std::vector<float> drawn(numRows * elements), weights(numRows);
      for (float &number : drawn)
        number = drawNumber(random);
      for (float &weight : weights)
        weight = drawNumber(random);
      const Bytes input = encode(type, drawn);
      const std::vector<float> numbers = decode(type, input);
      RowSums sums;
      std::vector<float> expected;
      for (size_t numTerms : {0u, 1u, 2u, 8u}) {
        std::vector<float> row(elements);
        for (size_t term = 0; term < numTerms; ++term) {
          const size_t from = random() % numRows, weight = random() % numRows;
          const bool isWeighted = random() % 4 != 0;
          sums.add({int64_t(from), isWeighted ? int64_t(weight) : -1});
          for (size_t i = 0; i < elements; ++i)
            row[i] = std::fma(isWeighted ? weights[weight] : 1.0f, numbers[from * elements + i], row[i]);
        }
        sums.endRow();
        expected.insert(expected.end(), row.begin(), row.end());
      }
      Bytes output(expected.size() * sizeBytes(type) + 1, std::byte(0x5a));
      sums.run(type, elements, input.data(), weights, output.data());
      ASSERT_EQ(output.back(), std::byte(0x5a)) << "something was written behind the end";
      output.pop_back();
      const std::vector<float> found = decode(type, output), rounded = decode(type, encode(type, expected));
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_TRUE(std::memcmp(&found[i], &rounded[i], sizeof(float)) == 0 ||
                    (std::isnan(found[i]) && std::isnan(rounded[i])))
            << toString(type) << ", " << elements << " elements, number " << i << " is " << found[i] << ", not "
            << rounded[i];
    }
}
