// Encodings and decodings are, byte for byte, those of the second implementation, golden.py, which wrote golden.txt.
#include "codec/Convert.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CRC.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <vector>

namespace kolo::codec {
namespace {

std::vector<float> valuesOf(const std::string &hex) {
  std::vector<float> values(hex.size() / 8);
  for (size_t i = 0; i < values.size() * 4; ++i)
    reinterpret_cast<unsigned char *>(values.data())[i] = uint8_t(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return values;
}

std::string hexOf(const std::vector<std::byte> &bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(byte >> 4)];
    text += "0123456789abcdef"[std::to_integer<int>(byte & std::byte(15))];
  }
  return text;
}

template <typename T> uint32_t checksum(const std::vector<T> &data) {
  return llvm::crc32(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(data.data()), data.size() * sizeof(T)));
}

TEST(Codec, EncodesAndDecodesAsTheSecondImplementation) {
  std::ifstream file(KOLO_GOLDEN_FILE);
  ASSERT_TRUE(file);
  std::map<std::string, std::vector<float>> inputs;
  int numCompared = 0;
  for (std::string line, kind, name; std::getline(file, line);) {
    std::istringstream words(line);
    words >> kind >> name;
    if (kind == "input") {
      std::string hex;
      words >> hex;
      inputs[name] = valuesOf(hex);
      continue;
    }
    size_t size = 0;
    uint32_t encodedSum = 0, decodedSum = 0;
    std::string shown, text;
    words >> size >> std::hex >> encodedSum >> decodedSum >> shown;
    std::getline(words >> std::ws, text);
    SCOPED_TRACE(text + " of " + name);
    std::optional<Codec> codec = parseText(text);
    ASSERT_TRUE(codec);
    EXPECT_EQ(textOf(*codec), text);
    EXPECT_EQ(findMistake(*codec), "");

    std::vector<float> values = inputs.at(name), decoded(values.size());
    ASSERT_EQ(bytes(*codec, int64_t(values.size())), int64_t(size));
    std::vector<std::byte> encoded(size, std::byte(0xdb));
    encode(*codec, values, encoded, {5, 3, 7 * granule});
    decode(*codec, encoded, decoded);
    EXPECT_EQ(checksum(encoded), encodedSum);
    if (shown != "-")
      EXPECT_EQ(hexOf(encoded), shown);
    EXPECT_EQ(checksum(decoded), decodedSum);
    ++numCompared;
  }
  EXPECT_GE(numCompared, 150);
}

} // namespace
} // namespace kolo::codec
