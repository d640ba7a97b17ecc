// The same library as an environment plugin of NCCL (2.28 and later): NCCL_ENV_PLUGIN=libkolo_nccl.so. NCCL then asks
// it for its variables. It answers as the environment does, and is NCCL's tuner where the program names no other.
//
// NCCL looks the structures up by name and takes the newest one that it knows. Their layouts never change.
#include "Real.h"

#include <cstdlib>
#include <string_view>

namespace kolo::nccl {
namespace {

Code init(uint8_t, uint8_t, uint8_t, const char *) { return Code::Success; }
Code initLogged(uint8_t, uint8_t, uint8_t, const char *, void *) { return Code::Success; }
Code finalize() { return Code::Success; }

/// Valid until the variable is set anew.
const char *getEnv(const char *name) {
  const char *text = std::getenv(name);
  if (text || std::string_view(name) != "NCCL_TUNER_PLUGIN")
    return text;
  static const auto *own = new std::string(ownPath()); // not destroyed: NCCL asks at its end, too
  return own->empty() ? nullptr : own->c_str();
}

template <auto *function> struct EnvironmentLayout {
  const char *name = "Kolo";
  decltype(function) initialize = function;
  decltype(&finalize) end = &finalize;
  decltype(&getEnv) get = &getEnv;
};

} // namespace
} // namespace kolo::nccl

#define KOLO_ENVIRONMENT(version, function)                                                                            \
  __attribute__((visibility("default"))) extern constexpr kolo::nccl::EnvironmentLayout<&kolo::nccl::function>         \
      ncclEnvPlugin_v##version = {}

extern "C" {
KOLO_ENVIRONMENT(1, init);
KOLO_ENVIRONMENT(2, initLogged);
}
