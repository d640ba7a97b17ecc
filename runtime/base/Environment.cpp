#include "base/Environment.h"

#include "base/Error.h"
#include "base/Variable.h"

#include <charconv>
#include <cstdlib>
#include <limits>

namespace kolo::runtime {
namespace {

constexpr const char *waitNames[] = {"auto", "spin", "yield", "sleep"};
constexpr int mostMemoryMiB = 1 << 20;
constexpr const char *ordinaryMemoryNames[] = {"auto", "attach", "staged"};

template <class Enum, size_t N>
Status readChoice(const char *name, const char *const (&names)[N], const char *choices, Enum &value) {
  const char *text = variable(name);
  if (!text)
    return {};
  for (size_t index = 0; index < N; ++index)
    if (std::string_view(text) == names[index]) {
      value = static_cast<Enum>(index);
      return {};
    }
  return error(StatusCode::InvalidArgument, "{}='{}' is not one of {}", name, text, choices);
}

} // namespace

const char *toString(OrdinaryMemory mode) { return ordinaryMemoryNames[static_cast<size_t>(mode)]; }

std::optional<int> parseInt(std::string_view text, int least, int most) {
  int value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

Result<Settings> readSettings(const CommunicatorOptions &options) {
  Settings settings;
  settings.timeoutMs = options.timeoutMs;
  settings.lanes = options.lanes;
  settings.progress = options.progress;
  settings.countsTraffic = options.countsTraffic;
  settings.runsAhead = options.runsAhead;
  settings.tag = options.tag;
  if (options.timeoutMs < 1)
    return error(StatusCode::InvalidArgument, "timeoutMs must be at least 1, not {}", options.timeoutMs);
  if (options.lanes < 1 || options.lanes > maxLanes)
    return error(StatusCode::InvalidArgument, "lanes must be between 1 and {}, not {}", maxLanes, options.lanes);
  if (const char *text = variable("KOLO_TIMEOUT_MS")) {
    std::optional<int> value = parseInt(text, 1, std::numeric_limits<int>::max());
    if (!value)
      return error(StatusCode::InvalidArgument, "KOLO_TIMEOUT_MS='{}' is not a positive number of milliseconds", text);
    settings.timeoutMs = *value;
  }
  if (const char *text = variable("KOLO_MEMORY_MIB")) {
    std::optional<int> value = parseInt(text, 1, mostMemoryMiB);
    if (!value)
      return error(StatusCode::InvalidArgument, "KOLO_MEMORY_MIB='{}' is not a number of MiB from 1 to {}", text,
                   mostMemoryMiB);
    settings.memoryMiB = *value;
  }
  if (Status status = readChoice("KOLO_WAIT", waitNames, "auto, spin, yield, sleep", settings.wait); !status.isOk())
    return status;
  if (Status status =
          readChoice("KOLO_ORDINARY_MEMORY", ordinaryMemoryNames, "auto, attach, staged", settings.ordinaryMemory);
      !status.isOk())
    return status;
  return settings;
}

} // namespace kolo::runtime
