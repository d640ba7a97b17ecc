"""--json of every command that has it: what is printed is JSON, and nothing else; what a model says of schedules has one form."""
import json
import os
import re
import unittest

from tool import ToolTest

CORES = {"version": 1, "name": "cores", "title": "Cores", "nodes": 1, "node": {
    "devices": {"name": "core", "count": 2, "memory": {"gigabytesPerSecond": 40, "isShared": True}, "lane": {"gigabytesPerSecond": 20}},
    "links": [{"from": "core 0", "to": "core 1", "class": "pair", "count": 1}]},
    "linkClasses": [{"name": "pair", "gigabytesPerSecond": 20, "latencyMicroseconds": {"bulk": 0.1, "ll": 0.1, "ll128": 0.1}}],
    "payloadShare": {"ll": 0.5, "ll128": 0.9375}}
MODEL = ["--machine", "perlmutter", "--bytes", "1K,1M"]
RING = ["ringAllGather", "--mesh", "rank=32"]
COMMANDS = {
    "list": ["--json"],
    "check": ["ringAllGather", "--mesh", "rank=4", "--json"],
    "inspect": ["x.so", "--json"],
    "bench": ["ringAllGather", "--mesh", "rank=2", "-b", "64", "-e", "1K", "-n", "1", "--json", "-"],
    "machine": ["perlmutter", "--json"],
    "cost": [*RING, *MODEL, "--json"],
    "simulate": [*RING, *MODEL, "--json"],
    "explore": ["all_gather", *MODEL, "--structures", "2", "--nodes", "8", "--json"],
    "codec": ["--json"],
    "probe": ["--seconds", "0.1", "--cores", "2", "-o", "probed.json", "--json"],
    "tune": ["--mesh", "rank=2", "--collective", "broadcast", "--max-bytes", "256", "--seconds-per-cell", "0.01", "--machine",
             "cores.json", "-o", "table.json", "--json"],
}
MODELS = ["cost", "simulate", "explore"]  # of the same sizes
BOUNDS = [1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30]
OF_SCHEDULES = {**dict.fromkeys(MODELS, [1 << 10, 1 << 20]), "machine": BOUNDS, "probe": BOUNDS, "tune": [16, 64, 256]}
if len(os.sched_getaffinity(0)) < 2:  # which kolo probe refuses
    del COMMANDS["probe"], OF_SCHEDULES["probe"]


class Json(ToolTest):
    known = {}

    def printed(self, command):
        """Every command runs once for all tests."""
        if command not in self.known:
            self.write("cores.json", json.dumps(CORES))
            self.known[command] = json.loads(self.succeeds(command, *COMMANDS[command]))
        return self.known[command]

    def test_all_commands_that_have_it_are_here(self):
        every = re.findall(r"^  (\w+)", self.succeeds("--help").split("Subcommands:")[1], re.M)
        self.assertIn("explore", every)
        having = [command for command in every if re.search(r"^  --json\b", self.succeeds(command, "--help"), re.M)]
        self.assertEqual(sorted(having), sorted({*COMMANDS, "probe"}))

    def test_every_command_prints_json_alone(self):
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=2", "-o", "x.so")
        for command in COMMANDS:
            with self.subTest(command):
                self.assertTrue(self.printed(command))

    def test_schedules_have_the_same_fields_for_every_size(self):
        for command, every in OF_SCHEDULES.items():
            with self.subTest(command):
                schedules = self.printed(command)["schedules"]
                self.assertTrue(schedules)
                for schedule in schedules:
                    sizes = [size["bytes"] for size in schedule["sizes"]]
                    if command == "tune":  # not all candidates are measured at all sizes
                        self.assertEqual(sizes, sorted(set(sizes) & set(every)))
                        self.assertTrue(sizes)
                    else:
                        self.assertEqual(sizes, every, schedule["name"])
                    for size in schedule["sizes"]:
                        self.assertGreater(size["seconds"], 0)
                        self.assertGreater(size["boundSeconds"], 0)
                        self.assertAlmostEqual(size["fractionOfBound"], size["boundSeconds"] / size["seconds"])
                        self.assertTrue(size["bottleneck"], schedule["name"])

    def test_the_bound_is_the_same_everywhere(self):
        bounds = {(size["bytes"], size["boundSeconds"]) for command in MODELS for schedule in self.printed(command)["schedules"]
                  for size in schedule["sizes"]}
        self.assertEqual(len(bounds), 2, bounds)

    def test_a_machine_has_a_bound_for_every_collective_and_number_of_nodes(self):
        bounds = self.printed("machine")["schedules"]
        self.assertEqual(len(bounds), len({(bound["collective"], bound["mesh"]) for bound in bounds}))
        self.assertEqual(len({bound["collective"] for bound in bounds}), 10)
        self.assertTrue(all(size["fractionOfBound"] == 1 for bound in bounds for size in bound["sizes"]))

    def test_what_was_tuned_has_one_choice_for_every_size_and_memory(self):
        schedules = self.printed("tune")["schedules"]
        chosen = [(schedule["memory"], size["bytes"]) for schedule in schedules for size in schedule["sizes"] if size["isChosen"]]
        self.assertEqual(sorted(chosen), [(memory, bytes) for memory in ("ordinary", "windows") for bytes in OF_SCHEDULES["tune"]])

    def test_without_a_model_tune_prints_what_it_measured(self):
        command = ["tune", "--mesh", "rank=2", "--collective", "broadcast", "--max-bytes", "64", "--json"]
        for more in (["--seconds-per-cell", "0.01", "-o", "table.json"], ["--seconds", "5"]):
            schedules = json.loads(self.succeeds(*command, *more))["schedules"]
            self.assertTrue(schedules)
            for size in [size for schedule in schedules for size in schedule["sizes"]]:
                self.assertEqual(list(size), ["bytes", "seconds", "isChosen"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
