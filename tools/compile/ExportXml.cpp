// One algorithm on one mesh as XML for RCCL.
#include "tools/compile/ExportXml.h"

#include "compiler/export/CollectMoves.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace kolo::tools {

static ChoreographyOp onlyChoreography(mlir::ModuleOp module) {
  std::vector<std::string> names;
  for (ChoreographyOp choreography : module.getOps<ChoreographyOp>())
    names.push_back(choreography.getSymName().str());
  if (names.empty())
    throw ToolError(ExitCode::Usage, "XML is made from a choreography, and this is in channel form already");
  if (names.size() > 1)
    throw ToolError(ExitCode::Usage,
                    fmt::format("one file of XML is one algorithm, and there are {}", fmt::join(names, ", ")));
  return *module.getOps<ChoreographyOp>().begin();
}

static llvm::ArrayRef<int64_t> onlyMesh(ChoreographyOp choreography) {
  if (choreography.getMeshes().size() != 1)
    throw ToolError(ExitCode::Usage, fmt::format("one file of XML is for one mesh, and {} has {}",
                                                 choreography.getSymName().str(), choreography.getMeshes().size()));
  return mlir::cast<mlir::DenseI64ArrayAttr>(choreography.getMeshes()[0]).asArrayRef();
}

msccl::Xml exportXml(const CompileRequest &request, const msccl::XmlOptions &options) {
  std::optional<msccl::Xml> xml;
  readChoreographies(request, [&](mlir::ModuleOp module) {
    ChoreographyOp choreography = onlyChoreography(module);
    mlir::FailureOr<msccl::Moves> moves = msccl::collectMoves(choreography, onlyMesh(choreography));
    if (mlir::failed(moves))
      return; // readChoreographies throws what was said
    auto made = msccl::makeXml(*moves, options);
    if (auto *mistake = std::get_if<msccl::Mistake>(&made))
      throw ToolError(ExitCode::Refused, mistake->line + ": error: " + mistake->message);
    xml = std::get<msccl::Xml>(std::move(made));
  });
  return std::move(xml.value());
}

} // namespace kolo::tools
