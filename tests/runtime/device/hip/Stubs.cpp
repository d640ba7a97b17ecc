// The functions that libkolo_hip looks up and FakeHip.cpp does not define. They must exist, and nothing may call them.
#include "device/hip/HipApi.h"

#include <cstdlib>

#define TEXT(value) #value
#define TEXT_OF(macro) TEXT(macro)
// Under another name in C++, in which the header declares these with their types.
#define STUB(function)                                                                                                 \
  extern "C" __attribute__((weak)) int stub_##function() __asm__(TEXT_OF(function));                                   \
  int stub_##function() { std::abort(); }
KOLO_HIP_FUNCTIONS(STUB)
