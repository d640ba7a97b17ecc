// What tests of cost models share.
#pragma once

#include "compiler/cost/machine/Machine.h"

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>

namespace kolo::cost {

inline constexpr int64_t kib = 1 << 10, mib = 1 << 20;

/// Seconds, by both models.
struct Both {
  double closedForm, simulation;
};

/// Throws the mistake, if it is one.
template <typename T> T get(std::variant<T, CostMistake> result) {
  if (const auto *mistake = std::get_if<CostMistake>(&result))
    throw std::runtime_error(mistake->message);
  return std::get<T>(std::move(result));
}

} // namespace kolo::cost
