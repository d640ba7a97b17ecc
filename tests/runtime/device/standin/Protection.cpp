// Memory of devices is closed to the host: its pages have no access, and the driver copies by another mapping of them.
// By mprotect, which processors without protection keys have, too. So a host that reads while a kernel of its process
// runs is seen only where no kernel has touched that memory.
#include "../../../support/Sanitizers.h"
#include "StandIn.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace kolo::standin {

thread_local int kernelDevice = -1;

namespace {

int numKernels = 0; // of this process; under memoryMutex
struct sigaction before;

void say(const char *text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0)
    _exit(3);
}

/// Opens the memory at an address to the kernel of this thread. False: nothing of a device is there.
bool openAt(CUdeviceptr address) {
  std::scoped_lock lock(memoryMutex);
  auto after = allocations().upper_bound(address);
  if (after == allocations().begin())
    return false;
  auto &[base, allocation] = *std::prev(after);
  if (address - base >= allocation.sizeBytes || !allocation.alias)
    return false;
  if (!mayAccess(kernelDevice, allocation))
    primaryContext(kernelDevice)->failure = CUDA_ERROR_ILLEGAL_ADDRESS;
  allocation.isOpen = true;
  return mprotect(reinterpret_cast<void *>(base), allocation.sizeBytes, PROT_READ | PROT_WRITE) == 0;
}

bool isOfDevice(CUdeviceptr address) {
  CUdeviceptr base;
  Allocation found;
  return findAllocation(address, &base, &found) && found.alias;
}

void handleFault(int, siginfo_t *info, void *) {
  auto address = reinterpret_cast<CUdeviceptr>(info->si_addr);
  if (kernelDevice >= 0 && openAt(address))
    return;
  if (kernelDevice < 0 && isOfDevice(address))
    say("the stand-in driver: the host accesses memory of a device\n");
  sigaction(SIGSEGV, &before, nullptr); // the access is made again
}

} // namespace

void protect(CUdeviceptr address, size_t sizeBytes) {
  // Functions of the thread sanitizer take locks of their own around accesses: a handler of page faults hangs in them.
  if (test::isThreadSanitized) {
    if (mprotect(reinterpret_cast<void *>(address), sizeBytes, PROT_READ | PROT_WRITE) != 0)
      std::abort();
    return;
  }
  static const bool isHandled = [] {
    struct sigaction action = {};
    action.sa_sigaction = handleFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, &before) == 0;
  }();
  if (!isHandled || mprotect(reinterpret_cast<void *>(address), sizeBytes, PROT_NONE) != 0)
    std::abort();
}

KernelRuns::KernelRuns() {
  std::scoped_lock lock(memoryMutex);
  ++numKernels;
}

KernelRuns::~KernelRuns() {
  std::scoped_lock lock(memoryMutex);
  if (--numKernels > 0)
    return;
  for (auto &[base, allocation] : allocations())
    if (allocation.isOpen) {
      protect(base, allocation.sizeBytes);
      allocation.isOpen = false;
    }
}

} // namespace kolo::standin
