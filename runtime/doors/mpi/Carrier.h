// Carrier: what hangs on one MPI communicator: Kolo's communicator, once it is made, and what was decided about calls.
#pragma once

#include "Blocks.h"
#include "Packing.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Door.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace kolo::mpi {

/// One block of a call, as far as all ranks of the communicator know its bytes.
struct BlockOfCall {
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op operation = MPI_OP_NULL; // null: data only moves
  bool isOneWay = false;          // some rank of an MPI library sends its part and goes on
};

/// A call as all ranks of the communicator see it. The choice depends on nothing else.
struct RequestShape : runtime::CallShape {
  bool hasTables = false; // blocks have counts of their own, which ranks may not know of each other; `count` is 0
  auto operator<=>(const RequestShape &) const = default;
};

/// One call on this rank.
struct Request {
  const char *function; // "MPI_Bcast"
  RequestShape shape;
  Side input, output;
};

/// One call on this rank, of blocks with counts of their own.
struct TabledRequest {
  const char *function; // "MPI_Allgatherv"
  RequestShape shape;
  Blocks input, output;
  bool isInPlace = false; // as Kolo has it: the input lies where the output has this rank's own blocks
};

class Carrier {
public:
  explicit Carrier(MPI_Comm owner);
  /// May wait for ranks that have yet to begin a barrier, as MPI_Comm_free may.
  ~Carrier();
  Carrier(const Carrier &) = delete;
  Carrier &operator=(const Carrier &) = delete;

  int rank() const { return ownRank; }
  int size() const { return numRanks; }

  /// Counts a collective on this communicator, and connects the ranks when it is time. All ranks call it alike, with
  /// blocks of as many bytes. Returns whether calls may be carried; if not, counts the call as forwarded. Blocking.
  bool enter(const BlockOfCall &block);

  /// Carries the call and returns MPI's code, or nothing: the caller forwards it, and it is counted. Blocking.
  std::optional<int> perform(const Request &request);
  std::optional<int> perform(TabledRequest &&request);
  int barrier();
  /// Begins a barrier whose request is then pending. Nothing: the caller forwards it, and it is counted. Connects
  /// nobody, because that waits for all ranks. Never blocks.
  std::optional<int> beginBarrier(MPI_Request *request);

  /// In a meeting: the communicator's name among all ranks, if this rank wishes to connect it; else 0. Never blocks.
  uint64_t wishedName();
  int64_t numBegunBarriers() const { return numBegun; }
  /// Connects the ranks, which carry barriers from this number on. All ranks of the communicator call it alike.
  /// Blocking.
  void connectInMeeting(const runtime::AllGather &exchange, int64_t firstBarrier);

  /// Counts a call that the caller forwards.
  std::nullopt_t forward(const char *function, const char *reason) const;

  /// Completes what the door has begun on the communicator. Blocking.
  void endNaming();

  /// Leaves Kolo's communicator; later calls are forwarded. All ranks come to it. This object may be gone afterwards.
  void close();

private:
  struct Decision {
    const runtime::Plugin *plugin = nullptr; // null: forward
    runtime::CallArguments arguments;
    int64_t sizeBytes = 0; // of the larger buffer of any rank
  };
  struct HashOfShape {
    size_t operator()(const RequestShape &shape) const;
  };
  /// Memory for packed data, kept between calls.
  struct Packed {
    std::unique_ptr<std::byte[]> memory;
    size_t sizeBytes = 0;
  };

  /// The name of the communicator, and how this rank learns it.
  struct Naming {
    uint64_t name = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Whether the MPI library is faster; the same on all ranks.
  bool isLeftToMpi(const BlockOfCall &block) const;
  /// Counts a call before the ranks connect. Returns whether it is time to connect.
  bool isWorthConnecting(const BlockOfCall &block);
  void connect(const runtime::AllGather &exchange);
  runtime::Status exchangeHere(const void *own, size_t sizeBytes, void *all) const;
  void beginNaming();
  /// Makes a buffer in memory of MPI_Alloc_mem a window of this communicator.
  void makeWindow(const void *memory, size_t sizeBytes);
  /// Whether the ranks may try to connect, the same on all of them. `tag`: the name that the program gave the
  /// communicator, if all ranks gave it the same one.
  runtime::Status agree(const runtime::AllGather &exchange, std::string &tag);
  Decision &decide(const char *function, const RequestShape &shape);
  std::nullopt_t forwardForMemory(const char *function, const runtime::Status &status);
  int fail(const char *function, const runtime::Status &status, int code = MPI_ERR_OTHER) const;
  static std::byte *reserve(Packed &packed, size_t sizeBytes);
  template <class AnyRequest> std::optional<int> performDecided(AnyRequest &request);
  std::optional<int> run(const Request &request, Decision &decision);
  std::optional<int> run(TabledRequest &request, Decision &decision);
  /// Runs what was decided, with the buffers in the decision, and counts it. Nothing: the caller forwards it.
  std::optional<int> execute(const char *function, const RequestShape &shape, const Decision &decision,
                             int64_t sizeBytes);

  MPI_Comm owner;
  int ownRank = 0, numRanks = 1;
  int64_t numCalls = 0, numWorthBytes = 0;       // until the ranks connect
  int64_t numBegun = 0, firstCarriedBarrier = 1; // of MPI_Ibarrier, counted from 1
  std::unique_ptr<Naming> naming;                // null: nobody has needed it
  bool isOnOneHost = true, hasToldOfMemory = false;
  bool isTooEarly = true;                                // nobody has tried to connect the ranks
  bool seeCompletions = false;                           // all ranks: see seesCompletions
  const char *whyNot = "first calls";                    // while there is no communicator
  std::shared_ptr<runtime::Communicator> communicator;   // shared with barriers that are pending
  std::map<int, std::optional<runtime::Window>> windows; // by piece of the page heap; nothing: it could not become one
  std::unordered_map<RequestShape, Decision, HashOfShape> decisions;
  Packed packedInput, packedOutput;
};

} // namespace kolo::mpi
