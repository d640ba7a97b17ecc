#include "Host.h"

namespace kolo::race {
namespace {

class RuntimeHost : public Host {
public:
  RuntimeHost(const runtime::Plugin &plugin, runtime::Mesh mesh, int lanes)
      : plugin(plugin), mesh(std::move(mesh)),
        created(runtime::Communicator::createThreads(this->mesh.numRanks(), {.timeoutMs = 30000, .lanes = lanes})) {}

  void prepare(const Job &newJob) override { job = &newJob; }

  std::string call(int rank) override {
    if (!created.isOk())
      return created.status().message();
    auto at = static_cast<size_t>(rank);
    runtime::CallArguments arguments{job->info->name, mesh, job->shape.count, job->type};
    arguments.root = static_cast<int>(job->shape.root);
    arguments.input = job->buffers[at].input;
    arguments.output = job->buffers[at].output;
    const CallShape &shape = job->shape;
    const std::vector<int64_t> numbers[] = {shape.counts(KOLO_INPUT, rank), shape.places(KOLO_INPUT, rank),
                                            shape.counts(KOLO_OUTPUT, rank), shape.places(KOLO_OUTPUT, rank)};
    const runtime::BlockTables tables = {{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
    if (shape.hasTables)
      arguments.blocks = &tables;
    return (*created)[at].run(plugin, arguments).message();
  }

private:
  const runtime::Plugin &plugin;
  runtime::Mesh mesh;
  runtime::Result<std::vector<runtime::Communicator>> created;
  const Job *job = nullptr;
};

} // namespace

std::unique_ptr<Host> makeRuntimeHost(const runtime::Plugin &plugin, const runtime::ProgramInfo &info,
                                      const std::vector<int64_t> &sizes, int lanes) {
  std::vector<runtime::MeshDim> dims;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    dims.push_back({info.meshDims[dim], sizes[dim]});
  return std::make_unique<RuntimeHost>(plugin, *runtime::Mesh::create(std::move(dims)), lanes);
}

} // namespace kolo::race
