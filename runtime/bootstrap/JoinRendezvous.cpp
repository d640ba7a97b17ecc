// The rendezvous for every rank but rank 0, and the factory that begins it.
#include "CommunicatorState.h"
#include "Error.h"
#include "bootstrap/Rendezvous.h"
#include "kolo/runtime/Door.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace kolo::runtime {
namespace {

Result<Welcome> greet(const RankEnvironment &environment, Clock::time_point deadline) {
  Result<Socket> socket = connectTo(environment.master, deadline);
  if (!socket.isOk())
    return socket.status();
  Hello hello;
  std::memcpy(hello.magic, helloMagic, sizeof(helloMagic));
  hello.rank = environment.rank;
  hello.worldSize = environment.worldSize;
  hello.pid = getpid();
  hello.host = currentHost();
  if (Status status = socket->sendAll(&hello, sizeof(hello), deadline); !status.isOk())
    return status;
  Welcome welcome;
  // Receive the magic alone first: another program may send a few bytes and then wait for an answer.
  Result<size_t> magic = socket->receive(welcome.magic, sizeof(welcome.magic), deadline);
  if (!magic.isOk())
    return magic.status();
  if (*magic == 0)
    return error(StatusCode::SystemError, "the other side closed the connection without an answer");
  if (std::memcmp(welcome.magic, welcomeMagic, *magic) != 0)
    return error(StatusCode::Mismatch,
                 "the process that answers at {}:{} does not speak Kolo's protocol: is MASTER_PORT right?",
                 environment.master.host, environment.master.port);
  constexpr size_t restBytes = sizeof(welcome) - sizeof(welcome.magic);
  Result<size_t> rest =
      socket->receive(reinterpret_cast<char *>(&welcome) + sizeof(welcome.magic), restBytes, deadline);
  if (!rest.isOk())
    return rest.status();
  if (*magic != sizeof(welcome.magic) || *rest != restBytes)
    return error(StatusCode::SystemError, "rank 0 ended in the middle of its answer");
  if (welcome.version != rendezvousVersion)
    return error(StatusCode::Mismatch, "rank 0 speaks version {} of the rendezvous, this rank version {}",
                 welcome.version, rendezvousVersion);
  return welcome;
}

/// Whether another attempt may succeed, because rank 0 may not listen yet.
bool isWorthRetrying(const Status &status) { return status.code() == StatusCode::SystemError; }

} // namespace

Result<std::shared_ptr<ControlMemory>> openControl(const ControlPlace &place, int numRanks) {
  if (place.sizeBytes != Control::sizeBytes(numRanks))
    return error(StatusCode::Mismatch, "rank 0 runs another version of this runtime");
  Result<Memory> memory = Memory::openPeer(place.pid, place.fd, place.sizeBytes);
  if (!memory.isOk())
    return memory.status();
  auto shared = std::make_shared<ControlMemory>();
  shared->memory = std::move(memory).value();
  shared->control = Control(shared->memory.data(), numRanks);
  return shared;
}

Result<std::shared_ptr<ControlMemory>> joinRendezvous(const RankEnvironment &environment, const Settings &settings) {
  Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(settings.timeoutMs);
  while (true) {
    Result<Welcome> welcome = greet(environment, deadline);
    if (welcome.isOk()) {
      welcome->message[sizeof(welcome->message) - 1] = 0;
      if (welcome->code != StatusCode::Ok)
        return Status(welcome->code, welcome->message, welcome->culprit);
      return openControl({welcome->rootPid, welcome->controlFd, welcome->controlBytes}, environment.worldSize);
    }
    bool isOver = millisecondsUntil(deadline) == 0;
    if (!isOver && !isWorthRetrying(welcome.status()))
      return welcome.status();
    if (isOver)
      return rankError(StatusCode::Timeout, 0, "rank {} waited {} ms for rank 0 at {}:{}: timed out; last attempt: {}",
                       environment.rank, settings.timeoutMs, environment.master.host, environment.master.port,
                       welcome.status().message());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<RankEnvironment> readRankEnvironment() {
  RankEnvironment environment;
  std::string problems;
  auto read = [&](const char *name) -> std::string_view {
    const char *text = std::getenv(name);
    if (!text || !*text)
      problems += fmt::format("{}{} is not set", problems.empty() ? "" : "; ", name);
    return text ? text : "";
  };
  auto readNumber = [&](const char *name, int least, int most, const char *what) {
    std::string_view text = read(name);
    std::optional<int> value = parseInt(text, least, most);
    if (!value && !text.empty())
      problems += fmt::format("{}{}='{}' is not {}", problems.empty() ? "" : "; ", name, text, what);
    return value.value_or(least);
  };
  Result<LaunchedRank> place = readLaunchedRank();
  if (place.isOk()) {
    environment.worldSize = place->size;
    environment.rank = place->rank;
  } else {
    problems = place.status().message();
  }
  environment.master.host = read("MASTER_ADDR");
  environment.master.port = std::to_string(readNumber("MASTER_PORT", 1, 65535, "a port from 1 to 65535"));
  if (!problems.empty() && place.isOk())
    problems += fmt::format(" (rank {} of {} by {})", place->rank, place->size, place->variables);
  if (!problems.empty())
    return Status(StatusCode::InvalidArgument, problems);
  return environment;
}

Result<Communicator> Communicator::createFromEnvironment(const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    Result<RankEnvironment> environment = readRankEnvironment();
    if (!environment.isOk())
      return environment.status();
    Result<std::shared_ptr<ControlMemory>> shared =
        environment->rank == 0 ? hostRendezvous(*environment, *settings) : joinRendezvous(*environment, *settings);
    if (!shared.isOk())
      return shared.status();
    Result<std::unique_ptr<CommunicatorState>> joined =
        CommunicatorState::joinRanks(*shared, RankKind::Processes, environment->rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
