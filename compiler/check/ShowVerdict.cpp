#include "compiler/check/ShowVerdict.h"
#include "codec/Presets.h"
#include "codec/Quality.h"
#include "compiler/model/Unfold.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace mlir;
using nlohmann::ordered_json;

namespace kolo {

std::string describeMesh(ProgramOp program, ArrayRef<int64_t> sizes) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(
      llvm::zip_equal(program.getMesh().getAsRange<StringAttr>(), sizes), out,
      [&](auto pair) { out << std::get<0>(pair).getValue() << "=" << std::get<1>(pair); }, ",");
  return text;
}

std::string describe(ProgramOp program, const Verdict &verdict) {
  if (verdict.tooLarge)
    return "mesh " + describeMesh(program, verdict.mesh) + " cannot be checked: " + *verdict.tooLarge;
  const Refutation &refutation = *verdict.refutation;
  std::string text = refutation.message + " (" + shortName(refutation.property) + ": " +
                     title(refutation.property).str() + "; mesh " + describeMesh(program, refutation.mesh);
  if (ArrayRef(refutation.mesh) != ArrayRef(verdict.mesh))
    text += ", which stands for " + describeMesh(program, verdict.mesh);
  if (hasRoot(program.getCollective().getKind()))
    text += ", root " + std::to_string(refutation.root);
  return text + (refutation.isInPlace ? ", in place)" : ")");
}

Location locationOf(ProgramOp program, const Verdict &verdict) {
  return verdict.refutation ? verdict.refutation->loc : program.getLoc();
}

std::vector<Remark> explain(const Verdict &verdict) {
  std::vector<Remark> remarks;
  if (!verdict.refutation)
    return remarks;
  const Refutation &refutation = *verdict.refutation;
  if (refutation.other && *refutation.other != refutation.loc)
    remarks.push_back({*refutation.other, "the other statement"});
  for (auto [index, step] : llvm::enumerate(refutation.steps))
    remarks.push_back({step.loc, std::to_string(index + 1) + ". rank " + std::to_string(step.rank) + ", call " +
                                     std::to_string(step.call + 1) + ": " + step.text});
  return remarks;
}

StringRef toString(PropertyState state) {
  switch (state) {
  case PropertyState::Proved:
    return "proved";
  case PropertyState::Refuted:
    return "refuted";
  case PropertyState::NotDecided:
    return "not decided";
  case PropertyState::DoesNotHold:
    return "no";
  }
  llvm_unreachable("no such state");
}

PropertyState stateOf(const Verdict &verdict, Property property) {
  if (!verdict.isProved()) {
    bool isRefuted = verdict.refutation && verdict.refutation->property == property;
    return isRefuted ? PropertyState::Refuted : PropertyState::NotDecided;
  }
  std::optional<bool> holds = property == Property::SameBits   ? verdict.ranksAgreeBitwise
                              : property == Property::OneOrder ? verdict.order.isFixed
                                                               : true;
  return !holds ? PropertyState::NotDecided : *holds ? PropertyState::Proved : PropertyState::DoesNotHold;
}

static std::string noteOnBits(ProgramOp program, const Verdict &verdict) {
  if (!givesAllTheSame(program.getCollective().getKind()))
    return "every rank has an output of its own";
  if (!verdict.ranksAgreeBitwise)
    return "ranks combine for themselves, and their orders are compared on up to " +
           std::to_string(mostRanksOfExactTerms) + " ranks";
  if (!*verdict.ranksAgreeBitwise)
    return "ranks combine in different orders, so floating-point sums may differ in the last bit";
  return "on all ranks";
}

static std::string noteOnRuns(ProgramOp program) {
  auto isStochastic = [](BufferOp buffer) { return codecOf(buffer).isStochastic(); };
  return llvm::any_of(program.getBody().getOps<BufferOp>(), isStochastic)
             ? "the same bits in every run, but others in every call of a run"
             : "the same bits in every run";
}

static std::string noteOnOrder(ProgramOp program, const Verdict &verdict) {
  const SumOrder &order = verdict.order;
  if (!order.isFixed && !order.text.empty())
    return order.text;
  if (!order.isFixed)
    return "orders are followed on up to 64 ranks, and with --order fixed on up to " +
           std::to_string(mostRanksOfExactTerms);
  if (!*order.isFixed)
    return order.text;
  if (order.fingerprint == 0)
    return "nothing is summed";
  std::string text = order.text.empty() ? "" : ": " + order.text;
  if (program.getCollective().getKind() == CollectiveKind::ReduceScatter)
    return "every block in one order" + (text.empty() ? "" : ", that of the first rank: " + order.text);
  if (isPrefixReduction(program.getCollective().getKind()))
    return "every element" + (text.empty() ? "" : ", on the last rank: " + order.text);
  return "every element" + text;
}

std::string noteOn(ProgramOp program, const Verdict &verdict, Property property, const Transport &transport) {
  if (!verdict.isProved())
    return "";
  switch (property) {
  case Property::PutOrder:
    return transport.name + ": " + transport.reason;
  case Property::Order:
    return noteOnRuns(program);
  case Property::SameBits:
    return noteOnBits(program, verdict);
  case Property::OneOrder:
    return noteOnOrder(program, verdict);
  default:
    return "";
  }
}

std::string nameOfDim(ProgramOp program, size_t dim) { return cast<StringAttr>(program.getMesh()[dim]).str(); }

std::string describeAllSizes(const AllSizes &allSizes) {
  if (!allSizes.from)
    return "not decided: " + allSizes.whyNot;
  return "proved, from " + std::to_string(*allSizes.from) + " on" + (allSizes.ranksAgreeBitwise ? "" : ", without V11");
}

static std::string shortNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g", number);
  return text;
}

/// What a bound adds for small numbers, and the largest A that it is proved for: what is encoded is at most a sum of
/// `factor` numbers, and of the errors before it.
struct Domain {
  double leastError = 0, largestInput = std::numeric_limits<double>::infinity();
};
static Domain domainOf(const Verdict &verdict) {
  auto codecs =
      llvm::make_filter_range(verdict.losses, [](const OutputLoss &loss) { return !codec::isNone(loss.codec); });
  Domain domain;
  double errors = 0;
  for (const OutputLoss &loss : codecs) {
    errors += double(loss.factor) * codec::worstError(loss.codec);
    domain.leastError += double(loss.factor) * codec::leastError(loss.codec);
  }
  for (const OutputLoss &loss : codecs)
    domain.largestInput =
        std::min(domain.largestInput, codec::largestInput(loss.codec) / (double(loss.factor) + errors));
  return domain;
}

std::string describeLosses(const Verdict &verdict) {
  if (!verdict.isProved())
    return "not decided";
  if (verdict.numEncodings == 0)
    return "exact";
  std::string text =
      std::to_string(verdict.numEncodings) + (verdict.numEncodings == 1 ? " encoding" : " encodings") + "; |error| <= ";
  std::string units, callType;
  int64_t number = 0;
  for (const OutputLoss &loss : verdict.losses) {
    if (codec::isNone(loss.codec)) {
      callType = "; in f16 and bf16 calls + " + std::to_string(loss.factor) + " v A, v = 2^-11 and 2^-8";
      continue;
    }
    std::string unit = "u" + (++number == 1 ? "" : std::to_string(number));
    text += (number == 1 ? "" : " + ") + std::to_string(loss.factor) + " " + unit + " A";
    units += ", " + unit + " = " + shortNumber(codec::worstError(loss.codec)) + " of " + codec::nameOf(loss.codec);
  }
  Domain domain = domainOf(verdict);
  return text + units + "; + " + shortNumber(domain.leastError) + "; A <= " + shortNumber(domain.largestInput) +
         callType;
}

std::string describeCounts(const Verdict &verdict) {
  if (!verdict.isProved())
    return "not decided";
  return verdict.whyNoBlockTables.empty() ? "any, also of each block its own"
                                          : "equal ones: " + verdict.whyNoBlockTables;
}

Attribute tablesAsAttribute(ProgramOp program, const Verdict &verdict) {
  Builder builder(program.getContext());
  return verdict.whyNoBlockTables.empty() ? Attribute(builder.getUnitAttr())
                                          : builder.getStringAttr(verdict.whyNoBlockTables);
}

DictionaryAttr lossesAsAttribute(ProgramOp program, const Verdict &verdict) {
  Builder builder(program.getContext());
  SmallVector<Attribute> bound;
  for (const OutputLoss &loss : verdict.losses)
    bound.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr("codec", builder.getStringAttr(codec::textOf(loss.codec))),
                                   builder.getNamedAttr("factor", builder.getI64IntegerAttr(loss.factor))}));
  return builder.getDictionaryAttr({builder.getNamedAttr("encodings", builder.getI64IntegerAttr(verdict.numEncodings)),
                                    builder.getNamedAttr("bound", builder.getArrayAttr(bound)),
                                    builder.getNamedAttr("ranks", builder.getStringAttr(noteOnBits(program, verdict))),
                                    builder.getNamedAttr("runs", builder.getStringAttr(noteOnRuns(program)))});
}

DictionaryAttr orderAsAttribute(ProgramOp program, const Verdict &verdict) {
  Builder builder(program.getContext());
  std::string fingerprint;
  llvm::raw_string_ostream(fingerprint) << llvm::format_hex_no_prefix(verdict.order.fingerprint, 16);
  return builder.getDictionaryAttr({builder.getNamedAttr("text", builder.getStringAttr(noteOnOrder(program, verdict))),
                                    builder.getNamedAttr("fingerprint", builder.getStringAttr(fingerprint))});
}

static ordered_json lossesToJson(const Verdict &verdict) {
  if (!verdict.isProved())
    return {};
  ordered_json bound = ordered_json::array();
  int64_t callType = 0;
  for (const OutputLoss &loss : verdict.losses)
    if (codec::isNone(loss.codec))
      callType = loss.factor;
    else
      bound.push_back({{"codec", codec::nameOf(loss.codec)},
                       {"text", codec::textOf(loss.codec)},
                       {"factor", loss.factor},
                       {"worstError", codec::worstError(loss.codec)},
                       {"leastError", codec::leastError(loss.codec)},
                       {"largestInput", codec::largestInput(loss.codec)}});
  ordered_json result = {{"isExact", verdict.numEncodings == 0},
                         {"encodings", verdict.numEncodings},
                         {"bound", bound},
                         {"callTypeFactor", callType}};
  if (!bound.empty()) {
    Domain domain = domainOf(verdict);
    result["leastError"] = domain.leastError;
    result["largestInput"] = domain.largestInput;
  }
  return result;
}

static ordered_json toJson(const SourceLine &place) {
  return {{"file", place.file}, {"line", place.line}, {"column", place.column}};
}

static ordered_json toJson(ProgramOp program, const Refutation &refutation) {
  SourceLine place = sourceLineOf(refutation.loc);
  ordered_json result = {{"property", shortName(refutation.property)}, {"message", refutation.message}};
  result.update(toJson(place));
  result["other"] = refutation.other ? toJson(sourceLineOf(*refutation.other)) : ordered_json();
  result["ranks"] = refutation.ranks;
  result["chunk"] = refutation.chunk;
  result["mesh"] = describeMesh(program, refutation.mesh);
  result["root"] = hasRoot(program.getCollective().getKind()) ? ordered_json(refutation.root) : ordered_json();
  result["inPlace"] = refutation.isInPlace;
  result["steps"] = ordered_json::array();
  for (const Step &step : refutation.steps) {
    SourceLine at = sourceLineOf(step.loc);
    result["steps"].push_back(
        {{"rank", step.rank}, {"call", step.call + 1}, {"text", step.text}, {"file", at.file}, {"line", at.line}});
  }
  return result;
}

static ordered_json toJson(const SyncCounts &counts) {
  ordered_json credits = ordered_json::object();
  for (const auto &[kind, number] : counts.creditWaits)
    credits[kind] = number;
  return {{"dataSignals", counts.dataSignals}, {"dataWaits", counts.dataWaits}, {"creditWaits", credits},
          {"flushes", counts.flushes},         {"enters", counts.enters},       {"waits", counts.waits()}};
}

ordered_json toJson(ProgramOp program, const Verdict &verdict, const std::optional<SyncCounts> &counts,
                    const Transport &transport) {
  ordered_json result = {{"program", program.getSymName().str()},
                         {"mesh", describeMesh(program, verdict.mesh)},
                         {"checkedOn", describeMesh(program, verdict.checkedOn)},
                         {"transport", transport.name}};
  for (int number = 0; number < numProperties; ++number) {
    auto property = Property(number);
    ordered_json &entry = result["properties"][shortName(property)];
    entry = {{"title", title(property).str()}, {"state", toString(stateOf(verdict, property)).str()}};
    if (std::string note = noteOn(program, verdict, property, transport); !note.empty())
      entry["note"] = note;
  }
  result["refutation"] = verdict.refutation ? toJson(program, *verdict.refutation) : ordered_json();
  result["slicesChecked"] = verdict.slicesChecked ? ordered_json(*verdict.slicesChecked) : ordered_json();
  result["tooLarge"] = verdict.tooLarge ? ordered_json(*verdict.tooLarge) : ordered_json();
  result["lossy"] = lossesToJson(verdict);
  result["blockTables"] = verdict.isProved() ? ordered_json(verdict.whyNoBlockTables.empty()) : ordered_json();
  result["order"] = verdict.isProved() && verdict.order.isFixed == true
                        ? ordered_json(orderAsAttribute(program, verdict).getAs<StringAttr>("fingerprint").str())
                        : ordered_json();
  result["allSizes"] = ordered_json::array();
  for (const AllSizes &each : verdict.allSizes)
    result["allSizes"].push_back({{"dim", nameOfDim(program, each.dim)},
                                  {"from", each.from ? ordered_json(*each.from) : ordered_json()},
                                  {"sameBits", each.from ? ordered_json(each.ranksAgreeBitwise) : ordered_json()},
                                  {"whyNot", each.from ? ordered_json() : ordered_json(each.whyNot)}});
  result["synchronisation"] = counts ? toJson(*counts) : ordered_json();
  return result;
}

} // namespace kolo
