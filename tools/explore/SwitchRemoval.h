// Flows from all devices at once, and a graph without switches that has the same ones. Private to tree packing.
#pragma once

#include "compiler/cost/bounds/MaxFlow.h"

#include <cstdint>
#include <optional>

namespace kolo::explore {

using Capacities = std::vector<std::vector<int64_t>>; // [from][to]; devices first

/// If not all of what the devices broadcast, `amount` each, can flow to `device` at the same time: the vertices on
/// their side of the cut that is in the way.
std::optional<std::vector<bool>> findTightCut(const Capacities &capacities, size_t numDevices, int64_t amount,
                                              size_t device);

/// What is missing most at some device.
int64_t shortage(const Capacities &capacities, size_t numDevices, int64_t amount);

/// Replaces ways through switches by direct edges between devices, and keeps the shortage zero, which it must be. As
/// much enters each switch as leaves it. The rows and columns of switches are gone then.
void removeSwitches(Capacities &capacities, size_t numDevices, int64_t amount);

} // namespace kolo::explore
