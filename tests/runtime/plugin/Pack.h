// Puts a shared library and a manifest together into a plugin file, or into one that is wrong in a chosen way.
#pragma once

#include "kolo/runtime/PluginAbi.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace kolo::test {

inline uint64_t hashOf(const std::string &bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

inline KoloPluginFooter footerFor(const std::string &elf, const std::string &manifest) {
  KoloPluginFooter footer = {};
  footer.elfBytes = elf.size();
  footer.manifestBytes = manifest.size();
  footer.checksum = hashOf(elf + manifest);
  footer.abiVersion = KOLO_ABI_VERSION;
  footer.footerBytes = sizeof(footer);
  std::memcpy(footer.magic, KOLO_PLUGIN_MAGIC, sizeof(footer.magic));
  return footer;
}

inline std::string pack(const std::string &elf, const std::string &manifest, const KoloPluginFooter &footer) {
  return elf + manifest + std::string(reinterpret_cast<const char *>(&footer), sizeof(footer));
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file.good();
}

} // namespace kolo::test
