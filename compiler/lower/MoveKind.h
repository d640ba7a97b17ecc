// What kind of move each move of a channel program is: decided once, for the emitters of all targets.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

enum class MoveKind {
  Convert, ///< between buffers of different codecs, on this rank
  Send,    ///< into packets of a peer
  Receive, ///< out of packets of this rank; combines where isReducing() says so
  Put,     ///< into a peer's memory
  Get,     ///< out of a peer's memory; combines where isReducing() says so
  Local    ///< on this rank; combines where isReducing() says so
};

MoveKind kindOf(MoveInterface move);

/// Whether the move adds to what lies at its destination.
bool isReducing(MoveInterface move);

/// Whether packets carry the move, empty ranges too: a packet says that it has arrived.
inline bool isInPackets(MoveKind kind) { return kind == MoveKind::Send || kind == MoveKind::Receive; }

} // namespace kolo
