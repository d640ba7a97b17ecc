// Windows and the runtime's own memory.
#include "Ranks.h"
#include "TestPlugin.h"
#include "memory/StoreChoice.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

/// Copies 64 KiB so often, at so many ns per byte; one in 16 copies is preempted. Returns how often non-temporal stores
/// were chosen.
int countNonTemporal(StoreChoice &choice, int numCopies, double ordinaryNs, double nonTemporalNs) {
  constexpr size_t sizeBytes = size_t(64) << 10;
  int number = 0;
  for (int i = 0; i < numCopies; ++i) {
    bool isNonTemporal = choice.nextIsNonTemporal();
    double ns = (isNonTemporal ? nonTemporalNs : ordinaryNs) * sizeBytes + (i % 16 == 5 ? 4e6 : 0);
    choice.took(std::chrono::nanoseconds(static_cast<int64_t>(ns)), sizeBytes);
    number += isNonTemporal;
  }
  return number;
}

/// Whether the kernel makes huge pages of the small ones of shared memory: Linux 6.1 or later, unless told to deny it.
bool canCollapse() {
  constexpr size_t hugeBytes = size_t(2) << 20;
  int fd = memfd_create("kolo-test", MFD_CLOEXEC);
  void *reserved = mmap(nullptr, 2 * hugeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uintptr_t aligned = (reinterpret_cast<uintptr_t>(reserved) + hugeBytes - 1) / hugeBytes * hugeBytes;
  bool can = fd >= 0 && ftruncate(fd, hugeBytes) == 0 && fallocate(fd, 0, 0, hugeBytes) == 0 &&
             mmap(reinterpret_cast<void *>(aligned), hugeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                  0) != MAP_FAILED &&
             madvise(reinterpret_cast<void *>(aligned), hugeBytes, 25 /* MADV_COLLAPSE */) == 0;
  munmap(reserved, 2 * hugeBytes);
  close(fd);
  return can;
}

/// How much of the mapping that begins at the address this process reaches through huge pages.
size_t hugeBytesAt(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begins;
  begins << std::hex << reinterpret_cast<uintptr_t>(address) << '-';
  bool isInside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' '))
      isInside = line.starts_with(begins.str());
    else if (isInside && line.starts_with("ShmemPmdMapped:"))
      return size_t(std::stoul(line.substr(line.find(':') + 1))) << 10;
  }
  return 0;
}

} // namespace

TEST(Window, IsZeroedPageAlignedAndOfTheSizeAskedFor) {
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 2, {},
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

TEST(Window, OfTwoMebibytesOrMoreIsOnHugePagesHereAndAtThePeer) {
  if (!canCollapse())
    GTEST_SKIP() << "this kernel makes no huge pages of shared memory";
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) -> std::string {
                       const size_t bytes = (size_t(8) << 20) + 12345;
                       auto window = communicator.allocate(bytes);
                       if (!window.isOk())
                         return window.status().message();
                       auto remote = communicator.exchange(*window);
                       if (!remote.isOk())
                         return remote.status().message();
                       const RemoteWindow &peers = (*remote)[static_cast<size_t>(1 - communicator.rank())];
                       static_cast<char *>(peers.data())[bytes - 1] = 1;
                       // As many of four as the machine has memory in one piece for.
                       size_t here = hugeBytesAt(window->data()), there = hugeBytesAt(peers.data());
                       constexpr size_t most = size_t(8) << 20;
                       return here > 0 && here <= most && there > 0 && there <= most
                                  ? ""
                                  : std::to_string(here) + " bytes here, " + std::to_string(there) + " at the peer";
                     }),
            "");
}

TEST(Window, TooLargeIsOutOfMemoryWithSizes) {
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 2, {},
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

TEST(Window, OfNoCommunicatorIsAdoptedAndLivesAsLongAsEitherWindow) {
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(runRanks(kind, 2, {15000, 1},
                       [](Communicator &communicator) -> std::string {
                         auto made = Window::create(8192);
                         if (!made.isOk())
                           return made.status().message();
                         auto adopted = communicator.adopt(*made), again = communicator.adopt(*made);
                         if (!adopted.isOk() || !again.isOk())
                           return adopted.status().message() + again.status().message();
                         if (adopted->data() != made->data() || adopted->sizeBytes() != 8192)
                           return "other memory";
                         static_cast<int *>(made->data())[3] = 100 + communicator.rank();
                         {
                           Window ended = std::move(*made);
                         }
                         auto remote = communicator.exchange(*adopted);
                         if (!remote.isOk())
                           return remote.status().message();
                         int peer = 1 - communicator.rank();
                         int found = static_cast<const int *>((*remote)[static_cast<size_t>(peer)].data())[3];
                         return communicator.barrier().message() + (found == 100 + peer ? "" : "wrong value");
                       }),
              "");
}

/// Of this process, shared memory included.
static size_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Window, ThatIsReservedTakesMemoryOnlyWhereItIsUsed) {
  EXPECT_EQ(runRanks(Launch::Forked, 2, {15000, 1},
                     [](Communicator &communicator) -> std::string {
                       const size_t size = size_t(1) << 30, place = size / 2, before = residentBytes();
                       auto made = Window::reserve(size);
                       if (!made.isOk())
                         return made.status().message();
                       auto adopted = communicator.adopt(*made);
                       if (!adopted.isOk())
                         return adopted.status().message();
                       static_cast<char *>(made->data())[place] = static_cast<char>(7 + communicator.rank());
                       auto remote = communicator.exchange(*adopted);
                       if (!remote.isOk())
                         return remote.status().message();
                       int peer = 1 - communicator.rank();
                       auto *mapped = static_cast<const char *>((*remote)[static_cast<size_t>(peer)].data());
                       if (mapped[place] != 7 + peer || mapped[0] != 0)
                         return "wrong value";
                       if (residentBytes() > before + (size_t(16) << 20))
                         return "memory that nobody has used is there";
                       return communicator.barrier().message();
                     }),
            "");
  EXPECT_EQ(expectStatus(Window::reserve(0).status(), StatusCode::InvalidArgument), "");
}

TEST(Window, BeyondTheLimitOfFileSizesIsAnErrorAndNoSignal) {
  EXPECT_EQ(runRanks(Launch::Forked, 1, {15000, 1},
                     [](Communicator &communicator) -> std::string {
                       rlimit limit = {1 << 20, 1 << 20};
                       if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
                         return "setrlimit failed";
                       for (const auto &window : {communicator.allocate(2 << 20).status(),
                                                  Window::create(2 << 20).status(), Window::reserve(2 << 20).status()})
                         if (std::string wrong = expectStatus(window, StatusCode::OutOfMemory); !wrong.empty())
                           return wrong;
                       return communicator.allocate(1 << 19).status().message();
                     }),
            "");
}

TEST(Window, OfNoCommunicatorHasTheErrorsOfAllocate) {
  EXPECT_EQ(expectStatus(Window::create(0).status(), StatusCode::InvalidArgument), "");
  EXPECT_EQ(expectStatus(Window::create(size_t(1) << 46).status(), StatusCode::OutOfMemory), "");
}

TEST(Memory, ScratchThatGrowsIsReplacedEverywhere) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) -> std::string {
                       int most = 0;
                       for (int64_t count = 1; count < int64_t(1) << 20; count *= 2) {
                         std::vector<uint8_t> in(static_cast<size_t>(count),
                                                 static_cast<uint8_t>(communicator.rank() + 3));
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
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
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

TEST(StoreChoice, FollowsTheMachineFromOneStateToTheOtherAndBack) {
  StoreChoice choice(StoreChoice::ratioOfCopies);
  EXPECT_LE(countNonTemporal(choice, 1000, 0.04, 0.07), 16) << "only trials: peers would read from memory";
  EXPECT_GE(countNonTemporal(choice, 1000, 0.42, 0.04), 1000 - 16 - 4) << "a far core has read the lines";
  EXPECT_LE(countNonTemporal(choice, 1000, 0.04, 0.07), 64 + 16) << "at the next trial";
}

TEST(StoreChoice, PrefersOrdinaryStoresForCopiesUnlessTheyTakeTwiceAsLong) {
  StoreChoice choice(StoreChoice::ratioOfCopies);
  EXPECT_LE(countNonTemporal(choice, 1000, 0.12, 0.07), 16);
  StoreChoice ofRuns(StoreChoice::ratioOfRuns);
  EXPECT_GE(countNonTemporal(ofRuns, 1000, 0.12, 0.07), 1000 - 16 - 8) << "a run has the readers' part in it";
}
