// Registers the dialect, its attributes, its types and its ops.
#include "ir/Kolo.h"
#include "ir/Limits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "KoloDialect.cpp.inc"
#include "KoloEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "KoloAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "KoloInterfaces.cpp.inc"
#include "KoloTypes.cpp.inc"

namespace kolo {

void KoloDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "KoloAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "KoloTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "KoloOps.cpp.inc"
      >();
}

LogicalResult CollectiveAttr::verify(function_ref<InFlightDiagnostic()> emitError, CollectiveKind,
                                     ArrayRef<int64_t> groupDims) {
  if (groupDims.empty())
    return emitError() << "a collective runs over at least one mesh dimension";
  if (llvm::SmallDenseSet<int64_t>(groupDims.begin(), groupDims.end()).size() != groupDims.size())
    return emitError() << "a collective runs over a mesh dimension once";
  return success();
}

LogicalResult ProofAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> mesh,
                                ArrayRef<int64_t> on, ArrayRef<int64_t> from) {
  auto isPositive = [](int64_t size) { return size > 0; };
  if (mesh.size() != on.size() || !llvm::all_of(mesh, isPositive) || !llvm::all_of(on, isPositive))
    return emitError() << "proof_c1: both meshes must have the same number of dimensions, and positive sizes";
  if (!hasFewEnoughRanks(mesh) || !hasFewEnoughRanks(on))
    return emitError() << "proof_c1: both meshes must have at most " << maxMeshRanks << " ranks";
  auto isNegative = [](int64_t size) { return size < 0; };
  if (!from.empty() && (from.size() != mesh.size() || llvm::any_of(from, isNegative)))
    return emitError() << "proof_c2: there must be a size from which on the proof holds, or 0, for each dimension";
  return success();
}

/// As a literal of MLIR, which has a point.
static std::string literalOf(float level) {
  std::string text = codec::textOf(level);
  if (text.find('.') == std::string::npos)
    text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

codec::Codec CodecAttr::getCodec() const { return *codec::parseText(getText()); }

void CodecAttr::print(AsmPrinter &printer) const {
  codec::Codec codec = getCodec();
  StringRef text = getText(), levels = text.take_until([](char letter) { return letter == '['; });
  printer << '<' << levels;
  if (levels.size() < text.size()) {
    printer << '[';
    llvm::interleaveComma(codec.levels(), printer, [&](float level) { printer << literalOf(level); });
    printer << text.drop_until([](char letter) { return letter == ']'; });
  }
  printer << '>';
}

static FailureOr<std::string> parseLevels(AsmParser &parser) {
  std::string text;
  auto parseLevel = [&]() -> ParseResult {
    double level = 0;
    if (parser.parseFloat(level))
      return failure();
    text += (text.empty() ? "" : ", ") + codec::textOf(float(level));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseLevel))
    return failure();
  return "[" + text + "]";
}

Attribute CodecAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  std::string text;
  StringRef keyword;
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  text = keyword;
  if (keyword == "levels") {
    FailureOr<std::string> levels = parseLevels(parser);
    if (failed(levels))
      return {};
    text += " " + *levels;
  }
  int64_t number = 0;
  while (failed(parser.parseOptionalGreater())) {
    OptionalParseResult isNumber = parser.parseOptionalInteger(number);
    if (isNumber.has_value() ? failed(*isNumber) : failed(parser.parseKeyword(&keyword)))
      return {};
    text += " " + (isNumber.has_value() ? std::to_string(number) : keyword.str());
  }
  std::optional<codec::Codec> codec = codec::parseText(text);
  if (!codec) {
    parser.emitError(location) << "'" << text << "' is no codec: ELEMENT [per BLOCK scale TYPE RULE] [stochastic]";
    return {};
  }
  auto emitError = [&] { return parser.emitError(location); };
  return getChecked(function_ref<InFlightDiagnostic()>(emitError), parser.getContext(), codec::textOf(*codec));
}

LogicalResult CodecAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef text) {
  std::optional<codec::Codec> codec = codec::parseText(text);
  if (!codec || codec::isNone(*codec) || codec::textOf(*codec) != text)
    return emitError() << "codec_c1: '" << text << "' is no text of a codec";
  if (std::string mistake = codec::findMistake(*codec); !mistake.empty())
    return emitError() << "codec_c1: " << mistake;
  return success();
}

LogicalResult KoloDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  bool isNumber = number && number.getType().isInteger(64) && number.getInt() >= 0;
  StringAttr name = attribute.getName();
  if (name == StripeAttrHelper::getNameStr())
    return isNumber && isa<StatementInterface, scf::ForOp>(op)
               ? success()
               : op->emitOpError("stripe_c1: only a statement or an scf.for has a kolo.stripe, which is a number");
  if (name == PhaseAttrHelper::getNameStr())
    return isNumber && isa_and_present<ProgramOp>(op->getParentOp())
               ? success()
               : op->emitOpError("phase_c1: only an op at the top level of a program has a kolo.phase, a number");
  if (name == PipelinePhaseAttrHelper::getNameStr())
    return isNumber && isa<scf::IfOp>(op) && op->getParentOfType<ProgramOp>()
               ? success()
               : op->emitOpError("pipeline_phase_c1: only an scf.if of a program has a kolo.pipeline_phase, a number");
  return op->emitOpError("mark_c1: there is no mark ") << name.getValue();
}

LogicalResult StepAttr::verify(function_ref<InFlightDiagnostic()> emitError, StepKind kind, ArrayRef<int64_t> table) {
  if (kind != StepKind::Mapped)
    return table.empty() ? success() : LogicalResult(emitError() << "only a mapped step has a table");
  SmallVector<bool> seen(table.size(), false);
  for (int64_t entry : table) {
    if (entry < 0 || entry >= int64_t(table.size()) || seen[entry])
      return emitError() << "a mapped step's table must be a permutation of 0 to its size - 1, or it has no inverse";
    seen[entry] = true;
  }
  return success();
}

} // namespace kolo
