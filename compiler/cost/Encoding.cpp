#include "compiler/cost/Encoding.h"

namespace kolo::cost {

double storedBytes(BufferOp buffer, int64_t elementBytes) {
  codec::Codec codec = codecOf(buffer);
  return codec::isNone(codec) ? 1 : double(codec::bytes(codec, codec::granule)) / double(codec::granule * elementBytes);
}

} // namespace kolo::cost
