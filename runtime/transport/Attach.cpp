#include "transport/Attach.h"

#include "Error.h"

#include <sys/uio.h>

namespace kolo::runtime {

Status copyAttached(Direction direction, pid_t pid, uint64_t remoteAddress, void *local, size_t sizeBytes) {
  auto *here = static_cast<std::byte *>(local);
  while (sizeBytes > 0) { // the kernel moves at most about 2 GiB at once, and may stop earlier
    iovec localRange = {here, sizeBytes};
    iovec remoteRange = {reinterpret_cast<void *>(remoteAddress), sizeBytes};
    ssize_t moved = direction == Direction::ToPeer ? process_vm_writev(pid, &localRange, 1, &remoteRange, 1, 0)
                                                   : process_vm_readv(pid, &localRange, 1, &remoteRange, 1, 0);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved < 0 && errno == ESRCH)
      return error(StatusCode::PeerLost, "process {} has ended", pid);
    if (moved <= 0)
      return systemError(fmt::format("cross-memory attach to process {}", pid), moved == 0 ? EFAULT : errno);
    here += moved;
    remoteAddress += static_cast<uint64_t>(moved);
    sizeBytes -= static_cast<size_t>(moved);
  }
  return {};
}

} // namespace kolo::runtime
