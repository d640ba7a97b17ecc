#include "device/DeviceMeeting.h"

#include "CommunicatorState.h"
#include "Error.h"

#include <algorithm>
#include <new>

namespace kolo::runtime {

Result<DeviceMeeting> DeviceMeeting::create(Communicator host) {
  Result<Window> board = host.allocate(2 * sizeof(DeviceRecord));
  if (!board.isOk())
    return board.status();
  Result<std::vector<RemoteWindow>> boards = host.exchange(*board);
  if (!boards.isOk())
    return boards.status();
  return DeviceMeeting(std::move(host), std::move(board).value(), std::move(boards).value());
}

Peers &DeviceMeeting::peers() const { return host.state->peers(); }

DeviceRecord &DeviceMeeting::next() { return *new (&said()) DeviceRecord{}; }

Status DeviceMeeting::perform() {
  ++sequence;
  return host.barrier();
}

void DeviceMeeting::leave(bool isWell) {
  (void)next();
  if (!isWell || !perform().isOk())
    peers().waitUntilQuiet();
  // Another thread may still read the last record.
  if (peers().kind() == RankKind::Threads)
    peers().keepForPeers(std::make_shared<Window>(std::move(own)));
}

const DeviceRecord &DeviceMeeting::heard(int peer) const {
  return recordsIn(all[static_cast<size_t>(peer)].data())[sequence % 2];
}

Status DeviceMeeting::firstRefusal() const {
  for (int peer = 0; peer < size(); ++peer) {
    const DeviceRecord &record = heard(peer);
    if (record.code == StatusCode::Ok)
      continue;
    if (peer == rank())
      return Status(record.code, record.message, peer);
    return rankError(record.code, peer, "rank {}: {}", peer, record.message);
  }
  return {};
}

void setRefusal(DeviceRecord &record, const Status &status) {
  record.code = status.code();
  size_t length = std::min(status.message().size(), sizeof(record.message) - 1);
  std::copy_n(status.message().data(), length, record.message);
  record.message[length] = 0;
}

} // namespace kolo::runtime
