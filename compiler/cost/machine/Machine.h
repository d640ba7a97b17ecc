// A machine, as its file describes it (machines/machine.schema.json): nodes that are all alike, and the network between
// them. Everything that costs time is a resource with a bandwidth, or a latency. No MLIR here.
//
// Bandwidths are bytes per second in one direction, times are seconds.
#pragma once

#include "compiler/Schedule.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace kolo::cost {

/// What is wrong with a machine, a placement or a question about them: one line that names the field.
struct CostMistake {
  std::string message;
};

inline constexpr size_t numProtocols = 4;
/// A number for each Protocol of Schedule.h.
using PerProtocol = std::array<double, numProtocols>;
inline double of(const PerProtocol &numbers, Protocol protocol) { return numbers[size_t(protocol)]; }

/// What share of a link's bandwidth moves of data reach.
enum class Rates {
  Peak,   // all of it: the figures of data sheets, and of lower bounds
  Kernel, // what loads and stores of a kernel reach
  Copy    // what copy engines reach
};

/// Bytes per second. A host's caches are faster than its memory: the rate may depend on the working set, which is the
/// bytes of one rank's buffers and scratch memory that a call touches.
struct Bandwidth {
  struct Step {
    int64_t upToBytes; // of the working set, inclusive
    double peak;
  };

  double peak = 0;            // beyond the last step; 0: no limit
  std::vector<Step> bySize{}; // by growing upToBytes

  double at(int64_t workingSetBytes) const {
    for (const Step &step : bySize)
      if (workingSetBytes <= step.upToBytes)
        return step.peak;
    return peak;
  }
  /// The largest for any working set of at least so many bytes.
  double mostFrom(int64_t workingSetBytes) const {
    double most = peak;
    for (const Step &step : bySize)
      if (step.upToBytes >= workingSetBytes)
        most = std::max(most, step.peak);
    return most;
  }
};

/// The working set of one for which nothing is said of its size: it lies in no cache.
inline constexpr int64_t beyondCaches = INT64_MAX;

enum class VertexKind { Device, Switch, Nic };

struct Vertex {
  VertexKind kind;
  std::string name;
  double capacity = 0; // bytes per second through a switch, all directions together; 0: no limit of its own
  int wireClass = -1;  // the link class of a NIC's wire
};

struct LinkClass {
  std::string name;
  Bandwidth bandwidth; // of one link
  double kernelShare = 1, copyShare = 1;
  double messagesPerSecond = 0; // that one such link starts in one direction; 0: no limit
  PerProtocol latency = {};     // of a message that crosses one such link
};

/// Links between two vertices of a node, each of both directions.
struct Link {
  int from, to; // vertices
  int linkClass;
  int count;
};

/// A level of the network: switch, group, global, from the inside out. Its units are alike and hold so many nodes that
/// follow each other; the last unit may hold fewer, and has a whole unit's bandwidth all the same.
struct Level {
  std::string name;
  int64_t nodes = 1;        // of a unit; of the outermost: all nodes
  double bandwidth = 0;     // that leaves a unit, and that enters it; 0: as much as its nodes inject
  PerProtocol latency = {}; // of a message between two nodes whose innermost common unit is of this level
};

/// The memory of a node's host, which a staged network goes through.
struct HostMemory {
  Bandwidth bandwidth;           // bytes read plus bytes written
  int linkClass;                 // of the link between each device and the host
  bool hasNicsOnDevices = false; // NICs reach it by the link of the device that they hang on; else by their own
};

/// Something of a node that flows share. It is one direction of the links between two vertices, of a NIC's wire, or of
/// the way between a device and its host; or a switch, or a memory.
struct Resource {
  enum class Kind { Link, Switch, Memory, Host };
  Kind kind;
  std::string name;       // as reports name it: "GCD 0 -> GCD 1", "NIC 0 -> network", "memory of GCD 0"
  int linkClass = -1;     // of a link or wire
  int from = -1, to = -1; // vertices of a link; -1: the network
  Bandwidth peak;
  double kernelShare = 1, copyShare = 1;
  double secondsPerMessage = 0; // of a link or wire, beside the time of the message's bytes: LogGP's g
  /// 0: no limit.
  double bandwidth(Rates rates, int64_t workingSetBytes = beyondCaches) const {
    return peak.at(workingSetBytes) * (rates == Rates::Peak ? 1 : rates == Rates::Kernel ? kernelShare : copyShare);
  }
};

/// How data goes between two devices of a node, or between a device and the network.
struct Route {
  std::vector<int> resources; // in their order on the way; of resources()
  PerProtocol latency = {};   // sum over the links
  bool crossesNetwork = false;
};

/// A device's own speed: every device of a machine is alike.
struct DeviceSpeed {
  Bandwidth memoryBandwidth; // bytes read plus bytes written; no limit: 0
  Bandwidth memoryWrites;    // bytes written; no limit of their own: 0
  double memoryShare = 1;    // that kernels and copies reach
  bool sharesMemory = false; // the devices of a node have one memory together, as the cores of a host
  Bandwidth laneBandwidth;   // payload that one lane moves; no limit: 0
  Bandwidth laneReduction;   // the same where it reduces: bytes of sources; as the file says, or laneBandwidth
  PerProtocol laneShare = {1, 1, 1, 1}; // of that, for what goes in the packets of a protocol
  std::optional<double> laneSignal;     // seconds between two lanes of a device, if the machine knows
  double launch = 0;                    // seconds from a call to a program's first step
};

/// Immutable once read; copies are cheap enough for tests only.
class Machine {
public:
  /// Reads a machine file: a path (it has a slash or ends with .json), the name of a shipped machine, or `host`, the
  /// machine that `kolo probe` measured. The mistake names the file and the field.
  static std::variant<Machine, CostMistake> read(const std::string &nameOrPath);
  /// The same from the file's text; `file` is what mistakes call it.
  static std::variant<Machine, CostMistake> parse(const std::string &text, const std::string &file);

  /// Names of the shipped machines, sorted. They lie beside the program, in share/kolo/machines.
  static std::vector<std::string> shippedNames();
  /// Where `kolo probe` writes what it measures: kolo/host.json in $XDG_DATA_HOME, by default ~/.local/share. Empty
  /// where neither variable, nor HOME, is set.
  static std::string hostPath();

  const std::string &name() const { return machineName; }
  const std::string &title() const { return machineTitle; }
  int64_t numNodes() const { return nodes; }
  int devicesPerNode() const { return devices; }
  const DeviceSpeed &device() const { return speed; }
  /// Nothing: the file does not say, and the network cannot be staged.
  const std::optional<HostMemory> &hostMemory() const { return host; }
  /// Payload that a protocol carries, as a share of a link's bandwidth: 1 for bulk, about 0.5 for LL. 0: the machine's
  /// devices do not have the protocol.
  double payloadShare(Protocol protocol) const { return of(payload, protocol); }
  /// Why a program with this protocol cannot run here, if so.
  std::optional<CostMistake> refuse(Protocol protocol) const;

  std::span<const Vertex> vertices() const { return nodeVertices; } // devices first, by their number
  std::span<const LinkClass> linkClasses() const { return classes; }
  std::span<const Link> links() const { return nodeLinks; }
  std::span<const Level> levels() const { return networkLevels; } // empty: a machine of one node

  /// Of one node; the same numbers in every node. Memories are among them: see memoryOf.
  std::span<const Resource> resources() const { return nodeResources; }
  int memoryOf(int device) const { return memories[size_t(device)]; }
  /// What is written to it, which has a limit of its own; -1: it has none.
  int writesOf(int device) const { return speed.memoryWrites.peak > 0 ? memoryOf(device) + 1 : -1; }

  /// From one device of a node to another: fewest hops, then the widest narrowest link, then the lowest vertices. To
  /// itself: empty. Memory is not part of routes; who moves data counts it.
  const Route &route(int from, int to) const { return routes.between[size_t(from) * size_t(devices) + size_t(to)]; }
  /// Through the nearest NIC, by hops and then by width as above; with several that are equally near, device d takes
  /// them in turn. The NIC's wire is the last resource, and the first one of the way back. Empty where there is no
  /// network.
  const Route &toNetwork(int device) const { return routes.outward[size_t(device)]; }
  const Route &fromNetwork(int device) const { return routes.inward[size_t(device)]; }

  /// The same machine, with a network that is staged. Data for other nodes is written to memory of the host, which the
  /// NIC reads. What arrives is written there by a NIC, and read by the device. All of that is part of toNetwork and of
  /// fromNetwork, where the host's memory stands twice. The mistake: the file has no node.host.
  std::variant<Machine, CostMistake> staged() const;

  /// Number, in levels(), of the innermost level that has a unit with both nodes in it; they differ.
  size_t commonLevel(int64_t nodeA, int64_t nodeB) const;
  int64_t unitOf(size_t level, int64_t node) const { return node / networkLevels[level].nodes; }
  /// Whether messages take time on some resource, beside that of their bytes.
  bool limitsMessages() const;
  /// Bytes per second that all NICs of a node inject, peak.
  double injection() const;

private:
  friend class MachineReader;
  std::string machineName, machineTitle;
  int64_t nodes = 1;
  int devices = 0;
  DeviceSpeed speed;
  PerProtocol payload = {1, 1, 1, 1};
  std::vector<Vertex> nodeVertices;
  std::vector<LinkClass> classes;
  std::vector<Link> nodeLinks;
  std::vector<Level> networkLevels;
  std::vector<Resource> nodeResources;
  std::vector<int> memories;
  std::optional<HostMemory> host;
  struct Routes {
    std::vector<Route> between; // two devices: [from][to]
    std::vector<Route> outward, inward;
  } routes;
};

} // namespace kolo::cost
