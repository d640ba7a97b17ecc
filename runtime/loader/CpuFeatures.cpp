#include "loader/CpuFeatures.h"

#include "base/Error.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kolo::runtime {

#if defined(__x86_64__)
namespace {

enum Register { Eax, Ebx, Ecx, Edx };

struct Feature {
  int level; // the first level of the x86-64 psABI that has it
  const char *name;
  unsigned leaf;
  Register where;
  int bit;
};

// x86-64 psABI, section "Micro-architecture levels"; bits as in the processors' manuals.
constexpr Feature features[] = {
    {2, "CMPXCHG16B", 1, Ecx, 13}, {2, "LAHF-SAHF", 0x80000001, Ecx, 0},
    {2, "POPCNT", 1, Ecx, 23},     {2, "SSE3", 1, Ecx, 0},
    {2, "SSE4.1", 1, Ecx, 19},     {2, "SSE4.2", 1, Ecx, 20},
    {2, "SSSE3", 1, Ecx, 9},       {3, "AVX", 1, Ecx, 28},
    {3, "AVX2", 7, Ebx, 5},        {3, "BMI1", 7, Ebx, 3},
    {3, "BMI2", 7, Ebx, 8},        {3, "F16C", 1, Ecx, 29},
    {3, "FMA", 1, Ecx, 12},        {3, "LZCNT", 0x80000001, Ecx, 5},
    {3, "MOVBE", 1, Ecx, 22},      {3, "OSXSAVE", 1, Ecx, 27},
    {4, "AVX512F", 7, Ebx, 16},    {4, "AVX512BW", 7, Ebx, 30},
    {4, "AVX512CD", 7, Ebx, 28},   {4, "AVX512DQ", 7, Ebx, 17},
    {4, "AVX512VL", 7, Ebx, 31},
};

bool hasFeature(const Feature &feature) {
  unsigned registers[4] = {};
  if (!__get_cpuid_count(feature.leaf, 0, &registers[Eax], &registers[Ebx], &registers[Ecx], &registers[Edx]))
    return false;
  return (registers[feature.where] >> feature.bit) & 1;
}

/// The register states that the operating system saves: bit 1 SSE, 2 AVX, 5 to 7 AVX-512. Only with OSXSAVE.
uint32_t savedStates() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

int levelOf(std::string_view cpu) {
  constexpr std::string_view names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (int index = 0; index < 4; ++index)
    if (cpu == names[index])
      return index + 1;
  return 0;
}

} // namespace

Status checkCpu(std::string_view cpu) {
  int level = levelOf(cpu);
  if (level == 0)
    return error(StatusCode::UnsupportedCpu, "it is built for cpu '{}', which this x86-64 host does not run", cpu);
  for (const Feature &feature : features)
    if (feature.level <= level && !hasFeature(feature))
      return error(StatusCode::UnsupportedCpu, "it is built for cpu '{}', but this host lacks {}", cpu, feature.name);
  constexpr uint32_t avxStates = 0x6, avx512States = 0xe6;
  uint32_t needed = level >= 4 ? avx512States : level == 3 ? avxStates : 0;
  if (needed && (savedStates() & needed) != needed)
    return error(StatusCode::UnsupportedCpu,
                 "it is built for cpu '{}', whose registers this host's kernel does not save", cpu);
  return {};
}

#else

Status checkCpu(std::string_view cpu) {
#if defined(__aarch64__)
  if (cpu == "generic-aarch64")
    return {};
#endif
  return error(StatusCode::UnsupportedCpu, "it is built for cpu '{}', which this host is not", cpu);
}

#endif

} // namespace kolo::runtime
