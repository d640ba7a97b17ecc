#include "memory/Caches.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace kolo::runtime {

size_t lastLevelCacheBytes() {
  size_t largest = 0;
  for (int index = 0;; ++index) {
    // As in "32768K". Not sysconf, which tells what the processor could have, not what a virtual machine gets of it.
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    size_t number = 0;
    char unit = 0;
    if (!(file >> number))
      break;
    file >> unit;
    largest = std::max(largest, unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number);
  }
  constexpr size_t usualBytes = size_t(32) << 20;
  return largest ? largest : usualBytes;
}

} // namespace kolo::runtime
