// ControlGroups: how much memory and how many CPUs the groups of this process leave. Memory asks before it touches
// pages, and communicators ask before their ranks spin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::runtime {

/// Bytes that this process's control groups of version 1 and 2, and those above them, leave: the smallest limit without
/// what its group holds and cannot reclaim from files. UINT64_MAX: there is no limit, or it cannot be read.
uint64_t leftInControlGroups();

/// CPUs that the quotas of those groups leave, as a fraction where they do; infinity: there is no quota, or it cannot
/// be read. `process`: its folder under /proc.
double cpusInControlGroups(const std::string &process = "/proc/self");

/// The number after `key` at the start of a line of a file; with an empty key, the first word of the file.
std::optional<uint64_t> readNumber(const std::string &path, std::string_view key);

} // namespace kolo::runtime
