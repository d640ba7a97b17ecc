#include "device/DeviceDescriptors.h"

#include "base/Error.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace kolo::runtime {
namespace {

constexpr int socketKind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// What goes with a descriptor.
struct SentDescriptor {
  uint64_t id;
  int32_t rank;
};

/// A message of one letter with one descriptor.
struct Message {
  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  Message(const Message &) = delete;
  Message &operator=(const Message &) = delete;

  SentDescriptor letter = {};
  iovec part = {&letter, sizeof(letter)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

Status failed(const char *what) {
  return error(StatusCode::SystemError, "handing memory of a device to another process: {}: {}", what,
               std::strerror(errno));
}

/// Owns a descriptor for a scope.
struct Closed {
  int fd;
  ~Closed() {
    if (fd >= 0)
      close(fd);
  }
};

} // namespace

DeviceDescriptors::DeviceDescriptors(DeviceDescriptors &&other) noexcept { *this = std::move(other); }

DeviceDescriptors &DeviceDescriptors::operator=(DeviceDescriptors &&other) noexcept {
  std::swap(listener, other.listener);
  std::swap(own, other.own);
  std::swap(kept, other.kept);
  return *this;
}

DeviceDescriptors::~DeviceDescriptors() {
  for (const KeptDescriptor &each : kept)
    close(each.fd);
  if (listener >= 0)
    close(listener);
}

Result<DeviceDescriptors> DeviceDescriptors::create() {
  DeviceDescriptors made;
  made.listener = socket(AF_UNIX, socketKind, 0);
  if (made.listener < 0)
    return failed("socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(address.sun_family); // the kernel chooses a name that no other socket has
  if (bind(made.listener, reinterpret_cast<sockaddr *>(&address), length) != 0)
    return failed("bind");
  if (listen(made.listener, SOMAXCONN) != 0)
    return failed("listen");
  length = sizeof(address);
  if (getsockname(made.listener, reinterpret_cast<sockaddr *>(&address), &length) != 0)
    return failed("getsockname");
  size_t nameBytes = length - offsetof(sockaddr_un, sun_path) - 1; // behind a zero
  if (nameBytes == 0 || nameBytes >= made.own.size())
    return error(StatusCode::SystemError, "a socket's name has {} bytes", nameBytes);
  std::copy_n(address.sun_path + 1, nameBytes, made.own.begin());
  return made;
}

Status DeviceDescriptors::leave(const DescriptorName &peer, int rank, uint64_t id, int fd) {
  Closed to = {socket(AF_UNIX, socketKind, 0)};
  if (to.fd < 0)
    return failed("socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  size_t nameBytes = strnlen(peer.data(), peer.size());
  std::copy_n(peer.data(), nameBytes, address.sun_path + 1);
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + nameBytes);
  if (connect(to.fd, reinterpret_cast<sockaddr *>(&address), length) != 0)
    return failed("connect");
  Message message;
  message.letter = {id, rank};
  cmsghdr *control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  return sendmsg(to.fd, &message.header, MSG_NOSIGNAL) == sizeof(SentDescriptor) ? Status() : failed("sendmsg");
}

/// All that peers have left. Whoever the kernel says has connected is the sender.
void DeviceDescriptors::accept() {
  while (true) {
    Closed from = {accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (from.fd < 0)
      return;
    ucred sender = {};
    socklen_t length = sizeof(sender);
    Message message;
    bool isWhole = getsockopt(from.fd, SOL_SOCKET, SO_PEERCRED, &sender, &length) == 0 &&
                   recvmsg(from.fd, &message.header, MSG_CMSG_CLOEXEC) == sizeof(SentDescriptor);
    const cmsghdr *control = CMSG_FIRSTHDR(&message.header);
    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
      continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    if (isWhole)
      kept.push_back({message.letter.rank, sender.pid, fd, message.letter.id});
    else
      close(fd);
  }
}

Result<int> DeviceDescriptors::take(int rank, int pid, uint64_t id) {
  accept();
  int found = -1;
  std::erase_if(kept, [&](const KeptDescriptor &each) {
    if (each.rank != rank || each.pid != pid)
      return false;
    if (each.id == id && found < 0)
      found = each.fd;
    else
      close(each.fd);
    return true;
  });
  if (found < 0)
    return error(StatusCode::SystemError, "rank {} has left no descriptor of its device memory here", rank);
  return found;
}

} // namespace kolo::runtime
