// compile-for-standin ALGORITHM PROTOCOL PLUGIN MESH...: a plugin whose image for devices is for the stand-in driver.
#include "StandInImage.h"

#include "tests/support/Algorithms.h"

#include "targets/cpu/CpuTarget.h"
#include "targets/package/Package.h"

#include <cstdio>
#include <string_view>

int main(int argc, char **argv) {
  using namespace kolo;
  std::vector<test::Sizes> meshes;
  for (int number = 4; number < argc; ++number) {
    auto mesh = runtime::Mesh::parse(argv[number]);
    if (!mesh.isOk())
      return std::fprintf(stderr, "%s\n", mesh.status().message().c_str()), 2;
    test::Sizes &sizes = meshes.emplace_back();
    for (const runtime::MeshDim &dim : mesh->dims())
      sizes.push_back(dim.size);
  }
  if (meshes.empty())
    return std::fprintf(stderr, "usage: compile-for-standin ALGORITHM PROTOCOL PLUGIN MESH...\n"), 2;
  auto context = test::makeContext();
  cpu::loadCpuTarget(*context);
  mlir::OwningOpRef<mlir::ModuleOp> module = test::emit(*context, argv[1], meshes);
  if (std::string_view(argv[2]) == "staged")
    test::useStagedNetwork(*module);
  auto compileForDevices = [](mlir::ModuleOp programs) -> llvm::Expected<DeviceCode> {
    auto image = test::compileForStandIn(programs, test::everything());
    if (!image)
      return image.takeError();
    DeviceImage forHip = *image; // for the stand-in for HIP, which runs the same code
    forHip.kind = "hip", forHip.architecture = "gfx90a", forHip.format = KOLO_DEVICE_HSACO;
    return DeviceCode{test::everything(), {std::move(*image), std::move(forHip)}};
  };
  PipelineOptions pipeline{.schedule =
                               std::get<ResolvedSchedule>(resolve({.protocol = test::protocolOf(argv[2])}, {}))};
  llvm::Error problem = package::compilePlugin(*module, {pipeline, argv[3], compileForDevices});
  if (problem)
    return std::fprintf(stderr, "%s\n", llvm::toString(std::move(problem)).c_str()), 1;
  return 0;
}
