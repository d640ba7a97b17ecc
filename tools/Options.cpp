// What several commands of `kolo` take, and how it is understood.
#include "tools/Options.h"

#include "tools/compile/Schedules.h"
#include "tools/run/Data.h"

#include "targets/AtomicFile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include <unistd.h>

namespace kolo::tools {

void CountsOption::addTo(CLI::App &command) {
  command.add_option("--counts", text,
                     "counts of blocks: zipf:EXPONENT:SEED, random:SEED, onehot:BLOCK, or a file of numbers");
}

std::optional<BlockLaw> CountsOption::law() const {
  if (text.empty())
    return std::nullopt;
  auto parsed = parseBlockLaw(text);
  if (auto *mistake = std::get_if<std::string>(&parsed))
    throw ToolError(ExitCode::Usage, "--counts: " + *mistake);
  return std::get<BlockLaw>(std::move(parsed));
}

int64_t parseSize(const std::string &text, const std::string &flag) {
  int64_t number = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char letter) { return std::tolower(letter); });
  static const std::map<std::string, int> shifts = {{"", 0},     {"b", 0},   {"k", 10},   {"kb", 10}, {"kib", 10},
                                                    {"m", 20},   {"mb", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                                                    {"gib", 30}, {"t", 40},  {"tb", 40},  {"tib", 40}};
  auto shift = shifts.find(unit);
  if (problem != std::errc() || number < 0 || shift == shifts.end() || number > (INT64_MAX >> shift->second))
    throw ToolError(ExitCode::Usage, flag + ": '" + text + "' is not a size; write 8, 64K, 16MiB or 1G");
  return number << shift->second;
}

runtime::Mesh parseMesh(const std::string &text) {
  auto mesh = runtime::Mesh::parse(text);
  if (!mesh.isOk())
    throw ToolError(ExitCode::Usage, "--mesh: " + mesh.status().message() + "; a mesh is written like node=2,gpu=4");
  return std::move(mesh).value();
}

std::string meshText(const nlohmann::ordered_json &names, const nlohmann::ordered_json &sizes) {
  std::string text;
  for (size_t dim = 0; dim < names.size(); ++dim)
    text += fmt::format("{}{}={}", dim ? "," : "", names.at(dim).get<std::string>(), sizes.at(dim).get<int64_t>());
  return text;
}

void ScheduleOptions::addTo(CLI::App &command) {
  command
      .add_option("--pipeline", pipelineDepth, "depth: slices of every chunk that follow each other through the phases")
      ->type_name("DEPTH")
      ->check(CLI::Range(int64_t(1), maxPipelineDepth))
      ->capture_default_str();
  command
      .add_option("--synchronisation", synchronisation,
                  "least: only the synchronisation that the checker proves to be needed;\n"
                  "handshake: every transfer waits for both of its sides")
      ->check(CLI::IsMember({"least", "handshake"}))
      ->capture_default_str();
  command
      .add_option("--transfers", transfers,
                  "who moves data that is not combined; push: the sender writes it; pull: the\n"
                  "receiver reads it; auto: pull from a root, else push")
      ->check(CLI::IsMember({"auto", "push", "pull"}))
      ->capture_default_str();
  command
      .add_option("--entry", entry,
                  "together: a call starts when all ranks have entered it; credits: a rank waits for\n"
                  "those it exchanges data with; auto: together if only the host gets code")
      ->check(CLI::IsMember({"auto", "together", "credits"}))
      ->capture_default_str();
  command
      .add_option("--protocol", protocol,
                  "bulk: from buffer to buffer; published: every rank publishes its input in\n"
                  "memory of the runtime, piece by piece, and the others read it; ll: packets\n"
                  "of 8 bytes, 4 of them data, for small messages; ll128: packets of 128 bytes,\n"
                  "120 of them data, for hosts and CUDA devices")
      ->transform(CLI::Validator(
          [](std::string &name) {
            name = currentProtocolName(name);
            return std::string();
          },
          ""))
      ->check(CLI::IsMember({"bulk", "published", "ll", "ll128"}))
      ->capture_default_str();
  command
      .add_option("--order", order,
                  "of sums; fixed: one that no size, lanes, protocol, memory or placement changes, so\n"
                  "that equal inputs give equal bits; a program without one is refused (V12)")
      ->check(CLI::IsMember({"any", "fixed"}))
      ->capture_default_str();
}

Schedule ScheduleOptions::schedule() const {
  return parseSchedule({{"pipeline", pipelineDepth},
                        {"synchronisation", synchronisation},
                        {"transfers", transfers},
                        {"entry", entry},
                        {"protocol", protocol},
                        {"order", order}},
                       "--protocol");
}

/// Of the larger buffer.
static int64_t numBlocks(const RankJob &job) { return blocksOf(job, {1}).largestBuffer(); }

int64_t countFor(const RankJob &job, int64_t numBytes) {
  return numBytes / int64_t(runtime::sizeBytes(job.type)) / numBlocks(job);
}

int64_t bytesFor(const RankJob &job, int64_t count) {
  return count * numBlocks(job) * int64_t(runtime::sizeBytes(job.type));
}

Bandwidths bandwidthsFor(const RankJob &job, int64_t count, double microseconds) {
  double numBytes = double(bytesFor(job, count)), n = double(groupSizeOf(job));
  double algorithm = microseconds > 0 ? numBytes / microseconds / 1e3 : 0;
  using enum runtime::CollectiveKind;
  switch (job.info()->collective) {
  case AllReduce:
    return {algorithm, algorithm * 2 * (n - 1) / n};
  case Broadcast:
  case Reduce:
  case Scan:
  case Exscan:
    return {algorithm, algorithm};
  default:
    return {algorithm, algorithm * (n - 1) / n};
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.empty() ? 0 : values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void checkWritable(const std::string &path, const std::string &flag) {
  if (path.empty() || path == "-")
    return;
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw ToolError(ExitCode::Usage, flag + ": " + path + " is a directory");
  if (access(std::filesystem::exists(path, ignored) ? path.c_str() : parent.empty() ? "." : parent.c_str(), W_OK) != 0)
    throw ToolError(ExitCode::Usage, flag + ": cannot write " + path + ": " + std::strerror(errno));
}

void checkRegular(const std::string &path, const std::string &flag) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    throw ToolError(ExitCode::Usage, flag + ": cannot write " + path + ": it is not a regular file");
}

void writeWhole(const std::string &path, const std::string &text, const std::string &flag) {
  if (llvm::Error problem = writeAtomically(path, llvm::StringRef(text), 0666))
    throw ToolError(ExitCode::Usage, flag + ": cannot write " + path + ": " + llvm::toString(std::move(problem)));
}

} // namespace kolo::tools
