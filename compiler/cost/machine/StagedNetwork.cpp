// The ways of a network that is staged in memory of the hosts.
#include "compiler/cost/machine/Machine.h"

namespace kolo::cost {

namespace {

class NetworkStager {
public:
  NetworkStager(const Machine &direct, std::vector<Resource> &resources, const HostMemory &host)
      : machine(direct), resources(resources), host(host) {
    const LinkClass &link = machine.linkClasses()[size_t(host.linkClass)];
    auto add = [&](const std::string &name) {
      Resource way{Resource::Kind::Host, name, -1, -1, -1, link.bandwidth, link.kernelShare, link.copyShare};
      resources.push_back(std::move(way));
    };
    firstWay = resources.size();
    for (int device = 0; device < machine.devicesPerNode(); ++device) {
      const std::string &name = machine.vertices()[size_t(device)].name;
      add(name + " -> host");
      add("host -> " + name);
    }
    memory = int(resources.size());
    resources.push_back({Resource::Kind::Host, "memory of the host", -1, -1, -1, host.bandwidth});
  }

  Route out(int device, const Route &direct) const {
    const int wire = direct.resources.back(), toNic = direct.resources[direct.resources.size() - 2];
    Route route = startWith({wayToHost(device), memory, memory}, direct);
    if (host.hasNicsOnDevices)
      route.resources.push_back(wayFromHost(resources[size_t(toNic)].from));
    route.resources.insert(route.resources.end(), {toNic, wire});
    return route;
  }

  Route in(int device, const Route &direct) const {
    const int wire = direct.resources[0], fromNic = direct.resources[1];
    Route route = startWith({wire, fromNic}, direct);
    if (host.hasNicsOnDevices)
      route.resources.push_back(wayToHost(resources[size_t(fromNic)].to));
    route.resources.insert(route.resources.end(), {memory, memory, wayFromHost(device)});
    return route;
  }

private:
  int wayToHost(int device) const { return int(firstWay) + 2 * device; }
  int wayFromHost(int device) const { return wayToHost(device) + 1; }

  /// The latency of the direct way, and that of the link to the host.
  Route startWith(std::vector<int> first, const Route &direct) const {
    Route route{std::move(first), direct.latency, true};
    const PerProtocol &more = machine.linkClasses()[size_t(host.linkClass)].latency;
    for (size_t protocol = 0; protocol < numProtocols; ++protocol)
      route.latency[protocol] += more[protocol];
    return route;
  }

  const Machine &machine;
  std::vector<Resource> &resources;
  const HostMemory &host;
  size_t firstWay = 0;
  int memory = 0;
};

} // namespace

std::variant<Machine, CostMistake> Machine::staged() const {
  if (!host)
    return CostMistake{"a staged network goes through memory of the hosts, and the file of " + machineName +
                       " has none (node.host)"};
  Machine result = *this;
  NetworkStager stager(*this, result.nodeResources, *host);
  for (int device = 0; device < devices && !networkLevels.empty(); ++device) {
    result.routes.outward[size_t(device)] = stager.out(device, toNetwork(device));
    result.routes.inward[size_t(device)] = stager.in(device, fromNetwork(device));
  }
  return result;
}

} // namespace kolo::cost
