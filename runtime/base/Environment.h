// The environment variables that tune the runtime.
#pragma once

#include "kolo/runtime/Communicator.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::runtime {

enum class WaitMode : uint8_t { Auto, Spin, Yield, Sleep };
enum class OrdinaryMemory : uint8_t { Auto, Attach, Staged };

const char *toString(OrdinaryMemory mode);

/// The options of one communicator after environment variables have replaced some.
struct Settings {
  int timeoutMs = 0;
  int connectMs = 0; // not 0: instead of it, for the connections with which a communicator of several hosts begins
  int lanes = 1;
  WaitMode wait = WaitMode::Auto;
  OrdinaryMemory ordinaryMemory = OrdinaryMemory::Auto;
  int memoryMiB = 16; // that the communicators of a rank may hold together: see Holding.h
  std::function<void()> progress;
  bool countsTraffic = false;
  bool runsAhead = false;
  std::string tag;
};

/// InvalidArgument: an option or a variable is out of range; the message names it.
Result<Settings> readSettings(const CommunicatorOptions &options);

/// The decimal number that is the whole text, if it is in [least, most].
std::optional<int> parseInt(std::string_view text, int least, int most);

} // namespace kolo::runtime
