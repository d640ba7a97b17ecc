// Groups of sends and receives, for the cases of the client: what all ranks send each other in a step. A rank calls it,
// and checks what it gets.
#pragma once

#include "Client.h"

using Counts = std::vector<std::vector<size_t>>; // by sender and receiver, in elements
inline constexpr size_t absent = SIZE_MAX;       // neither of the two calls

struct Type {
  ncclDataType_t type;
  size_t numBytes;
};
inline constexpr Type types[] = {{ncclInt8, 1},    {ncclUint8, 1},    {ncclInt32, 4},      {ncclUint32, 4},
                                 {ncclInt64, 8},   {ncclUint64, 8},   {ncclFloat16, 2},    {ncclFloat32, 4},
                                 {ncclFloat64, 8}, {ncclBfloat16, 2}, {ncclFloat8e4m3, 1}, {ncclFloat8e5m2, 1}};

inline constexpr unsigned char poison = 0xEE;
inline constexpr size_t roomBytes = size_t(1) << 18;

unsigned char *allocate(size_t numBytes);

/// What a rank's memory holds, and where its blocks lie in it.
struct Memory {
  unsigned char *address = nullptr;
  std::vector<size_t> places; // in bytes, by peer

  /// Blocks in any order with gaps between them, at multiples of the type's size.
  void place(const std::vector<size_t> &numBytes, size_t unit, std::minstd_rand &random);
};

/// A step of all ranks: one group of each, unless it is split.
struct Step {
  size_t number = 0;
  Counts counts;
  Type type = types[0];
  bool isSplit = false; // the last rank has a group for each peer

  int size() const { return static_cast<int>(counts.size()); }
  size_t bytesOf(int sender, int receiver) const;
  bool has(int sender, int receiver) const {
    return counts[static_cast<size_t>(sender)][static_cast<size_t>(receiver)] != absent;
  }
  /// By the rule of docs/loading.md.
  bool isCarried() const;
  int64_t numTransfersOf(int rank) const;
};

/// Of which each block has another length.
Step fullStep(size_t number, int size);
Counts makeCounts(int size, size_t count);

/// The sends and receives of a rank, as PyTorch calls them.
struct Caller {
  Rank &rank;
  Memory input{allocate(roomBytes), {}}, output{allocate(roomBytes), {}};
  int64_t numForwarded = 0;

  void prepare(const Step &step);
  void copy(void *to, const void *from) const;
  void callPeer(const Step &step, int peer) const;
  /// Without a group around it.
  void callAll(const Step &step) const;
  void call(const Step &step) const;
  /// Whether anything has come here.
  bool hasReceived() const;
  /// What the stand-in gets moves no data.
  void check(const Step &step, bool isCarried);
};

/// Those of all ranks of a thread.
struct Callers {
  OwnRanks &here;
  std::vector<Caller> all;

  explicit Callers(OwnRanks &ranks);
  void start(const Step &step);
  void finish(const Step &step, bool isCarried);
  void run(const Step &step) {
    start(step);
    finish(step, step.isCarried());
  }
  /// For the test, which compares it with what came to the stand-in.
  void sayForwarded() const;
};

/// Begins a group whose calls are those of a full step, but for what `change` makes of it, and ends it. The next one is
/// carried again.
void runApart(OwnRanks &here, const std::function<void(Caller &, const Step &)> &change);

/// How many steps a case of random groups has.
int numSteps();
/// Case "groups, random".
void checkRandom(OwnRanks &here);
/// Case "groups, vector": RCCL's all-to-all with counts, by the name in KOLO_TEST_ALLTOALLV.
void checkVector(OwnRanks &here);
/// A case in which a communicator ends, or a rank, by its name. False: it is none of these.
bool runGroupsThatEnd(OwnRanks &here, const std::string &name);
