// The keeper of rolls: a thread that accepts ranks, and tells them when all have entered.
#include "kolo/runtime/Roll.h"

#include "base/Error.h"
#include "bootstrap/MultiHostJoin.h"
#include "bootstrap/RollWire.h"
#include "bootstrap/Secret.h"
#include "network/Acceptor.h"
#include "network/Cursor.h"
#include "network/tcp/SocketAddress.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace kolo::runtime {
namespace {

/// The ranks that have entered. One that has left keeps its place, without a socket.
struct OpenRoll {
  int size = 0; // 0: none has entered
  std::map<int, Socket> ranks;

  bool isComplete() const { return size > 0 && ranks.size() == static_cast<size_t>(size); }
  bool hasAnybody() const {
    return std::ranges::any_of(ranks, [](const auto &each) { return each.second.isOpen(); });
  }
  int lowestMissing() const {
    int rank = 0;
    for (auto entry = ranks.begin(); entry != ranks.end() && entry->first == rank; ++entry)
      ++rank;
    return rank;
  }
};

bool say(const Socket &socket, RollWord word) {
  const auto byte = static_cast<std::byte>(word);
  return socket.isOpen() && socket.sendNow({&byte, 1});
}

} // namespace

struct RollKeeperState : private Handshake {
  RollKeeperState(Socket listening, const tcp::HostAddress &where, const OptionalKey &itsSecret, Socket itsWake)
      : place(where), secret(itsSecret), wake(std::move(itsWake)),
        acceptor(std::move(listening), *this, {rollOpeningBytes, sizeof(SecretProof), true}) {}
  ~RollKeeperState() override;
  RollKeeperState(const RollKeeperState &) = delete;
  RollKeeperState &operator=(const RollKeeperState &) = delete;

  Status start();
  Result<RollAddress> open();

private:
  Status checkBeginning(std::span<const std::byte> bytes) const override;
  Admission answer(IncomingConnection &connection) override;
  Admission confirm(IncomingConnection &connection) override;
  size_t mostPending() const override { return 4096; }

  void work();
  void hear(const WorldNumber &number, int rank);

  const tcp::HostAddress place;
  const OptionalKey secret;
  const Socket wake; // an eventfd that ends the thread
  const pid_t pid = getpid();
  std::unique_ptr<std::thread> thread;
  std::mutex mutex; // of all below
  std::map<WorldNumber, OpenRoll> rolls;
  Acceptor acceptor; // of the thread alone
};

RollKeeperState::~RollKeeperState() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake.descriptor(), &one, sizeof(one));
  if (thread && pid == getpid())
    thread->join();
  else // a forked child does not have the thread, so it cannot join it
    (void)thread.release();
}

Status RollKeeperState::start() {
  try {
    thread = std::make_unique<std::thread>([this] { work(); });
  } catch (const std::system_error &problem) {
    return error(StatusCode::SystemError, "the thread that keeps rolls cannot be started: {}", problem.what());
  }
  return {};
}

Result<RollAddress> RollKeeperState::open() {
  const WorldNumber number = randomWorld();
  std::scoped_lock lock(mutex);
  rolls[number];
  return write(RollPlace{place, number});
}

Status RollKeeperState::checkBeginning(std::span<const std::byte> bytes) const {
  return beginsRollOpening(bytes) ? Status() : error(StatusCode::Mismatch, "a connection that opens no roll");
}

Admission RollKeeperState::answer(IncomingConnection &connection) {
  auto opening = parseRollOpening(std::span<const std::byte, rollOpeningBytes>(connection.received));
  if (!opening || !rolls.contains(opening->number))
    return Admission::stranger("a rank of no roll");
  const WorldKey world(opening->number, secret);
  connection.nonce = makeNonce(world.key);
  std::array<std::byte, rollAnswerBytes> bytes = {};
  std::ranges::copy(connection.nonce, bytes.begin());
  std::ranges::copy(prove(world.key, rollAnswerLabel, {connection.received, connection.nonce}),
                    bytes.begin() + sizeof(Nonce));
  if (!connection.send(bytes))
    return Admission::stranger("a connection that took no answer");
  connection.wasAnswered = true;
  return {};
}

Admission RollKeeperState::confirm(IncomingConnection &connection) {
  const std::span<const std::byte> all = connection.received;
  const auto opening = parseRollOpening(all.first<rollOpeningBytes>());
  auto found = rolls.find(opening->number);
  if (found == rolls.end() || !isRight(proofAt(all, rollOpeningBytes), WorldKey(opening->number, secret).key,
                                       rollLastLabel, {all.first(rollOpeningBytes), connection.nonce}))
    return Admission::stranger("a rank of no roll");
  OpenRoll &roll = found->second;
  if ((roll.size != 0 && roll.size != opening->size) || roll.ranks.contains(opening->rank))
    return Admission::stranger(fmt::format("a second rank {} of {}", opening->rank, opening->size));
  if (std::exchange(roll.size, opening->size) == 0)
    allowDescriptors(static_cast<size_t>(roll.size));
  roll.ranks[opening->rank] = std::move(connection.socket);
  if (roll.isComplete()) // the last one goes on when all others have been told, even if this process ends then
    for (const auto &[rank, socket] : roll.ranks)
      if (rank != opening->rank)
        (void)say(socket, RollWord::Complete);
  (void)say(roll.ranks[opening->rank], RollWord::Entered);
  if (roll.isComplete()) {
    (void)say(roll.ranks[opening->rank], RollWord::Complete);
    rolls.erase(found);
  }
  return {Admission::Kind::Admitted, {}};
}

/// A rank asks, or has left.
void RollKeeperState::hear(const WorldNumber &number, int rank) {
  auto found = rolls.find(number);
  if (found == rolls.end())
    return;
  OpenRoll &roll = found->second;
  Socket &socket = roll.ranks[rank];
  char byte = 0;
  const ssize_t got = recv(socket.descriptor(), &byte, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return;
  std::array<std::byte, 1 + rollMissingBytes> answer = {};
  Writer writer(answer);
  writer.put(static_cast<uint8_t>(RollWord::Missing));
  writer.put(static_cast<int32_t>(roll.lowestMissing()));
  writer.put(static_cast<int32_t>(roll.ranks.begin()->first));
  const bool asks = got == 1 && byte == static_cast<char>(RollWord::Question);
  if (!asks || !socket.sendNow(answer))
    socket = Socket();
  if (!roll.hasAnybody())
    rolls.erase(found);
}

void RollKeeperState::work() {
  while (true) {
    std::vector<pollfd> entries;
    std::vector<std::pair<WorldNumber, int>> who;
    Clock::time_point until = Clock::now() + std::chrono::hours(1);
    acceptor.addTo(entries, until);
    const size_t numOfAcceptor = entries.size();
    entries.push_back({wake.descriptor(), POLLIN, 0});
    {
      std::scoped_lock lock(mutex);
      for (const auto &[number, roll] : rolls)
        for (const auto &[rank, socket] : roll.ranks)
          if (socket.isOpen()) {
            entries.push_back({socket.descriptor(), POLLIN, 0});
            who.emplace_back(number, rank);
          }
    }
    const Clock::time_point looked = Clock::now();
    waitForAny(entries, until);
    if (uint64_t number = 0; ::read(wake.descriptor(), &number, sizeof(number)) > 0)
      return;
    std::scoped_lock lock(mutex);
    for (size_t index = 0; index < who.size(); ++index)
      if (entries[numOfAcceptor + 1 + index].revents != 0)
        hear(who[index].first, who[index].second);
    acceptor.hear(std::span(entries).first(numOfAcceptor), looked);
  }
}

RollKeeper::RollKeeper(std::unique_ptr<RollKeeperState> made) : state(std::move(made)) {}
RollKeeper::RollKeeper(RollKeeper &&) noexcept = default;
RollKeeper &RollKeeper::operator=(RollKeeper &&) noexcept = default;
RollKeeper::~RollKeeper() = default;

Result<RollKeeper> RollKeeper::create(const std::string &address) {
  return guarded([&]() -> Result<RollKeeper> {
    const Result<OptionalKey> secret = readSecret();
    if (!secret.isOk())
      return secret.status();
    tcp::HostAddress place;
    Result<Socket> listening = tcp::listenAtHost(address, place);
    if (!listening.isOk())
      listening = tcp::listenAtHost(likelyAddress(), place);
    if (!listening.isOk())
      return listening.status();
    Socket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake.isOpen())
      return systemError("an eventfd", errno);
    auto made = std::make_unique<RollKeeperState>(std::move(listening).value(), place, *secret, std::move(wake));
    Status status = made->start();
    return status.isOk() ? Result<RollKeeper>(RollKeeper(std::move(made))) : Result<RollKeeper>(status);
  });
}

Result<RollAddress> RollKeeper::open() {
  return guarded([&] { return state->open(); });
}

} // namespace kolo::runtime
