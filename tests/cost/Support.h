// What the tests of machines, placements and bounds share.
#pragma once

#include "compiler/cost/bounds/Bounds.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace kolo::cost {

/// A shipped machine, or one of machines/ beside this file. A mistake fails the test.
Machine machineCalled(const std::string &nameOrPath);

/// A machine of one node whose devices have these links: {device, device, gigabytes per second}.
nlohmann::ordered_json machineOf(int devices, const std::vector<std::array<int, 3>> &links);
Machine parsed(const nlohmann::ordered_json &file);

/// All devices of so many nodes: node=N,device=D.
Placement allDevices(const Machine &machine, int64_t nodes, const std::string &text = "");

/// The mistake, or "" if there is none.
std::string mistakeIn(const std::variant<Machine, CostMistake> &result);
std::string mistakeIn(const std::variant<Placement, CostMistake> &result);

} // namespace kolo::cost
