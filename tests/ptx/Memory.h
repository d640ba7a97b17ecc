// Memory as the PTX memory model lets threads see it; the README of this folder says how, and why that is the model.
#pragma once

#include "Module.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace kolo::ptx {

/// The run cannot go on: a data race, an address where no memory is, a trap. The message names lines of the text.
struct Problem : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Threads wait for each other, or do not end.
struct Stuck : Problem {
  using Problem::Problem;
};

/// A generator that is small and fast, and gives the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    uint64_t value = state += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
  }
  uint32_t below(uint32_t bound) { return uint32_t((next() >> 32) * bound >> 32); }
  bool isOneOf(uint32_t number) { return below(number) == 0; }

private:
  uint64_t state;
};

/// Where a thread is. Threads of the host are in a block and on a device of their own.
struct ThreadPlace {
  uint32_t block = 0, device = 0;
};

/// How memory behaves in one run.
struct MemoryStyle {
  uint64_t seed = 1;
  uint32_t staleIn8 = 4;       // in how many of 8 loads an older value is taken, where there is one
  bool reordersStores = false; // a store may come before others that nothing orders before it
  bool reportsRaces = true;
  /// What a strong load saw counts as known to all that this thread releases to, also without an acquire; and fences
  /// work. Slower; without it, memory is weaker than the model allows.
  bool isExact = false;
  /// A load may wait until its value is wanted, and see what was stored in the meantime: load buffering. Only with
  /// isExact, and without reportsRaces.
  bool delaysLoads = false;
  uint32_t delayedLine = 0; // what the store of this line publishes is seen as late as possible; 0: of none
  uint64_t delay = 20000;   // for so many accesses
};

/// What happened before, by thread: its epochs up to this one. And messages that were seen outside of that.
struct Clock {
  std::vector<uint32_t> epochs;
  std::vector<std::pair<uint64_t, uint64_t>> seen; // address of a cell, message; sorted
};
using ClockPointer = std::shared_ptr<const Clock>;

/// Calls body(offset, size) for the pieces of a range that one access can take.
template <class Body> void forPieces(uint64_t address, size_t sizeBytes, Body &&body) {
  for (size_t offset = 0, size = 0; offset < sizeBytes; offset += size) {
    for (size = 8; (address + offset) % size != 0 || offset + size > sizeBytes;)
      size /= 2;
    body(offset, uint32_t(size));
  }
}

class Memory {
public:
  explicit Memory(std::vector<ThreadPlace> places);

  /// Memory whose content at the start is that of the host at this address, or zeros if it is null there. Its address
  /// is a multiple of 8. Constant memory is never written.
  void addRegion(uint64_t address, uint64_t sizeBytes, const std::byte *content, bool isConstant);
  /// As at the start.
  void reset(const MemoryStyle &style);

  /// The bytes of a vector; sizeBytes 1, 2, 4, 8 or 16, and the address a multiple of it. `out` has that size.
  void load(uint32_t thread, uint64_t address, uint32_t sizeBytes, const Access &access, uint32_t line, std::byte *out);
  void store(uint32_t thread, uint64_t address, uint32_t sizeBytes, const Access &access, uint32_t line,
             const std::byte *bytes);
  /// Of threads that execute one instruction together: 16 bytes each of the line of 128 bytes at `address`.
  static constexpr uint32_t lineThreads = 8, partBytes = 16;
  void loadLine(const std::array<uint32_t, lineThreads> &threads, uint64_t address, const Access &access, uint32_t line,
                std::byte *out);
  void storeLine(const std::array<uint32_t, lineThreads> &threads, uint64_t address, const Access &access,
                 uint32_t line, const std::byte *bytes);
  /// A load of 8 bytes that takes place now, or later up to `settle`; `settle` gives its number back for its value.
  uint32_t delay(uint32_t thread, uint64_t address, const Access &access, uint32_t line);
  uint64_t settle(uint32_t number);
  bool delaysNextLoad() { return style.delaysLoads && random.isOneOf(2); }
  void fence(uint32_t thread, const Access &access);
  /// All that these threads, of one block, did comes before all that they will do.
  void meet(const std::vector<uint32_t> &threads);
  /// What `before` did comes before what `after` will do; kernels start and end.
  void order(const std::vector<uint32_t> &before, const std::vector<uint32_t> &after);
  /// From now on, this is what there was at kernel start.
  void startKernel(uint32_t thread) { threads[thread].start = threads[thread].clock; }

  /// Whether a thread that `ignored` names is the only one that wrote to these bytes since the reset.
  bool isUntouched(uint64_t address, uint64_t sizeBytes, uint32_t ignored) const;
  /// Of a cell of 8 bytes: what its last store left.
  uint64_t lastState(uint64_t address);
  size_t numThreads() const { return threads.size(); }

private:
  struct Release {
    ClockPointer clock;
    Scope scope;
  };
  using Releases = std::shared_ptr<const std::vector<Release>>;
  struct Message {
    uint64_t id = 0, state = 0; // the whole cell after it
    uint64_t hiddenUntil = 0;
    uint32_t writer = 0, epoch = 0, line = 0;
    uint32_t unit = 0; // of a line that was stored at once; 0: of none
    uint8_t mask = 0;  // of bytes
    Scope scope = Scope::None;
    Releases releases;
  };
  struct Reading {
    uint64_t message = 0; // that a load saw whose store is morally strong with it
    uint32_t thread = 0, epoch = 0, line = 0;
    uint8_t mask = 0;
    Scope scope = Scope::None;
  };
  struct Cell {
    std::vector<Message> history;
    std::vector<Reading> readings;
    bool isTouched = false;
  };
  static constexpr uint64_t pageBytes = 4096, cellBytes = 8;
  struct Page {
    uint64_t first, end; // addresses that there are
    const std::byte *content = nullptr;
    bool isConstant = false;
    std::array<Cell, pageBytes / cellBytes> cells;
  };
  struct Region {
    uint64_t address, sizeBytes;
    const std::byte *content;
    bool isConstant;
  };
  struct Thread {
    ThreadPlace place;
    uint32_t epoch = 1;
    ClockPointer clock, start;
    std::array<uint32_t, warpThreads> near{}; // epochs of threads of the same warp that it knows besides
    std::array<ClockPointer, 3> pending;      // of what relaxed loads saw, by how far away: block, device, system
    std::vector<Release> fences;
  };
  /// Of one load or store: the part that lies in one cell.
  struct Part {
    uint32_t thread, line;
    Access access;
    uint64_t address; // of the cell
    uint8_t mask;
    uint32_t unit = 0;
  };

  /// Of a load that waits: what it may see is what it might have seen at its place, and stores that it does not
  /// precede.
  struct Delayed {
    Part part;
    Page *page = nullptr;
    Cell *cell = nullptr;
    uint32_t epoch = 0;
    uint64_t lowest = 0, last = 0; // messages: the oldest one, and the newest one that there was at its place
    std::vector<uint64_t> later;
    bool isSettled = false;
    uint64_t value = 0;
  };

  Page &pageOf(uint64_t address, uint64_t sizeBytes, uint32_t line);
  Page *makePage(uint64_t number);
  Cell &touch(Page &page, uint64_t address);
  uint64_t initialState(const Page &page, uint64_t address) const;
  uint64_t read(Page &page, const Part &part, uint32_t wantedUnit);
  void write(Page &page, const Part &part, uint64_t value);
  size_t choose(const Cell &cell, const Part &part, size_t lowest, uint32_t wantedUnit);
  size_t lowestVisible(const Cell &cell, const Part &part) const;
  void observe(const Message &message, const Part &part);
  void noteReading(Cell &cell, const Part &part, uint64_t message);
  void settleOf(uint32_t thread, const Cell &cell);
  void noteLater(const Cell &cell, const Part &part, uint64_t message);
  Releases releasesOf(const Cell &cell, const Part &part);

  /// The epoch up to which a thread, or its kernel at its start, knows what another one did.
  uint32_t known(const Part &part, uint32_t other) const {
    const Thread &thread = threads[part.thread];
    if (part.access.isNonCoherent)
      return thread.start->epochs[other];
    uint32_t epoch = thread.clock->epochs[other];
    return other / warpThreads == part.thread / warpThreads ? std::max(epoch, thread.near[other % warpThreads]) : epoch;
  }
  bool isBefore(const Message &message, const Part &part) const {
    return (message.writer == part.thread && !part.access.isNonCoherent) ||
           known(part, message.writer) >= message.epoch;
  }
  uint32_t distance(uint32_t a, uint32_t b) const;
  bool isWithin(Scope scope, uint32_t a, uint32_t b) const { return uint32_t(scope) > distance(a, b); }
  /// Two strong accesses, of all the same bytes, that name each other's threads in their scopes.
  bool isMorallyStrong(uint32_t a, Scope scopeA, uint8_t maskA, uint32_t b, Scope scopeB, uint8_t maskB) const {
    return maskA == maskB && isWithin(scopeA, a, b) && isWithin(scopeB, a, b);
  }
  bool isObserved(const Message &message, const Part &part) const {
    return isMorallyStrong(part.thread, part.access.scope, part.mask, message.writer, message.scope, message.mask);
  }
  [[noreturn]] void reportRace(const Part &part, const char *what, uint32_t otherThread, uint32_t otherLine,
                               const char *other) const;
  void join(uint32_t thread, const ClockPointer &other);
  static ClockPointer joined(const ClockPointer &a, const ClockPointer &b);
  void copyNear(uint32_t thread, Clock &clock) const;
  ClockPointer release(uint32_t thread);

  std::vector<Thread> threads;
  std::vector<Region> regions; // by address
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
  struct Cached {
    uint64_t number = UINT64_MAX;
    Page *page = nullptr;
  };
  std::array<Cached, 1024> cache;
  std::vector<Cell *> touched;
  struct ScFence {
    uint32_t thread;
    Scope scope;
    ClockPointer clock;
  };
  std::vector<ScFence> scFences;
  std::vector<Delayed> delayed;
  MemoryStyle style;
  Random random{1};
  uint64_t now = 0, lastMessage = 0;
  uint32_t lastUnit = 0;
};

} // namespace kolo::ptx
