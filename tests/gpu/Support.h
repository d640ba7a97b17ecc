// Compiled algorithms on devices: real ones, or the stand-in driver's where KOLO_CUDA_DRIVER names that. No compiler is
// needed: see Programs.h.
#pragma once

#include "Blocks.h"
#include "Oracle.h"
#include "Programs.h"

#include "kolo/runtime/Device.h"

#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::test {

/// Why nothing can be run on a device here; "" where there is one.
std::string whyNoDevice();
bool isStandIn();
/// What takes long on the stand-in is done there for these alone, but with KOLO_SWEEP=all, as `ctest -L heavy` does.
/// tests/devicecode emulates the code of all algorithms.
bool isSkipped(const std::string &name, std::initializer_list<const char *> few);

/// How many threads of the host the stand-in driver has for a block, or a multiple.
inline constexpr int standInThreads = 2;
/// As many as have an LL128 line together.
inline constexpr int threadsPerLine = 8;

/// Another number, for a scope.
class StandInThreads {
public:
  explicit StandInThreads(int number);
  ~StandInThreads();
  StandInThreads(const StandInThreads &) = delete;
  StandInThreads &operator=(const StandInThreads &) = delete;
};

/// For programs without a caller to hand an error to.
inline void expectOk(const runtime::Status &status) {
  if (!status.isOk())
    throw std::runtime_error(status.message());
}
template <class T> T valueOf(runtime::Result<T> result) {
  expectOk(result.status());
  return std::move(result).value();
}

/// An algorithm, loaded.
class DeviceAlgorithm {
public:
  DeviceAlgorithm(const std::string &ofName, const std::string &protocol, const std::string &architecture = "")
      : name(ofName), plugin(loadAlgorithm(name, protocol, architecture)) {}
  const runtime::ProgramInfo &info() const { return plugin.programs().front(); }
  std::vector<runtime::Mesh> meshes() const;
  DeviceCall call(const runtime::Mesh &mesh, int64_t count = 0) const;

  std::string name;
  runtime::Plugin plugin;
};

/// The arguments of a call, without buffers.
runtime::CallArguments argumentsOf(const DeviceCall &call);

/// All ranks of a mesh in this process, on device 0, in one launch.
class DeviceRanks {
public:
  DeviceRanks(const DeviceAlgorithm &algorithm, const runtime::Mesh &mesh, const runtime::DeviceOptions &options);

  /// Makes the buffers of a call, with block tables if there are some. Their data is that of `fill(seed)`.
  void prepare(const DeviceCall &call, uint64_t seed, std::optional<DeviceBlocks> tables = std::nullopt);
  /// Other inputs in the same buffers, and poisoned outputs.
  void fill(uint64_t seed);
  /// Starts the call so many times, one after the other. "" when all are queued.
  std::string start(int numCalls);
  /// "" when all ranks have what the definition says, and nothing beside it has changed.
  std::string check() const;
  /// Likewise, of a program with codecs, with other data: "" when all ranks have what they get on the host.
  std::string runCoded(const DeviceCall &call, int numCalls, uint64_t seed);
  /// All of these.
  std::string run(const DeviceCall &call, int numCalls, uint64_t seed,
                  std::optional<DeviceBlocks> tables = std::nullopt);

  runtime::DeviceCommunicator communicator;
  runtime::DeviceStream stream;

private:
  // With room around the data, which has to stay as it was.
  struct Buffer {
    runtime::DeviceBuffer memory;
    size_t offsetBytes, sizeBytes;
    void *data() const { return static_cast<std::byte *>(memory.data()) + offsetBytes; }
  };
  Buffer makeBuffer(int rank, size_t sizeBytes, size_t offsetBytes);
  void fillWith(std::vector<Bytes> data);
  static void write(Buffer &buffer, const Bytes &content);
  static Bytes read(const Buffer &buffer, std::string &wrong);
  /// What the input of a rank holds.
  Bytes inputOf(size_t rank) const;

  const DeviceAlgorithm &algorithm;
  DeviceCall called;
  std::optional<DeviceBlocks> blocks;       // of `called`
  std::vector<runtime::BlockTables> tables; // by rank, of them
  std::vector<Bytes> content;               // of the inputs, by rank; without tables
  std::vector<Buffer> inputs, outputs;      // by rank
  std::vector<runtime::RankBuffers> buffers;
};

} // namespace kolo::test
