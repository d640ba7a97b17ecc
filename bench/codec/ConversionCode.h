// The conversions of codecs as plugins have them, compiled and loaded on their own.
#pragma once

#include "codec/Codec.h"
#include "kolo/runtime/PluginAbi.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::bench {

/// cpu::convertFunction.
using ConvertFunction = void (*)(const KoloInvocation *, void *dst, const void *src, int64_t numElements, int64_t rank,
                                 int64_t element, int64_t nonTemporal, const void *to, const void *from,
                                 int64_t combines);
using CopyFunction = void (*)(void *dst, const void *src, int64_t sizeBytes, int64_t nonTemporal);

/// Code for `cpu`, the kind of processor of a plugin's kernels ("x86-64-v4"). It stays loaded.
struct ConversionCode {
  std::vector<const void *> codecs; // descriptions, in the order asked for
  ConvertFunction convert = nullptr;
  CopyFunction copy = nullptr;    // what plugins copy outputs with
  KoloReduceKernel sum = nullptr; // of f32
};

/// What the host's processor is, of the kinds that there are kernels for.
std::string bestCpu();
/// Exits with a message where the code cannot be made.
ConversionCode makeConversionCode(std::span<const codec::Codec> codecs, const std::string &cpu);

} // namespace kolo::bench
