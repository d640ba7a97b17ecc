// PageHeap: memory for MPI_Alloc_mem that can become windows later. It hands out runs of pages of a few large pieces of
// shared memory that nobody has touched. So an allocation costs no system call, and takes no memory before the program
// uses it.
#pragma once

#include "kolo/runtime/Window.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace kolo::mpi {

/// Any thread may call its functions. Of what the program frees, at most 64 MiB keep their
/// memory.
class PageHeap {
public:
  PageHeap();
  ~PageHeap();
  static constexpr size_t leastBytes = 16384; // smaller memory is not worth a window

  /// Memory at a page, from 2 MiB on at a huge page. Null: the system gives none; ask MPI.
  void *allocate(size_t sizeBytes);
  /// Whether the memory was of this heap, and is free now.
  bool free(void *memory);

  /// The piece in which the memory lies, by number; -1: it is none of this heap.
  int pieceOf(const void *memory) const;
  const runtime::Window &windowOf(int piece) const;

  /// Notes that peers use this memory of a piece. What they use again and again is put on huge pages, where the kernel
  /// has them.
  void use(int piece, const void *memory, size_t sizeBytes);

private:
  struct Page; // what the heap notes at the first and last page of a run
  struct Piece;
  struct Run { // null: none
    Piece *piece;
    uint32_t first;
  };
  static constexpr size_t mostPieces = 64, numLists = 32;

  bool addPiece(size_t sizeBytes);
  Run findFree(uint32_t numPages, uint32_t alignment, uint32_t &at) const;
  void putFree(Piece &piece, uint32_t first, uint32_t numPages, bool isUsed);
  void takeFree(Piece &piece, uint32_t first);
  void releaseAll();

  mutable std::mutex mutex;
  std::array<std::unique_ptr<Piece>, mostPieces> pieces;
  std::atomic<size_t> numPieces = 0;
  bool isFull = false;                     // the system gave no piece, and is not asked again
  std::array<Run, numLists> freeRuns = {}; // heads of lists, by the logarithm of the number of pages
  size_t heldBytes = 0;                    // of free runs that may take memory
};

} // namespace kolo::mpi
