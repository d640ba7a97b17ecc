// Kernels place buffers where the host's code places them, in memory whose size the host's code gives. Both targets run
// a program with an odd mix of buffers, and must leave the same bytes at the same offsets.
#include "../compiler/Support.h"
#include "Emulator.h"

#include "compiler/lower/PacketFormat.h"
#include "kolo/runtime/PluginAbi.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/package/Package.h"

#include "mlir/Parser/Parser.h"

#include <dlfcn.h>

using namespace kolo;
using namespace kolo::test;

namespace {

/// Fills every buffer of its own. FORMAT is nothing, or ll128.
constexpr const char *text = R"(
kolo.chan.program @mix #kolo.collective<all_reduce over 0> mesh ["rank"] meshes [[3]] semaphores 0 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %n = kolo.dim_size 0
  %me = kolo.chan.coord 0
  %lane = kolo.chan.lane
  %lanes = kolo.chan.num_lanes
  %fifths = kolo.buffer input "fifths" grid(%c5) blocks 0 : !kolo.buffer<1>
  %chunks = kolo.buffer input "chunks" grid(%n) blocks 0 : !kolo.buffer<1>
  %inputs = kolo.buffer input "inputs" grid(%c5, %n) blocks 1 : !kolo.buffer<2>
  %odd = kolo.buffer scratch "odd" grid(%c5) blocks 0 : !kolo.buffer<1>
  %first = kolo.buffer packets "first" grid(%n) blocks 0 FORMAT : !kolo.buffer<1>
  %slots = kolo.buffer scratch "slots" grid(%c2, %n) blocks 2 cut %n : !kolo.buffer<2>
  %blocks = kolo.buffer scratch "blocks" grid(%c3, %n) blocks 1 : !kolo.buffer<2>
  %second = kolo.buffer packets "second" grid(%c2, %n) blocks 1 FORMAT : !kolo.buffer<2>
  %last = kolo.buffer scratch "last" grid(%n) blocks 0 : !kolo.buffer<1>
  kolo.chan.copy %fifths[%c0] size [%c5] -> %odd[%c0] size [%c5] part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.put %chunks[%c0] size [%n] -> %first[%c0] size [%n] to %me part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.chan.copy %inputs[%c1, %c0] size [%c2, %n] -> %slots[%c0, %c0] size [%c2, %n] part %lane of %lanes
    : !kolo.buffer<2> -> !kolo.buffer<2>
  kolo.chan.copy %inputs[%c2, %c0] size [%c3, %n] -> %blocks[%c0, %c0] size [%c3, %n] part %lane of %lanes
    : !kolo.buffer<2> -> !kolo.buffer<2>
  kolo.chan.put %inputs[%c3, %c0] size [%c2, %n] -> %second[%c0, %c0] size [%c2, %n] to %me part %lane of %lanes
    : !kolo.buffer<2> -> !kolo.buffer<2>
  kolo.chan.copy %chunks[%c0] size [%n] -> %last[%c0] size [%n] part %lane of %lanes
    : !kolo.buffer<1> -> !kolo.buffer<1>
}
)";
constexpr int64_t numInputs = 5;
constexpr int64_t sequence = 2; // of the second call: its packets are in the second turn of a kernel's memory

struct CallShape {
  int64_t ranks, count, elementBytes, lanes;
};

constexpr auto untouched = std::byte(0xee);

/// Memory aligned to cache lines and packets, with room behind that nobody may touch.
class Memory {
public:
  explicit Memory(int64_t sizeBytes) : size(size_t(sizeBytes)), lines(size / sizeof(Line) + 3) {
    std::fill_n(data(), lines.size() * sizeof(Line), untouched);
  }
  std::byte *data() { return lines.front().bytes; }
  std::vector<std::byte> bytes() const { return {begin(), begin() + size}; }
  /// Behind the last byte that was written.
  size_t end() const {
    const std::byte *last = begin() + lines.size() * sizeof(Line);
    while (last != begin() && last[-1] == untouched)
      --last;
    return size_t(last - begin());
  }

private:
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  const std::byte *begin() const { return lines.front().bytes; }
  size_t size;
  std::vector<Line> lines;
};

/// Of rank 1; the caller's input and the program's own memory.
struct RankMemory {
  RankMemory(const CallShape &shape, int64_t scratchBytes, int64_t packetBytes)
      : input(numInputs * shape.count * shape.elementBytes), scratch(scratchBytes), packets(packetBytes) {
    for (int64_t i = 0; i < numInputs * shape.count * shape.elementBytes; ++i)
      input.data()[i] = std::byte(i * i % 211 + i % 17); // at most 226: not 0xee
  }
  Memory input, scratch, packets;
};
constexpr int64_t thisRank = 1;

/// Of both kinds: what is the same in them.
template <typename Invocation> Invocation describe(const CallShape &shape, RankMemory &memory) {
  Invocation invocation = {};
  std::ranges::fill(invocation.dimSizes, 1);
  invocation.dimSizes[0] = shape.ranks;
  invocation.coordinates[0] = thisRank;
  invocation.count = shape.count, invocation.elementBytes = shape.elementBytes;
  invocation.local[KOLO_INPUT] = memory.input.data();
  invocation.local[KOLO_SCRATCH] = memory.scratch.data();
  invocation.local[KOLO_PACKETS] = memory.packets.data();
  return invocation;
}

class BothTargets {
public:
  explicit BothTargets(bool isLl128) : context(makeContext()) {
    cpu::loadCpuTarget(*context);
    std::string program = text;
    for (size_t at; (at = program.find("FORMAT")) != std::string::npos;)
      program.replace(at, 6, isLl128 ? "ll128" : "");
    auto module = mlir::parseSourceString<mlir::ModuleOp>(program, mlir::ParserConfig(context.get()));
    if (!module)
      llvm::report_fatal_error("no program");
    emulator = std::make_unique<Emulator>(*module, DeviceOptions(), /*groupSize=*/2, gpu::mostListEntries);
    TemporaryFolder folder;
    llvm::cantFail(package::packPlugin(*module, {{}, folder.file("plugin.so")}));
    library = dlopen(folder.file("plugin.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    host = reinterpret_cast<KoloPluginEntry>(dlsym(library, KOLO_PLUGIN_SYMBOL))()->programs;
  }
  ~BothTargets() { dlclose(library); }

  int64_t scratchBytes(const CallShape &shape) { return host->scratchBytes(asAbi(shape)); }
  int64_t packetBytes(const CallShape &shape) { return host->packetBytes(asAbi(shape)); }

  void runOnHost(const CallShape &shape, RankMemory &memory) {
    std::vector<void *> peers(size_t(shape.ranks), nullptr);
    peers[thisRank] = memory.packets.data();
    auto invocation = describe<KoloInvocation>(shape, memory);
    invocation.blockElements[KOLO_INPUT] = invocation.blockElements[KOLO_OUTPUT] = shape.count;
    invocation.peers[KOLO_PACKETS] = peers.data();
    invocation.numLanes = shape.lanes, invocation.sequence = sequence;
    for (invocation.lane = 0; invocation.lane < shape.lanes; ++invocation.lane)
      EXPECT_EQ(host->run(&invocation), 0);
  }

  void runKernel(const CallShape &shape, RankMemory &memory) {
    std::vector<void *> peers(size_t(shape.ranks), nullptr);
    peers[thisRank] = memory.packets.data();
    std::vector<uint64_t> calls(size_t(shape.lanes), sequence - 1);
    auto invocation = describe<KoloDeviceInvocation>(shape, memory);
    invocation.rank = thisRank, invocation.numRanks = shape.ranks;
    invocation.peers[KOLO_PACKETS] = peers.data();
    invocation.packetCalls = calls.data(), invocation.packetBytes = packetBytes(shape);
    invocation.timeoutNs = uint64_t(1) << 60;
    std::ranges::transform(invocation.dimSizes, invocation.dimReciprocals, kolo_reciprocal);
    invocation.laneReciprocal = kolo_reciprocal(shape.lanes);
    emulator->launch("mix", {shape.lanes, gpu::threadsPerLine}, invocation);
  }

private:
  const KoloShape *asAbi(const CallShape &shape) {
    abiShape = {{shape.ranks, 1, 1, 1}, shape.count, shape.elementBytes, shape.lanes};
    return &abiShape;
  }

  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<Emulator> emulator;
  void *library;
  const KoloProgram *host;
  KoloShape abiShape = {};
};

/// Both have the same packets, with the same data first. Bytes of a packet behind its data may be anything.
std::string findDifference(const std::vector<std::byte> &onHost, const std::vector<std::byte> &onDevice,
                           const PacketFormat &format) {
  for (size_t at = 0; at < onHost.size(); at += size_t(format.bytes)) {
    size_t last = at + size_t(format.bytes) - 1; // of the sequence number
    bool isOnHost = onHost[last] != untouched, isOnDevice = onDevice[last] != untouched;
    bool isSame = onHost[at] == onDevice[at] || onHost[at] == untouched || onDevice[at] == untouched;
    if (isOnHost != isOnDevice || !isSame)
      return "the packet at byte " + std::to_string(at);
  }
  return "";
}

} // namespace

class Layout : public testing::TestWithParam<bool> {};

TEST_P(Layout, HostAndDevicesPlaceEveryBufferAlikeInMemoryOfTheSameSize) {
  const PacketFormat &format = GetParam() ? ll128Packets : llPackets;
  BothTargets targets(GetParam());
  for (int64_t ranks : {2, 3})
    for (int64_t count : {1, 7, 17, 333, 1000})
      for (int64_t elementBytes : {1, 2, 8})
        for (int64_t lanes : {1, 3}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements of " << elementBytes
                                          << " bytes, " << lanes << " lanes");
          CallShape shape{ranks, count, elementBytes, lanes};
          int64_t scratchBytes = targets.scratchBytes(shape), packetBytes = targets.packetBytes(shape);
          RankMemory onHost(shape, scratchBytes, packetBytes), onDevice(shape, scratchBytes, 2 * packetBytes);
          targets.runOnHost(shape, onHost);
          targets.runKernel(shape, onDevice);

          EXPECT_EQ(onHost.scratch.bytes(), onDevice.scratch.bytes());
          // The last buffer is full: the next one would begin at the next multiple of 64.
          EXPECT_EQ(int64_t(onHost.scratch.end() + 63) / 64 * 64, scratchBytes);
          EXPECT_EQ(onDevice.scratch.end(), onHost.scratch.end());

          // The kernel leaves the other turn alone.
          std::vector<std::byte> turns = onDevice.packets.bytes();
          std::vector<std::byte> firstTurn(turns.begin(), turns.begin() + packetBytes);
          std::vector<std::byte> secondTurn(turns.begin() + packetBytes, turns.end());
          EXPECT_EQ(firstTurn, std::vector<std::byte>(size_t(packetBytes), untouched));
          EXPECT_EQ(findDifference(onHost.packets.bytes(), secondTurn, format), "");
          EXPECT_EQ(packetBytes % std::max<int64_t>(64, format.bytes), 0);
          EXPECT_LE(int64_t(onHost.packets.end()), packetBytes);
          EXPECT_EQ(onDevice.packets.end(), size_t(packetBytes) + onHost.packets.end());
        }
}

INSTANTIATE_TEST_SUITE_P(Formats, Layout, testing::Bool(),
                         [](const auto &info) { return info.param ? "LL128" : "LL"; });
