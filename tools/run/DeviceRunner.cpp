// Runs a plugin's program on devices, and measures it by their events.
#include "tools/run/DeviceRunner.h"
#include "tools/run/Data.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace kolo::tools {

namespace {

void expectOk(const runtime::Status &status) {
  if (!status.isOk())
    throw ToolError(exitCodeOf(status.code()), status.message());
}

template <class T> T valueOf(runtime::Result<T> result) {
  expectOk(result.status());
  return std::move(result).value();
}

/// One rank's memory for all sizes.
struct DeviceRankMemory {
  std::optional<runtime::DeviceBuffer> input, output; // in place only `input`, which is as large as the larger one
  size_t inputOffset = 0, outputOffset = 0;           // of this size
};

/// The number of this process among those of its host, if the launcher says it.
std::optional<int> launchedHere() {
  for (const char *name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char *text = std::getenv(name)) {
      int number = 0;
      const char *end = text + std::strlen(text);
      if (std::from_chars(text, end, number).ptr != end || number < 0 || text == end)
        throw ToolError(ExitCode::Usage, std::string(name) + ": '" + text + "' is no number of a process");
      return number;
    }
  return std::nullopt;
}

/// All ranks of a job, or one of a launcher.
class DeviceRun {
public:
  explicit DeviceRun(const RankJob &job) : DeviceRun(job, nullptr) {
    std::vector<int> devices;
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank)
      devices.push_back(numDevices ? rank % numDevices : 0);
    communicator = valueOf(runtime::DeviceCommunicator::createLocal(devices, options()));
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      if (rank < numDevices)
        streams.push_back(valueOf(communicator->createStream(rank)));
      handles.push_back(streams[size_t(devices[size_t(rank)])].handle());
    }
    allocate();
  }
  /// The rank of `others`, by which the ranks start together.
  DeviceRun(const RankJob &job, runtime::Communicator &others) : DeviceRun(job, &others) {
    const int device = numDevices ? launchedHere().value_or(others.rank()) % numDevices : 0;
    auto host = valueOf(runtime::Communicator::createFromEnvironment(job.options));
    communicator = valueOf(runtime::DeviceCommunicator::create(std::move(host), device, options()));
    streams.push_back(valueOf(communicator->createStream(others.rank())));
    handles.push_back(streams.front().handle());
    allocate();
  }

  Timings runSize(const SizeJob &size) {
    place(size);
    if (job.check) {
      start(size);
      expectOk(communicator->synchronize());
      check(size);
    }
    Timings timings;
    for (int i = -size.warmUps; i < size.iterations; ++i) {
      if (launched)
        expectOk(launched->barrier());
      mark(0);
      start(size);
      mark(1);
      double microseconds = 0;
      for (runtime::DeviceStream &stream : streams)
        microseconds = std::max(microseconds, valueOf(stream.elapsedMicroseconds()));
      expectOk(communicator->synchronize());
      if (i >= 0)
        timings.push_back(microseconds);
    }
    return timings;
  }

private:
  DeviceRun(const RankJob &job, runtime::Communicator *launched)
      : job(job), program(*job.plugin.findProgram(job.program)),
        data(program.collective, job.groupDims(), job.mesh, job.type, job.reduction), launched(launched),
        numDevices(valueOf(runtime::countDevices(*job.device))) {}

  runtime::DeviceOptions options() const {
    runtime::DeviceOptions chosen;
    chosen.kind = *job.device;
    chosen.lanes = job.options.lanes;
    chosen.timeoutMs = job.options.timeoutMs;
    return chosen;
  }
  size_t bytesOf(int64_t elements) const { return size_t(elements) * runtime::sizeBytes(job.type); }
  BufferSizes sizesOf(int rank, const SizeJob &size) const {
    return blocksOf(job, size).sizes(data.memberNumber(rank));
  }

  /// Of all sizes. Windows are equally large on all ranks.
  BufferSizes largestOf(int rank) const {
    BufferSizes elements = {0, 0};
    for (const SizeJob &size : job.sizes) {
      const BufferSizes needed = sizesOf(rank, size);
      elements = {std::max(elements.inputElements, needed.inputElements),
                  std::max(elements.outputElements, needed.outputElements)};
    }
    return elements;
  }

  void allocate() {
    auto make = [&](int rank, int64_t count) {
      runtime::DeviceBuffer buffer = valueOf(communicator->allocate(rank, std::max<size_t>(bytesOf(count), 1)));
      void *address = buffer.data();
      if (launched && job.useWindows)
        expectOk(communicator->registerWindow({&address, 1}, buffer.sizeBytes()));
      return buffer;
    };
    BufferSizes ofAll = {0, 0};
    for (int rank = 0; launched && rank < job.mesh.numRanks(); ++rank) {
      const BufferSizes elements = largestOf(rank);
      ofAll = {std::max(ofAll.inputElements, elements.inputElements),
               std::max(ofAll.outputElements, elements.outputElements)};
    }
    for (int rank : communicator->ranks()) {
      const BufferSizes elements = launched ? ofAll : largestOf(rank);
      DeviceRankMemory &own = memory.emplace_back();
      own.input = make(rank, job.isInPlace ? std::max(elements.inputElements, elements.outputElements)
                                           : elements.inputElements);
      if (!job.isInPlace)
        own.output = make(rank, elements.outputElements);
    }
  }

  /// Decides where buffers are, poisons outputs and fills inputs.
  void place(const SizeJob &size) {
    const CallBlocks blocks = blocksOf(job, size);
    buffers.clear(), tables.clear();
    for (size_t index = 0; index < memory.size(); ++index) {
      const int rank = communicator->ranks()[index];
      const BufferSizes elements = sizesOf(rank, size);
      const int64_t self = data.memberNumber(rank);
      DeviceRankMemory &own = memory[index];
      own.inputOffset = own.outputOffset = 0;
      if (job.isInPlace && blocks.numBlocks(BufferSide::Input) != blocks.numBlocks(BufferSide::Output)) {
        // As in NCCL: this rank's block of the larger one.
        const bool isInputInside = blocks.numBlocks(BufferSide::Input) < blocks.numBlocks(BufferSide::Output);
        size_t &offset = isInputInside ? own.inputOffset : own.outputOffset;
        offset = bytesOf(blocks.place(isInputInside ? BufferSide::Output : BufferSide::Input, self, self));
      }
      runtime::RankBuffers pointers;
      if (size.tabled) {
        tables.push_back(
            std::make_unique<RankTables>(blocks, self, data.hasInput(rank, job.root), data.hasOutput(rank, job.root)));
        pointers.blocks = &tables.back()->tables;
      }
      if (data.hasOutput(rank, job.root))
        pointers.output = static_cast<std::byte *>(outputOf(own).data()) + own.outputOffset;
      if (data.hasInput(rank, job.root))
        pointers.input = static_cast<std::byte *>(own.input->data()) + own.inputOffset;
      buffers.push_back(pointers);
      std::vector<std::byte> content(bytesOf(std::max(elements.inputElements, elements.outputElements)));
      if (!job.isInPlace && pointers.output) {
        data.poisonOutput(content.data(), elements.outputElements);
        expectOk(own.output->write(0, content.data(), bytesOf(elements.outputElements)));
      }
      if (pointers.input) {
        data.fillInput(rank, blocks, content.data());
        expectOk(own.input->write(own.inputOffset, content.data(), bytesOf(elements.inputElements)));
      }
    }
  }

  runtime::DeviceBuffer &outputOf(DeviceRankMemory &own) const { return job.isInPlace ? *own.input : *own.output; }

  void start(const SizeJob &size) { expectOk(communicator->run(job.plugin, job.argumentsFor(size), buffers, handles)); }

  void mark(int number) {
    for (runtime::DeviceStream &stream : streams)
      expectOk(stream.mark(number));
  }

  void check(const SizeJob &size) {
    for (size_t index = 0; index < memory.size(); ++index) {
      const int rank = communicator->ranks()[index];
      std::vector<std::byte> content(bytesOf(sizesOf(rank, size).outputElements));
      DeviceRankMemory &own = memory[index];
      if (!data.hasOutput(rank, job.root))
        continue;
      expectOk(outputOf(own).read(own.outputOffset, content.data(), content.size()));
      if (auto problem = data.check(rank, job.root, blocksOf(job, size), content.data()))
        throw ToolError(ExitCode::Refused,
                        job.program + ": " + *problem + " (count " + std::to_string(size.count) + ")");
    }
  }

  const RankJob &job;
  const runtime::ProgramInfo &program;
  TaggedData data;
  runtime::Communicator *launched; // null: all ranks are here
  int numDevices;
  std::optional<runtime::DeviceCommunicator> communicator;
  std::vector<runtime::DeviceStream> streams; // of each device that has a rank
  std::vector<runtime::StreamHandle> handles; // by rank of this process, as all that follow
  std::vector<DeviceRankMemory> memory;
  std::vector<std::unique_ptr<RankTables>> tables; // of a call with block tables
  std::vector<runtime::RankBuffers> buffers;
};

} // namespace

std::vector<Timings> runOnDevices(const RankJob &job, const std::function<void(size_t)> &atEnd) {
  DeviceRun run(job);
  std::vector<Timings> result;
  for (const SizeJob &size : job.sizes) {
    result.push_back(run.runSize(size));
    atEnd(result.size());
  }
  return result;
}

std::vector<Timings> runLaunchedOnDevice(const RankJob &job, runtime::Communicator &others) {
  DeviceRun run(job, others);
  std::vector<Timings> result;
  for (const SizeJob &size : job.sizes)
    result.push_back(run.runSize(size));
  return result;
}

} // namespace kolo::tools
