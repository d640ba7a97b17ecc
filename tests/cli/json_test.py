"""--json of every command that has it: what is printed is JSON, and nothing else; what a model says of schedules has one form."""
import json
import re
import unittest

from tool import ToolTest

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
}
OF_SCHEDULES = ["cost", "simulate", "explore"]


class Json(ToolTest):
    def printed(self, command):
        return json.loads(self.succeeds(command, *COMMANDS[command]))

    def test_all_commands_that_have_it_are_here(self):
        every = re.findall(r"^  (\w+)", self.succeeds("--help").split("Subcommands:")[1], re.M)
        self.assertIn("explore", every)
        having = [command for command in every if re.search(r"^  --json\b", self.succeeds(command, "--help"), re.M)]
        self.assertEqual(sorted(having), sorted(COMMANDS))

    def test_every_command_prints_json_alone(self):
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=2", "-o", "x.so")
        for command in COMMANDS:
            with self.subTest(command):
                self.assertTrue(self.printed(command))

    def test_schedules_have_the_same_fields_for_every_size(self):
        for command in OF_SCHEDULES:
            with self.subTest(command):
                schedules = self.printed(command)["schedules"]
                self.assertTrue(schedules)
                for schedule in schedules:
                    self.assertEqual([size["bytes"] for size in schedule["sizes"]], [1 << 10, 1 << 20], schedule["name"])
                    for size in schedule["sizes"]:
                        self.assertGreater(size["seconds"], 0)
                        self.assertGreater(size["boundSeconds"], 0)
                        self.assertAlmostEqual(size["fractionOfBound"], size["boundSeconds"] / size["seconds"])
                        self.assertTrue(size["bottleneck"], schedule["name"])

    def test_the_bound_is_the_same_everywhere(self):
        bounds = {(size["bytes"], size["boundSeconds"]) for command in OF_SCHEDULES for schedule in self.printed(command)["schedules"]
                  for size in schedule["sizes"]}
        self.assertEqual(len(bounds), 2, bounds)


if __name__ == "__main__":
    unittest.main()
