// kolo_write_choreographies FOLDER SEED NUMBER RANKS: writes FOLDER/SEED.mlir and so on, random right choreographies
// for meshes of at most so many ranks. Used by compile_net.py.
#include "RandomChoreographies.h"

#include <cstdlib>
#include <fstream>
#include <numeric>

using namespace kolo;

int main(int argc, char **argv) {
  if (argc != 5)
    return EXIT_FAILURE;
  auto seed = std::strtoull(argv[2], nullptr, 10);
  int64_t maxRanks = std::atoll(argv[4]);
  for (int64_t left = std::atoll(argv[3]); left > 0; ++seed) {
    proof::RandomChoreography random = proof::randomChoreography(seed);
    if (std::accumulate(random.mesh.begin(), random.mesh.end(), int64_t(1), std::multiplies<>()) > maxRanks)
      continue;
    auto context = test::makeContext();
    mlir::OwningOpRef<mlir::ModuleOp> module =
        dsl::emitChoreography(*context, *dsl::record(random.definition), {random.mesh});
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out, mlir::OpPrintingFlags().enableDebugInfo());
    std::ofstream file(std::string(argv[1]) + "/" + std::to_string(seed) + ".mlir");
    file << "// " << random.what << "\n" << text;
    if (!file)
      return EXIT_FAILURE;
    --left;
  }
  return EXIT_SUCCESS;
}
