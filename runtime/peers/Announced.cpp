#include "peers/Announced.h"

#include <cstring>

namespace kolo::runtime {

uint64_t planHere(const Peers &peers, uint64_t exchange) {
  const Control &control = peers.control();
  const uint64_t plan = peers.block(peers.rank()).announcementOf(exchange).plan;
  for (int place = 0; place < control.numHere(); ++place)
    if (control.block(place).announcementOf(exchange).plan != plan)
      return differentPlans;
  return plan;
}

RecordSummary recordsHere(const Peers &peers, uint64_t exchange) {
  RecordSummary all;
  for (int rank : peers.hosts().ranksHere()) {
    const RankBlock &block = peers.block(rank);
    all.add(RecordSummary(rank, block.records[exchange % 2], block.numRepeated[exchange % 2]));
  }
  return all;
}

void addRanksHere(const Peers &peers, uint64_t exchange, CombinedRecords &all) {
  for (int rank : peers.hosts().ranksHere())
    all.addRank(rank, peers.block(rank).announcementOf(exchange).published);
}

HostsAnnounce announcedHere(const Peers &peers, uint64_t exchange) {
  HostsAnnounce here;
  here.plan = planHere(peers, exchange);
  for (int rank : peers.hosts().ranksHere()) {
    uint64_t number = peers.block(rank).numRepeated[exchange % 2];
    here.repeats.add({number, number, rank, rank});
  }
  if (here.plan == 0)
    here.records = recordsHere(peers, exchange);
  return here;
}

uint64_t sizeHeard(const Peers &peers, uint64_t exchange, int rank) {
  if (!peers.isRemote(rank))
    return peers.block(rank).records[exchange % 2].toldSize.value_or(0);
  constexpr size_t slotBytes = Control::slotBytesFor(sizeof(uint64_t));
  uint64_t size = 0;
  std::memcpy(&size, peers.control().farInput(rank, exchange, slotBytes).data(), sizeof(size));
  return size;
}

} // namespace kolo::runtime
