// What several commands of `kolo` take, and how it is understood.
#pragma once

#include "compiler/Schedule.h"
#include "compiler/model/BlockLaw.h"
#include "tools/run/RankRunner.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

/// "64", "64K", "16MiB", "1G", "2T": bytes, in powers of 1024, in either case. Throws ToolError (Usage), naming `flag`.
int64_t parseSize(const std::string &text, const std::string &flag);

/// Throws ToolError (Usage) when the text is no mesh, or has more ranks than the compiler can check one by one.
runtime::Mesh parseMesh(const std::string &text);

/// "node=2,gpu=4", of a manifest's names and sizes of dimensions. Throws nlohmann::json::exception when they are
/// others.
std::string meshText(const nlohmann::ordered_json &names, const nlohmann::ordered_json &sizes);

/// --counts, which gives blocks counts of their own.
struct CountsOption {
  std::string text; // empty: all blocks have as many

  void addTo(CLI::App &command);
  /// Throws ToolError (Usage).
  std::optional<BlockLaw> law() const;
};

/// --pipeline, --synchronisation, --transfers, --entry, --protocol and --order.
struct ScheduleOptions {
  int64_t pipelineDepth = 1;
  std::string synchronisation = "least";
  std::string transfers = "auto";
  std::string entry = "auto";
  std::string protocol = "bulk";
  std::string order = "any";

  void addTo(CLI::App &command);
  /// Throws ToolError (Usage) when options exclude each other.
  Schedule schedule() const;
};

/// Flags of the commands that run ranks.
struct RunOptions {
  std::string what; // a shipped algorithm, or a plugin file
  std::string program, collective, mesh, type = "f32", reduction = "sum", ranksAs, memory, device, tag;
  std::vector<std::string> codecs;
  int root = 0, lanes = 0, timeoutMs = 0;
  bool isInPlace = false, noOptimization = false, allowsLoss = false;
  CountsOption counts; // of `kolo run` and `kolo bench`
  ScheduleOptions scheduleOptions;

  void addTo(CLI::App &command);
  /// A job without sizes: the plugin is compiled first if `what` is an algorithm.
  RankJob makeJob() const;

private:
  std::optional<runtime::DeviceKind> deviceKind() const;
  void chooseProgram(RankJob &job) const;
  void checkMesh(const RankJob &job) const;
  void checkTables(const RankJob &job) const;
};

/// Elements, as the collective counts them, of a call whose larger buffer holds this many bytes, rounded down.
int64_t countFor(const RankJob &job, int64_t numBytes);
/// Bytes of the larger buffer of one rank.
int64_t bytesFor(const RankJob &job, int64_t count);

struct Bandwidths {
  double algorithmGBps, busGBps; // 1e9 bytes per second; bus as nccl-tests defines it
};
Bandwidths bandwidthsFor(const RankJob &job, int64_t count, double microseconds);

double median(std::vector<double> values);

/// Whether a file can be written, asked before anything is measured; "" and "-" can. Throws ToolError (Usage).
void checkWritable(const std::string &path, const std::string &flag);
/// Refuses to replace what is no regular file, such as a device. Throws ToolError (Usage).
void checkRegular(const std::string &path, const std::string &flag);
/// Writes a regular file, whole or not at all. Throws ToolError (Usage).
void writeWhole(const std::string &path, const std::string &text, const std::string &flag);

} // namespace kolo::tools
