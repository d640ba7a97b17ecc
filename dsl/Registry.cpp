// Registration of choreographies, and the run of a body that records one.
#include "dsl/Collectives.h"
#include "dsl/Recording.h"

#include <algorithm>
#include <exception>

namespace kolo::dsl {

static std::vector<Definition> &registry() {
  static std::vector<Definition> definitions;
  return definitions;
}

const std::vector<Definition> &registeredChoreographies() { return registry(); }

Registration::Registration(std::string name, Collective collective, Mesh mesh, void (*body)(Choreography &),
                           std::source_location location) {
  registry().push_back({std::move(name), std::move(collective), std::move(mesh), body, location});
}

/// Which dimensions the collective runs over; reports names that the mesh does not have, or that stand there twice.
static void resolveGroup(Recording &recording) {
  const Definition &definition = recording.definition;
  const std::vector<std::string> &dims = definition.mesh.dims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::ranges::find(dims, dims[i]) != dims.begin() + ptrdiff_t(i))
      recording.report(definition.location, "the mesh has two dimensions named '" + dims[i] + "'");
  for (const std::string &name : definition.collective.dims.empty() ? dims : definition.collective.dims) {
    auto dim = int(std::ranges::find(dims, name) - dims.begin());
    if (size_t(dim) == dims.size())
      recording.report(definition.location, "unknown dimension '" + name + "' in the collective");
    else if (std::ranges::find(recording.groupDims, dim) == recording.groupDims.end())
      recording.groupDims.push_back(dim);
    else if (!definition.collective.dims.empty())
      recording.report(definition.location, "the collective names dimension '" + name + "' twice");
  }
  if (dims.empty() || dims.size() > 4)
    recording.report(definition.location, "a mesh has between one and four dimensions");
}

static RecordedBuffer makeBuffer(const Recording &recording, RecordedBuffer::Role role) {
  const CollectiveTraits &traits = traitsOf(recording.definition.collective.kind);
  bool isInput = role == RecordedBuffer::Role::Input;
  bool hasBlocks = isInput ? traits.hasInputPerRank : traits.hasOutputPerRank;
  RecordedBuffer buffer{.role = role, .name = isInput ? "input" : "output", .hasBlockPerRank = hasBlocks, .grid = {}};
  if (hasBlocks)
    for (int dim : recording.groupDims)
      buffer.grid.push_back(makeLeaf(Expression::Kind::DimSize, dim));
  return buffer;
}

std::unique_ptr<Recording> record(const Definition &definition, const std::map<std::string, Codec> &codecChoices) {
  auto recording = std::make_unique<Recording>();
  recording->codecChoices = codecChoices;
  recording->definition = definition;
  resolveGroup(*recording);
  if (!recording->diagnostics.empty())
    return recording;
  recording->buffers = {makeBuffer(*recording, RecordedBuffer::Role::Input),
                        makeBuffer(*recording, RecordedBuffer::Role::Output)};
  recording->openBodies = {&recording->body};
  Choreography choreography(*recording);
  try {
    definition.body(choreography);
  } catch (const std::exception &exception) {
    recording->report(definition.location, std::string("the body threw an exception: ") + exception.what());
  } catch (...) {
    recording->report(definition.location, "the body threw an exception");
  }
  checkRecording(*recording);
  return recording;
}

bool usesCodecs(const Definition &definition) {
  return std::ranges::any_of(record(definition)->buffers,
                             [](const RecordedBuffer &buffer) { return buffer.codec != none(); });
}

} // namespace kolo::dsl
