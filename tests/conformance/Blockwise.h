// Algorithms that have blocks, and how long these are in calls with block tables. Shared by the tests of this folder.
#pragma once

#include "Shipped.h"

#include "ir/reference/SimulatedCall.h"

#include <random>

namespace kolo::conformance {

using Counts = std::vector<int64_t>;

enum class Distribution { Equal, Random, Zipf, OneHot, AllZero, OneHuge };
constexpr Distribution allDistributions[] = {Distribution::Equal,  Distribution::Random,  Distribution::Zipf,
                                             Distribution::OneHot, Distribution::AllZero, Distribution::OneHuge};

/// Elements of so many blocks.
Counts drawCounts(Distribution distribution, size_t number, int64_t most, std::mt19937_64 &random);

/// Of the collectives that have blocks.
std::vector<std::string> blockwiseAlgorithmNames();
/// Of those, the ones that move blocks through memory of their own, at places which do not say whose blocks they are.
/// They take no block tables.
bool isRefusing(const std::string &name);
std::vector<std::string> refusingAlgorithmNames();
/// The others.
std::vector<std::string> tabledAlgorithmNames();
std::vector<std::string> packetTabledNames();
std::vector<std::string> publishingTabledNames();

class EveryTabledPacketAlgorithm : public EveryPacketAlgorithm {};
class EveryTabledPublishingAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace kolo::conformance
