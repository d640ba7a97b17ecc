// Process: the door of this process, what it says, and the last error of a thread.
#pragma once

#include "Real.h"

#include "kolo/runtime/Door.h"

#include <functional>
#include <string>
#include <type_traits>

namespace kolo::nccl {

/// Null: the door could not be opened; doorFailure() says why. The first caller opens it.
runtime::Door *door();
const runtime::Status &doorFailure();

/// Notes an error of Kolo: prints one line and lets ncclGetLastError return it in this thread. Returns `code`.
Code fail(Code code, const std::string &message);
/// What `fail` noted last in this thread; "" once the real library has failed after that.
const std::string &ownError();

/// The answer of a function that the real library lacks: InvalidUsage, -1, a text, zeros. Without a real library,
/// SystemError.
template <class Answer> Answer answerMissing(const char *name);
template <> Code answerMissing<Code>(const char *name);
template <> int answerMissing<int>(const char *name);
template <> Team answerMissing<Team>(const char *name);
template <> const char *answerMissing<const char *>(const char *name);
template <> void answerMissing<void>(const char *name);

/// Says what is intercepted, with KOLO_DEBUG. For `real`, once.
void sayLoaded(const Real &library);
/// One line on stderr.
void print(const std::string &text);

/// This process prints the statistics at its end, because it has rank 0 of a communicator.
void wantStatistics();
void countForwarded(const char *reason);

/// Runs `work` on a thread of its own. At its end the process waits for it, `mostMs` at most: `work` uses the driver
/// and plugins, which are gone afterwards.
void runAside(std::function<void()> work, int mostMs);
/// Waits for such work that ends in so many milliseconds at most, and no longer than that.
void awaitAside(int mostMs);

extern thread_local bool hasOwnError; // for `note`

/// For every answer of the real library.
inline void note(Code code) {
  if (code != Code::Success && code != Code::InProgress) [[unlikely]]
    hasOwnError = false;
}

/// Calls a function of the real library, or answers for it where there is none.
template <class Answer, class... Parameters, class... Arguments>
Answer forward(Answer (*function)(Parameters...), const char *name, Arguments... arguments) {
  if (!function) [[unlikely]]
    return answerMissing<Answer>(name);
  Inside inside;
  if constexpr (std::is_same_v<Answer, Code>) {
    Code code = function(arguments...);
    note(code);
    return code;
  } else {
    return function(arguments...);
  }
}

} // namespace kolo::nccl
