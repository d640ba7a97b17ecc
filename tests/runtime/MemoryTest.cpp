// Windows and the runtime's own memory.
#include "World.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

const Plugin &testPlugin() {
  static const auto plugin = Plugin::load(KOLO_TEST_PLUGIN);
  return *plugin;
}

} // namespace

TEST(Window, IsZeroedPageAlignedAndOfTheSizeAskedFor) {
  for (WorldKind kind : {WorldKind::Threads, WorldKind::Forked})
    EXPECT_EQ(runWorld(kind, 2, {},
                       [](Communicator &communicator) -> std::string {
                         for (size_t bytes : {size_t(1), size_t(4097), size_t(5) << 20}) {
                           auto window = communicator.allocate(bytes);
                           if (!window.isOk() || window->sizeBytes() != bytes)
                             return "not allocated";
                           auto *data = static_cast<unsigned char *>(window->data());
                           if (reinterpret_cast<uintptr_t>(data) % 4096 != 0)
                             return "not aligned";
                           if (std::any_of(data, data + bytes, [](unsigned char byte) { return byte != 0; }))
                             return "not zeroed";
                         }
                         return expectStatus(communicator.allocate(0).status(), StatusCode::InvalidArgument);
                       }),
              "");
}

TEST(Window, TooLargeIsOutOfMemoryWithSizes) {
  for (WorldKind kind : {WorldKind::Threads, WorldKind::Forked})
    EXPECT_EQ(runWorld(kind, 2, {},
                       [](Communicator &communicator) {
                         std::string wrong;
                         for (size_t bytes : {size_t(1) << 42, size_t(1) << 62, SIZE_MAX, SIZE_MAX - 5000})
                           wrong += expectStatus(communicator.allocate(bytes).status(), StatusCode::OutOfMemory,
                                                 {std::to_string(bytes), "are available"});
                         return wrong + expectStatus(communicator.barrier(), StatusCode::Ok);
                       }),
              "");
}

TEST(Window, MayOutliveItsCommunicator) {
  std::vector<Window> kept;
  {
    auto communicators = Communicator::createThreads(1);
    kept.push_back(std::move((*communicators)[0].allocate(100)).value());
  }
  static_cast<char *>(kept[0].data())[99] = 1;
}

TEST(Memory, ScratchThatGrowsIsReplacedEverywhere) {
  (void)testPlugin();
  EXPECT_EQ(runWorld(WorldKind::Forked, 2, {},
                     [](Communicator &communicator) -> std::string {
                       int most = 0;
                       for (int64_t count = 1; count < int64_t(1) << 20; count *= 2) {
                         std::vector<uint8_t> in(static_cast<size_t>(count), static_cast<uint8_t>(communicator.rank() + 3));
                         std::vector<uint8_t> out(in.size());
                         CallArguments arguments{"scratchAllReduce", *Mesh::parse("rank=2"), count, DataType::U8};
                         arguments.input = in.data();
                         arguments.output = out.data();
                         if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
                           return status.message();
                         if (std::count(out.begin(), out.end(), 7) != count)
                           return "wrong at " + std::to_string(count);
                         most = std::max(most, countMappings());
                       }
                       // control, semaphores and scratch of both; the peer's former scratch for one call longer
                       return most <= 6 ? "" : std::to_string(most) + " mappings";
                     }),
            "");
}

TEST(Memory, AWindowThatIsDestroyedIsUnmappedByThePeers) {
  (void)testPlugin();
  EXPECT_EQ(runWorld(WorldKind::Forked, 2, {},
                     [](Communicator &communicator) -> std::string {
                       int before = countMappings();
                       for (int round = 0; round < 20; ++round) {
                         auto window = communicator.allocate(8192);
                         auto remote = communicator.exchange(*window);
                         if (!remote.isOk())
                           return remote.status().message();
                       }
                       if (Status status = communicator.barrier(); !status.isOk())
                         return status.message();
                       return countMappings() == before ? "" : std::to_string(countMappings() - before) + " too many";
                     }),
            "");
}
