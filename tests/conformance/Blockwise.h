// Algorithms that have blocks, and how long these are in calls with block tables. Shared by the tests of this folder.
#pragma once

#include "Shipped.h"

#include "ir/reference/SimulatedCall.h"
#include "tests/support/DrawnCounts.h"
#include "tests/support/TabledAlgorithms.h"

#include <random>

namespace kolo::conformance {

using Counts = test::DrawnCounts;

using test::allDistributions;
using test::Distribution;
using test::drawCounts;

/// Of the collectives that have blocks.
std::vector<std::string> blockwiseAlgorithmNames();
/// Whether such an algorithm takes block tables on any mesh of several ranks. Where ranks forward blocks of others, it
/// depends on the schedule whether they learn in time how long these are.
bool takesTables(const std::string &name, const Schedule &schedule);
std::vector<std::string> packetTabledNames();
std::vector<std::string> publishingTabledNames();

class EveryTabledPacketAlgorithm : public EveryPacketAlgorithm {};
class EveryTabledPublishingAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace kolo::conformance
