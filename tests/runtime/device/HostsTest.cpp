// Devices on several hosts, which KOLO_HOSTID makes of processes of one: what kernels send to other hosts takes the
// network.
#include "device/Member.h"

using namespace kolo::test;

namespace {

std::string together(int) { return "host"; }

struct Arrangement {
  const char *name;
  int numRanks;
  HostOf hostOf;
};
const Arrangement arrangements[] = {{"two hosts", 2, alone}, {"two hosts of two", 4, pairs}, {"four hosts", 4, alone}};

std::string onDevices(const Arrangement &ranks, const RankBody &body, int timeoutMs = 10000) {
  (void)devicePlugin();
  return onHosts(ranks.numRanks, ranks.hostOf, {.timeoutMs = timeoutMs}, guardedBody(body));
}

} // namespace

TEST(DeviceHosts, KernelsSendToOtherHostsByTheNetwork) {
  for (const Arrangement &ranks : arrangements)
    for (const char *program : {"networkAllGather", "networkAllReduce"})
      EXPECT_EQ(
          onDevices(ranks, [&](Communicator &host) { return Member(host, {program, 1000, ranks.numRanks}).run(4); }),
          "")
          << program << " on " << ranks.name;
}
