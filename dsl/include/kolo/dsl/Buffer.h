// Buffers, cut into grids of chunks, and slices of them.
#pragma once

#include <kolo/dsl/Codec.h>
#include <kolo/dsl/Rank.h>

#include <initializer_list>
#include <optional>
#include <source_location>

namespace kolo::dsl {

using Location = std::source_location;

/// Stands for every index of a grid dimension.
struct All {};
inline constexpr All all{};

/// What a slice takes of one grid dimension: an index, a range, or all of it. Indices and ranges wrap around.
class Selector {
public:
  Selector(All) {}
  Selector(const Index &index) : start(index), length(Index(1)) {}
  template <std::integral T> Selector(T index) : Selector(Index(index)) {}

private:
  friend Selector range(const Index &start, const Index &length);
  friend struct SliceAccess;
  Selector(const Index &start, const Index &length) : start(start), length(length) {}
  std::optional<Index> start, length; // none: all
};

/// `length` indices from `start` on; at most the whole dimension, perhaps none.
Selector range(const Index &start, const Index &length);

/// Some chunks of a buffer, in row-major order.
class Slice {
public:
  Slice(const class Buffer &whole);

private:
  friend class Buffer;
  friend struct SliceAccess;
  Slice(int buffer, std::vector<Selector> selectors) : buffer(buffer), selectors(std::move(selectors)) {}
  int buffer;
  std::vector<Selector> selectors; // empty: everything
};

/// Memory of every rank. A handle: copying it does not copy memory.
class Buffer {
public:
  /// Cuts the buffer into a grid of chunks and returns it. A buffer has one grid; the same one may be asked for again.
  /// The blocks of a buffer that holds one block per rank come first: `c.output().grid(node, gpu, 4)` in an all-gather.
  Buffer grid(const Index &a, Location location = Location::current()) const { return cut({a}, location); }
  Buffer grid(const Index &a, const Index &b, Location location = Location::current()) const {
    return cut({a, b}, location);
  }
  Buffer grid(const Index &a, const Index &b, const Index &c, Location location = Location::current()) const {
    return cut({a, b, c}, location);
  }
  Buffer grid(const Index &a, const Index &b, const Index &c, const Index &d,
              Location location = Location::current()) const {
    return cut({a, b, c, d}, location);
  }

  /// Stores the elements of scratch memory or slots in this way, and returns the buffer. What moves between buffers of
  /// different codecs is converted on the way; between buffers of equal codecs the bytes move as they are.
  Buffer as(const Codec &codec, Location location = Location::current()) const;

  Slice operator[](const Rank &rank) const; ///< The chunks of that rank's block.
  Slice operator[](const Selector &selector) const { return Slice(number, {selector}); }
  Slice operator[](std::initializer_list<Selector> selectors) const { return Slice(number, selectors); }

private:
  friend class Choreography;
  friend class Slice;
  Buffer(Recording *recording, int number) : recording(recording), number(number) {}
  Buffer cut(std::vector<Index> extents, Location location) const;
  Recording *recording;
  int number;
};

} // namespace kolo::dsl
