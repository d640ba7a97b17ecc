// A page of --html from JSON on standard input: {"cost", "command", "machine", "timelines"}, as Report.h has them; or
// with the name of a machine.
#include "tools/compile/ToolError.h"
#include "tools/report/Report.h"

#include <iostream>

int main() try {
  nlohmann::ordered_json input = nlohmann::ordered_json::parse(std::cin);
  if (input["machine"].is_string())
    input["machine"] =
        kolo::tools::nodeGraph(std::get<kolo::cost::Machine>(kolo::cost::Machine::read(input["machine"])));
  std::cout << kolo::tools::htmlReport(input.at("cost"), {input.value("command", ""), input["machine"],
                                                          input.value("timelines", nlohmann::ordered_json::array())});
  return std::cout.flush() ? 0 : 3;
} catch (const kolo::tools::ToolError &error) {
  std::cerr << error.what() << "\n";
  return int(error.code());
}
