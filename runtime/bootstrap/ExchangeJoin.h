// ExchangeJoin: how ranks meet that the caller connects: see Communicator::create.
#pragma once

#include "bootstrap/Rendezvous.h"
#include "kolo/runtime/Communicator.h"

namespace kolo::runtime {

/// `settings`: what this rank read, or what it refuses with. Blocks until all ranks have met. Errors as of
/// Communicator::create.
Result<Meeting> meetByExchange(int rank, int size, const AllGather &exchange, const Result<Settings> &settings);

} // namespace kolo::runtime
