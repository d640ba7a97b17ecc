// Functions of libraries that these tests open.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace kolo::test {

/// The library stays open. Throws if it has none of this name.
template <class Function> Function *find(const char *library, const char *symbol) {
  void *opened = dlopen(library, RTLD_NOW);
  void *found = opened ? dlsym(opened, symbol) : nullptr;
  if (!found)
    throw std::runtime_error(std::string(library) + ": no " + symbol);
  return reinterpret_cast<Function *>(found);
}

} // namespace kolo::test
