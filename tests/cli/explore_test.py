"""kolo explore: the best schedules by size, as a table, as JSON, as sources and as plugins."""
import glob
import json
import os
import unittest

from tool import KOLO, ToolTest

SMALL = ["--machine", "frontier", "--structures", "6"]


class Explore(ToolTest):
    def explored(self, collective, *arguments):
        return json.loads(self.succeeds("explore", collective, *SMALL, "--json", "-", *arguments))

    def test_prints_the_best_for_every_size(self):
        said = self.succeeds("explore", "all_gather", *SMALL, "--bytes", "1K,64M", "--runners-up", "1")
        lines = said.splitlines()
        self.assertRegex(lines[0], r"^ +bytes +best us +GB/s +of bound +simulated +shipped us +rings us +best schedule$")
        self.assertRegex(lines[1], r"^ +1K( +[\d.]+%?){6} +\w+.* on \w+=")
        self.assertRegex(lines[2], r"^( +[\d.]+%?){4} +then \w+")
        self.assertRegex(lines[3], r"^ +64M ")
        self.assertRegex(said, r"\d+ candidates: shipped algorithms and 6 of \d+ structures")
        self.assertIn("left out:", said)
        self.assertIn("proved:", said)

    def test_one_device_has_nobody_to_exchange_with(self):
        with open(os.path.join(os.path.dirname(KOLO), "../share/kolo/machines/perlmutter.json")) as file:
            machine = json.load(file)
        node = machine["node"]
        node["devices"]["count"], node["nics"] = 1, node["nics"][:1]
        node["links"] = [link for link in node["links"] if (link["from"], link["to"]) == ("GPU 0", "NIC 0")]
        self.write("small.json", json.dumps(machine))
        self.refuses(2, "explore", "all_reduce", "--machine", "small.json", "--nodes", "1", says="one device on one node")
        said = self.succeeds("explore", "all_reduce", "--machine", "small.json", "--nodes", "2", "--structures", "2", "--bytes", "1K")
        self.assertNotRegex(said, r"\b(inf|nan)\b")
        for model in ("cost", "simulate"):
            said = self.succeeds(model, "ringAllReduce", "twoShotAllReduce", "--machine", "small.json", "--mesh", "rank=1", "--bytes", "1K")
            self.assertNotRegex(said, r"\b(inf|nan)\b")

    def test_writes_json_that_says_all_of_it(self):
        found = self.explored("all_reduce", "--nodes", "2", "--bytes", "1K,1M", "--seed", "5")
        self.assertEqual([found[key] for key in ("machine", "mesh", "collective", "rates")],
                         ["frontier", "node=2,gpu=8", "all_reduce", "peak"])
        self.assertIn("--seed 5", found["command"])
        self.assertEqual([row["bytes"] for row in found["frontier"]], [1024, 1 << 20])
        for row in found["frontier"]:
            times = [ranked["seconds"] for ranked in row["ranked"]]
            self.assertEqual(times, sorted(times))
            self.assertGreaterEqual(times[0], row["boundSeconds"] * 0.999)
            for ranked in row["ranked"]:
                self.assertEqual(found["schedules"][ranked["schedule"]]["name"], ranked["name"])
        for schedule in found["schedules"]:
            lines = schedule["source"].splitlines()
            self.assertIn(f"KOLO_COLLECTIVE({schedule['algorithm']}, AllReduce", schedule["source"])
            for size in schedule["sizes"]:
                self.assertAlmostEqual(size["fractionOfBound"], size["boundSeconds"] / size["seconds"])
                for statement in size["statements"]:
                    if statement["line"]:  # the row of the entry has none
                        self.assertRegex(lines[statement["line"] - 1], r"c\.(send|copy|reduce|inPlace)\(")

    def test_comes_near_the_bound_of_one_frontier_node(self):
        """By a packing of trees; the rings of RCCL reach two thirds."""
        found = json.loads(self.succeeds("explore", "all_gather", "--machine", "frontier", "--bytes", "1G", "--json", "-"))
        row = found["frontier"][0]
        self.assertRegex(row["ranked"][0]["name"], "Trees")
        self.assertGreater(row["boundSeconds"] / row["ranked"][0]["seconds"], 0.95)
        rings = found["schedules"][row["rings"]]["sizes"][0]
        self.assertAlmostEqual(rings["fractionOfBound"], 0.66, delta=0.02)

    def test_limits_scratch_memory_and_lanes(self):
        limits = ["--nodes", "1", "--bytes", "1M", "--runners-up", "4"]
        free = self.explored("all_reduce", *limits)
        limited = self.explored("all_reduce", *limits, "--max-scratch", "0")
        self.assertIn("--max-scratch 0", limited["command"])
        names = [{ranked["name"] for ranked in found["frontier"][0]["ranked"]} for found in (free, limited)]
        self.assertFalse([name for name in names[1] if "slotted" in name.lower() or "-ll" in name], names[1])
        self.assertTrue(names[1])
        self.assertLessEqual(free["frontier"][0]["ranked"][0]["seconds"], limited["frontier"][0]["ranked"][0]["seconds"])
        said = self.succeeds("explore", "all_reduce", *SMALL, *limits, "--max-scratch", "0")
        self.assertIn("takes more scratch memory at every size than is allowed", said)
        for text, message in (("1K,2K", "more than one size"), ("much", "--max-scratch"), ("-1", "--max-scratch")):
            self.refuses(2, "explore", "all_reduce", *SMALL, f"--max-scratch={text}", says=message)
        self.refuses(2, "explore", "all_reduce", *SMALL, "--max-lanes", "4", says="does not say what a lane moves")
        self.refuses(2, "explore", "all_reduce", *SMALL, "--max-lanes", "-1", says="--max-lanes")

    def test_costs_the_shipped_algorithms_alone_where_no_structure_is_asked_for(self):
        found = json.loads(self.succeeds("explore", "all_gather", "--machine", "frontier", "--structures", "0", "--bytes", "1M,64M", "--json", "-"))
        self.assertEqual({schedule["origin"] for schedule in found["schedules"]}, {"shipped", "rings"})
        for row in found["frontier"]:
            self.assertEqual(row["shippedSeconds"], row["ranked"][0]["seconds"])
            self.assertGreater(row["ringsSeconds"], row["boundSeconds"])

    def test_is_below_the_bound_where_few_nodes_are_simulated(self):
        """In nodes, trees are limited by other links on 4 nodes than on 64."""
        for collective in ("all_gather", "reduce_scatter"):
            found = json.loads(self.succeeds("explore", collective, "--machine", "frontier", "--nodes", "64", "--structures", "0",
                                             "--bytes", "256M,1G", "--json", "-"))
            for row in found["frontier"]:
                for ranked in row["ranked"]:
                    self.assertGreaterEqual(ranked["seconds"], row["boundSeconds"] * 0.999)
                self.assertRegex(row["ranked"][0]["name"], "^frontier")

    def test_comes_near_the_bound_of_a_reduction_on_one_frontier_node(self):
        found = json.loads(self.succeeds("explore", "reduce_scatter", "--machine", "frontier", "--bytes", "1G", "--json", "-"))
        row = found["frontier"][0]
        self.assertRegex(row["ranked"][0]["name"], "Trees|frontierReduceScatter") # both are along trees
        self.assertGreater(row["boundSeconds"] / row["ranked"][0]["seconds"], 0.88)

    def test_the_best_on_16_nodes_takes_what_all_of_them_take_in_simulation(self):
        found = json.loads(self.succeeds("explore", "all_to_all", "--machine", "frontier", "--nodes", "16", "--structures", "0",
                                         "--bytes", "4M", "--json", "-"))
        best = found["frontier"][0]["ranked"][0]
        self.assertLess(best["seconds"], 380e-6) # --pipeline 8 takes 435 us, of which 4 nodes say less
        schedule = found["schedules"][best["schedule"]]
        simulated = json.loads(self.succeeds("simulate", schedule["algorithm"], "--machine", "frontier", "--mesh", schedule["mesh"],
                                             "--pipeline", str(schedule["schedule"].get("pipeline", 1)), "--bytes", "4M", "--json", "-"))
        self.assertAlmostEqual(best["seconds"], simulated["schedules"][0]["sizes"][0]["seconds"], delta=1e-6)

    def test_ranks_by_simulation_with_counts_of_blocks(self):
        words = ["all_to_all", "--machine", "frontier", "--structures", "4", "--bytes", "64K,8M", "--counts", "onehot:3"]
        found = json.loads(self.succeeds("explore", *words, "--json", "-"))
        self.assertIn("--counts onehot:3", found["command"])
        self.assertEqual(found["model"], "simulation")
        self.assertRegex("\n".join(found["leftOut"]),
                         r"bruckAllToAll takes no block tables: packets do not say how long the chunks are")
        for row in found["frontier"]:
            self.assertNotIn("boundSeconds", row)
            times = [ranked["seconds"] for ranked in row["ranked"]]
            self.assertEqual(times, sorted(times))
            self.assertTrue(times)
        shipped = 0
        for number, row in enumerate(found["frontier"]):
            for ranked in row["ranked"]:
                schedule = found["schedules"][ranked["schedule"]]
                self.assertAlmostEqual(schedule["sizes"][number]["seconds"], ranked["seconds"])
                if schedule["origin"] != "shipped" or schedule["placement"] or set(schedule["schedule"]) - {"pipeline"}:
                    continue
                shipped += 1
                simulated = json.loads(self.succeeds(
                    "simulate", schedule["algorithm"], "--machine", "frontier", "--mesh", schedule["mesh"], "--counts", "onehot:3",
                    "--pipeline", str(schedule["schedule"].get("pipeline", 1)), "--bytes", str(row["bytes"]), "--json", "-"))
                self.assertAlmostEqual(ranked["seconds"], simulated["schedules"][0]["sizes"][0]["seconds"], delta=1e-9)
        self.assertGreater(shipped, 0)
        said = self.succeeds("explore", *words)
        self.assertRegex(said, r"(?m)^ +8M( +[\d.]+){2} +- ")
        self.assertIn("times: simulated with all ranks, with counts onehot:3\n", said)
        self.assertRegex(said, r"left out: +\d+  bruckAllToAll takes no block tables: ")

    def test_counts_of_blocks_that_cannot_be(self):
        small = ["--machine", "frontier", "--structures", "0", "--bytes", "1K", "--counts"]
        self.refuses(2, "explore", "all_reduce", *small, "random:1", says="--counts: all_reduce has no block for each rank")
        self.refuses(2, "explore", "all_gather", *small, "onehot:8", says="--counts: there is no block 8 among 8")
        self.refuses(2, "explore", "all_gather", *small, "random:x", says="--counts: 'random:x' is not random:SEED")
        self.refuses(2, "explore", "all_gather", *small, "random:1", "--nodes", "17",
                     says="--counts: all ranks are simulated, on at most 16 nodes, not 17")

    def test_leaves_out_what_gives_ranks_different_bits(self):
        found = json.loads(self.succeeds("explore", "all_reduce", "--machine", "frontier", "--structures", "0", "--bytes", "1K",
                                         "--json", "-"))
        self.assertIn("its ranks may get different last bits", json.dumps(found))
        self.assertFalse([ranked for row in found["frontier"] for ranked in row["ranked"] if "oneShot" in ranked["name"]])

    def test_gives_the_same_for_the_same_seed(self):
        first, second = (self.explored("all_to_all", "--nodes", "16", "--bytes", "1M", "--seed", "3", "--threads", threads)
                         for threads in ("1", "2"))
        self.assertEqual(first, second)

    def test_writes_sources_that_are_proved_again(self):
        self.succeeds("explore", "all_gather", "--machine", "frontier", "--bytes", "16M", "--source", "found")
        sources = glob.glob(self.file("found/*.cpp"))
        self.assertTrue(sources)
        for path in sources:
            with open(path) as text:
                head = text.read().split("#include")[0]
            self.assertIn("Found by kolo explore all_gather --machine frontier --nodes 1 --bytes 16M --seed 0", head)
            mesh = head.split("--mesh ")[1].split(",schedule")[0].split(" ")[0].rstrip(",")
            self.assertIn("compiled in", self.succeeds("compile", path, "--mesh", mesh, "-o", "x.so"))

    def test_writes_a_plugin_that_selects_as_its_table_says(self):
        said = self.succeeds("explore", "all_gather", "--machine", "perlmutter", "--nodes", "2", "--structures", "6", "--bytes",
                             "1K,64K,64M", "--runners-up", "0", "--emit", "found")
        self.assertIn("found/all_gather.so\nfound/table.json\n", said)
        with open(self.file("found/table.json")) as text:
            entries = json.load(text)["entries"]
        self.assertTrue(any(entry.get("mesh") == {"node": 2, "gpu": 4} for entry in entries), entries)
        for mesh, of_mesh in (("node=2,gpu=4", lambda entry: "mesh" in entry), ("rank=8", lambda entry: "ranks" in entry)):
            for memory in ("windows", "ordinary"):
                here = [entry for entry in entries if entry["memory"] == memory and of_mesh(entry)]
                self.assertIsNone(here[-1]["upToBytes"])
                for size in (1 << 10, 64 << 10, 1 << 20):
                    entry = next(entry for entry in here if entry["upToBytes"] is None or size <= entry["upToBytes"])
                    program = ".".join([entry["algorithm"], *filter(None, [entry.get("schedule", {}).get("protocol")])])
                    ran = self.succeeds("run", "found/all_gather.so", "--collective", "all_gather", "--mesh", mesh, "--memory", memory,
                                        "--bytes", str(size))
                    self.assertRegex(ran, rf"the plugin selects {program}[.\w]*\n")
                    self.assertIn("every byte is right", ran)

    def test_its_table_says_how_many_lanes_calls_on_devices_have(self):
        """Only a machine says what a lane moves; small calls have few, large ones many, and never more than allowed."""
        words = ["explore", "all_reduce", "--structures", "0", "--bytes", "1K,1M,1G", "--runners-up", "0", "--emit", "found"]
        lanes = {}
        for machine, limit in (("mi300x", []), ("mi300x", ["--max-lanes", "4"]), ("dgx-h100", [])):
            self.succeeds(*words, "--machine", machine, *limit)
            with open(self.file("found/table.json")) as text:
                entries = json.load(text)["entries"]
            [selected] = [json.loads(self.succeeds("inspect", "found/all_reduce.so", "--json"))["selection"]]
            self.assertEqual([entry.get("lanes") for entry in selected], [entry.get("lanes") for entry in entries])
            lanes[machine, *limit] = [entry.get("lanes") for entry in entries if entry["memory"] == "windows"]
        first, *_, last = lanes["mi300x",]
        self.assertLessEqual(first, 4)
        self.assertGreaterEqual(last, 8)
        self.assertLessEqual(last, 24)
        self.assertEqual(lanes["mi300x",], sorted(lanes["mi300x",]))
        self.assertEqual(max(lanes["mi300x", "--max-lanes", "4"]), 4)
        self.assertEqual(set(lanes["dgx-h100",]), {None})

    def test_writes_code_for_the_devices_of_frontier(self):
        """Trees win large sizes; the table knows it, although the closed form alone does not."""
        self.succeeds("explore", "all_gather", "--machine", "frontier", "--bytes", "1K,64M", "--runners-up", "0", "--emit", "found",
                      "--json", "found.json", "--target", "cpu,hip:gfx90a")
        page = self.succeeds("inspect", "found/all_gather.so")
        with open(self.file("found.json")) as text:
            found = json.load(text)
        best = found["schedules"][found["frontier"][-1]["ranked"][0]["schedule"]]["algorithm"]
        with open(self.file("found/table.json")) as text:
            self.assertEqual(json.load(text)["entries"][-1]["algorithm"], best)
        self.assertRegex(page, r"hip:gfx90a +hsaco, \d+ bytes\n    allPairsAllGather.ll: \d+ vector registers")
        self.assertNotIn("ll128", page)

    def test_has_only_flat_algorithms_for_some_collectives(self):
        found = self.explored("gather", "--bytes", "1M")
        self.assertEqual({schedule["origin"] for schedule in found["schedules"]}, {"shipped"})

    def test_refuses_bad_input(self):
        def refuses(*arguments, says):
            self.refuses(2, "explore", *arguments, says=says)
        refuses("all_gathers", *SMALL, says="there is no collective 'all_gathers'")
        refuses("all_gather", "--machine", "nowhere", says=["--machine", "nowhere"])
        refuses("all_gather", *SMALL, "--nodes", "9409", says=["--nodes", "9409", "9408"])
        refuses("all_gather", *SMALL, "--nodes", "0", says=["--nodes", "0"])
        refuses("all_gather", *SMALL, "--bytes", "4K..1K", says=["--bytes", "4K..1K"])
        refuses("all_gather", *SMALL, "--bytes", "x", says=["--bytes", "x"])
        refuses("all_gather", "--machine", "frontier", "--structures", "-1", says="--structures")
        refuses("all_gather", *SMALL, "--target", "riscv", "--emit", "x", says=["--target", "riscv"])
        refuses("all_gather", *SMALL, "--json", "no/such/folder.json", says=["--json", "no/such/folder.json"])
        self.write("file", "")
        refuses("all_gather", *SMALL, "--source", "file", says=["--source", "file is not a folder"])
        refuses("all_gather", *SMALL, "--emit", "file", says=["--emit", "file is not a folder"])
        refuses("all_gather", says="--machine")


if __name__ == "__main__":
    unittest.main(verbosity=2)
