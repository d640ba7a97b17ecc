#include "bootstrap/Secret.h"

#include "base/Error.h"
#include "kolo/runtime/Communicator.h"
#include "network/Socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace kolo::runtime {
namespace {

/// A text that does not stay in memory after it ends.
struct SecretText {
  SecretText() = default;
  SecretText(SecretText &&) = default;
  ~SecretText() { explicit_bzero(text.data(), text.size()); }
  std::string text;
};

Result<SecretText> readSecretFile(const char *path) {
  Socket file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // not blocked by a pipe that nobody writes
  struct stat info = {};
  if (!file.isOpen() || fstat(file.descriptor(), &info) != 0)
    return systemError(fmt::format("KOLO_SECRET_FILE='{}'", path), errno);
  if (!S_ISREG(info.st_mode))
    return error(StatusCode::InvalidArgument, "KOLO_SECRET_FILE='{}' is no file", path);
  if ((info.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)) != 0)
    return error(StatusCode::InvalidArgument,
                 "KOLO_SECRET_FILE='{}' is open to others than its owner (mode {:04o}): chmod 600 it", path,
                 info.st_mode & 07777);
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return error(StatusCode::InvalidArgument, "KOLO_SECRET_FILE='{}' belongs to user {}, not to user {}", path,
                 info.st_uid, geteuid());
  SecretText secret;
  std::string &text = secret.text;
  text.resize(maxSecretBytes + 3); // more than may be, with a line end of two
  ssize_t got = read(file.descriptor(), text.data(), text.size());
  if (got < 0)
    return systemError(fmt::format("KOLO_SECRET_FILE='{}'", path), errno);
  if (static_cast<size_t>(got) == text.size())
    return error(StatusCode::InvalidArgument, "KOLO_SECRET_FILE='{}' has {} bytes, more than {} and a line end", path,
                 info.st_size, maxSecretBytes);
  text.resize(static_cast<size_t>(got));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  return secret;
}

} // namespace

Result<OptionalKey> readSecret() {
  // Empty ones are refused: a world that was meant to be closed would be open.
  const char *secret = secure_getenv("KOLO_SECRET"), *path = secure_getenv("KOLO_SECRET_FILE");
  if (!secret && !path)
    return OptionalKey();
  if (secret && path)
    return error(StatusCode::InvalidArgument, "KOLO_SECRET and KOLO_SECRET_FILE are both set");
  const char *name = secret ? "KOLO_SECRET" : "KOLO_SECRET_FILE";
  if (!Key::isSupported())
    return error(StatusCode::InvalidArgument, "{} is set, but Kolo was built without libsodium, which it needs", name);
  Result<SecretText> read = secret ? Result(SecretText()) : readSecretFile(path);
  if (!read.isOk())
    return read.status();
  std::string_view text = secret ? secret : std::string_view(read->text);
  if (text.size() < minSecretBytes || text.size() > maxSecretBytes)
    return error(StatusCode::InvalidArgument, "the secret of {} has {} bytes, not between {} and {}", name, text.size(),
                 minSecretBytes, maxSecretBytes);
  return OptionalKey(Key::ofSecret(text));
}

Result<bool> isSecretSet() {
  return guarded([]() -> Result<bool> {
    Result<OptionalKey> key = readSecret();
    return key.isOk() ? Result(key->has_value()) : key.status();
  });
}

} // namespace kolo::runtime
