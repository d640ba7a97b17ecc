// The programs of candidates: compiled for few nodes, and proved on all. Private to Explore.
#pragma once

#include "tools/explore/Coster.h"

#include "compiler/InferenceMemory.h"

#include <map>
#include <mutex>

namespace kolo::tools {

/// The reason to leave a candidate out that takes no block tables, with the name of one that ships.
std::string withoutTables(const PlacedCandidate &candidate, const std::string &why);

/// Compiles and proves each program once. Candidates have one program if they differ in their placement alone.
class CandidatePrograms {
public:
  CandidatePrograms(const ExploreRequest &request, Coster &coster) : request(request), coster(coster) {}

  struct Compiled {
    mlir::OwningOpRef<mlir::ModuleOp> choreography, program;
  };
  struct Proof {
    std::string refusal;       // empty: it is proved, and its ranks get the same bits of one result; also with the
                               // block tables, if the request has some
    std::string mesh = {};     // that the checker looked at
    bool isOfAllNodes = false; // `compile` gave another program before this call: all nodes refute that one
  };

  /// Equal for candidates with one choreography on one mesh. Those of one number share what they are compiled to
  /// soonest on one thread.
  size_t choreographyOf(const PlacedCandidate &candidate);
  /// Equal for candidates with one program.
  std::string programOf(const PlacedCandidate &candidate);

  cost::PlacedMesh fewNodes(const PlacedCandidate &candidate) const;
  /// Why the compiler refuses the program of few nodes; empty: it does not. It is not proved. Gives the program of all
  /// nodes where `prove` had to infer one.
  std::string compile(unsigned thread, const PlacedCandidate &candidate, Compiled &compiled);
  /// Looks at the program of few nodes on all of them. Where many nodes need more synchronisation, it is inferred for
  /// these.
  Proof prove(unsigned thread, const PlacedCandidate &candidate);

private:
  mlir::OwningOpRef<mlir::ModuleOp> emit(unsigned thread, const PlacedCandidate &candidate, std::string &reason);
  Proof proveAnew(unsigned thread, const PlacedCandidate &candidate);
  std::string compileForAll(unsigned thread, const PlacedCandidate &candidate,
                            mlir::OwningOpRef<mlir::ModuleOp> &program);
  mlir::OwningOpRef<mlir::ModuleOp> findProgram(unsigned thread, const PlacedCandidate &candidate);
  void keep(const PlacedCandidate &candidate, mlir::ModuleOp program);

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
