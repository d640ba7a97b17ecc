// The Python module kolo_torch._C.
#include "Group.h"

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

PYBIND11_MODULE(_C, module) {
  namespace door = kolo::torch_door;
  module.doc() = "Process groups whose collectives Kolo runs.";
  module.attr("torch_version") = TORCH_VERSION;
  module.def("create", &door::Group::create, pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
             pybind11::arg("timeout"), pybind11::arg("gloo"), pybind11::call_guard<pybind11::gil_scoped_release>(),
             "Joins the ranks of the store. Blocks. `gloo` takes what Kolo does not carry.");
  module.def("statistics", &door::statistics, "One line: calls carried, and calls forwarded by reason.");
  module.def("notice", &door::notice, "One line for the user about the plugin of `kolo tune`, or nothing.");
  module.def("wants_statistics", &door::wantsStatistics, "Whether KOLO_STATS asks for that line at exit.");
}
