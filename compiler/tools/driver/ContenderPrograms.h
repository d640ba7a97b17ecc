// The programs of contenders: compiled for few nodes, and proved on all. Private to Explore.
#pragma once

#include "driver/Coster.h"

#include "compiler/sync/InferenceMemory.h"

#include <map>
#include <mutex>

namespace kolo::tools {

/// Compiles and proves each program once. Contenders have one program if they differ in their placement alone.
class ContenderPrograms {
public:
  ContenderPrograms(const ExploreRequest &request, Coster &coster) : request(request), coster(coster) {}

  struct Compiled {
    mlir::OwningOpRef<mlir::ModuleOp> choreography, program;
  };
  struct Proof {
    std::string refusal;       // empty: it is proved, and its ranks get the same bits of one result
    std::string mesh = {};     // that the checker looked at
    bool isOfAllNodes = false; // `compile` gave another program before this call: all nodes refute that one
  };

  /// Equal for contenders with one choreography on one mesh. Those of one number share what they are compiled to
  /// soonest on one thread.
  size_t choreographyOf(const Contender &contender);
  /// Equal for contenders with one program.
  std::string programOf(const Contender &contender);

  cost::PlacedMesh fewNodes(const Contender &contender) const;
  /// Why the compiler refuses the program of few nodes; empty: it does not. It is not proved. Gives the program of all
  /// nodes where `prove` had to infer one.
  std::string compile(unsigned thread, const Contender &contender, Compiled &compiled);
  /// Looks at the program of few nodes on all of them. Where many nodes need more synchronisation, it is inferred for
  /// these.
  Proof prove(unsigned thread, const Contender &contender);

private:
  mlir::OwningOpRef<mlir::ModuleOp> emit(unsigned thread, const Contender &contender, std::string &reason);
  Proof proveAnew(unsigned thread, const Contender &contender);
  std::string compileForAll(unsigned thread, const Contender &contender, mlir::OwningOpRef<mlir::ModuleOp> &program);
  mlir::OwningOpRef<mlir::ModuleOp> findProgram(unsigned thread, const Contender &contender);
  void keep(const Contender &contender, mlir::ModuleOp program);

  const ExploreRequest &request;
  Coster &coster;
  InferenceMemory inferred;
  std::mutex mutex;                            // of the maps
  std::map<std::string, size_t> byName;        // choreographies, by all that tells structures apart
  std::map<std::string, size_t> byText;        // the same, by source and mesh
  std::map<std::string, std::string> programs; // text by program
  std::map<std::string, Proof> proofs;         // by program
};

} // namespace kolo::tools
