// What the machine can do at most, measured like a compared system: the same harness, the same kind of memory. The last
// word of a command is the limit:
//   call     The ranks do nothing: this is the time of the harness itself.
//   signal   Ranks 0 and 1 hand each other a cache line, there and back once for every element.
//   copy     Every rank copies its input to its output, by non-temporal stores.
//   sum      Every rank adds the halves of its input, and stores the sums to half of its output, by non-temporal
//   stores.
#include "ForkRanks.h"
#include "Harness.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <cstdio>
#include <cstring>
#include <string>

using namespace kolo::bench;

namespace {

constexpr int64_t lineElements = 16; // floats in a cache line

struct Line {
  alignas(64) std::atomic<int64_t> value;
};

/// Stores first[i], or first[i] + second[i] where there is a second, to whole lines of the output.
void stream(float *output, const float *first, const float *second, int64_t numElements) {
  for (int64_t at = 0; at + lineElements <= numElements; at += lineElements)
    for (int64_t i = at; i < at + lineElements; i += 4) {
#if defined(__SSE__)
      __m128 value = _mm_load_ps(first + i);
      _mm_stream_ps(output + i, second ? _mm_add_ps(value, _mm_load_ps(second + i)) : value);
#else
      for (int64_t k = i; k < i + 4; ++k)
        output[k] = second ? first[k] + second[k] : first[k];
#endif
    }
#if defined(__SSE__)
  _mm_sfence();
#endif
}

class Limits : public System {
public:
  Limits(const HarnessOptions &harness, int ownRank, Line *sharedLines)
      : options(harness), rank(ownRank), lines(sharedLines) {}

  void *allocate(size_t sizeBytes) override {
    return options.usesWindows ? allocateShared(sizeBytes) : allocatePages(sizeBytes, options.pages);
  }

  void prepare(const Command &command) override {
    name = command.plugin;
    if (name != "call" && name != "signal" && name != "copy" && name != "sum")
      throw Failure("no such limit: " + name);
    if (name == "signal" && options.numRanks < 2)
      throw Failure("a signal needs two ranks");
  }

  void run(const Cell &cell, const float *input, float *output) override {
    int64_t half = cell.count / 2 / lineElements * lineElements;
    if (name == "copy")
      stream(output, input, nullptr, cell.count);
    else if (name == "sum")
      stream(output, input, input + half, half);
    else if (name == "signal" && rank < 2)
      handBackAndForth(cell.count);
  }

  bool hasResult() const override { return false; }

private:
  void handBackAndForth(int64_t times) {
    std::atomic<int64_t> &own = lines[rank].value, &theirs = lines[1 - rank].value;
    for (int64_t i = 0; i < times; ++i) {
      ++sent;
      if (rank == 0)
        own.store(sent, std::memory_order_release);
      while (theirs.load(std::memory_order_acquire) != sent) {
      }
      if (rank == 1)
        own.store(sent, std::memory_order_release);
    }
  }

  HarnessOptions options;
  int rank;
  Line *lines; // of both ranks
  int64_t sent = 0;
  std::string name;
};

} // namespace

int main(int argc, char **argv) {
  try {
    HarnessOptions options = parseOptions(argc, argv);
    auto *lines = static_cast<Line *>(allocateShared(2 * sizeof(Line)));
    lines[0].value = lines[1].value = 0;
    return forkRanks(options, [&](Board &board) {
      Limits limits(options, board.rank(), lines);
      return serve(limits, board, options);
    });
  } catch (const Failure &failure) {
    std::printf("failed %s\n", failure.what());
    return 1;
  }
}
