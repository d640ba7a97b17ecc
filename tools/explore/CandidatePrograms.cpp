// Programs are kept as text: threads have contexts of their own, which are renewed now and then.
#include "tools/explore/CandidatePrograms.h"
#include "tools/compile/LastBits.h"
#include "tools/compile/Schedules.h"

#include "compiler/Pipeline.h"
#include "compiler/check/Verdict.h"
#include "dsl/PrintSource.h"
#include "ir/BlockTables.h"

using namespace mlir;

namespace kolo::tools {

using cost::PlacedMesh;

static std::string describeMesh(const PlacedMesh &mesh) {
  std::string text;
  for (auto [name, size] : llvm::zip_equal(mesh.names, mesh.sizes))
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return text;
}

template <typename Op> static void setWholeMesh(Op op, const PlacedCandidate &candidate) {
  Builder builder(op.getContext());
  op.setMeshesAttr(builder.getArrayAttr(builder.getDenseI64ArrayAttr(candidate.mesh.sizes)));
}

static std::string meshOfProof(ProgramOp program) {
  auto proof = cast<ProofAttr>((*program.getProved())[0]);
  PlacedMesh mesh;
  for (auto [name, size] : llvm::zip(program.getMesh().getAsValueRange<StringAttr>(), proof.getOn())) {
    mesh.names.push_back(name.str());
    mesh.sizes.push_back(size);
  }
  return describeMesh(mesh);
}

std::string withoutTables(const PlacedCandidate &candidate, const std::string &why) {
  return (candidate.origin == Origin::Explored ? "a structure" : candidate.definition.name) +
         " takes no block tables: " + why;
}

/// What CheckProgram left; empty: calls may have them.
static std::string whyNoTables(ProgramOp program) {
  auto tables = program->getAttrOfType<ArrayAttr>(blockTablesAttrName);
  auto reason = tables ? dyn_cast<StringAttr>(tables[0]) : nullptr;
  return reason ? reason.str() : tables ? "" : "its collective has no blocks";
}

size_t CandidatePrograms::choreographyOf(const PlacedCandidate &candidate) {
  std::string mesh = describeMesh(candidate.mesh);
  std::lock_guard lock(mutex);
  auto [named, isNew] =
      byName.try_emplace(candidate.definition.name + " on " + mesh + " " + candidate.placement, byText.size());
  if (isNew) {
    std::string text = dsl::printSource(*dsl::record(candidate.definition), mesh).text;
    named->second = byText.try_emplace(std::move(text), byText.size()).first->second;
  }
  return named->second;
}

std::string CandidatePrograms::programOf(const PlacedCandidate &candidate) {
  return std::to_string(choreographyOf(candidate)) + suffixFor(candidate.schedule);
}

PlacedMesh CandidatePrograms::fewNodes(const PlacedCandidate &candidate) const {
  return shrink(candidate.mesh, request.machine.devicesPerNode(), mostSimulatedNodes);
}

/// The choreography on few nodes, after the passes on it; null with the reason.
OwningOpRef<ModuleOp> CandidatePrograms::emit(unsigned thread, const PlacedCandidate &candidate, std::string &reason) {
  Workshop &workshop = coster.workshop(thread);
  OwningOpRef<ModuleOp> module = workshop.emit(candidate.definition, fewNodes(candidate), reason);
  if (module)
    reason =
        workshop.run(*module, buildChoreographyPipeline, {.schedule = resolved(candidate.schedule), .isChecked = true});
  return reason.empty() ? std::move(module) : nullptr;
}

/// In the thread's context; null if it was not compiled yet.
OwningOpRef<ModuleOp> CandidatePrograms::findProgram(unsigned thread, const PlacedCandidate &candidate) {
  std::string name = programOf(candidate);
  std::unique_lock lock(mutex);
  auto found = programs.find(name);
  if (found == programs.end())
    return nullptr;
  const std::string text = found->second;
  lock.unlock();
  return coster.workshop(thread).parse(text);
}

std::string CandidatePrograms::compile(unsigned thread, const PlacedCandidate &candidate, Compiled &compiled) {
  Workshop &workshop = coster.workshop(thread);
  std::string reason;
  compiled.choreography = emit(thread, candidate, reason);
  if (!compiled.choreography)
    return reason;
  compiled.program = findProgram(thread, candidate);
  if (compiled.program)
    return "";
  compiled.program = compiled.choreography->clone();
  PipelineOptions options = {
      .schedule = resolved(candidate.schedule), .check = false, .isChecked = true, .memory = &inferred};
  reason = workshop.run(*compiled.program, buildProgramPipeline, options);
  if (!reason.empty())
    return reason;
  keep(candidate, *compiled.program);
  return "";
}

/// In place of what was kept before.
void CandidatePrograms::keep(const PlacedCandidate &candidate, ModuleOp program) {
  std::string text, name = programOf(candidate);
  llvm::raw_string_ostream stream(text);
  program.print(stream, OpPrintingFlags().enableDebugInfo().useLocalScope()); // the parser makes the same of it
  std::lock_guard lock(mutex);
  programs.insert_or_assign(std::move(name), std::move(text));
}

/// Without a proof. What the passes on choreographies make holds for any number of nodes.
std::string CandidatePrograms::compileForAll(unsigned thread, const PlacedCandidate &candidate,
                                             OwningOpRef<ModuleOp> &program) {
  Workshop &workshop = coster.workshop(thread);
  std::string reason;
  program = emit(thread, candidate, reason);
  if (!program)
    return reason;
  ChoreographyOp choreography = *program->getOps<ChoreographyOp>().begin();
  setWholeMesh(choreography, candidate);
  choreography.removeCheckedAttr();
  PipelineOptions options = {.schedule = resolved(candidate.schedule),
                             .check = false,
                             .isChecked = true,
                             .searchesInFull = true,
                             .memory = &inferred};
  return workshop.run(*program, buildProgramPipeline, options);
}

CandidatePrograms::Proof CandidatePrograms::prove(unsigned thread, const PlacedCandidate &candidate) {
  std::string name = programOf(candidate);
  {
    std::lock_guard lock(mutex);
    if (auto found = proofs.find(name); found != proofs.end())
      return found->second;
  }
  Proof proof = proveAnew(thread, candidate);
  std::lock_guard lock(mutex);
  proofs.try_emplace(std::move(name), proof.refusal, proof.mesh);
  return proof;
}

CandidatePrograms::Proof CandidatePrograms::proveAnew(unsigned thread, const PlacedCandidate &candidate) {
  OwningOpRef<ModuleOp> module = findProgram(thread, candidate);
  if (!module) {
    Compiled compiled;
    if (std::string reason = compile(thread, candidate, compiled); !reason.empty())
      return {reason};
    module = std::move(compiled.program);
  }
  setWholeMesh(*module->getOps<ProgramOp>().begin(), candidate);
  const std::string refusal = coster.workshop(thread).run(*module, buildProof, {.wantSteps = false});
  const bool needsMore = (*module->getOps<ProgramOp>().begin())->hasAttr(refutedAttrName);
  if (!refusal.empty() && !needsMore) // undecided: another program would be so, too
    return {refusal};
  if (needsMore) {
    module = nullptr;
    if (std::string reason = compileForAll(thread, candidate, module); !reason.empty())
      return {reason};
    if (std::string last = coster.workshop(thread).run(*module, buildProof, {}); !last.empty())
      return {last};
  }
  ProgramOp program = *module->getOps<ProgramOp>().begin();
  if (mayDifferInLastBits(program, fewNodes(candidate).sizes))
    return {differsInLastBits};
  if (std::string why = request.counts ? whyNoTables(program) : ""; !why.empty())
    return {withoutTables(candidate, why)};
  std::string mesh = meshOfProof(program);
  if (needsMore)
    keep(candidate, *module);
  return {"", mesh, needsMore};
}

std::string sourceOf(const PlacedCandidate &candidate, const std::string &comment) {
  return dsl::printSource(*dsl::record(candidate.definition), comment).text;
}

} // namespace kolo::tools
