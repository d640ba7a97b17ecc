// pack-plugin LIBRARY MANIFEST OUTPUT: the build step that makes the test plugin.
#include "Pack.h"

#include <cstdio>

int main(int argc, char **argv) {
  using namespace kolo::test;
  if (argc != 4)
    return std::fprintf(stderr, "usage: pack-plugin LIBRARY MANIFEST OUTPUT\n"), 2;
  std::string elf = readFile(argv[1]), manifest = readFile(argv[2]);
  if (elf.empty() || manifest.empty() || !writeFile(argv[3], pack(elf, manifest, footerFor(elf, manifest))))
    return std::fprintf(stderr, "pack-plugin: cannot read %s or %s, or write %s\n", argv[1], argv[2], argv[3]), 1;
  return 0;
}
