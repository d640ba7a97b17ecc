// wire: a network link with a delay, between two network namespaces; and, if asked for, one that loses and reorders
// packets. For kernels without netem (sch_netem); rates are tc's business (tbf on the two devices).
//   wire NETNS_A DEVICE_A NETNS_B DEVICE_B DELAY_US [LOSS_PERCENT [REORDER_PERCENT [SEED]]]
// Makes the two devices (taps), and passes frames from one to the other until it is killed. With neither loss nor
// reordering frames are passed as the kernel gives them, up to 64 KiB each; otherwise packet by packet. A reordered
// packet is held back for three times the delay, 100 us at least.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { maxFrame = 68 << 10, ringBytes = 32 << 20 };

typedef struct {
  int64_t dueNs;
  uint32_t bytes;
} Entry;
// Frames that are on their way in one direction, in order of arrival. `head` and `tail` only grow.
typedef struct {
  char *memory;
  uint64_t head, tail;
  Entry held;
  char *heldFrame;
} Queue;

static int64_t nowNs(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void fail(const char *what, const char *name) {
  fprintf(stderr, "wire: %s %s: %s\n", what, name, strerror(errno));
  exit(1);
}

static int openTap(const char *space, const char *device, int passesLarge) {
  char path[256];
  snprintf(path, sizeof path, "/run/netns/%s", space);
  int netns = open(path, O_RDONLY | O_CLOEXEC);
  if (netns < 0 || setns(netns, CLONE_NEWNET) != 0)
    fail("entering", path);
  close(netns);
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    fail("opening", "/dev/net/tun");
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | (passesLarge ? IFF_VNET_HDR : 0)};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
  if (ioctl(fd, TUNSETIFF, &request) != 0)
    fail("making", device);
  if (passesLarge && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
    fail("offloads of", device);
  return fd;
}

// An entry and its frame never wrap around: what does not fit before the end of the ring begins at its start.
static Entry *entryAt(Queue *queue, uint64_t *at) {
  uint64_t left = ringBytes - *at % ringBytes;
  if (left < sizeof(Entry) + maxFrame)
    *at += left;
  return (Entry *)(queue->memory + *at % ringBytes);
}

static uint64_t sizeOf(uint32_t bytes) { return (sizeof(Entry) + bytes + 15) / 16 * 16; }

static int happens(double percent) { return percent > 0 && drand48() * 100 < percent; }

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "wire: NETNS_A DEVICE_A NETNS_B DEVICE_B DELAY_US [LOSS%% [REORDER%% [SEED]]]\n");
    return 2;
  }
  int64_t delayNs = atoll(argv[5]) * 1000;
  double loss = argc > 6 ? atof(argv[6]) : 0, reorder = argc > 7 ? atof(argv[7]) : 0;
  srand48(argc > 8 ? atol(argv[8]) : 1);
  struct sched_param priority = {.sched_priority = 1}; // frames are late otherwise, when all cores are busy
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
    perror("wire: no real-time priority");
  int isExact = loss > 0 || reorder > 0;
  int fds[2] = {openTap(argv[1], argv[2], !isExact), openTap(argv[3], argv[4], !isExact)};
  Queue queues[2]; // [d]: from fds[d] to the other
  for (int d = 0; d < 2; ++d) {
    queues[d] = (Queue){.memory = mmap(NULL, ringBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                        .heldFrame = malloc(maxFrame)};
    if (queues[d].memory == MAP_FAILED)
      fail("memory for", "the ring");
  }
  for (;;) {
    int64_t time = nowNs(), nextDue = INT64_MAX;
    for (int d = 0; d < 2; ++d) {
      Queue *queue = &queues[d];
      while (queue->head != queue->tail) { // deliver what is due
        Entry *entry = entryAt(queue, &queue->head);
        if (queue->head == queue->tail)
          break;
        if (entry->dueNs > time) {
          if (entry->dueNs < nextDue)
            nextDue = entry->dueNs;
          break;
        }
        (void)!write(fds[!d], entry + 1, entry->bytes); // a full or absent receiver loses it, as a switch does
        queue->head += sizeOf(entry->bytes);
      }
      if (queue->held.bytes && queue->held.dueNs <= time) {
        (void)!write(fds[!d], queue->heldFrame, queue->held.bytes);
        queue->held.bytes = 0;
      } else if (queue->held.bytes && queue->held.dueNs < nextDue) {
        nextDue = queue->held.dueNs;
      }
    }
    struct pollfd polled[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    struct timespec wait = {0, 0};
    int64_t left = nextDue == INT64_MAX ? 1000000000 : nextDue - nowNs();
    if (left > 0)
      wait = (struct timespec){left / 1000000000, left % 1000000000};
    if (ppoll(polled, 2, &wait, NULL) <= 0)
      continue;
    for (int d = 0; d < 2; ++d) {
      Queue *queue = &queues[d];
      for (int frames = 0; (polled[d].revents & POLLIN) && frames < 16; ++frames) {
        if (queue->tail - queue->head > ringBytes - 3 * maxFrame)
          break; // the kernel's queue fills up, and drops
        Entry *entry = entryAt(queue, &queue->tail);
        ssize_t bytes = read(fds[d], entry + 1, maxFrame);
        if (bytes <= 0)
          break;
        if (happens(loss))
          continue;
        int64_t due = nowNs() + delayNs;
        if (!queue->held.bytes && happens(reorder)) {
          queue->held = (Entry){due + (2 * delayNs > 100000 ? 2 * delayNs : 100000), (uint32_t)bytes};
          memcpy(queue->heldFrame, entry + 1, (size_t)bytes);
          continue;
        }
        *entry = (Entry){due, (uint32_t)bytes};
        queue->tail += sizeOf((uint32_t)bytes);
      }
    }
  }
}
