// The ranks of a mesh as rows along its longest dimension.
#include "compiler/check/RankRows.h"

#include <algorithm>

namespace kolo {

RankRows::RankRows(std::span<const int64_t> mesh) {
  if (mesh.empty())
    return;
  dim = size_t(std::ranges::max_element(mesh) - mesh.begin());
  length = uint32_t(mesh[dim]);
  for (size_t i = 0; i < mesh.size(); ++i) {
    numRows *= i == dim ? 1 : uint32_t(mesh[i]);
    numInner *= i > dim ? mesh[i] : 1;
  }
}

} // namespace kolo
