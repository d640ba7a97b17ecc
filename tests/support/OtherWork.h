// How fast this machine is in this minute: what times are compared with.
#pragma once

namespace kolo::test {

/// Processor time of this process. It does not depend on how long others have the processor, but on their use of what
/// processors share.
double cpuSeconds();

/// Processor time of work that no change to the compiler touches, and that as a proof does allocates small pieces and
/// looks them up in tables beyond the caches.
double secondsOfOtherWork();

/// The same, measured at most ten seconds of processor time ago.
double recentSecondsOfOtherWork();

} // namespace kolo::test
