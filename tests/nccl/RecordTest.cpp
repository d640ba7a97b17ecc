// Every function of the table reaches the real library, for which a recording stand-in takes the place, with the same
// arguments, and its answer comes back.
#include "Recording.h"
#include "StandInNccl.h"

#include "doors/nccl/Types.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <set>
#include <tuple>
#include <type_traits>

using namespace kolo::nccl;
using namespace kolo::test;

namespace {

void *open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(dlerror());
  return library;
}

void *standIn() {
  static void *library = open(KOLO_TEST_NCCL);
  return library;
}
/// Kolo's library, which forwards to the stand-in.
void *door() {
  static const int isChosen =
      setenv("KOLO_NCCL_LIB", KOLO_TEST_NCCL, 1) + setenv("KOLO_PLUGIN_PATH", KOLO_TEST_PLUGIN, 1);
  static void *library = open(KOLO_TEST_DOOR);
  return isChosen == 0 ? library : nullptr;
}

template <class Function> Function *functionOf(void *library, const char *name) {
  return reinterpret_cast<Function *>(dlsym(library, name));
}

/// Another value for every argument. Pointers are to memory of zeros.
template <class Type> Type sample(int position) {
  alignas(16) static unsigned char memory[16][512];
  std::memset(memory, 0, sizeof(memory));
  Type value = {};
  if constexpr (std::is_pointer_v<Type>)
    value = reinterpret_cast<Type>(&memory[position]);
  else
    for (size_t byte = 0; byte < sizeof(Type); ++byte)
      reinterpret_cast<unsigned char *>(&value)[byte] =
          static_cast<unsigned char>(std::is_integral_v<Type> && byte > 0 ? 0 : position + 1 + byte);
  return value;
}

template <class Answer> std::string textOf(const Answer &answer) {
  if constexpr (std::is_same_v<Answer, const char *>)
    return answer;
  else
    return recordOf("", answer);
}

template <class Answer, class... Parameters, size_t... Positions>
void expectForwarded(Answer (*)(Parameters...), const char *name, std::index_sequence<Positions...>) {
  auto *function = functionOf<Answer(Parameters...)>(door(), name);
  auto *real = functionOf<Answer(Parameters...)>(standIn(), name[0] == 'p' ? name + 1 : name);
  ASSERT_TRUE(function) << name;
  std::tuple<Parameters...> arguments{sample<Parameters>(Positions)...};
  auto *lastRecord = functionOf<const char *()>(standIn(), "standInLastRecord");
  if constexpr (std::is_void_v<Answer>) {
    function(std::get<Positions>(arguments)...);
  } else {
    std::string answer = textOf(function(std::get<Positions>(arguments)...));
    std::string record = lastRecord();
    EXPECT_EQ(answer, textOf(real(std::get<Positions>(arguments)...))) << name;
    EXPECT_EQ(record, lastRecord()) << name;
  }
  EXPECT_EQ(lastRecord(), recordOf(name[0] == 'p' ? name + 1 : name, std::get<Positions>(arguments)...));
}

template <class Answer, class... Parameters> void expectForwarded(Answer (*type)(Parameters...), const char *name) {
  expectForwarded(type, name, std::index_sequence_for<Parameters...>());
}

} // namespace

TEST(NcclRecord, EveryFunctionIsForwardedWithItsArgumentsAndItsAnswer) {
  int version = 0;
  ASSERT_EQ(functionOf<Code(int *)>(door(), "ncclGetVersion")(&version), Code::Success);
  functionOf<void(int)>(standIn(), "standInRecord")(1);
  int number = 0;
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  expectForwarded(static_cast<result(*) parameters>(nullptr), "nccl" #name);                                           \
  expectForwarded(static_cast<result(*) parameters>(nullptr), "pnccl" #name);                                          \
  ++number;
#include "doors/nccl/Api.def"
  EXPECT_EQ(number, 93);
}
