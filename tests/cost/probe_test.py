"""`kolo probe` measures this machine, and --machine host is what it wrote."""

import json
import os
import time
import unittest

from tool import ToolTest


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "this machine has one core")
class Probe(ToolTest):
    def test_measures_and_writes_a_machine(self):
        data = self.file("data")
        text = self.succeeds("probe", "--seconds", "0.1", "--cores", "2", XDG_DATA_HOME=data)
        path = os.path.join(data, "kolo", "host.json")
        self.assertIn(f"written to {path}, which --machine host reads", text)
        with open(path) as file:
            written = json.load(file)
        machine = json.loads(self.succeeds("machine", "host", "--json", XDG_DATA_HOME=data))
        usable = len(os.sched_getaffinity(0))
        self.assertIn(f"2 of {usable} cores", text)
        self.assertIn("1 pairs like core 0 and core 1: a signal takes", text)
        self.assertTrue(written["title"].endswith("2 cores" if usable == 2 else f"2 of {usable} cores"), written["title"])
        self.assertEqual(machine["devicesPerNode"], 2)
        self.assertEqual([(link["from"], link["to"]) for link in machine["links"]], [("core 0", "core 1")])
        self.assertTrue(machine["device"]["sharesMemory"])
        self.assertIn("kolo probe", written["source"])
        lane, writes = machine["device"]["lane"], machine["device"]["memoryWrites"]
        self.assertGreater(writes["bytesPerSecond"], 0)
        rates = [step["bytesPerSecond"] for step in lane["bySize"]] + [lane["bytesPerSecond"]]
        self.assertGreater(len(rates), 8)
        for rate in rates:  # between a slow disk and a fast cache
            self.assertTrue(1e7 < rate < 1e12, rates)
        latency = machine["linkClasses"][0]["latencySeconds"]["bulk"]
        self.assertTrue(1e-9 < latency < 1e-2, latency)

    def test_refuses_before_it_measures(self):
        start = time.monotonic()
        self.refuses(2, "probe", "-o", "nowhere/host.json", says="--output: cannot write nowhere/host.json")
        self.refuses(2, "probe", HOME="", XDG_DATA_HOME="", says="--output is needed")
        self.refuses(2, "probe", "--seconds", "0", says="--seconds")
        self.refuses(2, "probe", "--cores", "1", says="--cores")
        self.refuses(2, "probe", "--json", "-o", "-", says=["--json", "--output -"])
        self.write("file", "")
        self.refuses(2, "probe", XDG_DATA_HOME=self.file("file"), says="cannot make")
        self.assertLess(time.monotonic() - start, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
