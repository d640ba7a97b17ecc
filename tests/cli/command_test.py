"""kolo itself, list, and inspect: help, version, exit codes, names that do not exist."""
import json
import os
import re
import subprocess
import unittest

from tool import KOLO, ToolTest, proofs

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


    def test_output_that_cannot_be_written(self):
        for words in (["--help"], ["list"], ["doctor"], ["check", "ringAllReduce", "--mesh", "rank=2"],
                      ["run", "ringAllReduce", "--mesh", "rank=2", "--bytes", "1K"]):
            with open(os.devnull) as unwritable:
                done = subprocess.run([KOLO, *words], cwd=self.directory, env=self.environment(), text=True, stdout=unwritable,
                                      stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("kolo: cannot write to standard output", done.stderr)


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
        manifest = json.loads(self.succeeds("inspect", "railAllGather.so", "--json"))
        self.assertEqual(manifest["target"]["kind"], "cpu")
        [program] = manifest["programs"]
        self.assertEqual((program["name"], program["collective"], program["mesh"], program["meshes"]),
                         ("railAllGather", "all_gather", ["node", "gpu"], [[2, 4], [3, 2]]))
        self.assertEqual((proofs(program), program["unproved"]),
                         ([{"mesh": mesh, "on": mesh, "represented": False} for mesh in ([2, 4], [3, 2])], False))

    def test_prints_a_page_for_people(self):
        self.succeeds("compile", "railAllGather", "--mesh", "node=2,gpu=4", "--mesh", "node=512,gpu=8", "--budget", "16K",
                      "--represented", "-o", "x.so")
        lines = self.succeeds("inspect", "x.so").splitlines()
        self.assertRegex(lines[0], r"\Ax\.so: plugin of Kolo \d+\.\d+\.\d+, ABI \d+, for \S+, x86-64-v3\Z")
        self.assertEqual(lines[1:4], ["", "railAllGather: all_gather", "  meshes        node=2,gpu=4: proved, for all sizes of node from 16 on"])
        self.assertRegex(lines[4], r"\A                node=512,gpu=8: represented: node=\d+,gpu=8 was proved in its place\Z")
        facts = dict(re.findall(r"^  (\S+(?: \w+)?) {2,}(\S.*)$", "\n".join(lines[5:]), re.M))
        self.assertRegex(facts["entry"], r"\Atogether: ")
        self.assertEqual(facts["in place"], "the program runs in place")
        self.assertEqual(facts["peers access"], "output")
        self.assertRegex(facts["semaphores"], r"\A\d+ per lane")
        self.assertRegex(facts["waits at"], r"Blocks\.cpp:\d+")
        self.assertNotIn("protocol", facts)
        self.succeeds("compile", "nodeLocalAllGather", "--mesh", "node=2,gpu=4", "--protocol", "ll128", "-o", "x.so")
        page = self.succeeds("inspect", "x.so")
        self.assertIn("\nnodeLocalAllGather: all_gather over gpu\n", page)
        self.assertRegex(page, r"\n  protocol +ll128\n")

    def test_the_page_shows_devices(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "--target", "cpu,cuda:sm_90,hip:gfx90a", "-o", "x.so")
        page = self.succeeds("inspect", "x.so")
        self.assertRegex(page, r"\n  entry +credits: ")
        self.assertRegex(page, r"\n  types +f16, bf16, f32\n  reductions +sum, average\n  accumulate +f32\n")
        self.assertRegex(page, r"\n  cuda:sm_90 +ptx, \d+ bytes\n  hip:gfx90a +hsaco, \d+ bytes\n"
                               r"    ringAllReduce: \d+ vector registers, ")

    def test_the_page_shows_the_selection(self):
        self.succeeds("compile", "--table", "cpu", "-o", "x.so")
        rows = json.loads(self.succeeds("inspect", "x.so", "--json"))["selection"]
        shown = self.succeeds("inspect", "x.so").split("selection, by bytes")[1].splitlines()[2:]
        self.assertEqual([line.split() for line in shown],
                         [[row["collective"], str(row["ranks"]), row["memory"],
                           *(["no", "end"] if row["upToBytes"] is None else [str(row["upToBytes"])]), row["program"]] for row in rows])

    def test_the_page_says_what_is_not_proved(self):
        self.kolo("compile", self.copy("racy.mlir"), "--unproved", "-o", "x.so")
        self.assertIn("rank=4: not proved\n", self.succeeds("inspect", "x.so"))

    def test_one_thing_at_a_time(self):
        self.refuses(2, "inspect", "x.so", "--json", "--extract", "images", says=["--json", "--extract"])

    def test_what_is_no_plugin(self):
        self.refuses(2, "inspect", says="plugin")
        self.refuses(2, "inspect", "missing.so", says=["missing.so", "No such file"])
        self.refuses(2, "inspect", self.write("text.so", "hello\n" * 100), says=["text.so", "plugin"])
        self.refuses(2, "inspect", ".", says="not a regular file")


if __name__ == "__main__":
    unittest.main(verbosity=2)
