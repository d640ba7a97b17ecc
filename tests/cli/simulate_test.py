"""kolo simulate: what a program costs on a machine, and the timeline that Perfetto opens."""
import json
import unittest

from tool import ToolTest

RING = ["simulate", "ringAllGather", "--machine", "frontier", "--mesh", "rank=8"]
RAIL = ["simulate", "railAllGather", "--machine", "frontier", "--mesh", "node=4,gpu=8", "--bytes", "64M"]


# Of a timeline's events, by phase.
FIELDS = {"M": {"name", "pid", "args"}, "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
          "s": {"name", "cat", "id", "pid", "tid", "ts"}, "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"}}
ROUNDING = 2e-6  # microseconds


class Simulate(ToolTest):
    def simulated(self, *arguments):
        return json.loads(self.succeeds(*arguments, "--json"))

    def test_gives_every_size_with_its_bound_and_breakdown(self):
        report = self.simulated(*RING, "--bytes", "1K,64K,1M")
        self.assertEqual(report["machine"], "frontier")
        self.assertEqual(report["mesh"], "rank=8")
        self.assertEqual(report["collective"], "all_gather")
        self.assertEqual(report["model"], "simulation")
        self.assertEqual([schedule["name"] for schedule in report["schedules"]], ["ringAllGather"])
        sizes = report["schedules"][0]["sizes"]
        self.assertEqual([size["bytes"] for size in sizes], [1 << 10, 1 << 16, 1 << 20])
        for size in sizes:
            self.assertAlmostEqual(size["fractionOfBound"], size["boundSeconds"] / size["seconds"])
            self.assertLessEqual(size["fractionOfBound"], 1)
            self.assertTrue(size["bottleneck"])
            self.assertAlmostEqual(sum(row["seconds"] for row in size["statements"]), size["seconds"])
            self.assertAlmostEqual(sum(row["latencySeconds"] for row in size["statements"]), size["latencySeconds"])
            sent = [row for row in size["statements"] if row["file"].endswith("Blocks.cpp")]
            self.assertEqual([row["executions"] for row in sent], [7])
            self.assertEqual(size["traffic"][0][1], size["bytes"] * 7 / 8)
            for link in size["links"]:
                self.assertGreater(link["bytes"], 0)
                self.assertLessEqual(link["share"], 1 + 1e-9)
        self.assertLess(sizes[0]["seconds"], sizes[2]["seconds"])

    def test_prints_a_table_and_the_breakdown(self):
        said = self.succeeds(*RING, "--bytes", "1M,64M")
        self.assertRegex(said, r"ringAllGather on frontier, rank=8: in simulation, rates: peak\n")
        self.assertRegex(said, r"(?m)^ *67108864 .* %  \w")
        self.assertRegex(said, r"(?m)^ .*  algorithms/Blocks\.cpp:\d+")

    def test_blocks_may_have_counts_of_their_own(self):
        direct = ["simulate", "directAllToAll", "--machine", "frontier", "--mesh", "rank=8", "--bytes", "8M"]
        def size(*arguments):
            return self.simulated(*direct, *arguments)["schedules"][0]["sizes"][0]
        even, toOne = size("--counts", "zipf:0:0"), size("--counts", "onehot:3")
        self.assertEqual((even["seconds"], even["traffic"]), (size()["seconds"], size()["traffic"]))
        self.assertEqual([row[3] for row in toOne["traffic"]], [0 if rank == 3 else 8 << 20 for rank in range(8)])
        self.assertEqual(sum(map(sum, toOne["traffic"])), 7 * (8 << 20))
        self.assertIsNone(toOne.get("boundSeconds"))
        self.write("counts", "1 2 3")
        self.refuses(2, *direct, "--counts", "counts", says="--counts: 3 counts are not the 64 of 8 ranks")
        self.refuses(2, *direct, "--counts", "zipf:x:1", says="'zipf:x:1' is not zipf:EXPONENT:SEED")
        self.refuses(2, "simulate", "bruckAllToAll", *direct[2:], "--counts", "random:1",
                     says=["--counts: the program takes no block tables: moves a chunk to a block", "BruckAllToAll.cpp:"])
        levels = ["simulate", "twoLevelAllToAll", "--machine", "frontier", "--mesh", "node=2,gpu=8", "--bytes", "8M"]
        [[equal], [toOne]] = (self.simulated(*levels, "--counts", law)["schedules"][0]["sizes"] for law in ("zipf:0:0", "onehot:3"))
        [uniform] = self.simulated(*levels)["schedules"][0]["sizes"]
        self.assertEqual((equal["seconds"], equal["traffic"]), (uniform["seconds"], uniform["traffic"]))
        self.assertEqual([row[3] for row in toOne["traffic"]], [0 if rank == 3 else 8 << 20 for rank in range(8)])
        bine = ["simulate", "bineAllGather", "--machine", "frontier", "--bytes", "1K", "--counts", "random:1", "--mesh"]
        self.succeeds(*bine, "rank=2")
        self.refuses(2, *bine, "rank=8", says=["--counts: the program takes no block tables: ", "Blocks.cpp:"])

    def test_compares_several_and_writes_a_file(self):
        said = self.succeeds("simulate", "ringAllGather", "bruckAllGather", "--machine", "ring8", "--mesh", "rank=8",
                             "--bytes", "1M", "--json", "out.json")
        self.assertIn("bruckAllGather on ring8", said)
        with open(self.file("out.json")) as text:
            names = [schedule["name"] for schedule in json.load(text)["schedules"]]
        self.assertEqual(names, ["ringAllGather", "bruckAllGather"])

    def test_schedules_change_the_time(self):
        bulk, packets = (self.simulated(*RING, "--bytes", "1K", "--protocol", protocol)["schedules"][0]
                         for protocol in ("bulk", "ll"))
        self.assertEqual((bulk["schedule"], packets["schedule"]), ({}, {"protocol": "ll"}))
        self.assertLess(packets["sizes"][0]["seconds"], bulk["sizes"][0]["seconds"])

    def test_calls_follow_each_other(self):
        one = self.simulated(*RING, "--bytes", "1M")["schedules"][0]["sizes"][0]
        many = self.simulated(*RING, "--bytes", "1M", "--calls", "5")["schedules"][0]["sizes"][0]
        self.assertGreater(many["seconds"], one["seconds"] / 2)
        self.assertLess(many["seconds"], one["seconds"] * 1.5)

    def timeline(self, *command):
        self.succeeds(*command, "--trace", "trace.json")
        with open(self.file("trace.json")) as text:
            return json.load(text)["traceEvents"]

    def test_writes_a_timeline(self):
        events = self.timeline(*RAIL)
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(len(names), 32)
        self.assertEqual(names[9], "rank 9: node 1, GCD 1")
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in slices}, set(range(32)))
        self.assertTrue(any("RailAllGather.cpp" in event["args"]["statement"] for event in slices))

    def test_timelines_keep_to_the_trace_event_format(self):
        """What importers of Chrome's trace events, such as Perfetto's, need to show every slice and arrow."""
        for command in (RAIL, (*RING, "--bytes", "64K", "--protocol", "ll")):
            events = self.timeline(*command)
            for event in events:
                self.assertLessEqual(FIELDS[event["ph"]], event.keys())
            tracks = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
            processes = {event["pid"] for event in events if event["name"] == "process_name"}
            timed = [event for event in events if event["ph"] != "M"]
            self.assertLessEqual({(event["pid"], event["tid"]) for event in timed}, tracks)
            self.assertEqual({pid for pid, _ in tracks}, processes)
            self.assertEqual([event["ts"] for event in timed], sorted(event["ts"] for event in timed))
            self.assertGreaterEqual(min(event["dur"] for event in timed if event["ph"] == "X"), 0)
            self.check_arrows(timed)

    def check_arrows(self, events):
        """Each starts once and ends once, not before, both in a slice of their track; it ends in a wait."""
        slices = {}
        for event in events:
            if event["ph"] == "X":
                slices.setdefault((event["pid"], event["tid"]), []).append(event)

        def around(arrow):
            return [event for event in slices[arrow["pid"], arrow["tid"]]
                    if event["ts"] - ROUNDING <= arrow["ts"] <= event["ts"] + event["dur"] + ROUNDING]

        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        self.assertEqual(sum(event["ph"] in "sf" for event in events), len(starts) + len(ends))
        self.assertEqual(starts.keys(), ends.keys())
        self.assertTrue(starts)
        for name, start in starts.items():
            end = ends[name]
            self.assertLessEqual(start["ts"], end["ts"])
            self.assertTrue({event["cat"] for event in around(start)} & {"put", "move", "signal"}, start)
            self.assertEqual(end["bp"], "e")  # to the slice around it, not the next one
            self.assertIn("wait", {event["cat"] for event in around(end)}, end)

    def test_refuses_what_makes_no_timeline(self):
        self.refuses(2, *RING, "--trace", "trace.json", says="--trace: shows one program with one number of bytes")
        self.refuses(2, *RING, "--bytes", "1M", "--trace", "no/trace.json", says="--trace")
        self.refuses(2, "simulate", "directAllToAll", "--machine", "frontier", "--mesh", "rank=1024", "--bytes", "1M",
                     "--trace", "trace.json", says="the timeline has more than 1000000 entries")
        self.assertEqual(self.listing(), [])

    def test_refuses_what_it_cannot_simulate(self):
        self.refuses(2, "simulate", "ringAllGather", "--machine", "frontier", "--mesh", "rank=32768", "--bytes", "1M",
                     says="more than the 16384 that can be simulated")
        self.refuses(2, *RING, "--calls", "0", says="--calls")
        self.refuses(2, "simulate", "ringAllGather", "--machine", "frontier", "--mesh", "rank=7", "--bytes", "1M",
                     "--placement", "per-node=4", says="placement")


if __name__ == "__main__":
    unittest.main(verbosity=2)
