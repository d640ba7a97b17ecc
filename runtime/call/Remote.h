// Remote: what a call needs for ranks on other hosts: which programs may run, and what those ranks may write here.
#pragma once

#include "call/Call.h"
#include "network/Transport.h"

#include <memory>
#include <string>
#include <vector>

namespace kolo::runtime {

class HostLinks;
class Hosts;
class Peers;
struct Plan;
struct Buffers;

/// Number 1 of a transport's agreements holds the cells of channels. The k-th agreement of all ranks uses three
/// numbers: one for the cells of its program's semaphores, if they are new, one for the buffers of the call, and one
/// for the caller's output if it is lent for one call alone: see Repeat.cpp.
inline constexpr uint64_t channelsNumber = 1;
constexpr uint64_t cellsNumber(uint64_t agreement) { return 3 * agreement; }
constexpr uint64_t buffersNumber(uint64_t agreement) { return 3 * agreement + 1; }
constexpr uint64_t lentNumber(uint64_t agreement) { return 3 * agreement + 2; }

/// What other hosts may write while this object lives.
class RemoteAccess {
public:
  RemoteAccess(Transport &transport, uint64_t agreementNumber) : owner(transport), number(agreementNumber) {}
  ~RemoteAccess() { owner.release(number); }
  RemoteAccess(const RemoteAccess &) = delete;
  RemoteAccess &operator=(const RemoteAccess &) = delete;
  void setNumber(uint64_t newNumber) { number = newNumber; }

private:
  Transport &owner;
  uint64_t number;
};

/// The same for a window, which may outlive the communicator.
class WindowAccess {
public:
  WindowAccess(std::weak_ptr<HostLinks> hostLinks, uint64_t agreementNumber)
      : links(std::move(hostLinks)), number(agreementNumber) {}
  ~WindowAccess();
  WindowAccess(const WindowAccess &) = delete;
  WindowAccess &operator=(const WindowAccess &) = delete;

private:
  std::weak_ptr<HostLinks> links;
  uint64_t number;
};

/// Whether the program may run where the ranks are; the same on all ranks. UnsupportedMesh: says how to compile it.
/// `otherFlags`: what the compiler needs beside --network.
Status checkHosts(const Call &call, const Hosts &hosts, const char *otherFlags = "");
/// The names of these dimensions, as --network takes them.
std::string namesOf(const std::vector<int> &dims, const Call &call);

/// Lets the ranks of other hosts write what the plan of this agreement says. `lendsOutput`: its output under a number
/// of its own. InvalidArgument, Mismatch.
Status registerPlan(Plan &plan, uint64_t agreement, bool lendsOutput, Peers &peers);
/// Lends the plan's output, as it is now, to the call of this agreement; nobody may put to the one lent before.
/// Requires that registerPlan lent it. InvalidArgument.
Status lendAgain(Plan &plan, uint64_t agreement, Peers &peers);
/// The same for a window. InvalidArgument, Mismatch.
Status registerWindow(const Region &window, uint64_t agreement, Peers &peers);
/// In a world of so many ranks at most, ranks that exchange windows are all connected: a Channel writes at any time,
/// also while its peer is in no call. In a larger one no rank could, so a Channel connects when it first writes.
inline constexpr int mostRanksConnected = 4096;
/// Connects this rank to all ranks of other hosts, which do the same. Timeout, PeerLost, Aborted: the communicator is
/// aborted.
Status connectRanks(Peers &peers);
/// Lets them signal this rank's channels. Called once, before all others. InvalidArgument, Mismatch.
Status registerChannels(Peers &peers);

} // namespace kolo::runtime
