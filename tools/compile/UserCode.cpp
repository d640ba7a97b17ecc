#include "tools/compile/UserCode.h"
#include "tools/compile/ToolError.h"

#include "llvm/Support/Signals.h"

#include <unistd.h>

namespace kolo::tools {

static std::string messageOfCrash; // empty: no code of the user runs

/// In a signal handler: only what is allowed there.
static void reportCrash(void *) {
  if (messageOfCrash.empty())
    return;
  (void)!write(STDERR_FILENO, messageOfCrash.data(), messageOfCrash.size());
  _exit(int(ExitCode::Refused));
}

UserCode::UserCode(const std::string &place) {
  [[maybe_unused]] static bool isInstalled = (llvm::sys::AddSignalHandler(reportCrash, nullptr), true);
  messageOfCrash = place + ": error: this code crashed while it was recorded\n";
}

UserCode::~UserCode() { messageOfCrash.clear(); }

} // namespace kolo::tools
