// A rank in a roll: it proves to the keeper that it is one, and hears whether all have come.
#include "kolo/runtime/Roll.h"

#include "base/Error.h"
#include "bootstrap/MultiHostJoin.h"
#include "bootstrap/RollWire.h"
#include "bootstrap/Secret.h"
#include "network/Cursor.h"
#include "network/tcp/SocketAddress.h"

#include <mutex>
#include <utility>

namespace kolo::runtime {

struct RollEntryState {
  Socket socket;
  std::mutex mutex;
  std::optional<Result<RollAnswer>> said;
};

namespace {

Clock::time_point after(int mostMs) { return Clock::now() + std::chrono::milliseconds(mostMs); }

Status notReached(const RollPlace &place, const Status &why) {
  tcp::SocketAddress address = tcp::toSocketAddress(place.host);
  return error(why.code(), "the process that made the communicator's identifier, at {} port {}: {}",
               numeric(address.get()), place.host.port, why.message());
}

Status receiveAll(Socket &socket, std::span<std::byte> bytes, Clock::time_point until) {
  Result<size_t> got = socket.receive(bytes.data(), bytes.size(), until);
  if (!got.isOk())
    return got.status();
  return *got == bytes.size() ? Status() : error(StatusCode::SystemError, "it has closed the connection");
}

Result<Socket> greet(const RollPlace &place, int rank, int size, Clock::time_point until) {
  const Result<OptionalKey> secret = readSecret();
  if (!secret.isOk())
    return secret.status();
  tcp::SocketAddress address = tcp::toSocketAddress(place.host);
  Result<Socket> socket = connectTo(address.get(), address.sizeBytes, until);
  if (!socket.isOk())
    return socket;
  const WorldKey world(place.number, *secret);
  const RollOpeningBytes opening = write(RollOpening{place.number, rank, size, makeNonce(world.key)});
  std::array<std::byte, rollAnswerBytes> answer = {};
  Status status = socket->sendAll(opening.data(), opening.size(), until);
  if (status.isOk())
    status = receiveAll(*socket, answer, until);
  if (!status.isOk())
    return status;
  const auto nonce = std::span(answer).first<sizeof(Nonce)>();
  if (!isRight(proofAt(answer, sizeof(Nonce)), world.key, rollAnswerLabel, {opening, nonce}))
    return error(StatusCode::Mismatch, "it has another KOLO_SECRET, or none");
  const SecretProof last = prove(world.key, rollLastLabel, {opening, nonce});
  std::byte entered = {};
  status = socket->sendAll(last.data(), last.size(), until);
  if (status.isOk())
    status = receiveAll(*socket, {&entered, 1}, until);
  if (status.isOk() && entered != static_cast<std::byte>(RollWord::Entered))
    status = error(StatusCode::Mismatch, "it keeps no roll");
  return status.isOk() ? std::move(socket) : Result<Socket>(status);
}

/// What the keeper says next; a roll whose keeper has ended without a word is not complete.
Result<RollAnswer> listen(Socket &socket, Clock::time_point until) {
  std::byte word = {};
  const Result<size_t> got = socket.receive(&word, 1, until);
  if (!got.isOk())
    return got.status();
  if (*got == 0)
    return RollAnswer();
  if (word == static_cast<std::byte>(RollWord::Complete))
    return RollAnswer{true, -1, -1};
  if (word != static_cast<std::byte>(RollWord::Missing))
    return error(StatusCode::Mismatch, "the process that keeps the roll says what no keeper says");
  std::array<std::byte, rollMissingBytes> ranks = {};
  if (Status status = receiveAll(socket, ranks, until); !status.isOk())
    return status;
  Reader reader{std::span<const std::byte>(ranks)};
  const auto missing = reader.get<int32_t>();
  return RollAnswer{false, missing, reader.get<int32_t>()};
}

/// Whether the keeper has said something already.
bool hasWord(const Socket &socket) {
  pollfd entry = {socket.descriptor(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

Result<RollAnswer> ask(Socket &socket, int mostMs) {
  const Clock::time_point until = after(mostMs);
  const auto question = static_cast<std::byte>(RollWord::Question);
  if (!hasWord(socket))
    (void)socket.sendAll(&question, 1, until); // whether the keeper has ended is found below
  return listen(socket, until);
}

} // namespace

RollEntry::RollEntry(std::unique_ptr<RollEntryState> made) : state(std::move(made)) {}
RollEntry::~RollEntry() = default;

Result<std::shared_ptr<RollEntry>> RollEntry::enter(const RollAddress &address, int rank, int size, int mostMs) {
  return guarded([&]() -> Result<std::shared_ptr<RollEntry>> {
    const std::optional<RollPlace> place = parseRollAddress(address);
    if (!place || size < 1 || size > maxRanks || rank < 0 || rank >= size)
      return error(StatusCode::InvalidArgument, "rank {} of {} has no address of a roll", rank, size);
    Result<Socket> socket = greet(*place, rank, size, after(mostMs));
    if (!socket.isOk())
      return notReached(*place, socket.status());
    auto made = std::make_unique<RollEntryState>();
    made->socket = std::move(socket).value();
    return std::shared_ptr<RollEntry>(new RollEntry(std::move(made)));
  });
}

Result<RollAnswer> RollEntry::call(int mostMs) {
  return guarded([&]() -> Result<RollAnswer> {
    std::scoped_lock lock(state->mutex);
    if (!state->said) {
      state->said = ask(state->socket, mostMs);
      state->socket = Socket();
    }
    return *state->said;
  });
}

} // namespace kolo::runtime
