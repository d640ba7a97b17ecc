// What happens to elements that move between two buffers: nothing, a conversion, or a combination. Used by both
// interpreters.
#pragma once

#include "ir/reference/SimulatedCall.h"

#include "codec/Convert.h"

namespace kolo::reference {

/// An error if a call cannot use a program with codecs: elements are f16, bf16 or f32, and nothing is multiplied.
llvm::Error validateCodecs(const Call &call, mlir::Operation *program);

/// Elements as a buffer stores them.
struct Stored {
  codec::Codec codec;
  llvm::ArrayRef<std::byte> bytes;
};

/// Writes elements over those in `bytes`, which `codec` stores, or combines them with those there. Each side has room
/// for `numElements`. Between unlike codecs, or where one that is not `none` combines, all is computed in f32 and
/// rounded once, when it is stored. `key` names the first element and the rank that holds the source.
void moveElements(const Call &call, bool isCombining, const Stored &source, const codec::Codec &codec,
                  llvm::MutableArrayRef<std::byte> bytes, int64_t numElements, const codec::DrawKey &key);

} // namespace kolo::reference
