// kolo check: what is proved of a program, property by property, and what breaks it.
#include "tools/CommandLine.h"
#include "tools/Commands.h"
#include "tools/ForeignVerdict.h"
#include "tools/SourceOptions.h"
#include "tools/compile/Mistakes.h"

#include "compiler/check/ShowVerdict.h"
#include "ir/BlockTables.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kolo::tools {

namespace {

struct CheckCommand : SourceOptions {
  std::string transport = "shared";
  bool asJson = false, isVerbose = false, represented = false, noSampling = false;

  CheckOptions makeOptions() const;
};

/// What --transport says: one transport for all dimensions, or for some dimensions one each.
struct TransportChoice {
  std::optional<Transport> all;
  std::vector<std::pair<std::string, Transport>> ofDims = {}; // the others have shared memory

  /// Of the dimensions that are a network.
  std::vector<std::string> network() const;
  /// Throws ToolError (Usage) if the network is staged along some dimensions and not along others.
  NetworkMemory networkMemory() const;
  /// Throws ToolError (Usage) if the program's mesh does not have these dimensions.
  Transport of(ProgramOp program) const;
};

/// One program on one mesh.
struct CheckReport {
  ProgramOp program;
  Transport transport;
  Verdict verdict;
  std::optional<SyncCounts> counts;
};

std::string nameOf(ProgramOp program) { return program.getSymName().str(); }

std::vector<std::string> TransportChoice::network() const {
  std::vector<std::string> names;
  for (const auto &[name, transport] : ofDims)
    if (transport.name != "shared" && transport.name != "peer")
      names.push_back(name);
  return names;
}

NetworkMemory TransportChoice::networkMemory() const {
  const size_t numStaged =
      llvm::count_if(ofDims, [](const auto &transport) { return transport.second.name == "staged"; });
  if (numStaged != 0 && numStaged != network().size())
    throw ToolError(ExitCode::Usage, "--transport: a network is staged along all of its dimensions, or along none");
  return numStaged != 0 ? NetworkMemory::Staged : NetworkMemory::Direct;
}

Transport TransportChoice::of(ProgramOp program) const {
  if (all)
    return *all;
  std::vector<llvm::StringRef> names;
  for (auto name : program.getMesh().getAsRange<mlir::StringAttr>())
    names.push_back(name.getValue());
  std::vector<Transport> transports(names.size(), *parseTransport("shared"));
  for (const auto &[name, transport] : ofDims) {
    auto found = std::ranges::find(names, llvm::StringRef(name));
    if (found == names.end())
      throw ToolError(ExitCode::Usage,
                      fmt::format("--transport: the mesh of {} has no dimension '{}'", nameOf(program), name));
    transports[size_t(found - names.begin())] = transport;
  }
  return combineTransports(names, transports);
}

/// Throws ToolError (Usage).
Transport parseOne(const std::string &text) {
  std::optional<Transport> parsed = parseTransport(text);
  if (!parsed)
    throw ToolError(ExitCode::Usage,
                    "--transport: '" + text + "' is none of shared, peer, network, network:nics=4, staged, direct");
  return *parsed;
}

/// "network:nics=4", or "node=network,gpu=shared". Throws ToolError (Usage).
TransportChoice parseTransports(const std::string &text) {
  if (text.starts_with("network:") || text.find_first_of("=,") == std::string::npos)
    return {parseOne(text)};
  TransportChoice choice;
  for (llvm::StringRef item : llvm::split(text, ',')) {
    auto [name, transport] = item.split('=');
    if (llvm::is_contained(llvm::make_first_range(choice.ofDims), name.str()))
      throw ToolError(ExitCode::Usage, "--transport: dimension '" + name.str() + "' has two transports");
    choice.ofDims.emplace_back(name.str(), parseOne(transport.str()));
  }
  return choice;
}

CheckOptions CheckCommand::makeOptions() const {
  CheckOptions options;
  options.mayReplaceMesh = represented;
  options.sizes = CheckOptions::Sizes::AllOfEach;
  options.needsOneOrder = scheduleOptions.schedule().order == Summation::OneOrder;
  if (std::optional<int64_t> numBytes = parseBudget())
    setBudget(options, *numBytes);
  return options;
}

std::vector<CheckReport> checkAll(mlir::ModuleOp module, CheckOptions options, const TransportChoice &transports,
                                  bool wantCounts) {
  std::vector<CheckReport> reports;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    options.transport = transports.of(program);
    for (auto mesh : program.getMeshes().getAsRange<mlir::DenseI64ArrayAttr>()) {
      CheckReport &report = reports.emplace_back(
          CheckReport{program, options.transport, checkProgram(program, mesh, options), std::nullopt});
      if (wantCounts && !report.verdict.tooLarge)
        report.counts = countSynchronisation(program, report.verdict.checkedOn);
    }
  }
  return reports;
}

std::string stateText(const CheckReport &report, Property property) {
  const Verdict &verdict = report.verdict;
  std::string text(toString(stateOf(verdict, property)));
  if (stateOf(verdict, property) == PropertyState::Refuted)
    return text + ": " + verdict.refutation->message;
  if (stateOf(verdict, property) == PropertyState::Proved && verdict.checkedOn != verdict.mesh)
    text = "represented: proved on " + describeMesh(report.program, verdict.checkedOn);
  std::string note = noteOn(report.program, verdict, property, report.transport);
  return note.empty() ? text : text + "; " + note;
}

void print(const CheckReport &report) {
  ProgramOp program = report.program;
  const Verdict &verdict = report.verdict;
  fmt::print("{} on {}\n", nameOf(program), describeMesh(program, verdict.mesh));
  if (verdict.checkedOn != verdict.mesh)
    fmt::print("{} was checked in its place\n", describeMesh(program, verdict.checkedOn));
  size_t width = 0;
  for (int number = 0; number < numProperties; ++number)
    width = std::max(width, title(Property(number)).size());
  for (int number = 0; number < numProperties; ++number)
    fmt::print("{:<4} {:<{}}  {}\n", shortName(Property(number)), title(Property(number)).str(), width,
               stateText(report, Property(number)));
  fmt::print("{:<4} {:<{}}  {}\n", "", "lossy", width, describeLosses(verdict));
  if (mayHaveBlockTables(program.getCollective().getKind()))
    fmt::print("{:<4} {:<{}}  {}\n", "", "counts", width, describeCounts(verdict));
  for (const AllSizes &each : verdict.allSizes)
    fmt::print("{:<4} {:<{}}  {}\n", "", "all sizes of " + nameOfDim(program, each.dim), width, describeAllSizes(each));
  if (!verdict.refutation)
    return;
  mlir::Location error = locationOf(program, verdict);
  fmt::print("{}\n", lineAt(error, "error", describe(program, verdict)));
  for (const std::string &line : noteLines(error, explain(verdict)))
    fmt::print("{}\n", line);
}

/// The first column to the left, the others to the right.
void printTable(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string> &row : rows)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  for (const std::vector<std::string> &row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t column = 1; column < row.size(); ++column)
      line += fmt::format("  {:>{}}", row[column], widths[column]);
    fmt::print("{}\n", line);
  }
}

/// Kinds of credits that the reports have, in the order in which they come up.
std::vector<std::string> creditKinds(llvm::ArrayRef<CheckReport> reports) {
  std::vector<std::string> kinds;
  for (const CheckReport &report : reports)
    if (report.counts)
      for (const auto &[kind, number] : report.counts->creditWaits)
        if (std::ranges::find(kinds, kind) == kinds.end())
          kinds.push_back(kind);
  return kinds;
}

/// Of one program's reports.
void printSynchronisation(llvm::ArrayRef<CheckReport> reports) {
  std::vector<std::string> kinds = creditKinds(reports);
  std::vector<std::vector<std::string>> rows = {{"mesh", "data signals", "data waits"}};
  for (const std::string &kind : kinds)
    rows.front().push_back(kind + " credits");
  for (const char *name : {"flushes", "waits"})
    rows.front().push_back(name);
  for (const CheckReport &report : reports) {
    std::vector<std::string> &row = rows.emplace_back();
    row.push_back(describeMesh(report.program, report.verdict.checkedOn));
    if (!report.counts) {
      row.resize(rows.front().size(), "-");
      continue;
    }
    const SyncCounts &counts = *report.counts;
    row.push_back(std::to_string(counts.dataSignals));
    row.push_back(std::to_string(counts.dataWaits));
    for (const std::string &kind : kinds) {
      auto found = llvm::find_if(counts.creditWaits, [&](const auto &credit) { return credit.first == kind; });
      row.push_back(std::to_string(found == counts.creditWaits.end() ? 0 : found->second));
    }
    row.push_back(std::to_string(counts.flushes));
    row.push_back(std::to_string(counts.waits()));
  }
  fmt::print("\n{}: synchronisation per rank, lane and call\n", nameOf(reports.front().program));
  printTable(rows);
}

void printAll(llvm::ArrayRef<CheckReport> reports, bool isVerbose) {
  const char *separator = "";
  while (!reports.empty()) {
    ProgramOp program = reports.front().program;
    auto ofProgram = reports.take_while([&](const CheckReport &report) { return report.program == program; });
    for (const CheckReport &report : ofProgram) {
      if (report.verdict.tooLarge)
        continue;
      fmt::print("{}", separator);
      print(report);
      separator = "\n";
    }
    if (isVerbose)
      printSynchronisation(ofProgram);
    reports = reports.drop_front(ofProgram.size());
  }
}

void printJson(llvm::ArrayRef<CheckReport> reports) {
  auto objects = nlohmann::ordered_json::array();
  for (const CheckReport &report : reports)
    objects.push_back(toJson(report.program, report.verdict, report.counts, report.transport));
  fmt::print("{}\n", objects.dump(2));
}

bool isRefuted(const CheckReport &report) { return report.verdict.refutation.has_value(); }

/// Throws the ToolError that the verdicts amount to, if they are no proofs.
void judge(llvm::ArrayRef<CheckReport> reports, bool mayRepresent) {
  std::string tooLarge;
  for (const CheckReport &report : reports)
    if (report.verdict.tooLarge)
      tooLarge += (tooLarge.empty() ? "" : "\n") + nameOf(report.program) + ": " +
                  describe(report.program, report.verdict) + (mayRepresent ? "" : representedHint.str());
  if (llvm::any_of(reports, isRefuted))
    throw ToolError(ExitCode::Refused, tooLarge);
  if (!tooLarge.empty())
    throw ToolError(ExitCode::Usage, tooLarge);
}

void checkPrograms(const CheckCommand &command) {
  CheckOptions options = command.makeOptions();
  TransportChoice transports = parseTransports(command.transport);
  CompileRequest request = command.makeRequest();
  request.network = {transports.network(), transports.networkMemory()};
  request.represented = command.represented;
  bool isGuessRefuted = false;
  do
    compileToChannel(request, [&](mlir::ModuleOp module) {
      std::vector<CheckReport> reports = checkAll(module, options, transports, command.asJson || command.isVerbose);
      isGuessRefuted = !request.searchesInFull && llvm::any_of(reports, isRefuted);
      request.searchesInFull = true;
      if (isGuessRefuted)
        return;
      if (command.asJson)
        printJson(reports);
      else
        printAll(reports, command.isVerbose);
      judge(reports, command.represented);
    });
  while (isGuessRefuted);
}

void check(const CheckCommand &command) {
  try {
    checkPrograms(command);
  } catch (const ForeignRefutation &refutation) {
    if (!command.asJson)
      throw;
    fmt::print("{}\n", nlohmann::ordered_json::array({toJson(refutation)}).dump(2));
    throw ToolError(ExitCode::Refused, "");
  }
}

} // namespace

void addCheckCommand(CLI::App &app) {
  CLI::App *command = addCommand(app, "check", "says what is proved of an algorithm, or of a file of your own");
  auto options = std::make_shared<CheckCommand>();
  options->addTo(*command);
  command->add_flag("--json", options->asJson, "as JSON: an array of one object per program and mesh");
  command->add_flag("-v,--verbose", options->isVerbose, "also the synchronisation of a rank in one call");
  command
      ->add_option("--transport", options->transport,
                   "the transport of puts and signals: shared, peer, network, network:nics=4, or between\n"
                   "devices staged or direct; or one for each dimension, node=network,gpu=shared, for the\n"
                   "program that compile --network node makes")
      ->capture_default_str();
  auto *represented = command->add_flag("--represented", options->represented,
                                        "check a smaller mesh in place of one that is beyond the budget");
  command->add_flag("--no-sampling", options->noSampling, "the opposite, which is the default")->excludes(represented);
  command->callback([options] { check(*options); });
}

} // namespace kolo::tools
