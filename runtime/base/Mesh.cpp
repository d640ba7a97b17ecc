// Mesh: construction, parsing, coordinates.
#include "base/Error.h"
#include "kolo/runtime/Types.h"

#include <charconv>

namespace kolo::runtime {
namespace {

Result<MeshDim> parseDim(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return error(StatusCode::InvalidArgument, "mesh dimension '{}' has no size: write it like node=2", text);
  MeshDim dim{std::string(text.substr(0, equals)), 0};
  std::string_view number = text.substr(equals + 1);
  auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), dim.size);
  if (failure != std::errc() || end != number.data() + number.size())
    return error(StatusCode::InvalidArgument, "mesh dimension '{}': '{}' is not a size", dim.name, number);
  return dim;
}

} // namespace

Result<Mesh> Mesh::create(std::vector<MeshDim> dims) {
  return guarded([&]() -> Result<Mesh> {
    if (dims.size() > KOLO_MAX_MESH_DIMS)
      return error(StatusCode::InvalidArgument, "a mesh has at most {} dimensions, not {}", KOLO_MAX_MESH_DIMS,
                   dims.size());
    int64_t ranks = 1;
    for (size_t index = 0; index < dims.size(); ++index) {
      const MeshDim &dim = dims[index];
      if (dim.name.empty())
        return error(StatusCode::InvalidArgument, "mesh dimension {} has no name", index);
      for (size_t earlier = 0; earlier < index; ++earlier)
        if (dims[earlier].name == dim.name)
          return error(StatusCode::InvalidArgument, "mesh dimension '{}' appears twice", dim.name);
      if (dim.size < 1)
        return error(StatusCode::InvalidArgument, "mesh dimension '{}' cannot have size {}", dim.name, dim.size);
      if (dim.size > KOLO_MAX_MESH_RANKS / ranks)
        return error(StatusCode::InvalidArgument, "mesh dimension '{}' of size {}: a mesh has at most {} ranks",
                     dim.name, dim.size, KOLO_MAX_MESH_RANKS);
      ranks *= dim.size;
    }
    Mesh mesh;
    mesh.meshDims = std::move(dims);
    return mesh;
  });
}

Result<Mesh> Mesh::parse(std::string_view text) {
  return guarded([&]() -> Result<Mesh> {
    std::vector<MeshDim> dims;
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(',', begin), text.size());
      Result<MeshDim> dim = parseDim(text.substr(begin, end - begin));
      if (!dim.isOk())
        return dim.status();
      dims.push_back(std::move(*dim));
      begin = end + 1;
    }
    return create(std::move(dims));
  });
}

int Mesh::numRanks() const {
  int64_t ranks = 1;
  for (const MeshDim &dim : meshDims)
    ranks *= dim.size;
  return static_cast<int>(ranks);
}

std::vector<int64_t> Mesh::coordinates(int rank) const {
  std::vector<int64_t> result(meshDims.size());
  int64_t rest = rank;
  for (size_t index = meshDims.size(); index-- > 0;) {
    result[index] = rest % meshDims[index].size;
    rest /= meshDims[index].size;
  }
  return result;
}

std::string Mesh::toString() const {
  std::string text;
  for (const MeshDim &dim : meshDims)
    text += (text.empty() ? "" : ",") + dim.name + "=" + std::to_string(dim.size);
  return text;
}

} // namespace kolo::runtime
