// The shipped algorithms that have blocks, and which of them take block tables. Used by the tests of several folders.
#pragma once

#include <string>
#include <vector>

namespace kolo::test {

/// Whether an algorithm is of a collective that has a block for each rank.
bool isBlockwise(const std::string &name);
/// Of those, the ones that move blocks through memory of their own, at places which do not say whose blocks they are.
/// On devices they take no block tables.
std::vector<std::string> forwardingAlgorithmNames();
/// Those of the names that take block tables there.
std::vector<std::string> tabledOnDevices(std::vector<std::string> names);

} // namespace kolo::test
