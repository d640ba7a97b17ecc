// kolo-lsp-server: shows editors the mistakes in Kolo's textual IR, its definitions and its uses.
#include "tools/Dialects.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kolo::tools::registerDialects(registry);
  return llvm::failed(mlir::MlirLspServerMain(argc, argv, registry)) ? 1 : 0;
}
