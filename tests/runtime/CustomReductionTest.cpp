// Reductions of the caller's own: of elements that Kolo has no type for.
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

/// A value and where it was found. Of equal values the lower place wins.
struct Found {
  int64_t value, place;
  bool operator==(const Found &) const = default;
};

void takeLargest(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t numElements,
                 int64_t /*nonTemporal*/) {
  for (int64_t i = 0; i < numElements; ++i) {
    Found largest = static_cast<const Found *>(srcs[0])[i];
    for (int64_t source = 1; source < numSrcs; ++source) {
      const Found &other = static_cast<const Found *>(srcs[source])[i];
      if (other.value > largest.value || (other.value == largest.value && other.place < largest.place))
        largest = other;
    }
    for (int64_t destination = 0; destination < numDsts; ++destination)
      static_cast<Found *>(dsts[destination])[i] = largest;
  }
}

constexpr CustomReduction largest = {&takeLargest, sizeof(Found), 5};

Found inputOf(int rank, int64_t i) { return {(rank * 7 + i * 3) % 5, (rank + i) % 4}; }

CallArguments callOn(const Communicator &communicator, const char *program, int64_t count) {
  CallArguments arguments{program, *Mesh::parse("rank=" + std::to_string(communicator.size())), count};
  arguments.custom = largest;
  return arguments;
}

/// One call of an all-reduce; says what went wrong.
std::string reduceOnce(Communicator &communicator, const char *program, int64_t count) {
  std::vector<Found> in(static_cast<size_t>(count)), out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    in[static_cast<size_t>(i)] = inputOf(communicator.rank(), i);
  CallArguments arguments = callOn(communicator, program, count);
  arguments.input = in.data();
  arguments.output = out.data();
  if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
    return status.message();
  for (int64_t i = 0; i < count; ++i) {
    Found expected = inputOf(0, i), *to = &expected;
    for (int rank = 1; rank < communicator.size(); ++rank) {
      const Found other = inputOf(rank, i);
      const void *sources[] = {to, &other};
      void *destinations[] = {to};
      takeLargest(destinations, 1, sources, 2, 1, 0);
    }
    if (!(out[static_cast<size_t>(i)] == expected))
      return std::string(program) + " of " + std::to_string(count) + ": element " + std::to_string(i) + " is wrong; ";
  }
  return {};
}

/// On two ranks, the first of which makes a change.
void expectRefusal(const std::function<void(CallArguments &)> &change, StatusCode code,
                   const std::vector<std::string> &texts) {
  (void)testPlugin();
  for (Launch launch : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(launch, 2, {},
                       [&](Communicator &communicator) {
                         std::vector<Found> in(8), out(16);
                         CallArguments arguments = callOn(communicator, "scratchAllReduce", 8);
                         arguments.input = in.data();
                         arguments.output = out.data();
                         if (communicator.rank() == 0)
                           change(arguments);
                         return expectStatus(communicator.run(testPlugin(), arguments), code, texts) +
                                reduceOnce(communicator, "scratchAllReduce", 8);
                       }),
              "");
}

} // namespace

TEST(CustomReductions, CombineElementsOfTheCallersOwn) {
  (void)testPlugin();
  for (const char *memory : {"auto", "staged"}) {
    ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
    for (Launch launch : {Launch::Threads, Launch::Forked, Launch::Environment})
      for (int lanes : {1, 3})
        EXPECT_EQ(runRanks(launch, 2, {5000, lanes},
                           [](Communicator &communicator) {
                             std::string said;
                             for (int64_t count : {0, 1, 100, 30001}) // the last one is staged in pieces
                               for (int again = 0; again < 2; ++again)
                                 for (const char *program : {"scratchAllReduce", "pullAllReduce"})
                                   said += reduceOnce(communicator, program, count);
                             return said;
                           }),
                  "");
  }
}

TEST(CustomReductions, CombineOverSeveralHosts) {
  (void)testPlugin();
  EXPECT_EQ(onHosts(3, alone, {},
                    [](Communicator &communicator) {
                      return reduceOnce(communicator, "scratchAllReduce", 1) +
                             reduceOnce(communicator, "scratchAllReduce", 5001);
                    }),
            "");
}

TEST(CustomReductions, StandForTypeAndReduction) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       std::string said;
                       for (int call = 0; call < 6; ++call) {
                         const std::vector<Found> in(8, inputOf(0, call));
                         std::vector<Found> out(8);
                         CallArguments arguments = callOn(communicator, "scratchAllReduce", 8);
                         arguments.type = DataType((call + communicator.rank()) % KOLO_NUM_TYPES);
                         arguments.reduction = Reduction((call + communicator.rank()) % KOLO_NUM_REDUCTIONS);
                         arguments.input = in.data();
                         arguments.output = out.data();
                         said += expectStatus(communicator.run(testPlugin(), arguments), StatusCode::Ok);
                         said += out == in ? "" : "wrong; ";
                       }
                       return said;
                     }),
            "");
}

TEST(CustomReductions, RanksThatMeanOthersAreTold) {
  expectRefusal(
      [](CallArguments &arguments) { arguments.custom.number = 7; }, StatusCode::Mismatch,
      {"ranks disagree on reduction: rank 0 called with the caller's own, number 7, rank 1 with the caller's own, "
       "number 5"});
  expectRefusal(
      [](CallArguments &arguments) { arguments.custom.elementBytes = 8; }, StatusCode::Mismatch,
      {"ranks disagree on type: rank 0 called with the caller's own, of 8 bytes, rank 1 with the caller's own, of "
       "16 bytes"});
  expectRefusal([](CallArguments &arguments) { arguments.custom = {}; }, StatusCode::Mismatch,
                {"ranks disagree on type: rank 0 called with f32, rank 1 with the caller's own, of 16 bytes"});
}

TEST(CustomReductions, WhatIsWrongWithThemIsSaid) {
  for (int64_t elementBytes : {int64_t(-1), int64_t(0), int64_t(12), int64_t(32), INT64_MAX})
    expectRefusal([&](CallArguments &arguments) { arguments.custom.elementBytes = elementBytes; },
                  StatusCode::InvalidArgument,
                  {"is of elements of 1, 2, 4, 8 or 16 bytes, not of " + std::to_string(elementBytes)});
  for (int32_t number : {-1, INT32_MAX})
    expectRefusal([&](CallArguments &arguments) { arguments.custom.number = number; }, StatusCode::InvalidArgument,
                  {"has the number " + std::to_string(number)});
  expectRefusal([](CallArguments &arguments) { arguments.program = "ringAllGather"; }, StatusCode::InvalidArgument,
                {"program 'ringAllGather' reduces nothing, and is called with a reduction of the caller's own"});
}
