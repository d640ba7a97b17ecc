#include "driver/Provenance.h"

#include <ctime>
#include <fstream>
#include <thread>

#include <sched.h>
#include <sys/utsname.h>

namespace kolo::tools {

Provenance describeMachine(const std::string &koloVersion, const std::string &command) {
  Provenance provenance{koloVersion, "unknown", "unknown", "", command};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos) {
      provenance.processor = line.substr(colon + 2);
      break;
    }
  if (utsname names; uname(&names) == 0)
    provenance.kernel = names.release;
  cpu_set_t cores;
  provenance.cores =
      sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : int(std::thread::hardware_concurrency());
  std::time_t now = std::time(nullptr);
  char date[16] = "";
  if (std::tm parts; gmtime_r(&now, &parts))
    std::strftime(date, sizeof(date), "%Y-%m-%d", &parts);
  provenance.date = date;
  return provenance;
}

} // namespace kolo::tools
