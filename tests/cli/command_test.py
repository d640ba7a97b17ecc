"""kolo itself, list, and inspect: help, version, exit codes, names that do not exist."""
import json
import unittest

from tool import ToolTest

COMMANDS = ["list", "compile", "check", "inspect", "run", "bench"]


class Program(ToolTest):
    def test_help_names_every_command_and_exit_code(self):
        text = self.succeeds("--help")
        for word in [*COMMANDS, "0 success", "1 the", "2 a flag", "3 ranks"]:
            self.assertIn(word, text)

    def test_every_command_has_help(self):
        for command in COMMANDS:
            self.assertIn("--help", self.succeeds(command, "--help"))

    def test_version(self):
        self.assertRegex(self.succeeds("--version"), r"\Akolo \d+\.\d+\.\d+\n\Z")

    def test_no_command(self):
        self.refuses(2, says=["command", *COMMANDS])

    def test_unknown_command(self):
        self.refuses(2, "lst", says=["'lst'", "did you mean list?"])
        self.refuses(2, "transmogrify", says=["'transmogrify'", *COMMANDS])

    def test_unknown_flag(self):
        for command in COMMANDS:
            self.refuses(2, command, "--frobnicate", says="(kolo")

    def test_unexpected_argument(self):
        self.refuses(2, "list", "more", says=["more", "kolo list --help"])


class List(ToolTest):
    def test_shows_name_collective_and_mesh(self):
        lines = self.succeeds("list").splitlines()
        self.assertEqual(lines[0].split(), ["name", "collective", "mesh"])
        self.assertIn(["railAllGather", "all_gather", "node,gpu"], [line.split() for line in lines])

    def test_json_says_the_same(self):
        rows = json.loads(self.succeeds("list", "--json"))
        self.assertEqual([row["name"] for row in rows], [line.split()[0] for line in self.succeeds("list").splitlines()[1:]])
        for row in rows:
            self.assertEqual(sorted(row), ["collective", "mesh", "name"])
        self.assertEqual(len({row["name"] for row in rows}), len(rows))


class Inspect(ToolTest):
    def test_prints_the_manifest(self):
        self.succeeds("compile", "railAllGather", "--mesh", "node=2,gpu=4", "--mesh", "node=3,gpu=2")
        manifest = json.loads(self.succeeds("inspect", "railAllGather.so"))
        self.assertEqual(manifest["target"]["kind"], "cpu")
        [program] = manifest["programs"]
        self.assertEqual((program["name"], program["collective"], program["mesh"], program["meshes"]),
                         ("railAllGather", "all_gather", ["node", "gpu"], [[2, 4], [3, 2]]))
        self.assertEqual((program["proved"], program["unproved"]),
                         ([{"mesh": [2, 4], "on": [2, 4]}, {"mesh": [3, 2], "on": [3, 2]}], False))

    def test_what_is_no_plugin(self):
        self.refuses(2, "inspect", says="plugin")
        self.refuses(2, "inspect", "missing.so", says=["missing.so", "No such file"])
        self.refuses(2, "inspect", self.write("text.so", "hello\n" * 100), says=["text.so", "plugin"])
        self.refuses(2, "inspect", ".", says="not a regular file")


if __name__ == "__main__":
    unittest.main()
