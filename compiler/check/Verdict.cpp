// Decides about a program on one mesh: every root, calls in place, and calls back to back.
#include "compiler/check/Verdict.h"
#include "compiler/SourceLine.h"
#include "compiler/check/ForAllSizes.h"
#include "compiler/check/MeshChoice.h"
#include "compiler/check/ProgramCheck.h"
#include "compiler/model/Unfold.h"
#include "compiler/project/Relations.h"
#include "ir/BlockTables.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

using namespace mlir;

namespace kolo {

std::string shortName(Property property) { return "V" + std::to_string(int(property) + 1); }

StringRef title(Property property) {
  switch (property) {
  case Property::Result:
    return "right result";
  case Property::Race:
    return "no data race";
  case Property::PutOrder:
    return "puts arrive before their signals";
  case Property::Deadlock:
    return "no deadlock";
  case Property::Balance:
    return "signals and waits balance";
  case Property::Bounds:
    return "in bounds";
  case Property::Invocations:
    return "safe back to back";
  case Property::Resources:
    return "within resources";
  case Property::Order:
    return "fixed reduction order";
  case Property::Timeout:
    return "every wait can time out";
  case Property::SameBits:
    return "same bits";
  case Property::OneOrder:
    return "one order of summation";
  }
  llvm_unreachable("every property is handled");
}

std::optional<Transport> parseTransport(StringRef text) {
  if (text == "shared" || text == "peer")
    return Transport{text.str(), {true, true}, "stores are ordered by release and acquire"};
  if (text == "network" || text == "network:nics=1")
    return Transport{text.str(),
                     {true, false},
                     "a lane's puts and signals to a peer take one NIC, and a flush frees a put's source alone"};
  if (text == "staged")
    return Transport{text.str(),
                     {true, false},
                     "a lane's puts and signals to a peer wait in one queue, and a flush frees a put's source alone"};
  if (text == "direct")
    return Transport{text.str(),
                     {true, false},
                     "a signal is raised once the puts before it are in the device's memory, and a flush frees a put's "
                     "source alone"};
  unsigned nics = 0;
  if (text.consume_front("network:nics=") && !text.getAsInteger(10, nics) && nics > 1)
    return Transport{("network:nics=" + Twine(nics)).str(),
                     {false, true},
                     "a put is striped over " + std::to_string(nics) + " NICs, a signal takes one"};
  return std::nullopt;
}

static Arrival both(Arrival a, Arrival b) {
  return {a.isBeforeSignals && b.isBeforeSignals, a.isBeforeFlush && b.isBeforeFlush};
}

Arrival Transport::arrivalBetween(ArrayRef<int64_t> mesh, int64_t sender, int64_t receiver) const {
  if (arrivalAlong.empty())
    return arrival;
  Arrival result;
  for (size_t dim = mesh.size(); dim-- > 0; sender /= mesh[dim], receiver /= mesh[dim])
    if (sender % mesh[dim] != receiver % mesh[dim])
      result = both(result, arrivalAlong[dim]);
  return result;
}

Transport combineTransports(ArrayRef<StringRef> names, ArrayRef<Transport> transports) {
  Transport all;
  for (auto [dim, name, transport] : llvm::enumerate(names, transports)) {
    all.name += (dim ? "," : "") + name.str() + "=" + transport.name;
    all.reason += (dim ? "; along " : "along ") + name.str() + ", " + transport.reason;
    all.arrival = both(all.arrival, transport.arrival);
    all.arrivalAlong.push_back(transport.arrival);
  }
  return all;
}

Transport transportOf(ProgramOp program) {
  auto network = program->getAttrOfType<DenseI64ArrayAttr>(networkAttrName);
  if (!network)
    return *parseTransport("shared");
  const StringRef remote = usesStagedNetwork(program) ? "staged" : "network";
  SmallVector<StringRef> names;
  SmallVector<Transport> transports;
  for (auto [dim, name] : llvm::enumerate(program.getMesh().getAsRange<StringAttr>())) {
    names.push_back(name.getValue());
    bool mayBeRemote = llvm::is_contained(network.asArrayRef(), int64_t(dim));
    transports.push_back(*parseTransport(mayBeRemote ? remote : "shared"));
  }
  return combineTransports(names, transports);
}

void setBudget(CheckOptions &options, int64_t numBytes) {
  const CheckOptions defaults;
  options.maxBytes = numBytes;
  options.maxWork =
      std::max<int64_t>(int64_t(double(defaults.maxWork) / double(defaults.maxBytes) * double(numBytes)), 1);
}

int64_t SyncCounts::waits() const {
  int64_t result = dataWaits;
  for (const auto &[kind, number] : creditWaits)
    result += number;
  return result;
}

namespace {

/// What holds on all meshes alike.
std::optional<Refutation> checkResources(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  if (int64_t(program.getSemaphores()) <= options.maxSemaphores)
    return std::nullopt;
  Refutation result{Property::Resources,
                    "uses " + std::to_string(program.getSemaphores()) + " semaphores, of which there are " +
                        std::to_string(options.maxSemaphores),
                    program.getLoc(),
                    {}};
  result.mesh.assign(mesh.begin(), mesh.end());
  return result;
}

CheckOptions withPart(const CheckOptions &options, double part) {
  CheckOptions result = options;
  auto scale = [&](int64_t limit) { return int64_t(std::clamp(double(limit) * part, 1.0, 0x1p62)); };
  result.maxBytes = scale(options.maxBytes);
  result.maxWork = scale(options.maxWork);
  return result;
}

using Checks = std::vector<std::unique_ptr<ProgramCheck>>;

/// All roots, and calls in place, on one mesh. Adds the checks to `kept`, if that is not null.
void checkMesh(Code &code, ArrayRef<int64_t> mesh, const CheckOptions &options, Verdict &verdict,
               Checks *kept = nullptr, const SlicePipeline *few = nullptr) {
  ProgramOp program = code.program;
  int64_t numVariants = program.getInPlace() == InPlace::Direct ? 2 : 1;
  int64_t numRoots = countRoots(program.getCollective(), mesh);
  CheckOptions first = options, each = options;
  each.maxWork = std::max<int64_t>(options.maxWork / (numRoots * numVariants), 1);
  // Most programs are alike for all roots, which then take no more than one.
  first.maxWork = options.prefersSmallMeshes ? each.maxWork : std::max<int64_t>(options.maxWork / numVariants, 1);
  for (int64_t variant = 0; variant < numVariants; ++variant)
    for (int64_t root = 0; root < numRoots; ++root) {
      if (root == 1 && rootsAreAlike(code, mesh, variant == 1, options.maxWork))
        break;
      auto check = std::make_unique<ProgramCheck>(code, mesh, root, variant == 1, root == 0 ? first : each, few);
      check->run(verdict);
      if (!verdict.isProved())
        return;
      if (kept)
        kept->push_back(std::move(check));
    }
}

/// Which dimensions of a mesh may be shorter on one that represents it.
SmallVector<bool> findShrinkable(ProgramOp program, ArrayRef<int64_t> mesh) {
  SmallVector<bool> mayShrink = findTabledDims(program, program.getCollective(), mesh.size());
  for (bool &may : mayShrink)
    may = !may;
  return mayShrink;
}

} // namespace

/// The largest of each codec.
void Verdict::add(ArrayRef<OutputLoss> more, int64_t encodings) {
  numEncodings = std::max(numEncodings, encodings);
  for (const OutputLoss &loss : more) {
    auto known = llvm::find_if(losses, [&](const OutputLoss &each) { return each.codec == loss.codec; });
    if (known == losses.end())
      losses.push_back(loss);
    else
      known->factor = std::max(known->factor, loss.factor);
  }
}

void Verdict::addBits(std::optional<bool> agree) {
  if (ranksAgreeBitwise == false || agree == false)
    ranksAgreeBitwise = false;
  else if (!agree)
    ranksAgreeBitwise.reset();
}

void Verdict::addOrder(const SumOrder &more, int64_t root) {
  if (order.isFixed == false || (more.isFixed == true && !order.isFixed))
    return;
  if (more.isFixed != true) {
    order = more;
    return;
  }
  auto [known, isNew] = ordersOfRoots.try_emplace(root, more.fingerprint);
  if (!isNew && known->second != more.fingerprint)
    order = {false, "calls in place sum in another order", 0};
  else if (isNew)
    order = {true, order.text.empty() ? more.text : order.text, 31 * order.fingerprint + more.fingerprint};
}

void Verdict::addTables(const std::string &whyNot) {
  if (whyNoBlockTables.empty())
    whyNoBlockTables = whyNot;
}

/// With `few` as ProgramCheck has it.
static Verdict checkSlices(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options,
                           const SlicePipeline *few) {
  Verdict verdict;
  verdict.mesh.assign(mesh.begin(), mesh.end());
  verdict.checkedOn = verdict.mesh;
  std::variant<Code, CodeMistake> made = Code::create(program);
  if (auto *mistake = std::get_if<CodeMistake>(&made)) {
    verdict.refutation = Refutation{Property::Bounds, mistake->message, mistake->loc, {}};
    verdict.refutation->mesh = verdict.mesh;
    return verdict;
  }
  verdict.refutation = checkResources(program, mesh, options);
  if (verdict.refutation)
    return verdict;
  SmallVector<bool> mayShrink = findShrinkable(program, mesh);
  auto checkOn = [&](ArrayRef<int64_t> checkedOn, double part) {
    Verdict result;
    result.mesh = verdict.mesh;
    result.checkedOn.assign(checkedOn.begin(), checkedOn.end());
    checkMesh(std::get<Code>(made), checkedOn, withPart(options, part), result, nullptr, few);
    return result;
  };
  if (options.prefersSmallMeshes)
    do
      verdict = checkOn(verdict.checkedOn, 1);
    while (verdict.tooLarge && shrinkMesh(verdict.checkedOn, mayShrink));
  else
    verdict = MeshChoice(mesh, mayShrink, options, checkOn).run();
  return verdict;
}

/// Nothing where few slices do not stand for all, or refute the program: then all have to be looked at.
static std::optional<Verdict> checkFewSlices(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  std::optional<SlicePipeline> pipeline = SlicePipeline::find(program);
  if (!pipeline || pipeline->numSlices() <= pipeline->fewSlices())
    return std::nullopt;
  OwningOpRef<ProgramOp> smaller(program.clone());
  pipeline = SlicePipeline::find(*smaller);
  pipeline->setNumSlices(pipeline->fewSlices());
  Verdict verdict = checkSlices(*smaller, mesh, options, &*pipeline);
  verdict.slicesChecked = pipeline->numSlices();
  return verdict.refutation || verdict.slicesDiffer ? std::nullopt : std::optional(std::move(verdict));
}

static Verdict checkOneMesh(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  std::optional<Verdict> byFew = options.followsAllSlices ? std::nullopt : checkFewSlices(program, mesh, options);
  return byFew ? *std::move(byFew) : checkSlices(program, mesh, options, nullptr);
}

static std::vector<AllSizes> findAllSizes(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  std::vector<AllSizes> result;
  const size_t numDims = options.sizes == CheckOptions::Sizes::AllOfEach ? mesh.size() : 1;
  for (size_t dim = 0; dim < numDims; ++dim)
    result.push_back(proveForAllSizes(program, mesh, dim, options));
  return result;
}

/// Of a mesh that a proof for all sizes of one of its dimensions covers. Nothing if there is none.
static std::optional<Verdict> checkByAllSizes(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  Verdict verdict;
  verdict.mesh.assign(mesh.begin(), mesh.end());
  verdict.checkedOn = verdict.mesh;
  verdict.refutation = checkResources(program, mesh, options);
  verdict.allSizes = findAllSizes(program, mesh, options);
  auto covers = [&](const AllSizes &each) { return each.from && *each.from <= mesh[each.dim]; };
  if (verdict.refutation || llvm::none_of(verdict.allSizes, covers))
    return std::nullopt;
  verdict.ranksAgreeBitwise.reset();
  verdict.order.isFixed.reset();
  verdict.whyNoBlockTables = "lengths of blocks are followed on meshes themselves";
  for (const AllSizes &each : verdict.allSizes)
    if (covers(each) && each.ranksAgreeBitwise)
      verdict.ranksAgreeBitwise = true;
  return verdict;
}

/// Other meshes say nothing of this one's order, unless nothing is summed.
static Verdict withOrderDecided(Verdict verdict, const CheckOptions &options) {
  bool isSummed = verdict.order.isFixed != true || verdict.order.fingerprint != 0;
  if (verdict.isProved() && verdict.isRepresented() && isSummed)
    verdict.order = {std::nullopt, "a smaller mesh does not decide it", 0};
  if (options.needsOneOrder && verdict.isProved() && !verdict.order.isFixed)
    verdict.tooLarge = "V12, one order of summation, is decided on the mesh itself, and on up to " +
                       std::to_string(mostRanksOfExactTerms) + " ranks";
  return verdict;
}

/// What the text of a program, or the mesh that was followed, says against block tables.
static Verdict withTablesDecided(ProgramOp program, Verdict verdict) {
  if (std::optional<TableObstacle> obstacle = findTableObstacle(program)) {
    SourceLine place = sourceLineOf(obstacle->loc);
    verdict.whyNoBlockTables = obstacle->text + ": " + place.file + ":" + std::to_string(place.line);
  } else if (verdict.isRepresented()) {
    verdict.whyNoBlockTables = "a smaller mesh does not decide it";
  }
  return verdict;
}

Verdict checkProgram(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  bool asksForAll = options.sizes != CheckOptions::Sizes::One && !options.prefersSmallMeshes;
  int64_t numRanks = std::accumulate(mesh.begin(), mesh.end(), int64_t(1), std::multiplies<>());
  if (asksForAll && numRanks > mostRanksOneByOne)
    if (std::optional<Verdict> verdict = checkByAllSizes(program, mesh, options))
      return withTablesDecided(program, withOrderDecided(*std::move(verdict), options));
  Verdict verdict = checkOneMesh(program, mesh, options);
  if (asksForAll && verdict.isProved() && !verdict.isRepresented())
    verdict.allSizes = findAllSizes(program, mesh, options);
  return withTablesDecided(program, withOrderDecided(std::move(verdict), options));
}

struct ReducibleProgram::Runs {
  Code code;
  Checks checks = {};
  bool isRefuted = false, isFollowed = true; // as a whole, on some mesh; on all
};

ReducibleProgram::ReducibleProgram(ProgramOp program, ArrayRef<SmallVector<int64_t>> meshes,
                                   const CheckOptions &options) {
  runs.reset(new Runs{std::get<Code>(Code::create(program))});
  for (const SmallVector<int64_t> &whole : meshes) {
    SmallVector<int64_t> mesh(whole); // or a smaller one that represents it
    SmallVector<bool> mayShrink = findShrinkable(program, mesh);
    Verdict verdict;
    Checks checks;
    do {
      verdict = {};
      checks.clear();
      checkMesh(runs->code, mesh, options, verdict, &checks);
    } while (verdict.tooLarge && options.prefersSmallMeshes && shrinkMesh(mesh, mayShrink));
    runs->isRefuted |= verdict.refutation.has_value();
    runs->isFollowed &= !verdict.tooLarge;
    llvm::move(checks, std::back_inserter(runs->checks));
  }
}

ReducibleProgram::ReducibleProgram(ReducibleProgram &&) noexcept = default;
ReducibleProgram::~ReducibleProgram() = default;

bool ReducibleProgram::isFollowed() const { return runs->isFollowed; }

bool ReducibleProgram::isRefutedWithout(const llvm::SmallPtrSetImpl<Operation *> &ops) {
  return runs->isRefuted || !runs->isFollowed ||
         llvm::any_of(runs->checks, [&](const auto &check) { return check->isRefutedWithout(ops); });
}

/// Of a program that may not have been followed on this mesh.
static constexpr int64_t mostLines = int64_t(1) << 30;

std::optional<SyncCounts> countSynchronisation(ProgramOp program, ArrayRef<int64_t> mesh) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  Code *code = std::get_if<Code>(&made);
  if (!code)
    return std::nullopt;
  Tracer tracer(*code, mesh, 0, false);
  tracer.maxLines = mostLines;
  std::optional<SyncCounts> most;
  std::optional<TracedGroup> traced = traceAll(tracer, INT64_MAX, /*mayReorder=*/true);
  if (!traced)
    return std::nullopt;
  for (const Trace &trace : traced->traces) {
    SyncCounts counts;
    std::map<std::string, int64_t> credits;
    for (const Event &event : trace.events) {
      std::optional<CreditKind> kind = creditOf(code->ops[event.op].op);
      counts.flushes += event.kind == EventKind::Flush;
      counts.dataSignals += event.kind == EventKind::Signal && !kind;
      counts.dataWaits += event.kind == EventKind::Wait && !kind;
      if (event.kind == EventKind::Wait && kind)
        ++credits[stringifyCreditKind(*kind).str()];
    }
    counts.enters = llvm::any_of(trace.events, [](const Event &event) { return event.kind == EventKind::Enter; });
    counts.creditWaits.assign(credits.begin(), credits.end());
    if (!most || counts.waits() > most->waits())
      most = std::move(counts);
  }
  return most;
}

bool isProvedOnItsMeshes(ProgramOp program, const CheckOptions &options) {
  CheckOptions soon = options;
  soon.endsAtRefutation = true;
  return llvm::all_of(program.getMeshes().getAsRange<DenseI64ArrayAttr>(), [&](DenseI64ArrayAttr mesh) {
    return checkProgram(program, mesh.asArrayRef(), soon).isProved();
  });
}

bool isProvedOnSmallMeshes(ProgramOp program, int64_t &numBytes, int64_t mostBytes) {
  for (auto mesh : program.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
    Verdict verdict;
    for (;; numBytes *= 2) {
      CheckOptions options = optionsOfGuess(program, numBytes);
      options.endsAtRefutation = true;
      verdict = checkProgram(program, mesh.asArrayRef(), options);
      if (!verdict.tooLarge || numBytes > mostBytes / 2)
        break;
    }
    if (!verdict.isProved())
      return false;
  }
  return true;
}

CheckOptions optionsOfProof(ProgramOp program, const ProofLimits &limits) {
  CheckOptions options;
  options.transport = transportOf(program);
  setBudget(options, limits.budget);
  options.sizes = CheckOptions::Sizes::AllOfFirst;
  options.mayReplaceMesh = limits.mayRepresent;
  options.standInPart = std::min(double(limits.standInBudget) / double(limits.budget), 1.0);
  return options;
}

CheckOptions optionsInFull(ProgramOp program, const ProofLimits &limits) {
  CheckOptions options = optionsOfProof(program, limits);
  options.wantSteps = options.followsCodecs = false;
  options.sizes = CheckOptions::Sizes::One;
  return options;
}

CheckOptions optionsOfGuess(ProgramOp program, int64_t numBytes) {
  CheckOptions options = optionsInFull(program, {numBytes});
  options.prefersSmallMeshes = true;
  return options;
}

} // namespace kolo
