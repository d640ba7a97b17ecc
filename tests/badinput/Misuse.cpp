// An application that uses the runtime wrongly, for badinput_test.py, which reads what it prints:
//
//   misuse counts PLUGIN     rank 2 of 4 gives another count than the others; then all agree
//   misuse allocate BYTES    a window of that size
#include "kolo/runtime/Communicator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

void print(int rank, const Status &status) {
  std::printf("rank %d: %s: %s\n", rank, toString(status.code()), status.message().c_str());
}

Status reduce(Communicator &communicator, const Plugin &plugin, std::vector<float> &values, int64_t count) {
  CallArguments arguments;
  arguments.mesh = Mesh::create({{"rank", communicator.size()}}).value();
  arguments.count = count;
  arguments.input = arguments.output = values.data();
  return communicator.run(plugin, arguments);
}

int disagreeOnCounts(const char *path) {
  auto plugin = Plugin::load(path);
  CommunicatorOptions options;
  options.timeoutMs = 5000;
  auto communicators = Communicator::createThreads(4, options);
  if (!plugin.isOk() || !communicators.isOk())
    return 1;
  std::vector<Status> first(4), second(4);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> values(2000, 1.0f);
      first[rank] = reduce((*communicators)[rank], *plugin, values, rank == 2 ? 2000 : 1000);
      second[rank] = reduce((*communicators)[rank], *plugin, values, 1000);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::vector<Status> &call : {first, second})
    for (int rank = 0; rank < 4; ++rank)
      print(rank, call[size_t(rank)]);
  return 0;
}

int allocate(const char *bytes) {
  auto communicators = Communicator::createThreads(1);
  if (!communicators.isOk())
    return 1;
  auto window = communicators->front().allocate(std::strtoull(bytes, nullptr, 10));
  print(0, window.status());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "counts") == 0)
    return disagreeOnCounts(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "allocate") == 0)
    return allocate(argv[2]);
  return 2;
}
