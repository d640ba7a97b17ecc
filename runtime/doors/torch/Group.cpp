// Group: how it is made. Its collectives are in Collectives.cpp.
#include "Group.h"

#include <Python.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace kolo::torch_door {

using runtime::CollectiveKind;
using runtime::Communicator;
using runtime::DataType;
using runtime::Reduction;
using runtime::Status;
using runtime::StatusCode;

namespace {

/// An all-gather through the store. Every call of it uses other keys.
class StoreExchange {
public:
  StoreExchange(c10::intrusive_ptr<c10d::Store> agreedStore, int ownRank, int numRanks, std::chrono::milliseconds time)
      : store(std::move(agreedStore)), rank(ownRank), size(numRanks), timeout(time) {}

  Status operator()(const void *own, size_t sizeBytes, void *all) {
    const auto *bytes = static_cast<const uint8_t *>(own);
    std::string prefix = "kolo/" + std::to_string(round++) + "/";
    store->set(prefix + std::to_string(rank), std::vector<uint8_t>(bytes, bytes + sizeBytes));
    for (int peer = 0; peer < size; ++peer) {
      std::string key = prefix + std::to_string(peer);
      try {
        store->wait({key}, timeout);
      } catch (const std::exception &) {
        return Status(
            StatusCode::Timeout,
            "rank " + std::to_string(peer) + " did not join within " + std::to_string(timeout.count()) + " ms", peer);
      }
      std::vector<uint8_t> theirs = store->get(key);
      if (theirs.size() != sizeBytes)
        return Status(StatusCode::Mismatch, "rank " + std::to_string(peer) + " runs another version of Kolo", peer);
      std::memcpy(static_cast<char *>(all) + static_cast<size_t>(peer) * sizeBytes, theirs.data(), sizeBytes);
    }
    return {};
  }

private:
  c10::intrusive_ptr<c10d::Store> store;
  int rank, size;
  std::chrono::milliseconds timeout;
  int round = 0;
};

/// What ranks tell each other before they join.
struct GroupFacts {
  uint64_t plugins = 0, host = 0;
};

Status comparePlugins(StoreExchange &exchange, std::vector<GroupFacts> &all) {
  GroupFacts own{door().identity()};
  if (runtime::Result<uint64_t> host = runtime::hostNumber(); host.isOk())
    own.host = *host; // else Communicator::create says why
  if (Status status = exchange(&own, sizeof(own), all.data()); !status.isOk())
    return status;
  for (size_t peer = 1; peer < all.size(); ++peer)
    if (all[peer].plugins != all[0].plugins)
      return Status(StatusCode::Mismatch,
                    "rank " + std::to_string(peer) +
                        " has other plugins than rank 0: KOLO_PLUGIN_PATH must name the same ones on all ranks",
                    static_cast<int>(peer));
  return {};
}

constexpr AgreedShape agreementShape = {{CollectiveKind::AllReduce, DataType::I64, Reduction::Max, 2}};

} // namespace

c10::intrusive_ptr<Base> Group::create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                       std::chrono::milliseconds timeout, c10::intrusive_ptr<Base> gloo) {
  StoreExchange exchange(store, rank, size, timeout);
  std::vector<GroupFacts> facts(static_cast<size_t>(size));
  if (Status status = comparePlugins(exchange, facts); !status.isOk())
    throw failure(status);
  const bool areOnOneHost =
      std::all_of(facts.begin(), facts.end(), [&](const GroupFacts &each) { return each.host == facts.front().host; });
  runtime::CommunicatorOptions options;
  options.timeoutMs = static_cast<int>(std::clamp<int64_t>(timeout.count(), 1, std::numeric_limits<int>::max()));
  runtime::Result<Communicator> joined = Communicator::create(rank, size, std::ref(exchange), options);
  if (!joined.isOk())
    throw failure(joined.status());
  return c10::make_intrusive<Group>(rank, size, std::move(joined).value(), areOnOneHost, std::move(gloo));
}

Group::Group(int rank, int size, Communicator joined, bool areOnOneHost, c10::intrusive_ptr<Base> gloo)
    : Base(rank, size), calls(std::move(joined), areOnOneHost, std::move(gloo)), choices(calls.communicator()),
      agreement(choices.find(agreementShape)) {}

/// Torch may destroy a group while it holds Python's lock. Callbacks of unfinished calls need that lock, and so do the
/// threads of the Gloo group, which free tensors and which its end waits for.
Group::~Group() {
  PyThreadState *released = PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  calls.end();
  if (released)
    PyEval_RestoreThread(released);
}

std::string statistics() { return door().statistics(); }
std::string notice() { return door().notice(); }
bool wantsStatistics() { return door().wantsStatistics(); }

} // namespace kolo::torch_door
