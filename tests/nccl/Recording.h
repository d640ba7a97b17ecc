// How a call of NCCL is written down, by the stand-in that got it and by the test that made it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace kolo::test {

template <class... Arguments> std::string recordOf(const char *name, const Arguments &...arguments) {
  std::string text = name;
  auto add = [&]<class Argument>(const Argument &argument) {
    unsigned char bytes[sizeof(Argument)];
    std::memcpy(bytes, &argument, sizeof(Argument));
    text += ' ';
    for (unsigned char byte : bytes) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  };
  (add(arguments), ...);
  return text;
}

/// The number that a recording stand-in answers to a call of this name: not 0, and not 7, which is ncclInProgress.
inline int answerOf(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name)
    hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return static_cast<int>(hash % 6) + 1;
}

} // namespace kolo::test
