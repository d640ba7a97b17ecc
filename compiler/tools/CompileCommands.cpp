// kolo list, compile and inspect: what needs no ranks.
#include "Commands.h"
#include "Options.h"

#include "driver/Compile.h"
#include "kolo/runtime/Plugin.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace kolo::tools {

static std::string collectiveName(const dsl::Collective &collective) {
  std::string name = runtime::toString(runtime::CollectiveKind(int(collective.kind))); // the same cases in the same order
  for (size_t i = 0; i < collective.dims.size(); ++i)
    name += (i ? "," : " over ") + collective.dims[i];
  return name;
}

static void list(bool asJson) {
  std::vector<dsl::Definition> all = dsl::registeredChoreographies();
  std::ranges::sort(all, {}, [](const dsl::Definition &definition) {
    return std::pair(collectiveName(definition.collective), definition.name);
  });
  if (asJson) {
    auto rows = nlohmann::ordered_json::array();
    for (const dsl::Definition &definition : all)
      rows.push_back({{"name", definition.name},
                      {"collective", collectiveName(definition.collective)},
                      {"mesh", definition.mesh.dims}});
    fmt::print("{}\n", rows.dump(2));
    return;
  }
  fmt::print("{:<32} {:<24} {}\n", "name", "collective", "mesh");
  for (const dsl::Definition &definition : all)
    fmt::print("{:<32} {:<24} {}\n", definition.name, collectiveName(definition.collective),
               fmt::join(definition.mesh.dims, ","));
}

void addListCommand(CLI::App &app) {
  CLI::App *command = app.add_subcommand("list", "shows the algorithms that ship with Kolo");
  auto asJson = std::make_shared<bool>(false);
  command->add_flag("--json", *asJson, "as JSON: an array of {name, collective, mesh}");
  command->callback([asJson] { list(*asJson); });
}

namespace {
struct CompileOptions {
  std::string what, output, program, target = "cpu";
  std::vector<std::string> meshes;
  bool noOptimization = false;
};
} // namespace

/// The choreographies that were asked for. Throws ToolError.
static std::vector<dsl::Definition> chooseDefinitions(const CompileOptions &options, bool isSource) {
  std::vector<dsl::Definition> all = isSource ? loadUserSource(options.what) : std::vector{findShipped(options.what)};
  if (options.program.empty())
    return all;
  std::vector<std::string> names;
  for (const dsl::Definition &definition : all)
    names.push_back(definition.name);
  std::erase_if(all, [&](const dsl::Definition &definition) { return definition.name != options.program; });
  if (all.empty())
    throw ToolError(ExitCode::Usage, fmt::format("--program: there is no '{}'; {} has {}", options.program, options.what,
                                                 fmt::join(names, ", ")));
  return all;
}

static std::vector<runtime::Mesh> parseMeshes(const std::vector<std::string> &texts) {
  std::vector<runtime::Mesh> meshes;
  for (const std::string &text : texts)
    if (runtime::Mesh mesh = parseMesh(text); std::ranges::find(meshes, mesh) == meshes.end())
      meshes.push_back(std::move(mesh));
  if (meshes.empty())
    throw ToolError(ExitCode::Usage, "--mesh is needed, for example --mesh node=2,gpu=4");
  return meshes;
}

/// Says which meshes were too large to check every rank of, and what was checked in their place.
static void printSamples(const std::string &plugin) {
  auto manifest = runtime::Plugin::readManifest(plugin);
  if (!manifest.isOk())
    throw ToolError(ExitCode::Failed, manifest.status().message());
  auto describe = [](const nlohmann::json &names, const nlohmann::json &sizes) {
    std::string text;
    for (size_t dim = 0; dim < names.size(); ++dim)
      text += fmt::format("{}{}={}", dim ? "," : "", names[dim].get<std::string>(), sizes[dim].get<int64_t>());
    return text;
  };
  const nlohmann::json parsed = nlohmann::json::parse(*manifest);
  for (const nlohmann::json &program : parsed["programs"])
    for (const nlohmann::json &entry : program["checked"])
      if (entry["mesh"] != entry["on"])
        fmt::print("{}: {} was checked on {} in its place\n", program["name"].get<std::string>(),
                   describe(program["mesh"], entry["mesh"]), describe(program["mesh"], entry["on"]));
}

static void compileCommand(const CompileOptions &options) {
  std::string extension = std::filesystem::path(options.what).extension();
  bool isSource = extension == ".cpp" || extension == ".cc" || extension == ".cxx", isIr = extension == ".mlir";
  std::string output = options.output.empty() ? std::filesystem::path(options.what).stem().string() + ".so" : options.output;
  if (!isSource && !isIr && options.what.find_first_of("./") != std::string::npos)
    throw ToolError(ExitCode::Usage, options.what + " is neither an algorithm nor a file that ends in .cpp, .cc, .cxx or .mlir");
  if (isIr && !options.meshes.empty())
    throw ToolError(ExitCode::Usage, "--mesh: not with " + options.what + "; IR names its meshes itself");
  if (isIr && !options.program.empty())
    throw ToolError(ExitCode::Usage, "--program: not with " + options.what + "; all of its programs are compiled");
  auto start = std::chrono::steady_clock::now();
  if (isIr) {
    compileIr(options.what, output, !options.noOptimization);
  } else {
    std::vector<runtime::Mesh> meshes = parseMeshes(options.meshes);
    std::vector<dsl::Definition> definitions = chooseDefinitions(options, isSource);
    start = std::chrono::steady_clock::now(); // the host compiler's time is not Kolo's
    compile({definitions, meshes, output, !options.noOptimization});
  }
  double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}: compiled in {:.0f} ms\n", output, milliseconds);
  printSamples(output);
}

void addCompileCommand(CLI::App &app) {
  CLI::App *command = app.add_subcommand("compile", "compiles an algorithm, or a file of your own, to a plugin");
  auto options = std::make_shared<CompileOptions>();
  command->add_option("algorithm", options->what, "a shipped algorithm, FILE.cpp or FILE.mlir")->required();
  command->add_option("--mesh", options->meshes, "ranks by dimension, slowest first: node=2,gpu=4; may repeat");
  command->add_option("--target", options->target, "what to generate code for")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();
  command->add_option("--program", options->program, "one choreography of FILE.cpp; without it, all");
  command->add_option("-o,--output", options->output, "the plugin; without it, NAME.so");
  command->add_flag("--no-optimization", options->noOptimization, "required passes only");
  command->callback([options] { compileCommand(*options); });
}

void addInspectCommand(CLI::App &app) {
  CLI::App *command = app.add_subcommand("inspect", "prints a plugin's manifest without loading its code");
  auto path = std::make_shared<std::string>();
  command->add_option("plugin", *path, "a plugin file")->required();
  command->callback([path] {
    auto manifest = runtime::Plugin::readManifest(*path);
    if (!manifest.isOk())
      throw ToolError(ExitCode::Usage, manifest.status().message());
    fmt::print("{}", *manifest);
  });
}

} // namespace kolo::tools
