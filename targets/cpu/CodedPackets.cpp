// The private functions that encode what is sent in packets, and decode what arrives in them. Both work in this lane's
// tile, in pieces whose bytes fill whole packets of every format.
#include "targets/cpu/FunctionBuilder.h"

using namespace mlir;
using kolo::codec::granule;

namespace kolo::cpu {

namespace {

/// A granule is a multiple of 16 bytes, and at most 4 KiB: a tile has room for so many.
constexpr int64_t pieceGranules = 15;
static_assert(pieceGranules * granule * int64_t(sizeof(float)) <= KOLO_MIN_TILE_BYTES);
static_assert(pieceGranules * 16 % ll128Packets.dataBytes == 0 && pieceGranules * 16 % llPackets.dataBytes == 0);

class CodedPackets : FunctionBuilder {
public:
  CodedPackets(ModuleOp defined, const PacketFormat &format)
      : FunctionBuilder(defined), format(format), names(functionsOf(format)) {}

  void defineSend();
  void defineReceive();

private:
  struct Piece {
    Value numElements, numBytes, first; // `first`: number of its first element
    Value packets, other;               // bytes to it, in packets and in the other buffer
  };
  void forEachPiece(unsigned firstNumber, llvm::function_ref<void(const Piece &)> build);
  Value product(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value tile() { return InvocationAccess(builder, loc, argument(0)).loadPointer(offsetof(KoloInvocation, tile)); }

  PacketFormat format;
  const PacketFunctionNames &names;
};

/// The arguments from `firstNumber` on are numbers of elements, of their bytes, and of bytes in a granule on both
/// sides. Without elements there is one piece, without bytes: its packet says that all has arrived.
void CodedPackets::forEachPiece(unsigned firstNumber, llvm::function_ref<void(const Piece &)> build) {
  Value numElements = argument(firstNumber), numBytes = argument(firstNumber + 1),
        granuleBytes = argument(firstNumber + 2), otherGranuleBytes = argument(firstNumber + 3);
  Value end = arith::MaxSIOp::create(builder, loc, numElements, integer64(1));
  loop(integer64(0), end, pieceGranules * granule, [&](Value first) {
    Value granules = div64(first, granule), begin = product(granules, granuleBytes);
    build({least64(sub64(numElements, first), integer64(pieceGranules * granule)),
           least64(sub64(numBytes, begin), mul64(granuleBytes, pieceGranules)), first,
           mul64(div64(begin, format.dataBytes), format.bytes), product(granules, otherGranuleBytes)});
  });
}

void CodedPackets::defineSend() {
  create(names.convertSend, {pointer, i64, i64, pointer, i64, i64, i64, i64, i64, i64, pointer, pointer});
  Value zero = integer64(0), encoded = tile();
  forEachPiece(4, [&](const Piece &piece) {
    call(convertFunction, {argument(0), encoded, at(argument(3), piece.other), piece.numElements, argument(8),
                           add64(argument(9), piece.first), zero, argument(10), argument(11), zero});
    call(names.send, {argument(0), argument(1), add64(argument(2), piece.packets), encoded, piece.numBytes});
  });
  finish();
}

void CodedPackets::defineReceive() {
  create(names.convertReceive,
         {pointer, pointer, pointer, i64, i64, i64, i64, i64, i64, i64, pointer, pointer, i64, i32}, i32);
  Value encoded = tile();
  forEachPiece(3, [&](const Piece &piece) {
    LLVM::CallOp::create(
        builder, loc, TypeRange(i32), names.receive,
        ValueRange{argument(0), encoded, at(argument(2), piece.packets), piece.numBytes, argument(13)});
    call(convertFunction, {argument(0), at(argument(1), piece.other), encoded, piece.numElements, argument(7),
                           add64(argument(8), piece.first), argument(9), argument(10), argument(11), argument(12)});
  });
  finish(constantI32(builder, loc, 0));
}

} // namespace

void defineCodedPackets(ModuleOp module, const PacketFormat &format) {
  CodedPackets(module, format).defineSend();
  CodedPackets(module, format).defineReceive();
}

} // namespace kolo::cpu
