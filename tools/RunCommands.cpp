// kolo run and bench: programs on real ranks.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/Options.h"

#include "tools/run/Lossy.h"

#include "compiler/model/BlockCounts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>

#include <unistd.h>

namespace kolo::tools {

namespace {

constexpr int mostIterations = 1'000'000;

struct RunCommand : RunOptions {
  std::string size = "64M";
  int64_t count = -1;
  int iterations = 5;
  bool countsTraffic = false;
};

struct BenchCommand : RunOptions {
  std::string first = "8", last = "64M", csvPath, jsonPath;
  int factor = 2, warmUps = 5, iterations = 20;
};

struct Row {
  int64_t bytes, count;
  double minUs, medianUs, maxUs;
  Bandwidths bandwidths;
  std::string program; // that the plugin selected; empty where it was named
  /// Of the largest buffer of any rank. Only with block tables: bus bandwidth is defined for equal blocks.
  std::optional<int64_t> largestBytes;

  /// Bus bandwidth, or the largest buffer.
  std::string lastColumn(const char *format) const {
    return largestBytes ? std::to_string(*largestBytes) : fmt::format(fmt::runtime(format), bandwidths.busGBps);
  }
};

std::optional<int64_t> largestBytesOf(const RankJob &job, const SizeJob &size) {
  if (!size.tabled)
    return std::nullopt;
  return blocksOf(job, size).largestBuffer() * int64_t(runtime::sizeBytes(job.type));
}

std::string selectedFor(const RankJob &job, const SizeJob &size) {
  const runtime::ProgramInfo *selected = job.collective ? job.programFor(size) : nullptr;
  return selected ? selected->name : "";
}

Row makeRow(const RankJob &job, size_t size, const Timings &timings) {
  int64_t count = job.sizes[size].count;
  double middle = median(timings);
  return {bytesFor(job, count),
          count,
          std::ranges::min(timings),
          middle,
          std::ranges::max(timings),
          bandwidthsFor(job, count, middle),
          selectedFor(job, job.sizes[size]),
          largestBytesOf(job, job.sizes[size])};
}

/// A line on the terminal that is drawn over; nothing where nobody looks.
class Progress {
public:
  explicit Progress(size_t total) : total(total), isShown(isatty(STDERR_FILENO)) { draw(0); }
  ~Progress() {
    if (isShown)
      fmt::print(stderr, "\r\033[K");
  }
  void draw(size_t done) const {
    if (!isShown)
      return;
    size_t filled = total ? done * 40 / total : 40;
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}/{} sizes", "", filled, "", 40 - filled, done, total);
    std::fflush(stderr);
  }

private:
  size_t total;
  bool isShown;
};

const char *kindOf(runtime::DeviceKind kind) { return kind == runtime::DeviceKind::Cuda ? "cuda" : "hip"; }

const char *ranksAs(const RankJob &job) {
  return job.isLaunched ? "launched ranks" : job.useProcesses ? "processes" : "threads";
}

const char *memoryOf(const RankJob &job) { return job.device ? "device" : job.useWindows ? "window" : "ordinary"; }

std::string describePlace(const RankJob &job) {
  if (job.device)
    return fmt::format("{} {} on {} devices", job.mesh.numRanks(), job.isLaunched ? "launched ranks" : "ranks",
                       kindOf(*job.device));
  return fmt::format("{} {}", job.mesh.numRanks(), ranksAs(job));
}

std::string describe(const RankJob &job) {
  return fmt::format("{} on {}: {}, {}{}, {} memory, {} {} per rank", job.name(), job.mesh.toString(),
                     describePlace(job), runtime::toString(job.type),
                     job.info()->reduces ? std::string(" ") + runtime::toString(job.reduction) : "", memoryOf(job),
                     job.options.lanes, job.options.lanes == 1 ? "lane" : "lanes");
}

/// Of numbers that are normally distributed. An exact program only rounds sums, as every collective does.
void printLoss(const Loss &loss, bool isExact) {
  if (std::isinf(loss.signalToNoise))
    return fmt::print("nothing is lost\n");
  std::string bound =
      loss.bound
          ? fmt::format("every element is within the bound: worst error {:.3g} A, bound {:.3g} A", loss.worstError,
                        *loss.bound)
          : fmt::format("worst error {:.3g} A, {}", loss.worstError,
                        isExact ? "by the rounding of sums alone: no codec loses anything" : "no bound is proved");
  fmt::print("{}; A is the largest input of its block on any rank\nsignal-to-noise ratio {:.1f} dB on normal numbers\n",
             bound, loss.signalToNoise);
  if (loss.numFlagged > 0)
    fmt::print("{} elements of inputs beyond the bound's domain are infinities or NaNs\n", loss.numFlagged);
}

void printTraffic(const Traffics &traffic) {
  auto isSame = [&](const runtime::Traffic &other) {
    return other.sentBytes == traffic.front().sentBytes && other.fetchedBytes == traffic.front().fetchedBytes;
  };
  auto say = [](const runtime::Traffic &moved) {
    return fmt::format("sends {} bytes, fetches {}", moved.sentBytes, moved.fetchedBytes);
  };
  if (std::ranges::all_of(traffic, isSame))
    return fmt::print("in a call, every rank {}\n", say(traffic.front()));
  for (size_t rank = 0; rank < traffic.size(); ++rank)
    fmt::print("in a call, rank {} {}\n", rank, say(traffic[rank]));
}

/// Elements of the blocks of a call whose buffers have `count` of them in a block on average. Throws ToolError (Usage).
CountOfBlock tabledBy(const BlockLaw &law, const RankJob &job, int64_t count) {
  const runtime::CollectiveKind kind = job.info()->collective;
  const int64_t groupSize = groupSizeOf(job);
  int64_t numElements = 0, mostBytes = 0; // one rank may get everything
  if (__builtin_mul_overflow(count, groupSize, &numElements) ||
      __builtin_mul_overflow(numElements, groupSize * int64_t(runtime::sizeBytes(job.type)) + 1, &mostBytes))
    throw ToolError(ExitCode::Usage, "--counts: " + std::to_string(count) + " elements in a block are too many");
  auto made = BlockCounts::create(law, CollectiveKind(int(kind)), groupSize, numElements);
  if (auto *mistake = std::get_if<std::string>(&made))
    throw ToolError(ExitCode::Usage, "--counts: " + *mistake);
  return [counts = std::get<BlockCounts>(std::move(made))](BufferSide side, int64_t member, int64_t block) {
    return counts.of(side == BufferSide::Input ? BufferRole::Input : BufferRole::Output, member, block);
  };
}

void printCounts(const RankJob &job, const std::string &law) {
  const CallBlocks blocks = blocksOf(job, job.sizes.front());
  const std::vector<int64_t> counts = blocks.all();
  const auto [least, most] = std::ranges::minmax(counts);
  fmt::print("counts {}: {} to {} elements in a block, {} of {} blocks empty, at most {} bytes in a buffer\n", law,
             least, most, std::ranges::count(counts, 0), counts.size(), *largestBytesOf(job, job.sizes.front()));
}

void run(const RunCommand &command) {
  int64_t numBytes = parseSize(command.size, "--bytes");
  RankJob job = command.makeJob();
  int64_t count = command.count >= 0 ? command.count : countFor(job, numBytes);
  if (command.count < 0 && count == 0 && numBytes > 0)
    throw ToolError(ExitCode::Usage, "--bytes: " + command.size + " is less than one element; the least is " +
                                         std::to_string(bytesFor(job, 1)));
  job.sizes = {{count, 1, command.iterations}};
  if (std::optional<BlockLaw> law = command.counts.law())
    job.sizes.front().tabled = tabledBy(*law, job, count);
  const runtime::ProgramInfo *program = job.programFor(job.sizes.front());
  bool isLossy = program && !program->choreography.empty() && !job.device;
  if (isLossy)
    job.lossy = std::make_shared<LossyCalls>(job);
  if (command.countsTraffic && job.device)
    throw ToolError(ExitCode::Usage, "--traffic: devices do not count what they move");
  if (command.countsTraffic && job.isLaunched)
    throw ToolError(ExitCode::Usage, "--traffic: a launcher's ranks do not send each other what they counted");
  job.options.countsTraffic = command.countsTraffic;
  Traffics traffic;
  std::vector<Timings> timings = runRanks(job, [](size_t) {}, &traffic);
  if (job.isSilent())
    return;
  Row row = makeRow(job, 0, timings.front());
  fmt::print("{}\n", describe(job));
  if (job.collective)
    fmt::print("the plugin selects {}\n", row.program);
  if (job.calls.haveTables)
    printCounts(job, command.counts.text);
  fmt::print("{} bytes ({} elements): every byte is {}\n", row.bytes, row.count,
             isLossy ? "what the reference interpreter gives" : "right");
  if (isLossy)
    printLoss(job.lossy->lossOf(0), !program->isLossy() && !program->isUnproved);
  if (command.countsTraffic)
    printTraffic(traffic);
  fmt::print("time {:.1f} us (min {:.1f}, max {:.1f}, {} iterations), algorithm bandwidth {:.2f} GB/s{}\n",
             row.medianUs, row.minUs, row.maxUs, command.iterations, row.bandwidths.algorithmGBps,
             row.largestBytes ? "" : fmt::format(", bus bandwidth {:.2f} GB/s", row.bandwidths.busGBps));
}

nlohmann::ordered_json toJson(const RankJob &job, const std::vector<Row> &rows, const std::string &law) {
  nlohmann::ordered_json result;
  result[job.collective ? "collective" : "program"] = job.name();
  result["mesh"] = job.mesh.toString();
  result["ranksAs"] = job.device && !job.isLaunched ? kindOf(*job.device) : ranksAs(job);
  result["memory"] = job.device ? "device" : job.useWindows ? "windows" : "ordinary";
  result["lanes"] = job.options.lanes;
  result["dtype"] = runtime::toString(job.type);
  result["op"] = runtime::toString(job.reduction);
  if (!law.empty())
    result["counts"] = law;
  result["rows"] = nlohmann::ordered_json::array();
  for (const Row &row : rows) {
    result["rows"].push_back({{"bytes", row.bytes},
                              {"count", row.count},
                              {"minUs", row.minUs},
                              {"medianUs", row.medianUs},
                              {"maxUs", row.maxUs},
                              {"algBandwidthGBps", row.bandwidths.algorithmGBps}});
    if (row.largestBytes)
      result["rows"].back()["largestBufferBytes"] = *row.largestBytes;
    else
      result["rows"].back()["busBandwidthGBps"] = row.bandwidths.busGBps;
    if (job.collective)
      result["rows"].back()["program"] = row.program;
  }
  return result;
}

std::string toCsv(const RankJob &job, const std::vector<Row> &rows) {
  std::string text = "bytes,count,minUs,medianUs,maxUs,algBandwidthGBps,";
  text += job.calls.haveTables ? "largestBufferBytes" : "busBandwidthGBps";
  text += job.collective ? ",program\n" : "\n";
  for (const Row &row : rows)
    text += fmt::format("{},{},{},{},{},{},{}{}{}\n", row.bytes, row.count, row.minUs, row.medianUs, row.maxUs,
                        row.bandwidths.algorithmGBps, row.lastColumn("{}"), job.collective ? "," : "", row.program);
  return text;
}

/// To a file, or to standard output for "-".
void write(const std::string &path, const std::string &text) {
  std::FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  bool isWritten = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  isWritten &= file && (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (!isWritten)
    throw ToolError(ExitCode::Usage, "cannot write " + path + ": " + std::strerror(errno));
}

/// The sizes of the sweep. Throws ToolError (Usage).
std::vector<SizeJob> sweep(const BenchCommand &command, const RankJob &job) {
  int64_t first = parseSize(command.first, "--min-bytes"), last = parseSize(command.last, "--max-bytes");
  const std::optional<BlockLaw> law = command.counts.law();
  if (first < 1 || first > last)
    throw ToolError(ExitCode::Usage,
                    "--min-bytes: " + command.first + " must be at least 1 and at most --max-bytes, " + command.last);
  std::vector<SizeJob> sizes;
  for (int64_t bytes = first; bytes <= last; bytes *= command.factor) {
    int64_t count = countFor(job, bytes);
    // Large messages tell enough with fewer repetitions.
    int iterations =
        bytes >= (16 << 20) ? std::min(command.iterations, std::max(3, command.iterations / 4)) : command.iterations;
    if (count > 0 && (sizes.empty() || count != sizes.back().count)) {
      sizes.push_back({count, command.warmUps, iterations});
      if (law)
        sizes.back().tabled = tabledBy(*law, job, count);
    }
    if (bytes > INT64_MAX / command.factor)
      break;
  }
  if (sizes.empty())
    throw ToolError(ExitCode::Usage, "--max-bytes: " + command.last + " is less than one element; the least is " +
                                         std::to_string(bytesFor(job, 1)));
  return sizes;
}

void printTable(const RankJob &job, const std::vector<Row> &rows, const std::string &law) {
  fmt::print("# {}\n# {}; every size checked against the reference\n", describe(job),
             job.device ? "time by the devices' events, of the slowest"
                        : "time from the first rank's start to the last one's end");
  if (!law.empty())
    fmt::print("# counts {}; size and count are those of equal blocks, largest: the largest buffer of any rank\n", law);
  fmt::print("#{:>12} {:>14} {:>6} {:>9} {:>5} {:>12} {:>12} {:>12} {:>9} {:>9}\n", "size", "count", "type", "redop",
             "root", "min", "median", "max", "algbw", law.empty() ? "busbw" : "largest");
  fmt::print("#{:>12} {:>14} {:>6} {:>9} {:>5} {:>12} {:>12} {:>12} {:>9} {:>9}\n", "(B)", "(elements)", "", "", "",
             "(us)", "(us)", "(us)", "(GB/s)", law.empty() ? "(GB/s)" : "(B)");
  bool reduces = job.info()->reduces;
  for (const Row &row : rows)
    fmt::print(" {:>12} {:>14} {:>6} {:>9} {:>5} {:>12.2f} {:>12.2f} {:>12.2f} {:>9.2f} {:>9}{}{}\n", row.bytes,
               row.count, runtime::toString(job.type), reduces ? runtime::toString(job.reduction) : "none", job.root,
               row.minUs, row.medianUs, row.maxUs, row.bandwidths.algorithmGBps, row.lastColumn("{:.2f}"),
               job.collective ? "  " : "", row.program);
}

void bench(const BenchCommand &command) {
  if (command.csvPath == "-" && command.jsonPath == "-")
    throw ToolError(ExitCode::Usage, "--csv and --json: only one of them can go to standard output");
  checkWritable(command.csvPath, "--csv");
  checkWritable(command.jsonPath, "--json");
  RankJob job = command.makeJob();
  job.sizes = sweep(command, job);
  std::vector<Timings> timings;
  {
    Progress progress(job.sizes.size());
    timings = runRanks(job, [&](size_t done) { progress.draw(done); });
  }
  if (job.isSilent())
    return;
  std::vector<Row> rows;
  for (size_t size = 0; size < timings.size(); ++size)
    rows.push_back(makeRow(job, size, timings[size]));
  if (!command.csvPath.empty())
    write(command.csvPath, toCsv(job, rows));
  if (!command.jsonPath.empty())
    write(command.jsonPath, toJson(job, rows, command.counts.text).dump(2) + "\n");
  if (command.csvPath != "-" && command.jsonPath != "-")
    printTable(job, rows, command.counts.text);
}

} // namespace

void addRunCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "run", "runs a collective on real data and checks every byte");
  auto options = std::make_shared<RunCommand>();
  options->addTo(*command);
  command->add_option("--bytes", options->size, "size of the larger buffer of one rank")->capture_default_str();
  command->add_option("--count", options->count, "elements instead of --bytes, as the collective counts them")
      ->check(CLI::Range(int64_t(0), INT64_MAX));
  options->counts.addTo(*command);
  command->add_option("--iterations", options->iterations, "timed repetitions")
      ->check(CLI::Range(1, mostIterations))
      ->capture_default_str();
  command->add_flag("--traffic", options->countsTraffic, "also counts the bytes that ranks move between each other");
  command->callback([options] { run(*options); });
}

void addBenchCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "bench", "measures a collective over a sweep of sizes");
  auto options = std::make_shared<BenchCommand>();
  options->addTo(*command);
  options->counts.addTo(*command);
  command->add_option("-b,--min-bytes", options->first, "smallest size")->capture_default_str();
  command->add_option("-e,--max-bytes", options->last, "largest size")->capture_default_str();
  command->add_option("-f,--factor", options->factor, "from one size to the next")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("-w,--warm-ups", options->warmUps, "untimed repetitions per size")
      ->check(CLI::Range(0, mostIterations))
      ->capture_default_str();
  command->add_option("-n,--iterations", options->iterations, "timed repetitions per size; fewer from 16M on")
      ->check(CLI::Range(1, mostIterations))
      ->capture_default_str();
  command->add_option("--csv", options->csvPath, "also as CSV, to this file; - for standard output");
  command->add_option("--json", options->jsonPath, "also as JSON, to this file; - for standard output");
  command->callback([options] { bench(*options); });
}

} // namespace kolo::tools
