"""kolo tune: a table is measured, covers every size, and can be packed."""
import json
import re
import unittest

from tool import ToolTest

TUNE = ["tune", "--mesh", "rank=2", "--collective", "all_gather", "--collective", "broadcast", "--max-bytes", "4K",
        "--seconds-per-cell", "0.01", "-o", "table.json"]
KEYS = ["collective", "ranks", "memory", "upToBytes", "algorithm", "schedule"]


class Tune(ToolTest):
    def test_writes_a_table_that_covers_every_size(self):
        said = self.succeeds(*TUNE)
        with open(self.file("table.json")) as text:
            table = json.load(text)
        self.assertEqual(sorted(table["machine"]), ["cores", "kernel", "processor"])
        self.assertRegex(table["date"], r"\A\d{4}-\d\d-\d\d\Z")
        self.assertEqual(table["command"], "kolo " + " ".join(TUNE[:-2]) + " -o table.json")
        groups = {}
        for row in table["entries"]:
            self.assertEqual(list(row), [key for key in KEYS if key in row])
            groups.setdefault((row["collective"], row["ranks"], row["memory"]), []).append(row["upToBytes"])
        self.assertEqual(list(groups), [(collective, 2, memory) for collective in ("all_gather", "broadcast")
                                        for memory in ("windows", "ordinary")])
        for ends in groups.values():
            self.assertIsNone(ends[-1])
            self.assertEqual(ends[:-1], sorted(set(ends[:-1])))
        for title in ("all_gather on rank=2, windows", "broadcast in place on rank=2, ordinary"):
            self.assertIn(title, said)
        self.assertEqual(re.findall(r"^ +(\d+)  \w", said, re.M), ["16", "64", "256", "1024", "4096"] * 4)
        self.assertRegex(said, r"not measured on rank=2: .*ringAllGather\.published.*: protocol published publishes the input")
        self.assertIn("left behind", said)
        [(measured, candidates)] = re.findall(r"^measured (\d+) of (\d+) pairs of a size and a candidate$", said, re.M)
        self.assertEqual(measured, candidates)
        self.succeeds("compile", "--table", "table.json", "-o", "x.so")
        for memory in ("windows", "ordinary"):
            self.succeeds("run", "x.so", "--collective", "broadcast", "--mesh", "rank=2", "--bytes", "64K", "--memory", memory)

    def test_of_algorithms_that_refuse_a_mesh_says_so(self):
        said = self.succeeds("tune", "--mesh", "rank=3", "--collective", "reduce_scatter", "--max-bytes", "64",
                             "--seconds-per-cell", "0.01", "-o", "table.json")
        self.assertRegex(said, r"not measured on rank=3: recursiveHalvingReduceScatter.*: .*power of two")

    def test_refusals_write_nothing(self):
        self.refuses(2, *TUNE[:-1], "missing/table.json", says=["--output", "missing/table.json"])
        self.refuses(2, *TUNE[:-1], "-", says=["--output", "regular"])
        self.refuses(2, *TUNE[:-1], "/dev/null", says=["--output", "regular"])
        self.refuses(2, *TUNE[:-1], ".", says=["--output", "directory"])
        tune = ["tune", "-o", "table.json", "--mesh"]
        self.refuses(2, *tune, "node=2,gpu=2", says=["--mesh", "node=2,gpu=2", "dimension"])
        self.refuses(2, *tune, "gpu=2", says=["--mesh", "gpu=2"])
        self.refuses(2, *tune, "rank=5000", says=["--mesh", "5000"])
        self.refuses(2, *tune, "rank=2", "--collective", "gossip", says=["--collective", "'gossip'"])
        self.refuses(2, *tune, "rank=2", "--max-bytes", "0", says=["--max-bytes", "0"])
        self.refuses(2, *tune, "rank=2", "--mesh", "rank=4", "--max-bytes", "15", says=["--max-bytes", "15", "16"])
        self.refuses(2, *tune, "rank=2", "--seconds-per-cell", "0", says="--seconds-per-cell")
        self.assertEqual(self.listing(), [])


def machine(cores):
    """Cores of one memory, as kolo probe writes them."""
    pairs = [(a, b) for b in range(cores) for a in range(b)]
    latency = {"bulk": 0.1, "ll": 0.1, "ll128": 0.1}
    return json.dumps({"version": 1, "name": "host", "title": "Cores", "nodes": 1, "node": {
        "devices": {"name": "core", "count": cores, "memory": {"gigabytesPerSecond": 40, "isShared": True},
                    "lane": {"gigabytesPerSecond": 20}},
        "links": [{"from": f"core {a}", "to": f"core {b}", "class": "pair", "count": 1} for a, b in pairs]},
        "linkClasses": [{"name": "pair", "gigabytesPerSecond": 20, "latencyMicroseconds": latency}],
        "payloadShare": {"ll": 0.5, "ll128": 0.9375}})


class TuneOnMachine(ToolTest):
    def test_measures_a_third(self):
        self.write("cores.json", machine(3))
        said = self.succeeds("tune", "--machine", "cores.json", "--mesh", "rank=2", "--mesh", "rank=3", "--collective",
                             "all_reduce", "--max-bytes", "1K", "--seconds-per-cell", "0.01", "-o", "table.json")
        self.assertRegex(said, r"not measured on rank=3: oneShotAllReduce, .*: its ranks may get different last bits")
        self.assertNotRegex(said, r"not measured on rank=2: .*oneShotAllReduce")
        [(measured, candidates)] = re.findall(r"^measured (\d+) of (\d+) pairs of a size and a candidate$", said, re.M)
        self.assertGreater(int(measured), 0)
        self.assertLessEqual(3 * int(measured), int(candidates))
        with open(self.file("table.json")) as text:
            self.assertIn("--machine cores.json", json.load(text)["command"])
        self.succeeds("compile", "--table", "table.json", "-o", "x.so")

    def test_refusals_come_first(self):
        self.write("cores.json", machine(2))
        tune = ["tune", "-o", "table.json", "--mesh"]
        self.refuses(2, *tune, "rank=2", "--mesh", "rank=4", "--machine", "cores.json",
                     says=["--machine: host has 2 devices", "rank=4 has 4 ranks"])
        self.refuses(2, *tune, "rank=2", "--machine", "nowhere.json", says=["--machine", "nowhere.json"])
        self.refuses(2, *tune, "rank=2", "--machine", "host", XDG_DATA_HOME=self.file("none"), says=["--machine", "kolo probe"])
        self.assertEqual(self.listing(), ["cores.json"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
