#include "PageHeap.h"

#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#include <algorithm>
#include <bit>
#include <fstream>

namespace kolo::mpi {
namespace {

constexpr size_t pageBytes = 4096, hugePageBytes = size_t(2) << 20;
constexpr size_t leastPieceBytes = size_t(64) << 20, mostPieceBytes = size_t(1) << 40;
constexpr size_t mostHeldBytes = size_t(64) << 20; // of freed memory
constexpr size_t keptRunBytes = size_t(32) << 20;  // larger runs go back to the system at once, as with malloc
constexpr int mostLooks = 8;                       // in one list of free runs
constexpr uint8_t usesBeforeHuge = 4;              // one use does not pay for the copy

size_t listOf(uint32_t numPages) { return static_cast<size_t>(std::bit_width(numPages)) - 1; }

/// Where memory is promised strictly, touching shared memory that was not promised kills the process; malloc fails.
bool isPromisedStrictly() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  return file.get() == '2';
}

} // namespace

/// Only the entries of a run's first and last page mean something.
struct PageHeap::Page {
  uint32_t numPages;
  bool isFree, isUsed; // used: it may take memory although it is free
  Run next, previous;  // in its list, of a free run's first page
};

struct PageHeap::Piece {
  runtime::Window window;
  uint32_t numPages;
  std::unique_ptr<Page[]> pages; // not written before it is needed, because it would take memory itself
  std::unique_ptr<std::atomic<uint8_t>[]> numUses; // by huge page, up to usesBeforeHuge

  std::byte *at(uint32_t page) const { return static_cast<std::byte *>(window.data()) + page * pageBytes; }

  void mark(uint32_t first, uint32_t count, bool isFree, bool isUsed) {
    for (uint32_t page : {first, first + count - 1}) {
      pages[page].numPages = count;
      pages[page].isFree = isFree;
      pages[page].isUsed = isUsed;
    }
  }

  /// If it fails, the memory stays where it is for the next allocation.
  void release(uint32_t first, uint32_t count) {
    constexpr uint32_t pagesOfHuge = hugePageBytes / pageBytes;
    (void)madvise(at(first), count * pageBytes, MADV_REMOVE);
    for (uint32_t huge = first / pagesOfHuge; huge * pagesOfHuge < first + count; ++huge)
      numUses[huge] = 0;
  }
};

PageHeap::PageHeap() = default;
PageHeap::~PageHeap() = default;

/// Joins the run with free ones of the same kind beside it.
void PageHeap::putFree(Piece &piece, uint32_t first, uint32_t numPages, bool isUsed) {
  auto joins = [&](uint32_t page) { return piece.pages[page].isFree && piece.pages[page].isUsed == isUsed; };
  if (uint32_t after = first + numPages; after < piece.numPages && joins(after)) {
    uint32_t more = piece.pages[after].numPages;
    takeFree(piece, after);
    numPages += more;
  }
  if (first > 0 && joins(first - 1)) {
    uint32_t more = piece.pages[first - 1].numPages;
    takeFree(piece, first - more);
    first -= more;
    numPages += more;
  }
  piece.mark(first, numPages, true, isUsed);
  heldBytes += isUsed ? numPages * pageBytes : 0;
  Run &head = freeRuns[listOf(numPages)];
  piece.pages[first].next = head;
  piece.pages[first].previous = {};
  if (head.piece)
    head.piece->pages[head.first].previous = {&piece, first};
  head = {&piece, first};
}

void PageHeap::takeFree(Piece &piece, uint32_t first) {
  const Page &page = piece.pages[first];
  heldBytes -= page.isUsed ? page.numPages * pageBytes : 0;
  if (page.previous.piece)
    page.previous.piece->pages[page.previous.first].next = page.next;
  else
    freeRuns[listOf(page.numPages)] = page.next;
  if (page.next.piece)
    page.next.piece->pages[page.next.first].previous = page.previous;
}

/// A free run that holds so many pages at a multiple of `alignment`, and where they begin.
PageHeap::Run PageHeap::findFree(uint32_t numPages, uint32_t alignment, uint32_t &at) const {
  for (size_t list = listOf(numPages); list < numLists; ++list) {
    Run run = freeRuns[list];
    for (int look = 0; run.piece && look < mostLooks; ++look, run = run.piece->pages[run.first].next) {
      at = (run.first + alignment - 1) / alignment * alignment;
      if (at - run.first + numPages <= run.piece->pages[run.first].numPages)
        return run;
    }
  }
  return {};
}

bool PageHeap::addPiece(size_t sizeBytes) {
  const size_t count = numPieces.load();
  isFull = isFull || count == mostPieces || (count == 0 && isPromisedStrictly());
  if (isFull)
    return false;
  size_t wanted = std::max(leastPieceBytes, sizeBytes);
  for (size_t number = 0; number < count; ++number)
    wanted += pieces[number]->numPages * pageBytes; // each has as much as all before it, so a few are enough
  runtime::Result<runtime::Window> window = runtime::Window::reserve(wanted);
  isFull = !window.isOk();
  if (isFull)
    return false;
  auto numPages = static_cast<uint32_t>(wanted / pageBytes);
  pieces[count] = std::make_unique<Piece>(Piece{std::move(window).value(), numPages,
                                                std::make_unique_for_overwrite<Page[]>(numPages),
                                                std::make_unique<std::atomic<uint8_t>[]>(wanted / hugePageBytes)});
  putFree(*pieces[count], 0, numPages, false);
  numPieces.store(count + 1, std::memory_order_release);
  return true;
}

void *PageHeap::allocate(size_t sizeBytes) {
  if (sizeBytes < leastBytes || sizeBytes > mostPieceBytes)
    return nullptr;
  auto numPages = static_cast<uint32_t>((sizeBytes + pageBytes - 1) / pageBytes);
  uint32_t alignment = sizeBytes >= hugePageBytes ? hugePageBytes / pageBytes : 1, at = 0;
  std::scoped_lock lock(mutex);
  Run run = findFree(numPages, alignment, at);
  if (!run.piece && heldBytes > 0) {
    releaseAll(); // joins runs
    run = findFree(numPages, alignment, at);
  }
  if (!run.piece) {
    if (!addPiece((numPages * pageBytes + hugePageBytes - 1) / hugePageBytes * hugePageBytes))
      return nullptr;
    run = findFree(numPages, alignment, at);
  }
  Piece &piece = *run.piece;
  const Page found = piece.pages[run.first];
  takeFree(piece, run.first);
  piece.mark(at, numPages, false, true);
  if (uint32_t before = at - run.first; before > 0)
    putFree(piece, run.first, before, found.isUsed);
  if (uint32_t after = run.first + found.numPages - at - numPages; after > 0)
    putFree(piece, at + numPages, after, found.isUsed);
  return piece.at(at);
}

/// Gives back the memory of all free runs, and joins them whatever their kind.
void PageHeap::releaseAll() {
  freeRuns = {};
  heldBytes = 0;
  for (size_t number = 0; number < numPieces.load(); ++number) {
    Piece &piece = *pieces[number];
    for (uint32_t page = 0; page < piece.numPages;) {
      const uint32_t first = page;
      for (; page < piece.numPages && piece.pages[page].isFree; page += piece.pages[page].numPages)
        if (piece.pages[page].isUsed)
          piece.release(page, piece.pages[page].numPages);
      if (page > first)
        putFree(piece, first, page - first, false);
      else
        page += piece.pages[page].numPages;
    }
  }
}

bool PageHeap::free(void *memory) {
  int number = pieceOf(memory);
  if (number < 0)
    return false;
  std::scoped_lock lock(mutex);
  Piece &piece = *pieces[static_cast<size_t>(number)];
  auto first = static_cast<uint32_t>((static_cast<std::byte *>(memory) - piece.at(0)) / pageBytes);
  const uint32_t numPages = piece.pages[first].numPages;
  const bool isKept = numPages * pageBytes < keptRunBytes;
  if (!isKept)
    piece.release(first, numPages);
  putFree(piece, first, numPages, isKept);
  if (heldBytes > mostHeldBytes)
    releaseAll();
  return true;
}

int PageHeap::pieceOf(const void *memory) const {
  auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t count = numPieces.load(std::memory_order_acquire);
  for (size_t number = 0; number < count; ++number)
    if (auto begin = reinterpret_cast<uintptr_t>(pieces[number]->at(0));
        address >= begin && address - begin < pieces[number]->numPages * pageBytes)
      return static_cast<int>(number);
  return -1;
}

const runtime::Window &PageHeap::windowOf(int piece) const { return pieces[static_cast<size_t>(piece)]->window; }

void PageHeap::use(int number, const void *memory, size_t sizeBytes) {
  Piece &piece = *pieces[static_cast<size_t>(number)];
  const auto begin = static_cast<size_t>(static_cast<const std::byte *>(memory) - piece.at(0));
  const size_t last = (begin + sizeBytes) / hugePageBytes;
  for (size_t huge = (begin + hugePageBytes - 1) / hugePageBytes; huge < last; ++huge) {
    std::atomic<uint8_t> &uses = piece.numUses[huge];
    if (uses.load(std::memory_order_relaxed) >= usesBeforeHuge) [[likely]]
      continue;
    if (uses.fetch_add(1, std::memory_order_relaxed) + 1 == usesBeforeHuge)
      (void)madvise(piece.at(0) + huge * hugePageBytes, hugePageBytes, MADV_COLLAPSE);
  }
}

} // namespace kolo::mpi
