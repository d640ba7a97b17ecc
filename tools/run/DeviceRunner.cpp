// Runs a plugin's program on devices, and measures it by their events.
#include "tools/run/DeviceRunner.h"
#include "tools/run/Data.h"

#include <algorithm>

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
struct RankMemory {
  std::optional<runtime::DeviceBuffer> input, output; // in place only `input`, which is as large as the larger one
  size_t inputOffset = 0, outputOffset = 0;           // of this size
};

class DeviceRun {
public:
  explicit DeviceRun(const RankJob &job)
      : job(job), program(*job.plugin.findProgram(job.program)),
        data(program.collective, job.groupDims(), job.mesh, job.type, job.reduction),
        numDevices(valueOf(runtime::countDevices(*job.device))) {
    std::vector<int> devices;
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank)
      devices.push_back(numDevices ? rank % numDevices : 0);
    runtime::DeviceOptions options;
    options.kind = *job.device;
    options.lanes = job.options.lanes;
    options.timeoutMs = job.options.timeoutMs;
    communicator = valueOf(runtime::DeviceCommunicator::createLocal(devices, options));
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      if (rank < numDevices)
        streams.push_back(valueOf(communicator->createStream(rank)));
      handles.push_back(streams[size_t(devices[size_t(rank)])].handle());
    }
    allocate();
  }

  Timings runSize(const SizeJob &size) {
    place(size.count);
    if (job.check) {
      start(size);
      expectOk(communicator->synchronize());
      check(size.count);
    }
    Timings timings;
    for (int i = -size.warmUps; i < size.iterations; ++i) {
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
  size_t bytesOf(int64_t elements) const { return size_t(elements) * runtime::sizeBytes(job.type); }
  CallBlocks blocksOf(int64_t count) const { return {program.collective, data.groupSize(), count}; }
  BufferSizes sizesOf(int64_t count) const { return blocksOf(count).sizes(0); }

  void allocate() {
    int64_t largest = 0;
    for (const SizeJob &size : job.sizes)
      largest = std::max(largest, size.count);
    BufferSizes elements = sizesOf(largest);
    auto make = [&](int rank, int64_t count) {
      return valueOf(communicator->allocate(rank, std::max<size_t>(bytesOf(count), 1)));
    };
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      RankMemory &own = memory.emplace_back();
      own.input = make(rank, job.isInPlace ? std::max(elements.inputElements, elements.outputElements)
                                           : elements.inputElements);
      if (!job.isInPlace)
        own.output = make(rank, elements.outputElements);
    }
  }

  /// Decides where buffers are, poisons outputs and fills inputs.
  void place(int64_t count) {
    BufferSizes elements = sizesOf(count);
    buffers.clear();
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      RankMemory &own = memory[size_t(rank)];
      own.inputOffset = own.outputOffset = 0;
      if (job.isInPlace &&
          elements.inputElements != elements.outputElements) { // as in NCCL: this rank's block of the larger one
        size_t &offset = elements.inputElements < elements.outputElements ? own.inputOffset : own.outputOffset;
        offset = bytesOf(data.memberNumber(rank) * count);
      }
      runtime::RankBuffers pointers;
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
        data.fillInput(rank, blocksOf(count), content.data());
        expectOk(own.input->write(own.inputOffset, content.data(), bytesOf(elements.inputElements)));
      }
    }
  }

  runtime::DeviceBuffer &outputOf(RankMemory &own) const { return job.isInPlace ? *own.input : *own.output; }

  void start(const SizeJob &size) { expectOk(communicator->run(job.plugin, job.argumentsFor(size), buffers, handles)); }

  void mark(int number) {
    for (runtime::DeviceStream &stream : streams)
      expectOk(stream.mark(number));
  }

  void check(int64_t count) {
    std::vector<std::byte> content(bytesOf(sizesOf(count).outputElements));
    for (int rank = 0; rank < job.mesh.numRanks(); ++rank) {
      RankMemory &own = memory[size_t(rank)];
      if (!data.hasOutput(rank, job.root))
        continue;
      expectOk(outputOf(own).read(own.outputOffset, content.data(), content.size()));
      if (auto problem = data.check(rank, job.root, blocksOf(count), content.data()))
        throw ToolError(ExitCode::Refused, job.program + ": " + *problem + " (count " + std::to_string(count) + ")");
    }
  }

  const RankJob &job;
  const runtime::ProgramInfo &program;
  TaggedData data;
  int numDevices;
  std::optional<runtime::DeviceCommunicator> communicator;
  std::vector<runtime::DeviceStream> streams; // of each device that has a rank
  std::vector<runtime::StreamHandle> handles; // by rank
  std::vector<RankMemory> memory;
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

} // namespace kolo::tools
