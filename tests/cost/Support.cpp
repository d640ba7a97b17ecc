#include "Support.h"

#include <fmt/format.h>

namespace kolo::cost {

Machine machineCalled(const std::string &nameOrPath) {
  auto result = Machine::read(nameOrPath);
  EXPECT_EQ(mistakeIn(result), "");
  return std::get<Machine>(std::move(result));
}

nlohmann::ordered_json machineOf(int devices, const std::vector<std::array<int, 3>> &links) {
  nlohmann::ordered_json file = {{"version", 1},
                                 {"name", "test"},
                                 {"title", "a graph of a test"},
                                 {"nodes", 1},
                                 {"node", {{"devices", {{"name", "d"}, {"count", devices}}}}},
                                 {"linkClasses",
                                  {{{"name", "link"},
                                    {"gigabytesPerSecond", 1},
                                    {"latencyMicroseconds", {{"bulk", 3}, {"ll", 1}, {"ll128", 2}}}}}},
                                 {"payloadShare", {{"ll", 0.5}, {"ll128", 0.9375}}}};
  for (auto [from, to, bandwidth] : links)
    file["node"]["links"].push_back({{"from", fmt::format("d {}", from)},
                                     {"to", fmt::format("d {}", to)},
                                     {"class", "link"},
                                     {"count", bandwidth}});
  return file;
}

Machine parsed(const nlohmann::ordered_json &file) {
  auto result = Machine::parse(file.dump(), "test.json");
  EXPECT_EQ(mistakeIn(result), "") << file.dump(1);
  return std::get<Machine>(std::move(result));
}

Placement allDevices(const Machine &machine, int64_t nodes, const std::string &text) {
  auto result = Placement::create(machine, {{"node", "device"}, {nodes, machine.devicesPerNode()}}, text);
  EXPECT_EQ(mistakeIn(result), "");
  return std::get<Placement>(std::move(result));
}

template <class Value> static std::string messageOf(const std::variant<Value, CostMistake> &result) {
  auto *mistake = std::get_if<CostMistake>(&result);
  return mistake ? mistake->message : "";
}
std::string mistakeIn(const std::variant<Machine, CostMistake> &result) { return messageOf(result); }
std::string mistakeIn(const std::variant<Placement, CostMistake> &result) { return messageOf(result); }

} // namespace kolo::cost
