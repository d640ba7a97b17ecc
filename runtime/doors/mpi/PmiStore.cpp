// The store of MPICH's launcher, by the wire protocol of PMI-1: one line asks, one line answers. MPI's own client,
// which uses the same socket, is hidden inside its library. Between its calls the socket is quiet.
#include "LauncherStore.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace kolo::mpi {
namespace {

using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

constexpr int longestAnswerMs = 30'000;
constexpr size_t longestLine = 4096;

std::optional<int> numberIn(const char *variable) {
  const char *text = secure_getenv(variable);
  int value = -1;
  if (!text)
    return std::nullopt;
  const char *end = text + std::strlen(text);
  auto [rest, code] = std::from_chars(text, end, value);
  return code == std::errc() && rest == end && value >= 0 ? std::optional(value) : std::nullopt;
}

/// The word after `name=`; empty: there is none.
std::string fieldOf(const std::string &line, std::string_view name) {
  size_t begin = 0;
  while (begin < line.size()) {
    size_t end = std::min(line.find(' ', begin), line.size());
    std::string_view word = std::string_view(line).substr(begin, end - begin);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
    begin = end + 1;
  }
  return {};
}

class PmiStore final : public LauncherStore {
public:
  PmiStore(int descriptor, int number) : socket(descriptor), ownRank(number) {}

  /// MPI's own client greets again later; the launcher answers each greeting.
  Status greet() {
    Result<std::string> greeting = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    if (!greeting.isOk())
      return greeting.status();
    if (fieldOf(*greeting, "rc") != "0")
      return {StatusCode::SystemError, "it refuses version 1.1"};
    Result<std::string> named = ask("cmd=get_my_kvsname", "my_kvsname");
    if (!named.isOk())
      return named.status();
    space = fieldOf(*named, "kvsname");
    return space.empty() ? Status(StatusCode::SystemError, "it names no store") : Status();
  }

  int rank() const override { return ownRank; }

  Status put(const std::string &text) override {
    Result<std::string> answer =
        ask("cmd=put kvsname=" + space + " key=" + keyOf(ownRank) + " value=" + text, "put_result");
    if (!answer.isOk())
      return answer.status();
    return fieldOf(*answer, "rc") == "0" ? Status() : Status(StatusCode::SystemError, "it answers '" + *answer + "'");
  }

  Result<std::optional<std::string>> get(int rank) override {
    Result<std::string> answer = ask("cmd=get kvsname=" + space + " key=" + keyOf(rank), "get_result");
    if (!answer.isOk())
      return answer.status();
    if (fieldOf(*answer, "rc") == "0")
      return std::optional(fieldOf(*answer, "value"));
    if (fieldOf(*answer, "msg").find("not_found") != std::string::npos)
      return std::optional<std::string>();
    return Status(StatusCode::SystemError, "it answers '" + *answer + "'");
  }

private:
  static std::string keyOf(int rank) { return "kolo-mpi-" + std::to_string(rank); }

  /// Sends one line and returns the answer, which must be that command.
  Result<std::string> ask(const std::string &line, const std::string &expected) {
    const std::string sent = line + "\n";
    for (size_t at = 0; at < sent.size();) {
      ssize_t count = write(socket, sent.data() + at, sent.size() - at);
      if (count < 0 && errno != EINTR)
        return Status(StatusCode::SystemError, std::string("writing to it: ") + strerrordesc_np(errno));
      at += count > 0 ? static_cast<size_t>(count) : 0;
    }
    Result<std::string> answer = readLine();
    if (answer.isOk() && fieldOf(*answer, "cmd") != expected)
      return Status(StatusCode::SystemError, "it answers '" + *answer + "'");
    return answer;
  }

  /// The launcher speaks only when it is asked, so nothing follows the line.
  Result<std::string> readLine() {
    std::string line;
    while (line.size() < longestLine) {
      char text[512];
      pollfd ready = {socket, POLLIN, 0};
      int numReady = poll(&ready, 1, longestAnswerMs);
      ssize_t count = numReady > 0 ? read(socket, text, sizeof(text)) : numReady;
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        return Status(StatusCode::SystemError, std::string("reading from it: ") + strerrordesc_np(errno));
      if (count == 0)
        return Status(StatusCode::SystemError, numReady == 0 ? "it does not answer" : "it has closed the connection");
      line.append(text, static_cast<size_t>(count));
      if (line.back() != '\n')
        continue;
      line.pop_back();
      return line;
    }
    return Status(StatusCode::SystemError, "its answer has no end");
  }

  int socket, ownRank;
  std::string space;
};

} // namespace

std::unique_ptr<LauncherStore> openPmiStore(std::string &why) {
  std::optional<int> descriptor = numberIn("PMI_FD"), rank = numberIn("PMI_RANK");
  // Slurm's plugin sets the same variables and speaks PMI-2 there; its processes have a PMI_JOBID.
  if (!descriptor || !rank || secure_getenv("PMI_JOBID")) {
    why = "the launcher offers no PMI of version 1";
    return nullptr;
  }
  auto store = std::make_unique<PmiStore>(*descriptor, *rank);
  if (Status status = store->greet(); !status.isOk()) {
    why = "the launcher's PMI: " + status.message();
    return nullptr;
  }
  return store;
}

} // namespace kolo::mpi
