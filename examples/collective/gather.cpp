// Loads a plugin, runs its all-gather over four threads, and checks the result:
//
//   ./gather railDirectAllGather.so
#include <kolo/runtime/Communicator.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int64_t count = 100000; // elements that every rank gives

int valueOf(int rank, int64_t element) { return rank * 1000000 + int(element) + 1; }

/// What one rank does. Its memory is in windows, which its peers write to directly.
Status gather(Communicator &communicator, const Plugin &plugin, const Mesh &mesh) {
  size_t inputBytes = size_t(count) * sizeof(int), outputBytes = inputBytes * size_t(communicator.size());
  Result<Window> input = communicator.allocate(inputBytes), output = communicator.allocate(outputBytes);
  if (!input.isOk())
    return input.status();
  if (!output.isOk())
    return output.status();
  auto *given = static_cast<int *>(input->data()), *gathered = static_cast<int *>(output->data());
  for (int64_t i = 0; i < count; ++i)
    given[i] = valueOf(communicator.rank(), i);

  CallArguments arguments;
  arguments.mesh = mesh;
  arguments.count = count;
  arguments.type = DataType::I32;
  arguments.input = given;
  arguments.output = gathered;
  if (Status status = communicator.run(plugin, arguments); !status.isOk())
    return status;

  for (int rank = 0; rank < communicator.size(); ++rank)
    for (int64_t i = 0; i < count; ++i)
      if (gathered[rank * count + i] != valueOf(rank, i))
        return Status(StatusCode::SystemError,
                      "element " + std::to_string(i) + " of rank " + std::to_string(rank) + " is wrong");
  return Status();
}

int fail(const Status &status) {
  std::fprintf(stderr, "gather: %s\n", status.message().c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return fail(Status(StatusCode::InvalidArgument, "needs the plugin's path"));
  Result<Plugin> plugin = Plugin::load(argv[1]);
  if (!plugin.isOk())
    return fail(plugin.status());
  Result<Mesh> mesh = Mesh::parse("node=2,gpu=2");
  if (!mesh.isOk())
    return fail(mesh.status());
  auto communicators = Communicator::createThreads(mesh->numRanks());
  if (!communicators.isOk())
    return fail(communicators.status());

  std::vector<Status> results(communicators->size());
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < results.size(); ++rank)
    ranks.emplace_back([&, rank] { results[rank] = gather((*communicators)[rank], *plugin, *mesh); });
  for (std::thread &rank : ranks)
    rank.join();
  for (const Status &result : results)
    if (!result.isOk())
      return fail(result);
  std::printf("%s on %s: %d ranks gathered %lld elements each, all right\n", plugin->programs().front().name.c_str(),
              mesh->toString().c_str(), mesh->numRanks(), (long long)count);
}
