// Announced: what the ranks of this host announce in an exchange, once all have.
#pragma once

#include "peers/HostRounds.h"
#include "peers/Peers.h"

namespace kolo::runtime {

/// What all of them announce, or `differentPlans`.
uint64_t planHere(const Peers &peers, uint64_t exchange);
/// Requires that they announce records, which must outlive the summary.
RecordSummary recordsHere(const Peers &peers, uint64_t exchange);
/// What they publish in an exchange of planOfMeetings.
void addRanksHere(const Peers &peers, uint64_t exchange, CombinedRecords &all);
/// All that other hosts must hear.
HostsAnnounce announcedHere(const Peers &peers, uint64_t exchange);
/// Record::toldSize of any rank of the world, after the exchange of records, if all tell it.
uint64_t sizeHeard(const Peers &peers, uint64_t exchange, int rank);

} // namespace kolo::runtime
