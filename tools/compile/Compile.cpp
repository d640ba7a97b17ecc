// From a choreography to a plugin file, or only to channel form.
#include "tools/compile/Compile.h"
#include "tools/compile/Devices.h"
#include "tools/compile/ForeignImport.h"
#include "tools/compile/Mistakes.h"
#include "tools/compile/UserCode.h"

#include "compiler/Passes.h"
#include "compiler/Pipeline.h"
#include "compiler/project/Relations.h"
#include "dsl/EmitChoreography.h"
#include "dsl/Recording.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/package/Package.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace kolo::tools {

namespace {

void prepare(MLIRContext &context) {
  // Programs are small: threads cost more than they bring, and a process that forks ranks later must not have any.
  context.disableMultithreading();
  context.printOpOnDiagnostic(false); // authors write C++
  context.loadDialect<KoloDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  cpu::loadCpuTarget(context);
}

std::vector<int64_t> sizesFor(const dsl::Definition &definition, const runtime::Mesh &mesh) {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const runtime::MeshDim &dim : mesh.dims()) {
    names.push_back(dim.name);
    sizes.push_back(dim.size);
  }
  if (names == definition.mesh.dims)
    return sizes;
  std::string wanted;
  for (const std::string &name : definition.mesh.dims)
    wanted += (wanted.empty() ? "" : ",") + name + "=N";
  throw ToolError(ExitCode::Usage, definition.name + " runs on meshes " + wanted + ", not on " + mesh.toString());
}

std::string describePlace(const std::source_location &location) {
  return std::string(location.file_name()) + ":" + std::to_string(location.line()) + ":" +
         std::to_string(location.column());
}

void checkNames(const std::vector<dsl::Definition> &definitions, Mistakes &mistakes) {
  std::map<std::string, std::source_location> places;
  for (const dsl::Definition &definition : definitions)
    if (auto [earlier, isNew] = places.try_emplace(definition.name, definition.location); !isNew)
      mistakes.add(definition.location, "another choreography is named '" + definition.name + "' already, at " +
                                            describePlace(earlier->second));
}

using CodecChoices = std::map<std::string, dsl::Codec>;

std::unique_ptr<dsl::Recording> recordGuarded(const dsl::Definition &definition, const CodecChoices &codecs) {
  UserCode guard(describePlace(definition.location));
  return dsl::record(definition, codecs);
}

/// What choreographies are made of.
struct Choreographies {
  std::vector<dsl::Definition> definitions;
  std::vector<runtime::Mesh> meshes;
  CodecChoices codecs = {};
};

/// Adds the definition's choreography to the module, and what is wrong with it to the mistakes. Gives the recording.
std::unique_ptr<dsl::Recording> addChoreography(ModuleOp module, const dsl::Definition &definition,
                                                const Choreographies &wanted, Mistakes &mistakes) {
  std::vector<std::vector<int64_t>> sizes;
  for (const runtime::Mesh &mesh : wanted.meshes)
    sizes.push_back(sizesFor(definition, mesh));
  std::unique_ptr<dsl::Recording> recording = recordGuarded(definition, wanted.codecs);
  for (const dsl::Diagnostic &diagnostic : recording->diagnostics)
    mistakes.add(diagnostic.location, diagnostic.message, diagnostic.callers);
  if (recording->buffers.empty())
    return recording; // not even its mesh is right: nothing was recorded
  for (const std::vector<int64_t> &mesh : sizes)
    if (const dsl::Requirement *unmet = dsl::findUnmet(*recording, mesh)) {
      mistakes.add(unmet->origin.location, dsl::describeUnmet(*recording, *unmet, mesh), unmet->origin.callers);
      return recording;
    }
  OwningOpRef<ModuleOp> emitted = dsl::emitChoreography(*module.getContext(), *recording, sizes);
  module.getBody()->getOperations().splice(module.getBody()->end(), emitted->getBody()->getOperations());
  return recording;
}

/// Throws ToolError (Usage) if a choice is of a codec that no program names.
void checkChoices(const CodecChoices &choices, const std::set<std::string> &known) {
  std::string all;
  for (const std::string &name : known)
    all += (all.empty() ? "; there are " : ", ") + name;
  for (const auto &[name, codec] : choices)
    if (!known.contains(name))
      throw ToolError(ExitCode::Usage, "--codec: no program has a codec named '" + name + "'" + all);
}

/// What else is wrong with the statements that could be emitted, when some could not.
void checkRest(ModuleOp module) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  CheckChoreographyOptions options;
  options.result = false;
  manager.nest<ChoreographyOp>().addPass(createCheckChoreography(options));
  (void)manager.run(module); // what it finds goes to the diagnostics
}

/// The choreographies of these definitions. Throws ToolError.
OwningOpRef<ModuleOp> emitDefinitions(MLIRContext &context, const Choreographies &wanted, Mistakes &mistakes) {
  checkNames(wanted.definitions, mistakes);
  if (!mistakes.isEmpty())
    throw ToolError(ExitCode::Refused, mistakes.text());
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
  std::set<std::string> codecs;
  for (const dsl::Definition &definition : wanted.definitions) {
    std::unique_ptr<dsl::Recording> recording = addChoreography(*module, definition, wanted, mistakes);
    for (const dsl::RecordedCodec &codec : recording->codecs)
      codecs.insert(codec.name);
  }
  checkChoices(wanted.codecs, codecs);
  if (!mistakes.isEmpty() && succeeded(verify(*module)))
    checkRest(*module);
  if (!mistakes.isEmpty())
    throw ToolError(ExitCode::Refused, mistakes.text());
  return module;
}

/// Throws ToolError.
OwningOpRef<ModuleOp> parseIr(MLIRContext &context, const std::string &path, Mistakes &mistakes) {
  if (!llvm::sys::fs::is_regular_file(path))
    throw ToolError(ExitCode::Usage, "there is no file " + path);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, ParserConfig(&context));
  if (!module)
    throw ToolError(ExitCode::Refused, mistakes.isEmpty() ? "cannot read " + path : mistakes.text());
  if (module->getOps<ChoreographyOp>().empty() && module->getOps<ProgramOp>().empty())
    throw ToolError(ExitCode::Refused, path + ":1:1: error: it has no kolo.choreography and no kolo.chan.program");
  return module;
}

OwningOpRef<ModuleOp> readModule(MLIRContext &context, const CompileRequest &request, Mistakes &mistakes) {
  if (request.irPath.empty()) {
    auto module = emitDefinitions(context, {request.definitions, request.meshes, request.codecs}, mistakes);
    markNetwork(*module, request.network);
    return module;
  }
  checkChoices(request.codecs, {}); // IR has its codecs
  if (isForeignFile(request.irPath))
    return importForeign(context, request.irPath);
  auto module = parseIr(context, request.irPath, mistakes);
  markNetwork(*module, request.network);
  return module;
}

package::Selection selectionOf(const SelectionRequest &entry) {
  package::Selection selection{runtime::toString(entry.collective), entry.ranks,     {},
                               runtime::toString(entry.memory),     entry.upToBytes, entry.program};
  for (const runtime::MeshDim &dim : entry.mesh.dims())
    selection.mesh.emplace_back(dim.name, dim.size);
  selection.tag = entry.tag;
  selection.allowsLoss = entry.allowsLoss;
  selection.lanes = entry.lanes;
  return selection;
}

/// Throws ToolError.
ResolvedSchedule resolveOrThrow(const Schedule &schedule, const Setting &setting) {
  auto resolved = resolve(schedule, setting);
  if (const auto *mistake = std::get_if<ScheduleMistake>(&resolved))
    throw ToolError(ExitCode::Usage, mistake->message);
  return std::get<ResolvedSchedule>(resolved);
}

/// Texts of choreographies, by name.
using Texts = std::map<std::string, std::string>;

/// Of those with codecs.
void keepCoded(ModuleOp module, Texts &texts) {
  for (auto choreography : module.getOps<ChoreographyOp>())
    if (findCoded(choreography)) {
      llvm::raw_string_ostream stream(texts[choreography.getSymName().str()]);
      choreography->print(stream);
    }
}

/// Every program in channel form, by its own schedule; the rest as in `options`. Throws ToolError.
OwningOpRef<ModuleOp> compilePrograms(MLIRContext &context, const CompileRequest &request, const Setting &setting,
                                      PipelineOptions options, Mistakes &mistakes, Texts &choreographies) {
  OwningOpRef<ModuleOp> all(ModuleOp::create(UnknownLoc::get(&context)));
  for (const ProgramRequest &program : request.programs) {
    OwningOpRef<ModuleOp> module = emitDefinitions(context, {{program.definition}, program.meshes}, mistakes);
    markNetwork(*module, request.network);
    keepCoded(*module, choreographies);
    options.schedule = resolveOrThrow(program.schedule, setting);
    if (failed(runChannelPipeline(*module, options)))
      throw ToolError(ExitCode::Refused, mistakes.text());
    all->getBody()->getOperations().splice(all->getBody()->end(), module->getBody()->getOperations());
  }
  return all;
}

} // namespace

NetworkMemory parseNetworkMemory(const std::string &name) {
  return name == "staged" ? NetworkMemory::Staged : NetworkMemory::Direct;
}

void markNetwork(ModuleOp module, const AcrossHosts &network) {
  for (auto choreography : module.getOps<ChoreographyOp>()) {
    SmallVector<int64_t> numbers;
    for (auto [number, dim] : llvm::enumerate(choreography.getMesh().getAsRange<StringAttr>()))
      if (llvm::is_contained(network.dims, dim.getValue()))
        numbers.push_back(int64_t(number));
    if (numbers.empty())
      continue;
    choreography->setDiscardableAttr(networkAttrName, DenseI64ArrayAttr::get(module.getContext(), numbers));
    if (network.memory == NetworkMemory::Staged)
      choreography->setDiscardableAttr(stagedAttrName, UnitAttr::get(module.getContext()));
  }
}

static Setting settingOf(const CompileRequest &request) {
  return {request.devices.empty() ? Runners::Host : Runners::HostAndDevices, request.optimize};
}

/// Of programs that go by one schedule. Throws ToolError.
static PipelineOptions optionsFor(const CompileRequest &request) {
  PipelineOptions options{.schedule = resolveOrThrow(request.schedule, settingOf(request)),
                          .unproved = request.unproved,
                          .represented = request.represented,
                          .sanitizeThread = request.sanitizeThread};
  options.budget = request.budget.value_or(options.budget);
  options.standInBudget = request.budget.value_or(options.standInBudget);
  return options;
}

/// For the host and for devices. Choreographies go by one schedule; programs have gone by one each.
static llvm::Error pack(ModuleOp module, const CompileRequest &request, const PipelineOptions &options,
                        Texts choreographies) {
  package::PackRequest pack{options, request.output};
  pack.cpu = request.cpu;
  pack.choreographies = std::move(choreographies);
  for (const SelectionRequest &entry : request.selection)
    pack.selection.push_back(selectionOf(entry));
  pack.tuned = request.tuned;
  pack.compileForDevices = [&](ModuleOp programs) { return compileDevices(programs, options, request); };
  return request.programs.empty() ? package::compilePlugin(module, pack) : package::packPlugin(module, pack);
}

std::vector<std::string> compile(const CompileRequest &request) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepare(context);
  Mistakes mistakes(context);
  OwningOpRef<ModuleOp> module;
  Texts choreographies;
  if (request.programs.empty()) {
    module = readModule(context, request, mistakes);
    keepCoded(*module, choreographies);
  }
  // A device would be replaced by the plugin, and standard output gets the tool's own words.
  const std::string &output = request.output;
  if (output == "-" || (llvm::sys::fs::exists(output) && !llvm::sys::fs::is_regular_file(output)))
    throw ToolError(ExitCode::Usage, "cannot write " + output + ": it is not a regular file");
  PipelineOptions options = optionsFor(request);
  if (!module)
    module = compilePrograms(context, request, settingOf(request), options, mistakes, choreographies);
  llvm::Error problem = pack(*module, request, options, std::move(choreographies));
  if (!mistakes.isEmpty()) {
    llvm::consumeError(std::move(problem));
    throw ToolError(ExitCode::Refused, mistakes.text());
  }
  if (problem)
    throw ToolError(ExitCode::Usage, llvm::toString(std::move(problem)));
  return mistakes.warnings();
}

static std::string printIr(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Statements go by the lines that they come from: without locations, other code would come of the text.
  module->print(stream, OpPrintingFlags().enableDebugInfo());
  return text + "\n";
}

/// A stage after channel form, which the module is in.
static llvm::Expected<std::string> emitCode(ModuleOp module, const CompileRequest &request,
                                            const PipelineOptions &options, Stage stage) {
  switch (stage) {
  case Stage::Ptx:
    return emitAssembly(module, options, request, "cuda");
  case Stage::HsacoAssembly:
    return emitAssembly(module, options, request, "hip");
  case Stage::Assembly:
    return cpu::emitText(module, {options, request.cpu}, cpu::CodeForm::Assembly);
  default:
    return cpu::emitText(module, {options, request.cpu}, cpu::CodeForm::LlvmIr);
  }
}

StageText emitStage(const CompileRequest &request, Stage stage) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepare(context);
  Mistakes mistakes(context);
  OwningOpRef<ModuleOp> module = readModule(context, request, mistakes);
  PipelineOptions options = optionsFor(request);
  if (stage == Stage::Choreography) {
    if (module->getOps<ChoreographyOp>().empty())
      throw ToolError(ExitCode::Usage, request.irPath + " has no choreography: it is in channel form already");
    return {printIr(*module), {}};
  }
  if (failed(runChannelPipeline(*module, options)))
    throw ToolError(ExitCode::Refused, mistakes.text());
  if (stage == Stage::Channel)
    return {printIr(*module), mistakes.warnings()};
  llvm::Expected<std::string> text = emitCode(*module, request, options, stage);
  if (!text)
    throw ToolError(ExitCode::Usage, llvm::toString(text.takeError()));
  return {std::move(*text), mistakes.warnings()};
}

void compileToChannel(const CompileRequest &request, const std::function<void(ModuleOp)> &use) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepare(context);
  Mistakes mistakes(context);
  OwningOpRef<ModuleOp> module = readModule(context, request, mistakes);
  Setting setting{Runners::Any, request.optimize};
  PipelineOptions options{.schedule = resolveOrThrow(request.schedule, setting),
                          .check = false,
                          .represented = request.represented,
                          .searchesInFull = request.searchesInFull};
  options.budget = request.budget.value_or(options.budget);
  if (failed(runChannelPipeline(*module, options)))
    throw ToolError(ExitCode::Refused, mistakes.text());
  use(*module);
}

void readChoreographies(const CompileRequest &request, const std::function<void(ModuleOp)> &use) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepare(context);
  Mistakes mistakes(context);
  OwningOpRef<ModuleOp> module = readModule(context, request, mistakes);
  PassManager manager(&context, ModuleOp::getOperationName());
  manager.nest<ChoreographyOp>().addPass(createCheckChoreography());
  if (failed(manager.run(*module)))
    throw ToolError(ExitCode::Refused, mistakes.text());
  use(*module);
  if (!mistakes.isEmpty())
    throw ToolError(ExitCode::Refused, mistakes.text());
}

void compileForCosts(const CompileRequest &request, Runners runners,
                     const std::function<void(ModuleOp, ModuleOp, const ResolvedSchedule &)> &use) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  prepare(context);
  Mistakes mistakes(context);
  OwningOpRef<ModuleOp> choreographies = readModule(context, request, mistakes);
  PipelineOptions options{.schedule = resolveOrThrow(request.schedule, {runners, request.optimize}), .check = false};
  options.budget = request.budget.value_or(options.budget);
  auto run = [&](auto build, ModuleOp module) {
    PassManager manager(&context, ModuleOp::getOperationName());
    build(manager, options);
    if (failed(manager.run(module)))
      throw ToolError(ExitCode::Refused, mistakes.text());
  };
  run(buildChoreographyPipeline, *choreographies);
  OwningOpRef<ModuleOp> programs = choreographies->clone();
  run(buildProgramPipeline, *programs);
  use(*choreographies, *programs, options.schedule);
}

std::vector<dsl::Definition> shippedAlgorithms() {
  std::vector<dsl::Definition> all = dsl::registeredChoreographies();
  std::ranges::sort(all, {}, &dsl::Definition::name);
  return all;
}

const dsl::Definition &findShipped(const std::string &name) {
  const std::vector<dsl::Definition> &all = dsl::registeredChoreographies();
  auto found = std::ranges::find(all, name, &dsl::Definition::name);
  if (found != all.end())
    return *found;
  std::vector<std::string> names;
  for (const dsl::Definition &definition : shippedAlgorithms())
    names.push_back(definition.name);
  throw ToolError(ExitCode::Usage, "there is no algorithm '" + name + "'" + didYouMean(name, names) + " (kolo list)");
}

std::string didYouMean(const std::string &word, const std::vector<std::string> &known) {
  auto distance = [&](const std::string &candidate) {
    return llvm::StringRef(candidate).edit_distance_insensitive(word);
  };
  auto nearest = std::ranges::min_element(known, {}, distance);
  if (nearest == known.end() || distance(*nearest) > std::max<size_t>(2, word.size() / 2) || word.empty())
    return "";
  return "; did you mean " + *nearest + "?";
}

} // namespace kolo::tools
