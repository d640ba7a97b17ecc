#include "network/Registrations.h"

#include "base/Error.h"

namespace kolo::runtime {
namespace {

template <class... Args> Check refuse(int sender, fmt::format_string<Args...> format, Args &&...args) {
  std::string reason = fmt::format(format, std::forward<Args>(args)...);
  return {Verdict::Refused, nullptr, rankError(StatusCode::Mismatch, sender, "rank {} {}", sender, reason)};
}

bool hasCellsOfSenders(const Registration &registration) {
  const std::vector<int> &owners = registration.cellOwners;
  const std::vector<bool> &senders = registration.senders;
  return owners.empty() || (std::ranges::all_of(owners, [&](int rank) { return senders[static_cast<size_t>(rank)]; }) &&
                            std::ranges::is_sorted(owners, std::ranges::less_equal()) &&
                            std::ranges::count(senders, true) == static_cast<std::ptrdiff_t>(owners.size()));
}

} // namespace

const Registration *Registrations::find(uint64_t agreement) const {
  auto found = byNumber.find(agreement);
  return found == byNumber.end() ? nullptr : &found->second;
}

/// Whether the sender may write in this agreement.
Check Registrations::place(int sender, uint64_t agreement) const {
  const Registration *registration = find(agreement);
  if (registration && !registration->senders[static_cast<size_t>(sender)])
    return refuse(sender, "writes in agreement {}, in which it has no part", agreement);
  if (registration)
    return {};
  if (agreement > newest && agreement - newest <= maxEarlyAgreements)
    return {Verdict::Early, nullptr, {}};
  return refuse(sender, "writes in agreement {}, which this rank does not have (the newest is {})", agreement, newest);
}

Check Registrations::checkPut(int sender, const RemotePlace &target, uint64_t sizeBytes) const {
  std::scoped_lock lock(mutex);
  Check check = place(sender, target.agreement);
  if (check.verdict != Verdict::Accepted)
    return check;
  const std::vector<Region> &regions = find(target.agreement)->regions;
  if (target.role >= regions.size() || regions[target.role].sizeBytes == 0)
    return refuse(sender, "puts to role {} of agreement {}, which takes no puts", target.role, target.agreement);
  const Region &region = regions[target.role];
  if (target.offsetBytes > region.sizeBytes || sizeBytes > region.sizeBytes - target.offsetBytes)
    return refuse(sender, "puts {} bytes at offset {} to role {} of agreement {}, which has {} bytes", sizeBytes,
                  target.offsetBytes, target.role, target.agreement, region.sizeBytes);
  return {Verdict::Accepted, region.memory + target.offsetBytes, {}};
}

Cell &Registrations::cell(int sender, uint32_t lane, const RemoteSignal &signal) const {
  return find(signal.agreement)->cellOf(sender, lane, signal.semaphore);
}

Check Registrations::judgeSignal(int sender, uint32_t lane, const RemoteSignal &signal) const {
  Check check = place(sender, signal.agreement);
  if (check.verdict != Verdict::Accepted)
    return check;
  const Registration &registration = *find(signal.agreement);
  if (lane >= registration.numLanes || signal.semaphore >= registration.numSemaphores)
    return refuse(sender, "signals semaphore {} of lane {} in agreement {}, which has {} semaphores and {} lanes",
                  signal.semaphore, lane, signal.agreement, registration.numSemaphores, registration.numLanes);
  if (signal.count >= endOfCounts || cell(sender, lane, signal).hasReached(signal.count))
    return refuse(sender, "sets semaphore {} of lane {} in agreement {} to {}, which is not a larger count",
                  signal.semaphore, lane, signal.agreement, signal.count);
  return check;
}

Check Registrations::checkSignal(int sender, uint32_t lane, const RemoteSignal &signal) const {
  std::scoped_lock lock(mutex);
  return judgeSignal(sender, lane, signal);
}

Check Registrations::deliver(int sender, uint32_t lane, const RemoteSignal &signal) {
  std::scoped_lock lock(mutex);
  Check check = judgeSignal(sender, lane, signal);
  if (check.verdict == Verdict::Accepted)
    cell(sender, lane, signal).raise(signal.count);
  if (check.verdict != Verdict::Early)
    return check;
  KeptKey key{signal.agreement, sender, lane, signal.semaphore};
  size_t &numOfSender = numKept[static_cast<size_t>(sender)];
  auto found = kept.find(key);
  if (found == kept.end() && numOfSender == maxKept)
    return check;
  if (found == kept.end())
    ++numOfSender;
  else if (signal.count <= found->second)
    return refuse(sender, "sets semaphore {} of lane {} in agreement {} to {}, which is not a larger count",
                  signal.semaphore, lane, signal.agreement, signal.count);
  kept[key] = signal.count;
  return {};
}

/// Counts what came before the registration, and forgets what was kept for numbers that were never registered.
Status Registrations::countKept(uint64_t agreement) {
  Status first;
  while (!kept.empty() && std::get<0>(kept.begin()->first) <= agreement) {
    auto [key, count] = *kept.begin();
    auto [number, sender, lane, semaphore] = key;
    kept.erase(kept.begin());
    --numKept[static_cast<size_t>(sender)];
    RemoteSignal signal{number, semaphore, count};
    Check check = judgeSignal(sender, lane, signal);
    if (check.verdict == Verdict::Accepted)
      cell(sender, lane, signal).raise(count);
    else if (first.isOk())
      first = check.refusal;
  }
  return first;
}

Status Registrations::add(const Registration &registration) {
  std::scoped_lock lock(mutex);
  if (registration.agreement <= newest)
    return error(StatusCode::InvalidArgument, "agreement {} is registered after agreement {}", registration.agreement,
                 newest);
  if (registration.senders.size() != static_cast<size_t>(numRanks))
    return error(StatusCode::InvalidArgument, "agreement {} names {} possible senders among {} ranks",
                 registration.agreement, registration.senders.size(), numRanks);
  if (!hasCellsOfSenders(registration))
    return error(StatusCode::InvalidArgument, "agreement {} has cells of {} ranks, which are not the possible senders",
                 registration.agreement, registration.cellOwners.size());
  byNumber.emplace(registration.agreement, registration);
  newest = registration.agreement;
  Status status = countKept(newest);
  numAdded.fetch_add(1, std::memory_order_release);
  return status;
}

Status Registrations::renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) {
  std::scoped_lock lock(mutex);
  if (next <= newest || !find(agreement))
    return error(StatusCode::InvalidArgument, "agreement {} is renewed as {}; the newest is {}", agreement, next,
                 newest);
  auto node = byNumber.extract(agreement);
  node.key() = node.mapped().agreement = newest = next;
  node.mapped().regions.assign(regions.begin(), regions.end());
  byNumber.insert(std::move(node));
  numAdded.fetch_add(1, std::memory_order_release);
  return {};
}

void Registrations::remove(uint64_t agreement) {
  std::scoped_lock lock(mutex);
  byNumber.erase(agreement);
}

} // namespace kolo::runtime
