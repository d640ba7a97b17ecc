// The language: what a choreography's body calls on its argument `c`.
//
// Meaning: every statement runs to completion on all ranks before the next one starts, and reads all its sources before
// it writes any destination. A mistake is reported at the line of the statement that makes it, with all the others,
// once the body has run; no call throws.
#pragma once

#include <kolo/dsl/Buffer.h>
#include <kolo/dsl/Collective.h>

#include <array>
#include <functional>

namespace kolo::dsl {

/// A statement under construction: what is sent, where to, and how it lands.
class Transfer {
public:
  Transfer &to(const Rank &peers);
  Transfer &at(const Slice &destination); ///< Where it lands; without it, at the same place of the same buffer.
  Transfer &reduce();                     ///< Combine, by the call's operation, with what is there.

private:
  friend class Choreography;
  Transfer(Recording *recording, size_t statement) : recording(recording), statement(statement) {}
  Recording *recording;
  size_t statement;
};

class Choreography {
public:
  explicit Choreography(Recording &recording) : recording(&recording) {}

  /// All dimensions of the mesh, slowest first: `auto [node, gpu] = c.dims<2>();`
  template <size_t N> std::array<Dim, N> dims(Location location = Location::current()) const {
    std::array<Dim, N> result;
    checkDimCount(N, location);
    for (size_t i = 0; i < N; ++i)
      result[i] = Dim(int(i));
    return result;
  }
  Dim dim(const std::string &name, Location location = Location::current()) const;

  Rank rank() const;  ///< The rank that executes a statement.
  Rank root() const;  ///< The root of a rooted collective, along the dimensions that the collective runs over.
  Index size() const; ///< Number of ranks that take part in one collective.

  /// A codec that whoever compiles the choreography may choose by this name; `byDefault` if nobody does.
  Codec codec(const std::string &name, const Codec &byDefault, Location location = Location::current());

  Buffer input() const;
  Buffer output() const;
  /// The output, already holding this rank's input. Only where both have the same size; in a broadcast, only the root's
  /// holds anything.
  Buffer inPlace(Location location = Location::current());
  /// Memory for intermediate results that starts undefined at every call. It has the size of `like`, and its grid,
  /// unless it is cut into another one. Its elements are stored as the call gives them, unless `as` says otherwise.
  Buffer scratch(const std::string &name, const Buffer &like, Location location = Location::current());
  /// Scratch memory of its own extent: `count` slots, or a small grid of them, each large enough for any one chunk of
  /// `like`. A statement moves a chunk of `like`, or of a buffer that is cut into as many chunks, into a slot or out of
  /// it. A chunk that leaves a slot goes to where a chunk of its number belongs. Slots are not cut further.
  Buffer slots(const std::string &name, const Buffer &like, const Index &count,
               Location location = Location::current()) {
    return slots(name, like, {count}, location);
  }
  Buffer slots(const std::string &name, const Buffer &like, std::initializer_list<Index> grid,
               Location location = Location::current());

  /// Memory for intermediate results of its own extent: `count` blocks, or a small grid of them. Each is as large as a
  /// block of the caller's buffers: of `count` elements, as the call gives it. Blocks are not cut further.
  Buffer blocks(const std::string &name, const Index &count, Location location = Location::current()) {
    return blocks(name, {count}, location);
  }
  Buffer blocks(const std::string &name, std::initializer_list<Index> grid, Location location = Location::current());

  /// Says which sizes of the mesh the choreography is for: those for which the condition holds. `what` ends the
  /// sentence "it needs ..." of the refusal of others: "a power of two of ranks".
  void require(const Condition &sizes, const std::string &what, Location location = Location::current());

  void copy(const Slice &source, const Slice &destination, Location location = Location::current());
  /// Combines, by the call's operation, into the destination.
  void reduce(const Slice &source, const Slice &destination, Location location = Location::current());
  Transfer send(const Slice &source, Location location = Location::current());

  /// Runs `body` for index 0 to count - 1. The count is the same on every rank. The body is called once, here, to be
  /// recorded.
  void loop(const Index &count, const std::function<void(Index)> &body, Location location = Location::current());
  /// The statements in `body` are executed by the ranks for which the condition holds: a transfer, by its senders.
  void when(const Condition &condition, const std::function<void()> &body);
  /// Cuts every chunk in `k` parts, 1 to 16, and runs `body` for variant 0 to k - 1 side by side. Each variant moves
  /// its own part of every chunk that it names. Statements outside of stripes move all parts. All stripes of one
  /// choreography have the same k, and none is inside another one. Diagnostics that name a chunk give its part as one
  /// more index, the last.
  void stripe(int k, const std::function<void(int)> &body, Location location = Location::current());

private:
  friend class CalledFrom;
  void checkDimCount(size_t count, Location location) const;
  Recording *recording;
};

/// A building block is an ordinary function that several choreographies call. It takes its caller as a defaulted
/// argument and opens this scope:
///
///   void ringAllGather(Choreography &c, const Dim &dim, Location caller = Location::current()) {
///     CalledFrom scope(c, caller);
///     ...
///   }
///
/// A mistake in the block is then reported at its own line, with a note at the line that called the block. Blocks may
/// call blocks: each call gets its note, the innermost first.
class CalledFrom {
public:
  CalledFrom(Choreography &c, Location caller);
  ~CalledFrom();
  CalledFrom(const CalledFrom &) = delete;
  CalledFrom &operator=(const CalledFrom &) = delete;

private:
  Recording *recording;
};

} // namespace kolo::dsl
