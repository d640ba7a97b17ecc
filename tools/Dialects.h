// The dialects of both phases of Kolo's IR, for tools that read it. Used by kolo-opt and kolo-lsp-server.
#pragma once

#include "ir/Kolo.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kolo::tools {

inline void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<KoloDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
}

} // namespace kolo::tools
