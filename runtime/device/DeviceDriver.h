/* The C boundary between the runtime and the library for one kind of device. libkolo_cuda.so and libkolo_hip.so each
 * fill a KoloDeviceDriver, and export the function kolo_device_driver, which returns it.
 *
 * Every function that returns int32_t returns a KoloDriverCode. If that is not KOLO_DRIVER_OK, `lastError` says which
 * call failed and why, until the next failure in the same thread. No function throws or prints. `device` is an ordinal
 * that was opened before. Streams, events, modules and kernels are handles of the vendor's API; stream null is its
 * default stream. Any thread may call the functions, and they leave its current context as it was.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KOLO_DEVICE_DRIVER_VERSION 7u
#define KOLO_DEVICE_DRIVER_SYMBOL "kolo_device_driver"

typedef enum KoloDriverCode {
  KOLO_DRIVER_OK,
  KOLO_DRIVER_NOT_READY, /* queryEvent: the work is not done yet */
  KOLO_DRIVER_OUT_OF_MEMORY,
  KOLO_DRIVER_BAD_IMAGE,    /* the driver does not accept this code */
  KOLO_DRIVER_BAD_ARGUMENT, /* the device does not exist, or the driver does not know an address */
  KOLO_DRIVER_ELSEWHERE,    /* an address is memory of the host that the driver knows, or of another device */
  KOLO_DRIVER_FAILED        /* anything else */
} KoloDriverCode;

typedef enum KoloMemoryKind {
  KOLO_MEMORY_PRIVATE, /* only this device accesses it */
  KOLO_MEMORY_SHARED,  /* peers access it while kernels run, in this process and, after `share`, in others */
  KOLO_MEMORY_VIRTUAL, /* likewise, by the virtual memory interface: mapped for all devices that can access it */
  KOLO_MEMORY_HOST     /* memory of the host, which every device accesses at the same address */
} KoloMemoryKind;

typedef struct KoloDriverDevice {
  char name[128];
  char architecture[32]; /* "sm_90", "gfx90a" */
  uint8_t uuid[16];      /* equal in two processes exactly for the same device */
  uint64_t memoryBytes;
  int32_t numMultiprocessors;
  int32_t numQueues; /* hardware queues that streams of this process share; what waits in one keeps all behind it */
  int32_t canLaunchTogether; /* the driver has cooperative launches */
  int32_t hasVirtualMemory;
  /* What NICs have written to its memory is visible to its kernels once it has arrived, if both are 0. Else the NIC
   * must read from that memory (needsRead), and then flushAccesses must be called (needsFlush). */
  int32_t needsRead, needsFlush;
  int32_t flushesInstead;   /* flushAccesses may take the place of that read */
  int32_t needsFlushToSend; /* flushAccesses must be called before NICs read what kernels have written */
} KoloDriverDevice;

/* The allocation that an address is in. */
typedef struct KoloDriverRange {
  void *base;
  uint64_t sizeBytes;
  uint64_t id; /* of the allocation, never used again in this process */
} KoloDriverRange;

/* A whole allocation, for another process. */
typedef struct KoloDriverHandle {
  uint8_t bytes[64];
  uint64_t sizeBytes;
  int32_t fd; /* virtual memory: a descriptor of the process at hand; otherwise -1 */
} KoloDriverHandle;

typedef struct KoloDriverKernel {
  void *handle;
  int32_t maxThreads; /* of a block */
} KoloDriverKernel;

typedef struct KoloDriverLaunch {
  const KoloDriverKernel *kernel;
  uint32_t gridX, gridY, numThreads;
  void *stream;
  const void *argument; /* the kernel's one parameter, a pointer */
  int32_t isTogether;   /* only where the device canLaunchTogether */
} KoloDriverLaunch;

typedef struct KoloDeviceDriver {
  uint32_t version;               /* KOLO_DEVICE_DRIVER_VERSION */
  uint32_t acceptsForeignMemory;  /* peers may access memory that `allocate` did not make */
  const char *kind;               /* "cuda" or "hip": the kind of the images that it runs */
  const char *(*lastError)(void); /* never null */

  /* Loads the vendor's library: `path`, or the usual one for null. Further calls do nothing. `management` is the path
   * of the vendor's library that knows devices which are invisible here, likewise; it is loaded when it is needed, and
   * may be missing. */
  int32_t (*open)(const char *path, const char *management);
  int32_t (*countDevices)(int32_t *number);
  int32_t (*openDevice)(int32_t device, KoloDriverDevice *description);
  /* Lets kernels of `device` access memory of `peer`. No error if they already may. */
  int32_t (*enablePeer)(int32_t device, int32_t peer);
  /* Whether an LL128 line that `device` stores arrives as a whole in memory of the device with this uuid (16 bytes),
   * which may be `device` itself: see targets/gpu/DeviceFunctions.h. The answer is no when it is unknown. */
  int32_t (*keepsLines)(int32_t device, const uint8_t *uuid, int32_t *answer);

  /* Aligned to at least 256 bytes, with undefined content. */
  int32_t (*allocate)(int32_t device, int32_t kind, uint64_t sizeBytes, void **memory);
  /* May wait for the device. */
  int32_t (*release)(int32_t device, int32_t kind, void *memory);
  /* KOLO_DRIVER_BAD_ARGUMENT, KOLO_DRIVER_ELSEWHERE: not memory of this device. */
  int32_t (*locate)(int32_t device, const void *address, KoloDriverRange *range);
  /* Whether kernels of `peer` may access memory of `device` at this address, where `enablePeer` has let them access
   * what that is up to. It is not up to that for memory of pools and of virtual memory interfaces. */
  int32_t (*isOpenTo)(int32_t device, const void *address, int32_t peer, int32_t *answer);
  int32_t (*share)(int32_t device, void *base, KoloDriverHandle *handle);
  /* Called when peers have opened what `share` gave, or will not. They keep it. */
  int32_t (*unshare)(int32_t device, const KoloDriverHandle *handle);
  /* Maps memory that another process shared, for this device alone; closeShared with the same handle unmaps it. The
   * caller has a descriptor of its own in handle->fd for the other's, which the call leaves open. */
  int32_t (*openShared)(int32_t device, const KoloDriverHandle *handle, void **memory);
  int32_t (*closeShared)(int32_t device, const KoloDriverHandle *handle, void *memory);
  /* Lets every device access memory of the host that `allocate` did not make, until unregisterHost. `address`: where
   * this device accesses it. A process registers no byte twice. */
  int32_t (*registerHost)(int32_t device, void *memory, uint64_t sizeBytes, void **address);
  int32_t (*unregisterHost)(int32_t device, void *memory);
  /* A dma-buf of whole pages of memory that `allocate` made, by which NICs reach it: a descriptor that the caller owns.
   * -1: the vendor's library makes none, and a NIC's own library may find the memory by its address. */
  int32_t (*exportMemory)(int32_t device, void *memory, uint64_t sizeBytes, int32_t *fd);
  /* See KoloDriverDevice::needsFlush. Waits for no kernel, but perhaps for calls of other threads that do. */
  int32_t (*flushAccesses)(int32_t device);
  /* Queued on the stream. They access memory of any device, or of the host; the caller keeps it until they are done. */
  int32_t (*copy)(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream);
  int32_t (*clear)(int32_t device, void *dst, uint64_t sizeBytes, void *stream);

  /* Streams made here wait for no other. */
  int32_t (*createStream)(int32_t device, void **stream);
  int32_t (*destroyStream)(int32_t device, void *stream);
  int32_t (*waitForStream)(int32_t device, void *stream); /* blocks */
  int32_t (*isCapturing)(int32_t device, void *stream, int32_t *answer);
  /* Between these two calls of one thread, captures of other threads do not forbid calls of this thread. enterRelaxed
   * gives the `mode` that leaveRelaxed takes. */
  int32_t (*enterRelaxed)(int32_t *mode);
  int32_t (*leaveRelaxed)(int32_t mode);
  int32_t (*createEvent)(int32_t device, int32_t isTimed, void **event); /* only timed ones have `elapsed` */
  int32_t (*destroyEvent)(int32_t device, void *event);
  int32_t (*recordEvent)(int32_t device, void *event, void *stream);
  int32_t (*queryEvent)(int32_t device,
                        void *event); /* OK: what it was recorded after is done, or it never was recorded */
  int32_t (*waitForEvent)(int32_t device, void *stream, void *event); /* has the stream wait */
  int32_t (*elapsed)(int32_t device, void *start, void *end, float *milliseconds);

  int32_t (*loadModule)(int32_t device, const void *image, void **module);
  int32_t (*unloadModule)(int32_t device, void *module);
  int32_t (*findKernel)(int32_t device, void *module, const char *name, KoloDriverKernel *kernel);
  /* The number of blocks of this size that the whole device holds at once. */
  int32_t (*countResident)(int32_t device, const KoloDriverKernel *kernel, uint32_t numThreads, int64_t *numBlocks);
  int32_t (*launch)(int32_t device, const KoloDriverLaunch *launch);
} KoloDeviceDriver;

typedef const KoloDeviceDriver *(*KoloDeviceDriverEntry)(void);

#ifdef __cplusplus
}
#endif
