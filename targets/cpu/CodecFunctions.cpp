// What a module has of its codecs: a description of each, with the functions that encode and decode a granule.
#include "targets/cpu/CodecFunctions.h"

#include "ir/Kolo.h"
#include "targets/cpu/FunctionBuilder.h"

using namespace mlir;
using kolo::codec::granule;

namespace kolo::cpu {

static std::string descriptionName(const codec::Codec &codec) { return "kolo.codec." + codec::textOf(codec); }

namespace {

/// The constant, of the fields of CodecDescription.
class Description : FunctionBuilder {
public:
  Description(ModuleOp defined, const codec::Codec &described)
      : FunctionBuilder(defined), codec(described),
        type(LLVM::LLVMStructType::getLiteral(builder.getContext(), {pointer, pointer, i64, i64, i64, i64, i64, i64})) {
  }

  void define();

private:
  Value address(const std::string &function) {
    return LLVM::AddressOfOp::create(builder, loc, pointer, FlatSymbolRefAttr::get(builder.getContext(), function));
  }

  const codec::Codec &codec;
  Type type;
};

void Description::define() {
  static_assert(offsetof(CodecDescription, codeBits) == 16 && sizeof(CodecDescription) == 64);
  if (module.lookupSymbol(descriptionName(codec)))
    return;
  defineGranuleFunctions(module, codec);
  builder.setInsertionPointToEnd(module.getBody());
  auto global = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal,
                                       descriptionName(codec), Attribute());
  builder.createBlock(&global.getInitializerRegion());
  bool isScaled = codec::isScaled(codec);
  int64_t granuleBytes = codec::bytes(codec, granule);
  assert(granuleBytes <= CodecDescription::mostBytes);
  const Value fields[] = {address(encodeName(codec)),
                          address(decodeName(codec)),
                          integer64(codec::bitsOf(codec.element())),
                          integer64(isScaled ? codec.block() : granule),
                          integer64(isScaled ? codec::bytesOf(codec.scale()) : 0),
                          integer64(isScaled && codec.scale() == codec::Scale::E4M3 ? 4 : 0),
                          integer64(granuleBytes),
                          integer64(codec.element() == codec::Element::F32)};
  Value made = LLVM::UndefOp::create(builder, loc, type);
  for (auto [number, field] : llvm::enumerate(fields))
    made = LLVM::InsertValueOp::create(builder, loc, made, field, int64_t(number));
  LLVM::ReturnOp::create(builder, loc, made);
}

class RoundTripFunction : FunctionBuilder {
public:
  explicit RoundTripFunction(ModuleOp defined) : FunctionBuilder(defined) {}

  void define(const codec::Codec &codec) {
    if (!create(roundTripName(codec), {pointer}))
      return;
    Value description = createDescription(builder, loc, module, codec);
    call(roundTripFunction, {argument(0), description});
    finish();
  }
};

} // namespace

SmallVector<codec::Codec> collectCodecs(ModuleOp programs) {
  SmallVector<codec::Codec> codecs;
  programs.walk([&](BufferOp buffer) {
    codec::Codec codec = codecOf(buffer);
    bool loses = !codec::isNone(codec) && codec.element() != codec::Element::F32;
    if (loses && !codec.isStochastic() && !llvm::is_contained(codecs, codec))
      codecs.push_back(codec);
  });
  return codecs;
}

Value createDescription(OpBuilder &builder, Location loc, ModuleOp module, const codec::Codec &codec) {
  if (codec::isNone(codec))
    return LLVM::ZeroOp::create(builder, loc, pointerType(builder));
  Description(module, codec).define();
  return LLVM::AddressOfOp::create(builder, loc, pointerType(builder),
                                   FlatSymbolRefAttr::get(builder.getContext(), descriptionName(codec)));
}

void declareCodedMoves(ModuleOp module) {
  OpBuilder builder(module.getContext());
  Type pointer = pointerType(builder), i64 = builder.getI64Type();
  declareFunction(builder, module, convertFunction,
                  {pointer, pointer, pointer, i64, i64, i64, i64, pointer, pointer, i64});
  for (StringRef remote : {convertPutFunction, convertGetFunction})
    declareFunction(builder, module, remote,
                    {pointer, i64, i64, i64, pointer, i64, i64, i64, i64, pointer, pointer, i64});
  declareFunction(builder, module, convertFusedFunction,
                  {pointer, pointer, i64, pointer, i64, pointer, pointer, i64, i64, i64, i64, i64, i64});
  declareFunction(builder, module, roundTripFunction, {pointer, pointer});
}

void defineRoundTrip(ModuleOp module, const codec::Codec &codec) { RoundTripFunction(module).define(codec); }

} // namespace kolo::cpu
