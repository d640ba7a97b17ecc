// kolo-opt: runs any of Kolo's passes and pipelines, or an upstream clean-up, on textual IR.
#include "tools/Dialects.h"

#include "compiler/Passes.h"
#include "compiler/Pipeline.h"
#include "targets/cpu/CpuPipeline.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/gpu/GpuPipeline.h"
#include "targets/hip/HipTarget.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kolo::tools::registerDialects(registry);
  mlir::registerTransformsPasses();
  kolo::registerKoloPasses();
  kolo::registerKoloPipelines();
  kolo::cpu::registerCpuPasses();
  kolo::gpu::registerGpuPasses();
  kolo::cuda::registerCudaPasses();
  kolo::hip::registerHipPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Kolo's optimizer driver\n", registry));
}
