// Programs are kept as text: threads have contexts of their own, which are renewed now and then.
#include "driver/ContenderPrograms.h"
#include "driver/LastBits.h"
#include "driver/Schedules.h"

#include "compiler/Pipeline.h"
#include "compiler/check/Verdict.h"
#include "dsl/PrintSource.h"

using namespace mlir;

namespace kolo::tools {

using cost::PlacedMesh;

static std::string describeMesh(const PlacedMesh &mesh) {
  std::string text;
  for (auto [name, size] : llvm::zip_equal(mesh.names, mesh.sizes))
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return text;
}

template <typename Op> static void setWholeMesh(Op op, const Contender &contender) {
  Builder builder(op.getContext());
  op.setMeshesAttr(builder.getArrayAttr(builder.getDenseI64ArrayAttr(contender.mesh.sizes)));
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

size_t ContenderPrograms::choreographyOf(const Contender &contender) {
  std::string mesh = describeMesh(contender.mesh);
  std::lock_guard lock(mutex);
  auto [named, isNew] =
      byName.try_emplace(contender.definition.name + " on " + mesh + " " + contender.placement, byText.size());
  if (isNew) {
    std::string text = dsl::printSource(*dsl::record(contender.definition), mesh).text;
    named->second = byText.try_emplace(std::move(text), byText.size()).first->second;
  }
  return named->second;
}

std::string ContenderPrograms::programOf(const Contender &contender) {
  return std::to_string(choreographyOf(contender)) + suffixFor(contender.schedule);
}

PlacedMesh ContenderPrograms::fewNodes(const Contender &contender) const {
  return shrink(contender.mesh, request.machine.devicesPerNode(), mostSimulatedNodes);
}

/// The choreography on few nodes, after the passes on it; null with the reason.
OwningOpRef<ModuleOp> ContenderPrograms::emit(unsigned thread, const Contender &contender, std::string &reason) {
  Workshop &workshop = coster.workshop(thread);
  OwningOpRef<ModuleOp> module = workshop.emit(contender.definition, fewNodes(contender).sizes, reason);
  if (module)
    reason =
        workshop.run(*module, buildChoreographyPipeline, {.schedule = resolved(contender.schedule), .isChecked = true});
  return reason.empty() ? std::move(module) : nullptr;
}

/// In the thread's context; null if it was not compiled yet.
OwningOpRef<ModuleOp> ContenderPrograms::findProgram(unsigned thread, const Contender &contender) {
  std::string name = programOf(contender);
  std::unique_lock lock(mutex);
  auto found = programs.find(name);
  if (found == programs.end())
    return nullptr;
  const std::string text = found->second;
  lock.unlock();
  return coster.workshop(thread).parse(text);
}

std::string ContenderPrograms::compile(unsigned thread, const Contender &contender, Compiled &compiled) {
  Workshop &workshop = coster.workshop(thread);
  std::string reason;
  compiled.choreography = emit(thread, contender, reason);
  if (!compiled.choreography)
    return reason;
  compiled.program = findProgram(thread, contender);
  if (compiled.program)
    return "";
  compiled.program = compiled.choreography->clone();
  PipelineOptions options = {
      .schedule = resolved(contender.schedule), .check = false, .isChecked = true, .memory = &inferred};
  reason = workshop.run(*compiled.program, buildProgramPipeline, options);
  if (!reason.empty())
    return reason;
  keep(contender, *compiled.program);
  return "";
}

/// In place of what was kept before.
void ContenderPrograms::keep(const Contender &contender, ModuleOp program) {
  std::string text, name = programOf(contender);
  llvm::raw_string_ostream stream(text);
  program.print(stream, OpPrintingFlags().enableDebugInfo().useLocalScope()); // the parser makes the same of it
  std::lock_guard lock(mutex);
  programs.insert_or_assign(std::move(name), std::move(text));
}

/// Without a proof. What the passes on choreographies make holds for any number of nodes.
std::string ContenderPrograms::compileForAll(unsigned thread, const Contender &contender,
                                             OwningOpRef<ModuleOp> &program) {
  Workshop &workshop = coster.workshop(thread);
  std::string reason;
  program = emit(thread, contender, reason);
  if (!program)
    return reason;
  ChoreographyOp choreography = *program->getOps<ChoreographyOp>().begin();
  setWholeMesh(choreography, contender);
  choreography.removeCheckedAttr();
  PipelineOptions options = {.schedule = resolved(contender.schedule),
                             .check = false,
                             .isChecked = true,
                             .searchesInFull = true,
                             .memory = &inferred};
  return workshop.run(*program, buildProgramPipeline, options);
}

ContenderPrograms::Proof ContenderPrograms::prove(unsigned thread, const Contender &contender) {
  std::string name = programOf(contender);
  {
    std::lock_guard lock(mutex);
    if (auto found = proofs.find(name); found != proofs.end())
      return found->second;
  }
  Proof proof = proveAnew(thread, contender);
  std::lock_guard lock(mutex);
  proofs.try_emplace(std::move(name), proof.refusal, proof.mesh);
  return proof;
}

ContenderPrograms::Proof ContenderPrograms::proveAnew(unsigned thread, const Contender &contender) {
  OwningOpRef<ModuleOp> module = findProgram(thread, contender);
  if (!module) {
    Compiled compiled;
    if (std::string reason = compile(thread, contender, compiled); !reason.empty())
      return {reason};
    module = std::move(compiled.program);
  }
  setWholeMesh(*module->getOps<ProgramOp>().begin(), contender);
  const std::string refusal = coster.workshop(thread).run(*module, buildProof, {.wantSteps = false});
  const bool needsMore = (*module->getOps<ProgramOp>().begin())->hasAttr(refutedAttrName);
  if (!refusal.empty() && !needsMore) // undecided: another program would be so, too
    return {refusal};
  if (needsMore) {
    module = nullptr;
    if (std::string reason = compileForAll(thread, contender, module); !reason.empty())
      return {reason};
    if (std::string last = coster.workshop(thread).run(*module, buildProof, {}); !last.empty())
      return {last};
  }
  ProgramOp program = *module->getOps<ProgramOp>().begin();
  if (mayDifferInLastBits(program, fewNodes(contender).sizes))
    return {differsInLastBits};
  std::string mesh = meshOfProof(program);
  if (needsMore)
    keep(contender, *module);
  return {"", mesh, needsMore};
}

std::string sourceOf(const Contender &contender, const std::string &comment) {
  return dsl::printSource(*dsl::record(contender.definition), comment).text;
}

} // namespace kolo::tools
