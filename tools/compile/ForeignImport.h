// Files of other libraries as modules. Private to this folder, but for programs that import none.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace kolo::tools {

/// By its name.
inline bool isForeignFile(const std::string &path) { return path.ends_with(".xml") || path.ends_with(".json"); }

/// The program in channel form, which is not proved yet. Throws ToolError (Refused) if the schedule is wrong as its
/// interpreter runs it. A program that does not link kolo_tools_optional, such as kolo-core, defines this itself.
mlir::OwningOpRef<mlir::ModuleOp> importForeign(mlir::MLIRContext &context, const std::string &path);

} // namespace kolo::tools
