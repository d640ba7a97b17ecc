// What a choreography's body calls: everything is recorded, nothing is executed.
#include "dsl/Collectives.h"
#include "dsl/Recording.h"

#include <algorithm>

namespace kolo::dsl {

using Kind = Expression::Kind;

void Choreography::checkDimCount(size_t count, Location location) const {
  size_t numDims = recording->definition.mesh.dims.size();
  if (count != numDims)
    recording->report(location, "dims<" + std::to_string(count) + "> of a mesh that has " + std::to_string(numDims) +
                                    (numDims == 1 ? " dimension" : " dimensions"));
}

Dim Choreography::dim(const std::string &name, Location location) const {
  const std::vector<std::string> &names = recording->definition.mesh.dims;
  auto found = std::ranges::find(names, name);
  if (found != names.end())
    return Dim(int(found - names.begin()));
  recording->report(location, "unknown dimension '" + name + "'");
  return Dim();
}

Rank Choreography::rank() const { return {recording, nullptr}; }

Rank Choreography::root() const {
  Rank result = rank();
  Index rest(makeLeaf(Kind::Root, 0));
  for (auto dim = recording->groupDims.rbegin(); dim != recording->groupDims.rend(); ++dim) {
    result = result.at(Dim(*dim), rest % Dim(*dim).size());
    rest = rest / Dim(*dim).size();
  }
  return result;
}

Index Choreography::size() const {
  Index result = Dim(recording->groupDims.front()).size();
  for (size_t i = 1; i < recording->groupDims.size(); ++i)
    result = result * Dim(recording->groupDims[i]).size();
  return result;
}

Codec Choreography::codec(const std::string &name, const Codec &byDefault, Location location) {
  auto hasSameName = [&](const RecordedCodec &other) { return other.name == name; };
  if (std::ranges::any_of(recording->codecs, hasSameName))
    recording->report(location, "there is a codec named '" + name + "' already");
  auto chosen = recording->codecChoices.find(name);
  Codec result = (chosen == recording->codecChoices.end() ? byDefault : chosen->second).copy();
  recording->codecs.push_back({name, result});
  result.parameter = int(recording->codecs.size()) - 1;
  return result;
}

Buffer Choreography::input() const { return {recording, 0}; }
Buffer Choreography::output() const { return {recording, 1}; }

Buffer Choreography::inPlace(Location location) {
  if (recording->buffers[0].hasBlockPerRank != recording->buffers[1].hasBlockPerRank) {
    recording->report(location, "inPlace() needs an input and an output of the same size");
    return output();
  }
  RecordedBuffer &recordedInput = recording->buffers[0];
  if (recordedInput.isGridFixed) {
    std::vector<Index> extents;
    for (const ExpressionRef &extent : recordedInput.grid)
      extents.emplace_back(extent);
    output().cut(std::move(extents), location);
  }
  recordedInput.sameGridAs = 1;
  auto copyInput = [&] { copy(input(), output(), location); };
  if (traitsOf(recording->definition.collective.kind).isInputAtRoot)
    when(rank() == root(), copyInput);
  else
    copyInput();
  return output();
}

/// Returns its number.
static int addScratch(Recording &recording, RecordedBuffer buffer) {
  auto hasSameName = [&](const RecordedBuffer &other) { return other.name == buffer.name; };
  if (std::ranges::any_of(recording.buffers, hasSameName))
    recording.report(buffer.origin, "there is a buffer named '" + buffer.name + "' already");
  recording.buffers.push_back(std::move(buffer));
  return int(recording.buffers.size()) - 1;
}

Buffer Choreography::scratch(const std::string &name, const Buffer &like, Location location) {
  RecordedBuffer buffer = recording->buffers[size_t(like.number)];
  buffer.role = RecordedBuffer::Role::Scratch;
  buffer.name = name;
  buffer.isGridFixed = false;
  buffer.codec = none();
  buffer.codecParameter = -1;
  buffer.sameGridAs = like.number;
  buffer.origin = recording->originOf(location);
  return {recording, addScratch(*recording, std::move(buffer))};
}

Buffer Choreography::slots(const std::string &name, const Buffer &like, std::initializer_list<Index> grid,
                           Location location) {
  int number = addScratch(*recording, {.role = RecordedBuffer::Role::Scratch,
                                       .name = name,
                                       .hasBlockPerRank = false,
                                       .grid = {},
                                       .origin = recording->originOf(location)});
  Buffer result{recording, number};
  result.cut(grid, location);
  int slotsFor = recording->buffers[size_t(like.number)].slotsFor;
  recording->buffers[size_t(number)].slotsFor = slotsFor >= 0 ? slotsFor : like.number;
  return result;
}

Buffer Choreography::blocks(const std::string &name, std::initializer_list<Index> grid, Location location) {
  int number = addScratch(*recording, {.role = RecordedBuffer::Role::Scratch,
                                       .name = name,
                                       .hasBlockPerRank = false,
                                       .grid = {},
                                       .origin = recording->originOf(location)});
  Buffer result{recording, number};
  result.cut(grid, location);
  recording->buffers[size_t(number)].hasOwnBlocks = true;
  return result;
}

void Choreography::require(const Condition &sizes, const std::string &what, Location location) {
  ExpressionRef condition = sizes.expression();
  bool isOfSizes = !anyNode(condition, [](const Expression &node) {
    return node.operands.empty() && node.kind != Kind::Constant && node.kind != Kind::DimSize;
  });
  std::string mistake = isOfSizes ? findMisuse(*recording, condition, {}) : "depends on more than sizes of the mesh";
  if (!mistake.empty())
    recording->report(location, "what the choreography requires " + mistake);
  else
    recording->requirements.push_back({condition, what, recording->originOf(location)});
}

static size_t append(Recording &recording, RecordedStatement statement) {
  for (const ExpressionRef &condition : recording.openConditions)
    statement.condition = statement.condition ? makeExpression(Kind::And, {statement.condition, condition}) : condition;
  statement.loops = recording.openLoops;
  statement.variant = recording.openStripe.variant;
  recording.statements.push_back(std::move(statement));
  recording.openBodies.back()->push_back(recording.statements.size() - 1);
  return recording.statements.size() - 1;
}

void Choreography::copy(const Slice &source, const Slice &destination, Location location) {
  append(*recording, {.kind = RecordedStatement::Kind::Copy,
                      .source = SliceAccess::get(source),
                      .destination = SliceAccess::get(destination),
                      .hasDestination = true,
                      .origin = recording->originOf(location)});
}

void Choreography::reduce(const Slice &source, const Slice &destination, Location location) {
  append(*recording, {.kind = RecordedStatement::Kind::Reduce,
                      .source = SliceAccess::get(source),
                      .destination = SliceAccess::get(destination),
                      .hasDestination = true,
                      .isReducing = true,
                      .origin = recording->originOf(location)});
}

Transfer Choreography::send(const Slice &source, Location location) {
  size_t statement = append(*recording, {.kind = RecordedStatement::Kind::Transfer,
                                         .source = SliceAccess::get(source),
                                         .destination = {},
                                         .origin = recording->originOf(location)});
  return {recording, statement};
}

Transfer &Transfer::to(const Rank &peers) {
  RecordedStatement &record = recording->statements[statement];
  if (record.relation)
    recording->report(record.origin, "a statement sends to one relation; this one has two");
  auto stay = std::make_shared<Relation>();
  stay->steps.resize(recording->definition.mesh.dims.size());
  record.relation = peers.relation ? peers.relation : stay;
  return *this;
}

Transfer &Transfer::at(const Slice &destination) {
  RecordedStatement &record = recording->statements[statement];
  if (record.hasDestination)
    recording->report(record.origin, "a statement lands at one slice; this one has two");
  record.destination = SliceAccess::get(destination);
  record.hasDestination = true;
  return *this;
}

Transfer &Transfer::reduce() {
  recording->statements[statement].isReducing = true;
  return *this;
}

void Choreography::loop(const Index &count, const std::function<void(Index)> &body, Location location) {
  auto loop = std::make_unique<RecordedLoop>(RecordedLoop{.number = recording->numLoops++,
                                                          .count = count.expression(),
                                                          .body = {},
                                                          .origin = recording->originOf(location),
                                                          .variant = recording->openStripe.variant});
  std::string mistake = findMisuse(*recording, count.expression(), recording->openLoops);
  if (dependsOnRank(count.expression()))
    mistake = "depends on the rank; it must be the same on every rank";
  loop->isMistaken = !mistake.empty();
  if (loop->isMistaken)
    recording->report(location, "the number of iterations " + mistake);
  recording->openBodies.push_back(&loop->body);
  recording->openLoops.push_back(loop->number);
  body(Index(makeLeaf(Kind::LoopIndex, loop->number)));
  recording->openLoops.pop_back();
  recording->openBodies.pop_back();
  recording->openBodies.back()->push_back(std::move(loop));
}

void Choreography::when(const Condition &condition, const std::function<void()> &body) {
  recording->openConditions.push_back(condition.expression());
  body();
  recording->openConditions.pop_back();
}

/// What is wrong with a stripe that starts now; empty when nothing is.
static std::string findStripeMistake(const Recording &recording, int k) {
  constexpr int maxVariants = 16;
  auto placeOf = [](const Location &location) {
    return std::string(location.file_name()) + ":" + std::to_string(location.line());
  };
  if (k < 1 || k > maxVariants)
    return "stripe(k) cuts every chunk in 1 to " + std::to_string(maxVariants) + " parts, not in " + std::to_string(k);
  if (recording.openStripe.variant >= 0)
    return "a stripe inside of another one, at " + placeOf(recording.openStripe.location);
  if (recording.numVariants > 0 && recording.numVariants != k)
    return "cuts every chunk in " + std::to_string(k) + " parts, but the stripe at " + placeOf(recording.firstStripe) +
           " in " + std::to_string(recording.numVariants) + "; all stripes of a choreography have the same k";
  return "";
}

void Choreography::stripe(int k, const std::function<void(int)> &body, Location location) {
  if (std::string mistake = findStripeMistake(*recording, k); !mistake.empty()) {
    recording->report(location, mistake);
    body(0); // for the mistakes in it
    return;
  }
  if (recording->numVariants == 0) {
    recording->numVariants = k;
    recording->firstStripe = location;
  }
  recording->openStripe.location = location;
  for (int variant = 0; variant < k; ++variant) {
    recording->openStripe.variant = variant;
    body(variant);
  }
  recording->openStripe.variant = -1;
}

CalledFrom::CalledFrom(Choreography &c, Location caller) : recording(c.recording) {
  recording->openCalls.push_back(caller);
}

CalledFrom::~CalledFrom() { recording->openCalls.pop_back(); }

} // namespace kolo::dsl
