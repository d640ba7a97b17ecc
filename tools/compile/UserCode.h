// Code of the user that runs in this process: when it crashes, that is the user's mistake, reported as one.
#pragma once

#include <string>

namespace kolo::tools {

/// While one lives, a crash ends the process with exit code Refused and the line "PLACE: error: ... crashed". At most
/// one at a time.
class UserCode {
public:
  explicit UserCode(const std::string &place);
  ~UserCode();
  UserCode(const UserCode &) = delete;
  UserCode &operator=(const UserCode &) = delete;
};

} // namespace kolo::tools
