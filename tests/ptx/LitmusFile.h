// Litmus tests as Dartagnan writes them: the header, the threads side by side, and a condition on what they end with.
#pragma once

#include "Litmus.h"

#include <memory>

namespace kolo::ptx {

/// The executor cannot run this test. The message is the reason, in words that many tests share.
struct NotExpressed : std::runtime_error {
  using runtime_error::runtime_error;
};

class LitmusCondition {
public:
  virtual ~LitmusCondition() = default;
  virtual bool holds(const LitmusEnd &end) const = 0;
};

struct LitmusFile {
  enum class Kind { Exists, NotExists, ForAll };
  LitmusProgram program;
  Kind kind = Kind::Exists;
  std::unique_ptr<LitmusCondition> condition;
  std::vector<size_t> namedThreads; // whose registers the condition names
};

/// Throws NotExpressed, and std::runtime_error where the text is not such a test.
LitmusFile readLitmusFile(const std::string &text);

} // namespace kolo::ptx
