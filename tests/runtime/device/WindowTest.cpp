// Windows: memory that all ranks register. Peers access it directly; other buffers go through internal memory.
#include "device/Member.h"

#include <chrono>
#include <thread>

using namespace kolo::test;

namespace {

/// A rank with one window. `offset` is where the output begins in it; the input follows, or lies in it where the
/// collective is in place.
struct WindowMember {
  WindowMember(Communicator &host, const Job &job, size_t sizeBytes = size_t(1) << 20) : member(host, job) {
    memory.emplace(std::move(*member.communicator.allocate(number(), sizeBytes)));
    void *base = memory->data();
    registered = member.communicator.registerWindow({&base, 1}, sizeBytes);
  }
  int number() const { return member.communicator.ranks().front(); }
  Status deregister() {
    void *base = memory->data();
    return member.communicator.deregisterWindow({&base, 1});
  }
  Status start(size_t outputOffset, size_t inputOffset) {
    CallArguments arguments = member.job.arguments();
    arguments.output = static_cast<std::byte *>(memory->data()) + outputOffset;
    arguments.input = static_cast<std::byte *>(memory->data()) + inputOffset;
    return member.communicator.run(member.plugin, arguments, member.stream.handle());
  }
  /// The same data as a Rank's.
  void fill(size_t inputOffset, int turn) {
    std::vector<int32_t> own;
    for (int64_t index = 0; index < member.job.count; ++index)
      own.push_back(elementOf(number(), index, turn));
    EXPECT_EQ(memory->write(inputOffset, own.data(), own.size() * 4).message(), "");
  }
  std::string check(size_t outputOffset, int turn) const {
    const Job &job = member.job;
    std::vector<int32_t> found(static_cast<size_t>(job.outputElements()));
    EXPECT_EQ(memory->read(outputOffset, found.data(), found.size() * 4).message(), "");
    for (int64_t index = 0; index < job.outputElements(); ++index) {
      int32_t wanted = 0;
      for (int rank = 0; rank < numRanks; ++rank)
        wanted += job.isGather() ? (rank == index / job.count ? elementOf(rank, index % job.count, turn) : 0)
                                 : elementOf(rank, index, turn);
      if (found[static_cast<size_t>(index)] != wanted)
        return "element " + std::to_string(index) + " is " + std::to_string(found[static_cast<size_t>(index)]) + "; ";
    }
    return "";
  }
  std::string run(size_t outputOffset, size_t inputOffset) {
    std::string wrong;
    for (int turn = 0; turn < 3; ++turn) {
      fill(inputOffset, turn);
      Status status = start(outputOffset, inputOffset);
      if (status.isOk())
        status = member.communicator.synchronize();
      wrong += status.message() + (status.isOk() ? check(outputOffset, turn) : "");
    }
    return wrong;
  }

  std::optional<DeviceBuffer> memory; // outlives the communicator: peers access it until that is gone
  Member member;
  Status registered;
};

constexpr size_t inputPlace = size_t(512) << 10;

} // namespace

class Windows : public testing::TestWithParam<Launch> {};

TEST_P(Windows, AreUsedWhereTheyAreInOneLaunchWithoutCopies) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    std::string wrong;
                    bool isAlone = GetParam() != Launch::Threads; // the stand-in counts for the whole process
                    WindowMember own(host, jobOf("ringAllGather"));
                    wrong += own.registered.message();
                    for (const char *program : {"ringAllGather", "pullAllReduce", "scratchAllReduce"}) {
                      own.member.job = jobOf(program);
                      wrong += own.run(256, inputPlace);
                      int64_t launches = numLaunches(), copies = numCopies(), alive = liveHandles();
                      wrong += own.start(256, inputPlace).message();
                      if (isAlone && (numLaunches() != launches + 1 || numCopies() != copies || liveHandles() != alive))
                        wrong += "not one launch; ";
                      wrong += own.member.communicator.synchronize().message();
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(Windows, ServeCallsInPlace) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    WindowMember own(host, jobOf("ringAllGather"));
                    std::string wrong = own.registered.message();
                    wrong += own.run(512, 512 + size_t(own.number()) * 1000 * 4);
                    for (const char *program : {"pullAllReduce", "scratchAllReduce"}) {
                      own.member.job = jobOf(program);
                      wrong += own.run(1024, 1024);
                    }
                    return wrong;
                  }),
            "");
}

TEST_P(Windows, OfDifferentSizesAreNamedOnAllRanksAndAbortNothing) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    size_t sizeBytes = host.rank() == 2 ? 8192 : 4096;
                    WindowMember own(host, jobOf("ringAllGather"), sizeBytes);
                    return expectStatus(own.registered, StatusCode::Mismatch,
                                        {"ranks disagree on the size of a window: rank 0 registers 4096 bytes, rank 2 "
                                         "registers 8192"}) +
                           own.member.run(2);
                  }),
            "");
}

TEST_P(Windows, ThatOneRankCannotRegisterAreRefusedOnAll) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather"));
                    int rank = member.communicator.ranks().front();
                    DeviceBuffer memory = std::move(*member.communicator.allocate(rank, 4096));
                    void *base = rank == 1 ? &rank : memory.data();
                    return expectStatus(member.communicator.registerWindow({&base, 1}, 4096),
                                        StatusCode::InvalidArgument, {"window", "is not memory of device"}) +
                           member.run(1);
                  }),
            "");
}

TEST_P(Windows, AnotherOffsetOnOneRankIsNamed) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    WindowMember own(host, jobOf("ringAllGather"));
                    Status status = own.start(own.number() == 1 ? 512 : 256, inputPlace);
                    if (status.isOk())
                      status = own.member.communicator.synchronize();
                    return own.registered.message() +
                           expectStatus(status, StatusCode::Mismatch,
                                        {"ranks disagree on where the output is", "rank 1", "offset 512 of window 1"});
                  }),
            "");
}

TEST_P(Windows, ABufferOutsideOnOneRankIsNamed) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    WindowMember own(host, jobOf("pullAllReduce"));
                    Status status = own.number() == 1 ? own.member.start() : own.start(256, inputPlace);
                    if (status.isOk())
                      status = own.member.communicator.synchronize();
                    return own.registered.message() +
                           expectStatus(status, StatusCode::Mismatch,
                                        {"ranks disagree on where the input is", "memory in no window"});
                  }),
            "");
}

TEST_P(Windows, EndOnAllRanksAndAreOrdinaryMemoryThen) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    WindowMember own(host, jobOf("ringAllGather"));
                    std::string wrong = own.registered.message() + own.run(256, inputPlace);
                    wrong += own.deregister().message() + own.run(256, inputPlace);
                    wrong += expectStatus(own.deregister(), StatusCode::InvalidArgument, {"no window begins at"});
                    void *base = own.memory->data(), *inside = static_cast<std::byte *>(base) + 4096;
                    wrong += own.member.communicator.registerWindow({&base, 1}, 8192).message();
                    wrong += expectStatus(own.member.communicator.registerWindow({&inside, 1}, 8192),
                                          StatusCode::InvalidArgument, {"overlaps another window"});
                    return wrong;
                  }),
            "");
}

TEST_P(Windows, AreNumberedAlikeOnAllRanks) {
  EXPECT_EQ(inAll(GetParam(),
                  [&](Communicator &host) -> std::string {
                    WindowMember own(host, jobOf("ringAllGather"), 8192);
                    const DeviceCommunicator &communicator = own.member.communicator;
                    auto *base = static_cast<std::byte *>(own.memory->data());
                    std::string wrong = own.registered.message();
                    for (size_t offset : {size_t(0), size_t(8000)})
                      if (auto number = communicator.windowOf(base + offset, 192); !number.isOk() || *number != 1)
                        wrong += "memory in the window is not found there; ";
                    Result<DeviceBuffer> other = own.member.communicator.allocate(own.number(), 4096);
                    if (auto number = communicator.windowOf(other->data(), 4096); !number.isOk() || *number != 0)
                      wrong += "other memory is found in a window; ";
                    if (auto none = communicator.windowOf(nullptr, 0); !none.isOk() || *none != 0)
                      wrong += "no memory is found in a window; ";
                    wrong += expectStatus(communicator.windowOf(base + 8000, 193).status(), StatusCode::InvalidArgument,
                                          {"only 192 are left in its window"});
                    wrong += expectStatus(communicator.windowOf(other->data(), size_t(8) << 20).status(),
                                          StatusCode::InvalidArgument, {"are left in its memory"});
                    return wrong;
                  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Windows, testing::Values(Launch::Threads, Launch::Forked),
                         testing::PrintToStringParamName());

TEST(LocalWindows, AreRegisteredForAllRanksAtOnce) {
  LocalRanks local({0, 1}, {"pullAllReduce", 100});
  std::vector<void *> memory;
  std::vector<DeviceBuffer> buffers;
  for (int rank : {0, 1}) {
    buffers.push_back(std::move(*local.communicator->allocate(rank, 4096)));
    memory.push_back(buffers.back().data());
  }
  EXPECT_EQ(local.communicator->registerWindow(memory, 4096).message(), "");
  EXPECT_EQ(expectStatus(local.communicator->registerWindow({memory.data(), 1}, 4096), StatusCode::InvalidArgument,
                         {"2 ranks are here, and the window has memory of 1"}),
            "");
  EXPECT_EQ(expectStatus(local.communicator->windowOf(memory[0], 4096).status(), StatusCode::InvalidArgument,
                         {"all 2 ranks are here"}),
            "");
  EXPECT_EQ(local.run(2), "");
  EXPECT_EQ(local.communicator->deregisterWindow(memory).message(), "");
}
