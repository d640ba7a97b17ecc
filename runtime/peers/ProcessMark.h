// ProcessMark: tells a process from its forked children, without a system call.
#pragma once

#include <cstdint>

namespace kolo::runtime {

/// Of the process that makes it. A copy in a forked child is not of that child.
class ProcessMark {
public:
  ProcessMark();
  bool isHere() const { return *word == number; }

private:
  const volatile uint32_t *word; // of a page that the kernel clears in children
  uint32_t number;
};

} // namespace kolo::runtime
