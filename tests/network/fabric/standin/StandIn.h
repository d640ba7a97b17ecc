// A stand-in for libfabric whose providers have the names of real ones, and are stricter than those. All endpoints are
// in one process. It delivers late and in the worst order that was promised, only while the target asks for events, and
// refuses what any version of the provider might refuse.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace standin {

/// What a provider demands and does.
struct Provider {
  const char *name;
  uint64_t memoryModes;
  uint64_t modes;           // FI_CONTEXT2: it writes into contexts
  bool keepsOrder;          // FI_ORDER_RMA_WAW, if asked for
  bool hasWriteData;        // else ENOSYS, at the first use
  bool needsAddress;        // writes of an initiator that the target does not know are lost
  bool confirmsDelivery;    // else it refuses FI_DELIVERY_COMPLETE; each write is complete when the target has it
  uint64_t keyBytes;        // keys that the application chooses have no more
  uint64_t numFastKeys;     // those below cost less
  uint64_t maxMessageBytes; // what it takes; it says the same
  uint64_t injectBytes;     // what a write may inject; it says 64
  bool canRead;             // memory of peers
  bool readsOnDelivery;     // FI_DELIVERY_COMPLETE comes behind a read of the target's memory
  bool hasPeerOption, hasCudaOption; // else it knows no such option; with the option unset, it refuses memory of GPUs
};

extern const Provider providers[3];
const Provider *findProvider(const char *name);

/// What tests set, and read.
struct Control {
  std::atomic<uint64_t> maxMessageBytes = 0; // 0: the provider's. It takes no more, but does not say so
  std::atomic<bool> breaksOrder = false;     // although it promised order
  std::atomic<bool> refusesKeys = false;     // of all writes
  std::atomic<bool> kindsDiffer = false;     // each rank finds another kind of device
  std::atomic<bool> refusesOptions = false;  // of endpoints
  std::atomic<bool> hasNoGpus = false;       // no provider has FI_HMEM
  std::atomic<int> refusedGpu = -1;          // its memory cannot be registered
  std::atomic<uint64_t> numReads = 0;
  std::atomic<uint64_t> numDmaBufs = 0, numByAddress = 0; // registrations of memory of GPUs
  std::atomic<uint64_t> numDelivered = 0, numLost = 0;
  std::atomic<bool> wasUsedByTwoThreads = false;
  std::atomic<uint64_t> numRegions = 0; // that are open
  std::atomic<uint64_t> numTargets = 0; // of them, those that peers may write
  std::atomic<uint64_t> numSlowKeys = 0;
  std::atomic<uint64_t> numClosedInUse = 0; // regions that the device was reading, or objects that others needed
};
Control *standInControl();

/// A table of functions that `fill` writes; the functions that it leaves out are null.
template <class Table> Table tableOf(void (*fill)(Table &)) {
  Table table = {};
  table.size = sizeof(table);
  fill(table);
  return table;
}

struct Endpoint;

struct Region {
  fid_mr handle = {};
  const Provider *provider = nullptr;
  std::byte *memory = nullptr;
  size_t sizeBytes = 0;
  uint64_t access = 0;
  Endpoint *endpoint = nullptr;
  bool isEnabled = false;
  struct Domain *domain = nullptr;
  int gpu = -1; // whose memory it is; -1: the host's
};

/// A write, or a message, on its way.
struct Transfer {
  Endpoint *from = nullptr;
  void *context = nullptr;
  std::vector<std::byte> copy; // of the source, where that may be used again
  const std::byte *src = nullptr;
  const Region *described = nullptr; // has the source; null: none has to
  size_t sizeBytes = 0, doneBytes = 0;
  uint64_t address = 0, key = 0, flags = 0;
  uint64_t data = 0;
  bool isMessage = false, isCopied = false, isOrdered = false;
  bool isRead = false; // from the place that it names to `src`
  int age = 0;         // in looks of the target
};

struct Queue {
  fid_cq handle = {};
  struct Domain *domain = nullptr;
  Endpoint *endpoint = nullptr;
  std::deque<fi_cq_data_entry> events;
  std::deque<fi_cq_err_entry> errors;
};

struct Table {
  fid_av handle = {};
  struct Domain *domain = nullptr;
  std::vector<uint64_t> addresses;
  int numEndpoints = 0; // that are bound to it
};

struct Receive {
  void *buffer;
  size_t sizeBytes;
  void *context;
};

struct Endpoint {
  fid_ep handle = {};
  struct Domain *domain = nullptr;
  uint64_t address = 0;
  Queue *queue = nullptr;
  Table *table = nullptr;
  bool isEnabled = false, isOrdered = false, hasMessages = false;
  bool keepsMessages = false;                     // behind writes
  bool hasPeerToPeer = false, avoidsCuda = false; // options
  std::deque<Transfer> arriving;                  // to this endpoint, in the order of their posting
  std::deque<Transfer> leaving;                   // of this endpoint: their sources are read at its next look
  std::deque<Receive> receives;
  int numBound = 0; // regions
};

struct Domain {
  fid_domain handle = {};
  const Provider *provider = nullptr;
  std::map<uint64_t, Region *> regions;
  std::atomic<int> numInside = 0;
  uint64_t nextKey = 0x7000000000001;
  uint32_t protocol = 0;
  bool hasGpus = false, takesDmaBufs = false;
  int numOpen = 0; // endpoints, queues and tables
};

/// All state is behind one mutex. Notes when the application calls into a domain from two threads at once.
class Inside {
public:
  explicit Inside(Domain &called);
  ~Inside();
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;

private:
  Domain &domain;
};

/// What NICs do with memory of GPUs, by the stand-in of the GPUs' driver: that which KOLO_CUDA_DRIVER or
/// KOLO_HIP_DRIVER names.
struct Gpus {
  int (*deviceAt)(const void *address, uint64_t sizeBytes);
  const void *(*readableAt)(const void *address);
  void (*arrive)(int device, void *address, const void *bytes, uint64_t sizeBytes);
  void (*readBack)(int device);
  uint64_t (*fileOf)(const void *address);
};
const Gpus &gpus();

/// Notes it in the completion queue of who has posted it.
void failTransfer(const Transfer &transfer, int why);
/// Of what others need: it must be open for longer.
int refuseToClose();
// What an object does not have.
inline int refuse(fid *, fid *, uint64_t) { return -FI_ENOSYS; }
inline int refuseCommand(fid *, int, void *) { return -FI_ENOSYS; }

int openEndpoint(fid_domain *domain, fi_info *info, fid_ep **endpoint, void *context);
int openQueue(fid_domain *domain, fi_cq_attr *attributes, fid_cq **queue, void *context);
int openTable(fid_domain *domain, fi_av_attr *attributes, fid_av **table, void *context);
fi_ops_mr *regionOps();
std::map<uint64_t, Endpoint *> &endpoints();

} // namespace standin
