// SimGrid's side of the referee: its fluid network model, without latencies and without corrections for TCP.
#include "tests/cost/Referee.h"

#include <simgrid/s4u.hpp>

namespace kolo::cost::test {

namespace s4u = simgrid::s4u;

/// Hosts that nothing but a flow's own route connects.
static void addFlow(s4u::NetZone &zone, const std::string &name, const RefereeFlow &flow,
                    const std::vector<s4u::Link *> &links) {
  s4u::Host *from = zone.create_host(name + "-from", 1e9)->seal(), *to = zone.create_host(name + "-to", 1e9)->seal();
  std::vector<s4u::LinkInRoute> route;
  for (int link : flow.links)
    route.emplace_back(links[size_t(link)]);
  zone.add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
}

std::vector<std::vector<double>> simgridEnds(const std::vector<RefereeCase> &cases) {
  int count = 1;
  char name[] = "referee";
  char *arguments[] = {name, nullptr};
  s4u::Engine engine(&count, arguments);
  for (const char *setting :
       {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
        "network/TCP-gamma:0", "network/crosstraffic:0", "surf/precision:1e-12", "maxmin/precision:1e-12"})
    s4u::Engine::set_config(setting);
  s4u::NetZone *zone = s4u::create_full_zone("all");
  std::vector<std::vector<double>> ends;
  for (size_t number = 0; number < cases.size(); ++number) {
    const RefereeCase &what = cases[number];
    std::string prefix = "case" + std::to_string(number);
    std::vector<s4u::Link *> links;
    for (size_t link = 0; link < what.bandwidths.size(); ++link)
      links.push_back(
          zone->create_link(prefix + "-link" + std::to_string(link), what.bandwidths[link])->set_latency(0)->seal());
    for (size_t flow = 0; flow < what.flows.size(); ++flow)
      addFlow(*zone, prefix + "-" + std::to_string(flow), what.flows[flow], links);
    ends.emplace_back(what.flows.size());
  }
  zone->seal();
  for (size_t number = 0; number < cases.size(); ++number) {
    std::vector<s4u::ActorPtr> actors;
    for (size_t flow = 0; flow < cases[number].flows.size(); ++flow) {
      std::string host = "case" + std::to_string(number) + "-" + std::to_string(flow);
      s4u::Host *from = engine.host_by_name(host + "-from"), *to = engine.host_by_name(host + "-to");
      const RefereeFlow *what = &cases[number].flows[flow];
      std::vector<s4u::ActorPtr> before;
      for (int other : what->after)
        before.push_back(actors[size_t(other)]);
      double *end = &ends[number][flow];
      actors.push_back(s4u::Actor::create(host, from, [=] {
        for (const s4u::ActorPtr &actor : before)
          actor->join();
        if (what->start > 0)
          s4u::this_actor::sleep_for(what->start);
        s4u::Comm::sendto(from, to, uint64_t(what->bytes));
        *end = s4u::Engine::get_clock();
      }));
    }
  }
  engine.run();
  return ends;
}

} // namespace kolo::cost::test
