#include "memory/SparseArray.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace kolo::runtime {
namespace {

/// From so many bytes on, pages of their own are worth a mapping.
constexpr size_t manyBytes = size_t(64) << 10;

} // namespace

SparseBytes::SparseBytes(size_t sizeBytes) : size(sizeBytes) {
  if (size == 0)
    return;
  if (size < manyBytes) {
    memory = std::calloc(1, size);
  } else {
    void *mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = mapped == MAP_FAILED ? nullptr : mapped;
    if (memory)
      (void)madvise(memory, size, MADV_NOHUGEPAGE); // one element must not take 2 MiB
  }
  if (!memory)
    throw std::bad_alloc();
}

SparseBytes::~SparseBytes() {
  if (size < manyBytes)
    std::free(memory);
  else
    munmap(memory, size);
}

} // namespace kolo::runtime
