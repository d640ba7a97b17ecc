// Carrier: what hangs on one MPI communicator: Kolo's communicator, once it is made, and what was decided about calls.
#pragma once

#include "Handles.h"

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

/// Memory of the caller, as MPI describes it: `blocks` times `count` elements of `type`. No blocks: not used here.
struct Side {
  void *memory = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int blocks = 0;
};

/// A call as all ranks of the communicator see it. The choice depends on nothing else.
using Shape = runtime::CallShape;

/// One call on this rank.
struct Request {
  const char *function; // "MPI_Bcast"
  Shape shape;
  Side input, output;
};

class Carrier {
public:
  explicit Carrier(MPI_Comm owner);
  Carrier(const Carrier &) = delete;
  Carrier &operator=(const Carrier &) = delete;

  int rank() const { return ownRank; }
  int size() const { return numRanks; }

  /// Counts a collective on this communicator, and connects the ranks when it is time. All ranks call it alike. Returns
  /// whether calls may be carried; if not, counts the call as forwarded. Blocking.
  bool enter();

  /// Carries the call and returns MPI's code, or nothing: the caller forwards it, and it is counted. Blocking.
  std::optional<int> perform(const Request &request);
  int barrier();

  /// Counts a call that the caller forwards.
  std::nullopt_t forward(const char *function, const char *reason) const;

  /// Leaves Kolo's communicator; later calls are forwarded.
  void close();

private:
  struct Decision {
    const runtime::Plugin *plugin = nullptr; // null: forward
    runtime::CallArguments arguments;
    int64_t sizeBytes = 0; // of the larger buffer of any rank
  };
  struct HashOfShape {
    size_t operator()(const Shape &shape) const;
  };
  /// Memory for packed data, kept between calls.
  struct Packed {
    std::unique_ptr<std::byte[]> memory;
    size_t sizeBytes = 0;
  };

  void connect();
  /// Makes a buffer in memory of MPI_Alloc_mem a window of this communicator.
  void makeWindow(const void *memory, size_t sizeBytes);
  /// Whether the ranks may try to connect, the same on all of them.
  runtime::Status agree(bool &areOnOneHost) const;
  std::string agreeOnTag() const;
  Decision &decide(const Request &request);
  std::nullopt_t forwardForMemory(const char *function, const runtime::Status &status);
  int fail(const char *function, const runtime::Status &status, int code = MPI_ERR_OTHER) const;
  int pack(const Side &side, std::byte *to) const;
  int unpack(const std::byte *from, const Side &side) const;
  std::byte *reserve(Packed &packed, const Shape &shape, const Side &side) const;
  std::optional<int> run(const Request &request, Decision &decision);

  MPI_Comm owner;
  int ownRank = 0, numRanks = 1;
  int64_t numCalls = 0;
  bool isOnOneHost = true, hasToldOfMemory = false;
  const char *whyNot = "first calls"; // while there is no communicator
  std::optional<runtime::Communicator> communicator;
  std::map<int, std::optional<runtime::Window>> windows; // by piece of the page heap; nothing: it could not become one
  std::unordered_map<Shape, Decision, HashOfShape> decisions;
  Packed packedInput, packedOutput;
};

} // namespace kolo::mpi
