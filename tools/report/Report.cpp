// One page that shows what `kolo cost`, `kolo simulate` and `kolo explore` found.
#include "tools/report/Report.h"
#include "tools/compile/ToolError.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace kolo::tools {

using nlohmann::ordered_json;

namespace {

/// Of the build tree as of an installed Kolo.
std::filesystem::path sharedFolder() {
  std::error_code problem;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  return program.parent_path().parent_path() / "share" / "kolo";
}

std::optional<std::string> readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path))
    return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string readPart(const std::filesystem::path &path) {
  if (std::optional<std::string> part = readFile(path))
    return *part;
  if (path.filename() == "d3.min.js")
    throw ToolError(ExitCode::Usage,
                    "--html: Kolo was built without D3: install Debian's package node-d3, and build again");
  throw ToolError(ExitCode::Usage, "--html: the page is not installed: cannot read " + path.string());
}

void replaceAll(std::string &text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// JSON that neither HTML nor JavaScript takes for anything else. Bytes that are no UTF-8, in an author's source,
/// become U+FFFD.
std::string scriptSafe(const ordered_json &data) {
  std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  // Only strings contain these.
  replaceAll(text, "<", "\\u003c");
  replaceAll(text, "\u2028", "\\u2028");
  replaceAll(text, "\u2029", "\\u2029");
  return text;
}

/// Words of letters, digits and a few signs stay as they are.
std::string shellWord(const std::string &word) {
  constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,.:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = word;
  replaceAll(text, "'", "'\\''");
  return "'" + text + "'";
}

const char *kindOf(cost::VertexKind kind) {
  switch (kind) {
  case cost::VertexKind::Device:
    return "device";
  case cost::VertexKind::Switch:
    return "switch";
  case cost::VertexKind::Nic:
    return "nic";
  }
  return "";
}

} // namespace

std::string commandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');)
    text += text.empty() ? std::filesystem::path(word).filename().string() : " " + shellWord(word);
  return text;
}

std::optional<std::string> readSource(const std::string &file) {
  std::optional<std::string> text = readFile(file);
  return text ? text : readFile(sharedFolder() / file); // an absolute name stays as it is
}

ordered_json nodeGraph(const cost::Machine &machine) {
  ordered_json vertices = ordered_json::array(), links = ordered_json::array();
  auto classOf = [&](int linkClass) { return machine.linkClasses()[size_t(linkClass)].name; };
  for (const cost::Vertex &vertex : machine.vertices()) {
    vertices.push_back({{"name", vertex.name}, {"kind", kindOf(vertex.kind)}});
    if (vertex.wireClass >= 0)
      vertices.back()["wire"] = classOf(vertex.wireClass);
  }
  for (const cost::Link &link : machine.links())
    links.push_back({{"from", link.from}, {"to", link.to}, {"class", classOf(link.linkClass)}, {"count", link.count}});
  return {{"name", machine.name()}, {"title", machine.title()}, {"vertices", vertices}, {"links", links}};
}

ordered_json timelineOf(const cost::Timeline &timeline, ordered_json statements, size_t schedule, int64_t bytes,
                        int64_t numRanks) {
  using Kind = cost::Record::Kind;
  constexpr size_t mostSpans = 20'000, mostRanks = 64;
  std::vector<size_t> spansOf(std::min(mostRanks, size_t(numRanks)));
  for (const cost::Record &record : timeline.records)
    if (record.rank < spansOf.size())
      ++spansOf[record.rank];
  size_t shown = 0, total = 0;
  while (shown < spansOf.size() && (shown == 0 || total + spansOf[shown] <= mostSpans))
    total += spansOf[shown++];
  ordered_json spans = ordered_json::array();
  for (const cost::Record &record : timeline.records)
    if (record.rank < shown && record.kind != Kind::Signal && record.end > record.begin) {
      int kind = record.kind == Kind::Move ? 0 : record.kind == Kind::Put ? 1 : 2;
      spans.push_back({record.rank, record.statement, kind, record.begin, record.end});
    }
  return {{"schedule", schedule}, {"bytes", bytes},           {"ranks", numRanks},
          {"shown", shown},       {"statements", statements}, {"spans", spans}};
}

ordered_json noTimeline(const std::string &reason, size_t schedule) {
  return {{"schedule", schedule}, {"reason", reason}};
}

/// The files that statements name, by name: those of schedules that do not bring their source, if they can be read.
static ordered_json readSources(const ordered_json &costJson) {
  ordered_json sources = ordered_json::object();
  for (const ordered_json &schedule : costJson.at("schedules"))
    for (const ordered_json &size : schedule.at("sizes"))
      for (const ordered_json &statement : size.at("statements"))
        if (std::string name = statement.at("file"); !schedule.contains("source") && !sources.contains(name))
          if (std::optional<std::string> text = readSource(name))
            sources[name] = *text;
  return sources;
}

/// The page names its parts, as {{report.css}}; what is put in is not looked through again.
static std::string assemble(const ordered_json &data) {
  const std::filesystem::path folder = sharedFolder() / "report";
  const std::string page = readPart(folder / "report.html");
  std::string result;
  for (size_t at = 0;;) {
    size_t begin = page.find("{{", at), end = page.find("}}", begin);
    result += page.substr(at, begin - at);
    if (end == std::string::npos)
      return result;
    std::string part = page.substr(begin + 2, end - begin - 2);
    result += part == "data" ? scriptSafe(data) : readPart(folder / part);
    at = end + 2;
  }
}

void checkReport(const std::string &path) {
  if (path == "-")
    throw ToolError(ExitCode::Usage, "--html: cannot write -: it is not a regular file");
  if (!path.empty())
    assemble(nullptr);
}

std::string htmlReport(const ordered_json &costJson, const ReportExtras &extras) {
  bool hasSizes = false;
  for (const ordered_json &schedule : costJson.at("schedules"))
    hasSizes |= !schedule.at("sizes").empty();
  if (!hasSizes)
    throw ToolError(ExitCode::Usage, "--html: there is no schedule to show");
  return assemble({{"cost", costJson},
                   {"command", extras.command},
                   {"machine", extras.machine},
                   {"timelines", extras.timelines},
                   {"sources", readSources(costJson)}});
}

} // namespace kolo::tools
