// What the proof for all sizes knows at one moment of a run: clocks, chunks, signals on their way and puts, each as a
// function of a place along the dimension that grows. All ranks take the same step at the same time, so the state of
// the ranks at place 0 of that dimension gives that of all others. Includes no MLIR.
#pragma once

#include "compiler/check/sizes/Runs.h"

#include <array>
#include <map>
#include <memory>
#include <tuple>

namespace kolo::sizes {

struct Time {
  Affine time;
  bool isAlways = false; // later than any other
  static Time always() { return {0, true}; }
  template <typename Visitor> static void visit(Time &value, Visitor &visitor) {
    visitor.shape(value.isAlways);
    visitor.number(value.time, Kind::Plain);
  }
};

/// What one rank knows: for each orbit, and each place relative to its own, up to when the steps of that rank are over.
/// It knows the latest time that any view has. News that came from the next places, or from those before, are kept
/// apart from all others: two such functions may cross halfway around the circle, where no place is affine in n.
struct Knowledge {
  enum View : uint8_t { Others, FromNext, FromBefore };
  static constexpr size_t numViews = 3;
  std::array<std::vector<Runs<Time>>, numViews> views; // by orbit
  template <typename Visitor> static void visit(Knowledge &value, Visitor &visitor) {
    for (std::vector<Runs<Time>> &view : value.views)
      for (Runs<Time> &runs : view)
        Visit<Runs<Time>>::visit(runs, visitor);
  }
};

/// An access to a chunk. Ranks are an orbit and a place relative to the owner of the chunk.
struct Epoch {
  int64_t orbit = 0;
  Affine rank;
  Affine time;      // of an access that is over with its step
  int64_t put = -1; // else the number of a family of puts, and which of them
  Affine firstPut, endPut;
  template <typename Visitor> static void visit(Epoch &value, Visitor &visitor) {
    visitor.shape(value.orbit);
    visitor.shape(value.put);
    visitor.number(value.rank, Kind::ModSize);
    visitor.number(value.time, Kind::Plain);
    visitor.number(value.firstPut, Kind::Plain);
    visitor.number(value.endPut, Kind::Plain);
  }
};

/// So many ranks of one orbit from `first` on, along the circle of places.
struct Contribution {
  int64_t orbit = 0;
  Affine first, number;
};

/// The step that combined a value last. Equal origins are equal bits.
struct ValueOrigin {
  int64_t orbit = -1; // of the rank that combined; -1: the value is one rank's input, or origins are not followed
  Affine rank;        // its place
  Affine time;
  int64_t cell = 0; // of the chunk that it combined onto
  template <typename Visitor> static void visit(ValueOrigin &value, Visitor &visitor) {
    visitor.shape(value.orbit);
    visitor.number(value.rank, Kind::ModSize);
    visitor.number(value.time, Kind::Plain);
    visitor.shape(value.cell);
  }
};

/// What a chunk holds: see check/Contents.h. Places are relative to the owner of the chunk that holds it.
struct Content {
  int64_t call = -1; // -1: nothing that anybody asks for
  bool isDivided = false;
  std::vector<int64_t> chunk;              // the input chunk's indices but for that along the dimension that grows
  Affine place;                            // that index, or 0
  std::vector<Contribution> contributions; // by orbit
  ValueOrigin origin;
  template <typename Visitor> static void visit(Content &value, Visitor &visitor, bool isPlaceModSize) {
    visitor.shape(value.call);
    visitor.shape(value.isDivided);
    visitor.shape(int64_t(value.chunk.size()));
    for (int64_t index : value.chunk)
      visitor.shape(index);
    visitor.number(value.place, isPlaceModSize ? Kind::ModSize : Kind::Plain);
    visitor.shape(int64_t(value.contributions.size()));
    for (Contribution &each : value.contributions) {
      visitor.shape(each.orbit);
      visitor.number(each.first, Kind::ModSize);
      visitor.number(each.number, Kind::Plain);
    }
    ValueOrigin::visit(value.origin, visitor);
  }
};

/// Shows a visitor numbers inside of a value whose places are not those of the value: `place` is part of the shape.
template <typename Visitor> struct WithOwnPlaces {
  Visitor &visitor;
  void shape(int64_t number) { visitor.shape(number); }
  void number(Affine &number, Kind) {
    int64_t slope = std::exchange(number.place, 0);
    visitor.shape(slope);
    visitor.number(number, Kind::Fixed);
    number.place = slope;
  }
};

struct Cell {
  bool isPlaceModSize = true; // of what the input is cut into
  Content content;
  std::vector<Epoch> lastWrite; // one, or none yet
  std::vector<Epoch> reads;     // since then
  // Since then, of a buffer with one place: when ranks read it, by their orbit and as a function of their place
  // relative to the owner. Its reads are puts then.
  std::map<int64_t, Runs<Time>> readers;
  template <typename Visitor> static void visit(Cell &value, Visitor &visitor) {
    Content::visit(value.content, visitor, value.isPlaceModSize);
    for (std::vector<Epoch> *epochs : {&value.lastWrite, &value.reads}) {
      visitor.shape(int64_t(epochs->size()));
      for (Epoch &epoch : *epochs)
        Epoch::visit(epoch, visitor);
    }
    WithOwnPlaces<Visitor> inner{visitor};
    for (auto &[orbit, runs] : value.readers) {
      visitor.shape(orbit);
      Visit<Runs<Time>>::visit(runs, inner);
    }
  }
};

/// Puts of one family to one target: which ones.
struct Puts {
  int64_t family = 0;
  Affine first, end;
  template <typename Visitor> static void visit(Puts &value, Visitor &visitor) {
    visitor.shape(value.family);
    visitor.number(value.first, Kind::Plain);
    visitor.number(value.end, Kind::Plain);
  }
};

/// A signal on its way, as a function of the place of its target relative to its sender.
struct Signal {
  Affine time;
  int64_t phase = -1, slice = 0;        // of a pipeline
  std::shared_ptr<Knowledge> knowledge; // of the sender
  std::vector<Puts> puts;               // that are over once it is waited for
  template <typename Visitor> static void visit(Signal &value, Visitor &visitor) {
    visitor.number(value.time, Kind::Plain);
    visitor.shape(value.phase);
    visitor.shape(value.slice);
    auto copy = std::make_shared<Knowledge>(*value.knowledge); // signals share what their sender knew
    WithOwnPlaces<Visitor> inner{visitor};
    Knowledge::visit(*copy, inner);
    value.knowledge = std::move(copy);
    visitor.shape(int64_t(value.puts.size()));
    for (Puts &puts : value.puts)
      Puts::visit(puts, visitor);
  }
};

/// The puts of one op on one orbit, numbered in their order.
struct PutFamily {
  int64_t orbit = 0, targetOrbit = 0;
  Affine target;                                            // place of the target of put k, relative to the sender
  bool areOrderedBySignals = true, areOverWithFlush = true; // on their transport
  Affine number;                                            // that there are
  Runs<Time> flushed, waited; // when those from 0 on were flushed, and waited for by the target
  template <typename Visitor> static void visit(PutFamily &value, Visitor &visitor) {
    visitor.shape(value.orbit);
    visitor.shape(value.targetOrbit);
    visitor.number(value.target, Kind::ModSize);
    visitor.number(value.number, Kind::Plain);
    Visit<Runs<Time>>::visit(value.flushed, visitor);
    Visit<Runs<Time>>::visit(value.waited, visitor);
  }
};

/// What copies of a state share as long as none changes it.
template <typename Value> class Shared {
public:
  Shared() : value(std::make_shared<Value>()) {}
  Shared(Value first) : value(std::make_shared<Value>(std::move(first))) {}
  const Value &operator*() const { return *value; }
  const Value *operator->() const { return value.get(); }
  Value &change() {
    if (value.use_count() > 1)
      value = std::make_shared<Value>(*value);
    return *value;
  }
  bool isSame(const Shared &other) const { return value == other.value; }

private:
  std::shared_ptr<Value> value;
};

struct State {
  Affine now;                                         // the number of steps that all ranks have taken
  std::vector<Shared<Knowledge>> knowledge;           // by orbit
  std::vector<std::vector<Shared<Runs<Cell>>>> cells; // by orbit, then as SizeRun::cellNumber numbers them
  std::map<std::tuple<int64_t, int64_t, int64_t>, Shared<Runs<Signal>>>
      signals;                                                         // by semaphore, sender's and target's orbit
  std::map<std::pair<int64_t, int64_t>, Shared<Runs<Puts>>> uncovered; // puts after which no signal went to the target
  std::vector<Shared<PutFamily>> families;
};

/// Calls `visit` with each part of a state, and the parts in the same place of others. False where the others have no
/// such part.
template <typename Visit, typename... States> bool eachPart(Visit visit, State &state, States &...others) {
  auto eachOf = [&](auto member) {
    auto &first = member(state);
    if (!((member(others).size() == first.size()) && ...))
      return false;
    for (size_t i = 0; i < first.size(); ++i)
      visit(first[i], member(others)[i]...);
    return true;
  };
  auto eachIn = [&](auto member) {
    auto &first = member(state);
    if (!((member(others).size() == first.size()) && ...))
      return false;
    for (auto &[key, part] : first) {
      if (!(member(others).contains(key) && ...))
        return false;
      visit(part, member(others).find(key)->second...);
    }
    return true;
  };
  if (!eachOf([](auto &each) -> auto & { return each.knowledge; }) ||
      !eachOf([](auto &each) -> auto & { return each.families; }) ||
      !eachIn([](auto &each) -> auto & { return each.signals; }) ||
      !eachIn([](auto &each) -> auto & { return each.uncovered; }))
    return false;
  for (size_t orbit = 0; orbit < state.cells.size(); ++orbit)
    if (!eachOf([&](auto &each) -> auto & { return each.cells[orbit]; }))
      return false;
  return true;
}

} // namespace kolo::sizes
