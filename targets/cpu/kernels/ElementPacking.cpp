// Elements of the call's type, at most a granule of them, to and from numbers in f32.
#include "targets/cpu/FunctionBuilder.h"
#include "targets/cpu/Kernels.h"

using namespace mlir;

namespace kolo::cpu {

namespace {

class ElementPacking : FunctionBuilder {
public:
  explicit ElementPacking(ModuleOp module) : FunctionBuilder(module) {}

  void define(bool isPacking);

private:
  void convertAll(bool isPacking, codec::Element element);
};

void ElementPacking::convertAll(bool isPacking, codec::Element element) {
  constexpr int64_t width = 16;
  Value from = argument(1), to = argument(2), numElements = argument(3);
  Value vectors = mul64(div64(numElements, width), width);
  auto convert = [&](Value i, int64_t size) {
    Type halves = vectorOf(size, builder.getI16Type()), numbers = vectorOf(size, f32), codes = vectorOf(size, i32);
    Value wide = mul64(i, 4), narrow = mul64(i, 2);
    if (isPacking) {
      Value code = createNarrowed(builder, loc, element, load(numbers, at(from, wide)));
      return store(arith::TruncIOp::create(builder, loc, halves, code), at(to, narrow));
    }
    Value code = arith::ExtUIOp::create(builder, loc, codes, load(halves, at(from, narrow)));
    store(createWidened(builder, loc, element, code), at(to, wide));
  };
  loop(integer64(0), vectors, width, [&](Value i) { convert(i, width); });
  loop(vectors, numElements, 1, [&](Value i) { convert(i, 1); });
}

void ElementPacking::define(bool isPacking) {
  if (!create(isPacking ? packElementsFunction : unpackElementsFunction, {pointer, pointer, pointer, i64}))
    return;
  Value type = InvocationAccess(builder, loc, argument(0)).loadInteger(offsetof(KoloInvocation, type));
  auto is = [&](int64_t wanted) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, type, integer64(wanted));
  };
  auto isSingle = scf::IfOp::create(builder, loc, is(KOLO_F32), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(isSingle.thenBlock());
  call(copyFunction, {argument(2), argument(1), mul64(argument(3), 4), integer64(0)});
  builder.setInsertionPointToStart(isSingle.elseBlock());
  auto isHalf = scf::IfOp::create(builder, loc, is(KOLO_F16), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(isHalf.thenBlock());
  convertAll(isPacking, codec::Element::F16);
  builder.setInsertionPointToStart(isHalf.elseBlock());
  convertAll(isPacking, codec::Element::BF16);
  finish();
}

} // namespace

void defineElementPacking(ModuleOp module) {
  ElementPacking(module).define(/*isPacking=*/true);
  ElementPacking(module).define(/*isPacking=*/false);
}

} // namespace kolo::cpu
