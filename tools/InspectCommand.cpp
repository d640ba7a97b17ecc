// kolo inspect: what a plugin is, as a page for people or as JSON.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/Options.h"
#include "tools/compile/Devices.h"

#include "kolo/runtime/Plugin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace kolo::tools {

using Json = nlohmann::ordered_json;

namespace {

struct InspectCommand {
  std::string path, folder;
  bool asJson = false;
};

/// "all_gather over gpu": with the dimensions, unless the collective runs over all of them.
std::string collectiveText(const Json &program) {
  std::string text = program.at("collective").get<std::string>();
  const Json &names = program.at("mesh"), &dims = program.at("groupDims");
  if (dims.size() == names.size())
    return text;
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? "," : " over ") + names.at(dims.at(i).get<size_t>()).get<std::string>();
  return text;
}

std::string proofText(const Json &program, const Json &mesh) {
  const Json &proofs = program.at("proved");
  auto proof = std::ranges::find_if(proofs, [&](const Json &entry) { return entry.at("mesh") == mesh; });
  if (proof == proofs.end())
    return "not proved";
  const Json &checked = proof->at("on");
  if (checked != mesh)
    return "represented: " + meshText(program.at("mesh"), checked) + " was proved in its place";
  std::string text = "proved";
  for (const Json &sizes : proof->at("forAllSizes"))
    text += fmt::format(", for all sizes of {} from {} on", sizes.at("dim").get<std::string>(),
                        sizes.at("from").get<int64_t>());
  return text;
}

std::string joined(const Json &words) {
  return fmt::format("{}", fmt::join(words.get<std::vector<std::string>>(), ", "));
}

std::string statementText(const Json &program) {
  std::vector<std::string> places;
  for (const Json &statement : program.at("statements"))
    places.push_back(
        fmt::format("{}:{}", statement.at("file").get<std::string>(), statement.at("line").get<int64_t>()));
  return fmt::format("{}", fmt::join(places, ", "));
}

/// "hosts may differ along node".
std::string networkText(const Json &program) {
  std::string dims;
  for (const Json &dim : program.at("networkDims"))
    dims += (dims.empty() ? "" : ", ") + program.at("mesh").at(dim.get<size_t>()).get<std::string>();
  return "ranks may be on different hosts along " + dims +
         (program.contains("networkMemory") ? ", " + program.at("networkMemory").get<std::string>() : "");
}

/// What an entry of the selection is for: "8", or "node=2,gpu=4".
std::string ranksText(const Json &entry) {
  if (!entry.contains("mesh"))
    return std::to_string(entry.at("ranks").get<int64_t>());
  std::vector<std::string> dims;
  for (const auto &[name, size] : entry.at("mesh").items())
    dims.push_back(fmt::format("{}={}", name, size.get<int64_t>()));
  return fmt::format("{}", fmt::join(dims, ","));
}

/// What an entry asks beside.
std::string remarkOn(const Json &entry) {
  std::string remark = entry.contains("tag") ? ", of communicators tagged " + entry.at("tag").get<std::string>() : "";
  if (entry.contains("lanes"))
    remark += fmt::format(", {} lanes on devices", entry.at("lanes").get<int64_t>());
  return remark + (entry.value("lossy", false) ? ", may lose bits" : "");
}

/// "165 vector registers" of ("vectorRegisters", 165).
std::string resourceText(const std::string &name, int64_t amount) {
  std::string text = std::to_string(amount) + " ";
  for (unsigned char letter : name)
    text += std::isupper(letter) ? std::string(" ") + char(std::tolower(letter)) : std::string(1, char(letter));
  return text;
}

/// The page, made before any of it is printed: a manifest may turn out to be incomplete.
class Page {
public:
  Page(const std::string &path, const Json &manifest) { addPage(path, manifest); }
  std::string text;

private:
  template <typename... Values> void add(fmt::format_string<Values...> format, Values &&...values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
  }
  void addFact(const std::string &name, const std::string &fact) { add("  {:<13} {}\n", name, fact); }

  void addProgram(const Json &program) {
    add("\n{}: {}\n", program.at("name").get<std::string>(), collectiveText(program));
    const char *label = "meshes";
    for (const Json &mesh : program.at("meshes")) {
      addFact(label, meshText(program.at("mesh"), mesh) + ": " + proofText(program, mesh));
      label = "";
    }
    if (program.contains("order"))
      for (const Json &order : program.at("order"))
        addFact("order", meshText(program.at("mesh"), order.at("mesh")) + ": " + order.at("text").get<std::string>() +
                             ", " + order.at("fingerprint").get<std::string>());
    if (program.contains("networkDims"))
      addFact("network", networkText(program));
    addFact("entry", program.at("enters").get<bool>() ? "together: a call starts when all ranks have entered it"
                                                      : "credits: a rank waits for those it exchanges data with");
    if (program.at("ll128").get<bool>())
      addFact("protocol", "ll128");
    addFact("in place", program.at("inPlace").get<std::string>() == "direct"
                            ? "the program runs in place"
                            : "the runtime copies the input aside first");
    const Json &shared = program.at("shared");
    addFact("peers access", shared.empty() ? "no buffer of the caller" : joined(shared));
    addFact("semaphores", std::to_string(program.at("semaphores").get<int64_t>()) + " per lane and pair of ranks");
    if (!program.at("statements").empty())
      addFact("waits at", statementText(program));
  }

  void addDevices(const Json &devices) {
    add("\ncode for devices, at most {} threads per block\n", devices.at("maxThreads").get<int64_t>());
    addFact("types", joined(devices.at("types")));
    addFact("reductions", joined(devices.at("reductions")));
    addFact("accumulate", devices.at("accumulate").get<std::string>());
    for (const Json &image : devices.at("images")) {
      std::string target = image.at("kind").get<std::string>() + ":" + image.at("architecture").get<std::string>();
      addFact(target,
              fmt::format("{}, {} bytes", image.at("format").get<std::string>(), image.at("bytes").get<int64_t>()));
      if (!image.contains("resources"))
        continue;
      for (const auto &[program, resources] : image.at("resources").items()) {
        std::vector<std::string> texts;
        for (const auto &[name, amount] : resources.items())
          texts.push_back(resourceText(name, amount.get<int64_t>()));
        add("    {}: {}\n", program, fmt::join(texts, ", "));
      }
    }
  }

  void addSelection(const Json &selection) {
    std::vector<std::string> ranks;
    size_t width = 5;
    for (const Json &entry : selection)
      width = std::max(width, ranks.emplace_back(ranksText(entry)).size());
    add("\nselection, by bytes of the larger buffer\n");
    add("  {:<16} {:>{}}  {:<9} {:>12}  {}\n", "collective", "ranks", width, "memory", "up to bytes", "program");
    for (size_t number = 0; number < selection.size(); ++number) {
      const Json &entry = selection.at(number), &end = entry.at("upToBytes");
      add("  {:<16} {:>{}}  {:<9} {:>12}  {}\n", entry.at("collective").get<std::string>(), ranks[number], width,
          entry.at("memory").get<std::string>(), end.is_null() ? "no end" : std::to_string(end.get<int64_t>()),
          entry.at("program").get<std::string>() + remarkOn(entry));
    }
  }

  void addPage(const std::string &path, const Json &manifest) {
    const Json &target = manifest.at("target");
    add("{}: plugin of Kolo {}, ABI {}, for {}, {}\n", path, manifest.at("kolo").get<std::string>(),
        manifest.at("abi").get<int64_t>(), target.at("triple").get<std::string>(), target.at("cpu").get<std::string>());
    if (manifest.contains("sanitize"))
      add("only a process under the {} sanitizer loads it\n", manifest.at("sanitize").get<std::string>());
    for (const Json &program : manifest.at("programs"))
      addProgram(program);
    if (manifest.contains("devices"))
      addDevices(manifest.at("devices"));
    if (manifest.contains("selection"))
      addSelection(manifest.at("selection"));
  }
};

/// Nobody vouches for the text of a manifest, and a terminal obeys control characters.
void makePrintable(const std::string &path, Json &manifest) {
  std::vector<Json *> values = {&manifest}; // no recursion: values may be nested deeply
  while (!values.empty()) {
    Json &value = *values.back();
    values.pop_back();
    if (value.is_string())
      value = runtime::printable(value.get<std::string>());
    else if (value.is_structured())
      for (const auto &[name, field] : value.items()) {
        if (std::string shown = runtime::printable(name); shown != name)
          throw ToolError(ExitCode::Usage, path + ": its manifest has control characters: '" + shown + "'");
        values.push_back(&field);
      }
  }
}

void printLines(const std::string &text) {
  llvm::StringRef rest = text;
  while (!rest.empty()) {
    auto [line, after] = rest.split('\n');
    fmt::print("{}{}", runtime::printable(line), line.size() < rest.size() ? "\n" : "");
    rest = after;
  }
}

void inspect(const InspectCommand &command) {
  if (!command.folder.empty()) {
    for (const std::string &image : extractImages(command.path, command.folder))
      fmt::print("{}\n", image);
    return;
  }
  auto manifest = runtime::Plugin::readManifest(command.path);
  if (!manifest.isOk())
    throw ToolError(ExitCode::Usage, manifest.status().message());
  if (command.asJson) {
    printLines(*manifest);
    return;
  }
  try {
    Json parsed = Json::parse(*manifest);
    makePrintable(command.path, parsed);
    fmt::print("{}", Page(command.path, parsed).text);
  } catch (const Json::exception &) {
    throw ToolError(ExitCode::Usage, command.path + ": its manifest is incomplete; --json prints it as it is");
  }
}

} // namespace

void addInspectCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "inspect", "says what a plugin is, without loading its code");
  auto options = std::make_shared<InspectCommand>();
  command->add_option("plugin", options->path, "a plugin file")->required();
  auto *json = command->add_flag("--json", options->asJson, "prints the plugin's manifest, as JSON");
  command
      ->add_option("--extract", options->folder, "writes the code for devices to this folder instead, a file per image")
      ->excludes(json);
  command->callback([options] { inspect(*options); });
}

} // namespace kolo::tools
