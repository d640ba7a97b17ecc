// Gloo as a compared system on several hosts: RANK and WORLD_SIZE say who this is, KOLO_BENCH_GLOO which all-reduce.
#include "../compare/Harness.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

using namespace kolo::bench;

namespace {

int readNumber(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : throw Failure(std::string(name) + " is not set");
}

class GlooSystem : public System {
public:
  GlooSystem(std::shared_ptr<gloo::Context> ranks, bool usesBcube, Pages kind)
      : context(std::move(ranks)),
        algorithm(usesBcube ? gloo::detail::AllreduceOptionsImpl::BCUBE : gloo::detail::AllreduceOptionsImpl::RING),
        pages(kind) {}

  void *allocate(size_t sizeBytes) override { return allocatePages(sizeBytes, pages); }

  void run(const Cell &cell, const float *input, float *output) override {
    auto *in = const_cast<float *>(input);
    auto numIn = static_cast<size_t>(cell.numInput), numOut = static_cast<size_t>(cell.numOutput);
    switch (cell.collective) {
    case Collective::AllReduce: {
      gloo::AllreduceOptions options(context);
      options.setAlgorithm(algorithm);
      options.setInput(in, numIn);
      options.setOutput(output, numOut);
      options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
      return gloo::allreduce(options);
    }
    case Collective::AllGather: {
      gloo::AllgatherOptions options(context);
      options.setInput(in, numIn);
      options.setOutput(output, numOut);
      return gloo::allgather(options);
    }
    case Collective::AllToAll: {
      gloo::AlltoallOptions options(context);
      options.setInput(in, numIn);
      options.setOutput(output, numOut);
      return gloo::alltoall(options);
    }
    case Collective::Broadcast: {
      gloo::BroadcastOptions options(context);
      options.setOutput(output, numOut);
      options.setRoot(0);
      return gloo::broadcast(options);
    }
    case Collective::ReduceScatter:
      break;
    }
    throw Failure("Gloo has no reduce-scatter with this interface");
  }

private:
  std::shared_ptr<gloo::Context> context;
  gloo::detail::AllreduceOptionsImpl::Algorithm algorithm;
  Pages pages;
};

int runRank(const HarnessOptions &options) {
  (void)numCores();
  int rank = readNumber("RANK"), numRanks = readNumber("WORLD_SIZE");
  std::string folder = options.boardPath + ".store";
  mkdir(folder.c_str(), 0700);
  gloo::transport::tcp::attr where;
  where.iface = "eth0";
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, numRanks);
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(where);
  context->connectFullMesh(store, device);
  int fd = openBoardFile(options.boardPath);
  BoardMemory *memory = fd < 0 ? nullptr : mapBoard(fd);
  if (!memory)
    throw Failure("cannot map the board " + options.boardPath);
  Board board(memory, rank, numRanks);
  const char *algorithm = std::getenv("KOLO_BENCH_GLOO");
  GlooSystem system(context, algorithm && std::string(algorithm) == "bcube", options.pages);
  return serve(system, board, options);
}

} // namespace

int main(int argc, char **argv) {
  try {
    return runRank(parseOptions(argc, argv));
  } catch (const std::exception &failure) {
    std::printf("failed %s\n", failure.what());
    return 1;
  }
}
