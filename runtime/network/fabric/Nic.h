// Nic: one device of libfabric as this rank uses it: its endpoint, its peers, its memory regions and its writes. It
// follows the provider's rules, and knows nothing of agreements.
#pragma once

#include "kolo/runtime/Nics.h"
#include "network/Fabric.h"
#include "network/NearestNic.h"
#include "network/fabric/GpuAccess.h"
#include "network/fabric/Library.h"
#include "network/fabric/ProviderRules.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::fabric {

/// Closes what libfabric opened.
struct FidCloser {
  template <class Opened> void operator()(Opened *opened) const { (void)opened->fid.ops->close(&opened->fid); }
};
template <class Opened> using Owned = std::unique_ptr<Opened, FidCloser>;

class Nic;

/// Memory that the device may read, or that peers may write. Closed by the destructor: nothing writes there any more.
class Memory {
public:
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  uint64_t key() const { return remoteKey; }
  /// What a peer adds offsets to.
  uint64_t remoteBase() const { return base; }
  bool contains(const void *begin, uint64_t numBytes) const;
  void *descriptor() const { return fi_mr_desc(registered.get()); }

private:
  friend class Nic;
  Memory(Nic &itsNic, const Region &place) : nic(itsNic), region(place) {}
  bool isOfGpu() const { return region.owner.kind != RegionOwner::Kind::Host; }

  Nic &nic;
  const Region region;
  Owned<fid_mr> registered;
  uint64_t remoteKey = 0, base = 0, ownKey = 0;
};

/// A write, send or receive that has begun. Its owner keeps it until it is complete.
struct Operation {
  fi_context2 context = {}; // first: libfabric returns its address
  int peer = -1;
  uint32_t lane = 0;
  uint64_t interval = 0;
  uint64_t put = 0;  // the number of the put that it is part of: see SendPath; 0: of none
  RemotePlace place; // of a put
  uint64_t sizeBytes = 0;
  RemoteSignal signal; // of a flag
  bool isReceive = false, isReadBack = false;
  Memory *bodyMemory = nullptr;       // of `body`; null where sources need no region
  std::unique_ptr<Memory> source;     // of a source that was registered for this operation alone
  alignas(8) std::byte body[64] = {}; // a flag or a message
};

/// A write to a peer.
struct Write {
  int peer = 0;
  const void *src = nullptr;
  uint64_t sizeBytes = 0;
  uint64_t address = 0, key = 0;
  bool hasData = false; // `data` goes to the target's completions
  uint32_t data = 0;
};

/// The bytes of the largest writes.
struct WriteLimits {
  uint64_t put = 0, inject = 0;
};

/// What the device has done.
struct Event {
  enum class Kind : uint8_t { Done, Failed, Arrived } kind = Kind::Done;
  Operation *operation = nullptr; // Done, Failed
  uint32_t data = 0;              // Arrived: of a write of a peer
  std::string reason;             // Failed
};

enum class Posted : uint8_t { Yes, Later, Failed };

/// The keys that a rank chooses for its memory. A key is used again as late as possible, and fast ones first.
class MemoryKeys {
public:
  void setNumbers(uint64_t number, uint64_t numFast);
  /// Nothing: all are in use.
  std::optional<uint64_t> take();
  void giveBack(uint64_t key);
  uint64_t size() const { return used.size(); }

private:
  std::vector<bool> used;
  uint64_t fast = 0; // those below
  uint64_t last = 0;
};

/// What this rank has registered.
struct OwnMemory {
  MemoryKeys keys;
  std::vector<Memory *> exposed; // sources inside of these need no region of their own
};

/// The operations of a device. They stay where they are.
struct OperationPool {
  static constexpr size_t groupSize = 64;
  using Group = std::array<Operation, groupSize>;

  size_t most = 0, numUnderWay = 0;
  std::vector<std::unique_ptr<Memory>> bodies; // of the groups, where sources need regions
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Operation *> free;
};

/// Called by one thread at a time.
class Nic {
public:
  /// Opens the device that is nearest to the rank; of several, it takes one in turn. `info`: of findProvider.
  /// SystemError: libfabric's reason.
  static Result<std::unique_ptr<Nic>> open(const Library &library, const ProviderRules &rules, Info info,
                                           const FabricOptions &options);
  /// The devices among which `open` chooses: those of the first entry's kind.
  static std::vector<NicDescription> list(const ProviderRules &rules, const Info &info, const RankLocality &place);
  ~Nic();

  std::span<const std::byte> address() const { return ownAddress; }
  /// What peers must have, too.
  DeviceKind kind() const;
  Status addPeer(int rank, std::span<const std::byte> address);
  uint64_t maxPutBytes() const { return largest.put; }

  /// Lets peers write to the memory. SystemError, OutOfMemory: no key is left. InvalidArgument: it is memory of a GPU
  /// that this device does not reach, or copies to by that GPU's library.
  Result<std::unique_ptr<Memory>> expose(const Region &region);

  /// A free operation; null: too many are under way.
  Operation *take();
  void giveBack(Operation *operation);

  /// Begins the write. Later: try again after a `poll`. Failed: lastError says why.
  Posted write(const Write &write, Operation &operation);
  /// Begins to read from memory of a GPU of this rank, behind all that has arrived there. As write.
  Posted readBack(const Memory &memory, Operation &operation);
  Posted send(int peer, uint64_t sizeBytes, Operation &operation);
  /// Keeps `count` receives of messages under way. Their events are Done, with `isReceive`.
  Status startReceives(int count);
  Posted receive(Operation &operation);
  const std::string &lastError() const { return why; }
  /// Whether a write or send is under way.
  bool isWriting() const { return pool.numUnderWay != 0; }
  /// Whether regions close before the endpoint that they are bound to. All others close after it: it may read them.
  bool bindsMemory() const { return hasMode(FI_MR_ENDPOINT); }
  /// Ends all that is under way.
  void closeEndpoint() { endpoint.reset(); }

  /// Takes some of what the device has done; makes progress. False: there is no more.
  bool poll(Event &event);

private:
  friend class Memory;
  Nic(const Library &lib, const ProviderRules &providerRules, Info found)
      : library(lib), rules(providerRules), info(std::move(found)), gpus(lib, providerRules, *info) {}

  Status openAll();
  Status readAddress();
  Status failure(const char *what, int64_t code) const;
  Result<std::unique_ptr<Memory>> registerRegion(const Region &region, uint64_t access);
  const Memory *gpuMemoryOf(const void *src, uint64_t sizeBytes) const;
  bool hasMode(uint64_t mode) const { return info->domain_attr->mr_mode & mode; }
  /// What the device needs to read a source. False: it could not be registered.
  bool describe(const void *src, uint64_t sizeBytes, Operation &operation, void *&descriptor);
  Posted judge(int64_t code, const char *what);
  Status addOperations();

  const Library &library;
  const ProviderRules &rules;
  Info info;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> peersTable;
  Owned<fid_cq> completions;
  Owned<fid_ep> endpoint;
  std::vector<std::byte> ownAddress;
  std::vector<fi_addr_t> peers; // by rank
  WriteLimits largest;
  GpuAccess gpus;
  OwnMemory regions;
  OperationPool pool;
  std::string why;
};

} // namespace kolo::runtime::fabric
