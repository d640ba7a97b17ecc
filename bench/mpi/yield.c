// For MPICH where ranks share cores: a wait that finds nothing lets another rank run, as Open MPI's do. Preloaded;
// Debian's MPICH waits in UCX.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker) {
  static unsigned (*next)(void *);
  if (!next)
    next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
  unsigned numEvents = next(worker);
  if (numEvents == 0)
    sched_yield();
  return numEvents;
}
