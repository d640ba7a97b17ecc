// compile-for-standin ALGORITHM PROTOCOL[/DEPTH] PLUGIN MESH...: a plugin whose image for devices is for the stand-in
// driver. DEPTH: of its pipeline.
#include "StandInImage.h"

#include "tests/support/Algorithms.h"

#include "targets/cpu/CpuTarget.h"
#include "targets/package/Package.h"

#include "llvm/ADT/StringRef.h"

#include <cstdio>

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
  auto [protocol, depth] = llvm::StringRef(argv[2]).split('/');
  Schedule asked{.protocol = test::protocolOf(protocol.str())};
  if (!depth.empty() && depth.getAsInteger(10, asked.pipelineDepth))
    return std::fprintf(stderr, "compile-for-standin: '%s' is no depth\n", depth.str().c_str()), 2;
  auto schedule = resolve(asked, {});
  if (auto *mistake = std::get_if<ScheduleMistake>(&schedule))
    return std::fprintf(stderr, "compile-for-standin: %s\n", mistake->message.c_str()), 2;
  auto context = test::makeContext();
  cpu::loadCpuTarget(*context);
  mlir::OwningOpRef<mlir::ModuleOp> module = test::emit(*context, argv[1], meshes);
  if (protocol == "staged")
    test::useStagedNetwork(*module);
  auto compileForDevices = [](mlir::ModuleOp programs) -> llvm::Expected<DeviceCode> {
    auto image = test::compileForStandIn(programs, test::everything());
    if (!image)
      return image.takeError();
    DeviceImage forHip = *image; // for the stand-in for HIP, which runs the same code
    forHip.kind = "hip", forHip.architecture = "gfx90a", forHip.format = KOLO_DEVICE_HSACO;
    return DeviceCode{test::everything(), {std::move(*image), std::move(forHip)}};
  };
  PipelineOptions pipeline{.schedule = std::get<ResolvedSchedule>(schedule)};
  llvm::Error problem = package::compilePlugin(*module, {pipeline, argv[3], compileForDevices});
  if (problem)
    return std::fprintf(stderr, "%s\n", llvm::toString(std::move(problem)).c_str()), 1;
  return 0;
}
