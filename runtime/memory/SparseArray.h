// SparseArray: an array of zeros of which only the pages that somebody writes take memory.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace kolo::runtime {

/// Bytes of zeros. The kernel gives memory for a page when it is first written; while it is only read, it takes none.
class SparseBytes {
public:
  SparseBytes() = default;
  /// May throw std::bad_alloc.
  explicit SparseBytes(size_t sizeBytes);
  SparseBytes(SparseBytes &&other) noexcept { swap(other); }
  SparseBytes &operator=(SparseBytes &&other) noexcept {
    swap(other);
    return *this;
  }
  ~SparseBytes();

  void *data() const { return memory; }

private:
  void swap(SparseBytes &other) noexcept {
    std::swap(memory, other.memory);
    std::swap(size, other.size);
  }
  void *memory = nullptr;
  size_t size = 0;
};

/// For what a rank has of every rank, and needs of few. An element of zero bytes must be a valid one.
template <class Element> class SparseArray {
  static_assert(std::is_trivially_copyable_v<Element> && std::is_trivially_destructible_v<Element>);

public:
  SparseArray() = default;
  /// May throw std::bad_alloc.
  explicit SparseArray(size_t numElements) : bytes(numElements * sizeof(Element)), number(numElements) {}

  size_t size() const { return number; }
  Element *data() const { return static_cast<Element *>(bytes.data()); }
  Element &operator[](size_t index) const { return data()[index]; }

private:
  SparseBytes bytes;
  size_t number = 0;
};

} // namespace kolo::runtime
