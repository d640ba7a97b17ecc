// libFuzzer's entry to all parsers, or to all that strangers can talk to: KOLO_FUZZ_STRANGERS is set. KOLO_FUZZ_SEEDS:
// a folder that the seeds are written to first.
#include "Parsers.h"
#include "Strangers.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t sizeBytes) {
  static const bool areStrangers = std::getenv("KOLO_FUZZ_STRANGERS") != nullptr;
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte *>(data), sizeBytes);
  areStrangers ? kolo::test::meetStranger(bytes) : kolo::test::parseAny(bytes);
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *folder = std::getenv("KOLO_FUZZ_SEEDS");
  if (!folder)
    return 0;
  int number = 0;
  bool areStrangers = std::getenv("KOLO_FUZZ_STRANGERS") != nullptr;
  for (const std::vector<std::byte> &seed : areStrangers ? kolo::test::seedsOfStrangers() : kolo::test::seeds())
    std::ofstream(std::string(folder) + "/seed" + std::to_string(number++), std::ios::binary)
        .write(reinterpret_cast<const char *>(seed.data()), static_cast<std::streamsize>(seed.size()));
  return 0;
}
