// compile-for-standin ALGORITHM MESH PLUGIN: a plugin whose image for devices is for the stand-in driver.
#include "StandInImage.h"

#include "tests/support/Algorithms.h"

#include "targets/cpu/CpuTarget.h"
#include "targets/package/Package.h"

#include <cstdio>

int main(int argc, char **argv) {
  using namespace kolo;
  auto mesh = runtime::Mesh::parse(argc == 4 ? argv[2] : "");
  if (!mesh.isOk())
    return std::fprintf(stderr, "usage: compile-for-standin ALGORITHM MESH PLUGIN\n"), 2;
  test::Sizes sizes;
  for (const runtime::MeshDim &dim : mesh->dims())
    sizes.push_back(dim.size);
  auto context = test::makeContext();
  cpu::loadCpuTarget(*context);
  mlir::OwningOpRef<mlir::ModuleOp> module = test::emit(*context, argv[1], {sizes});
  auto compileForDevices = [](mlir::ModuleOp programs) -> llvm::Expected<DeviceCode> {
    auto image = test::compileForStandIn(programs, {});
    if (!image)
      return image.takeError();
    return DeviceCode{{}, {std::move(*image)}};
  };
  llvm::Error problem = package::compilePlugin(*module, {{}, argv[3], compileForDevices});
  if (problem)
    return std::fprintf(stderr, "%s\n", llvm::toString(std::move(problem)).c_str()), 1;
  return 0;
}
