// Rolls: how ranks know that all of them have this library. The process that makes a unique id keeps a roll, and names
// it in bytes of the id that the real library leaves zero.
#pragma once

#include "Types.h"

#include "kolo/runtime/Roll.h"

#include <optional>

namespace kolo::nccl {

/// Names a new roll in an id of the real library. Where it cannot, the id stays as it is, and a line says why with
/// KOLO_DEBUG. For any thread.
void addRoll(UniqueId &id);
/// Nothing: the id was made without this library, or names none.
std::optional<runtime::RollAddress> rollOf(const UniqueId &id);
/// So long a rank waits for the keeper of a roll, in milliseconds.
int rollMs();

} // namespace kolo::nccl
