"""kolo compile: what it makes, what it refuses, and that a refusal writes nothing."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from tool import KOLO, ToolTest, proofs


class Output(ToolTest):
    def test_default_name(self):
        self.assertRegex(self.succeeds("compile", "ringAllGather", "--mesh", "rank=4"),
                         r"\AringAllGather\.so: compiled in \d+ ms\n\Z")
        self.succeeds("compile", self.copy("two.cpp"), "--mesh", "rank=4")
        self.succeeds("compile", self.copy("channel.mlir"))
        self.assertEqual(self.listing(), ["channel.mlir", "channel.so", "ringAllGather.so", "two.cpp", "two.so"])

    def test_the_table_of_frontier_has_an_entry_for_every_mesh_and_size(self):
        """All of it is compiled by `ctest -L heavy`; here, what is for one node."""
        with open(os.path.join(os.path.dirname(KOLO), "../share/kolo/tables/frontier.json")) as file:
            table = json.load(file)
        for collective in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
            for nodes in (1, 16, 128, 9408):
                for memory in ("windows", "ordinary"):
                    ends = [entry["upToBytes"] for entry in table["entries"] if (entry["collective"], entry["memory"], entry["mesh"])
                            == (collective, memory, {"node": nodes, "gpu": 8})]
                    self.assertEqual(ends[-1:], [None], (collective, nodes))
        table["entries"] = [entry for entry in table["entries"] if entry["mesh"]["node"] == 1 and entry["collective"] == "all_gather"]
        self.write("node.json", json.dumps(table))
        self.succeeds("compile", "--table", "node.json", "-o", "x.so")
        said = self.succeeds("run", "x.so", "--collective", "all_gather", "--mesh", "node=1,gpu=8", "--bytes", "4M")
        self.assertIn("the plugin selects frontierAllGather", said)
        self.assertIn("every byte is right", said)

    def test_which_programs_take_counts_for_each_block_is_said(self):
        def takes(*arguments):
            self.succeeds("compile", *arguments, "-o", "tabled.so")
            [program] = json.loads(self.succeeds("inspect", "tabled.so", "--json"))["programs"]
            reasons.extend(proof.get("whyNoBlockTables", "") for proof in program["proved"])
            return [proof.get("blockTables", False) for proof in program["proved"]]
        reasons = []
        self.assertEqual(takes("ringAllGather", "--mesh", "rank=4", "--mesh", "rank=6"), [True, True])
        self.assertEqual(takes("bineAllGather", "--mesh", "rank=2", "--mesh", "rank=8"), [True, False])
        self.assertEqual(takes("bruckAllToAll", "--mesh", "rank=8"), [False])
        self.assertRegex(reasons.pop(), r"^moves a chunk to a block of another length: .*BruckAllToAll\.cpp:\d+$")
        self.assertEqual([bool(reason) for reason in reasons], [False, False, False, True])
        self.assertEqual(takes("twoLevelAllToAll", "--mesh", "node=2,gpu=2"), [True])
        self.assertEqual(takes("twoLevelAllToAll", "--mesh", "node=2,gpu=2", "--protocol", "ll"), [False])
        self.assertRegex(reasons.pop(), r"^packets do not say how long .*TwoLevelAllToAll\.cpp:\d+$")
        self.assertEqual(takes("ringAllReduce", "--mesh", "rank=4"), [False])
        self.assertEqual(reasons.pop(), "")
        self.assertEqual(takes("railAllGather", "--mesh", "node=512,gpu=8", "--budget", "16K", "--represented"), [False])

    def test_a_mesh_that_is_proved_on_a_smaller_one_is_said_to_be(self):
        compile_ = ["compile", "railAllGather", "--mesh", "node=2,gpu=4", "--mesh", "node=512,gpu=8", "-o", "x.so"]
        self.assertEqual(self.succeeds(*compile_).splitlines()[1:], [], "both are proved themselves")
        found_proofs = proofs(json.loads(self.succeeds("inspect", "x.so", "--json"))["programs"][0])
        self.assertEqual(found_proofs, [{"mesh": mesh, "on": mesh, "represented": False} for mesh in ([2, 4], [512, 8])])
        said = self.refuses(1, *compile_, "--budget", "16K", says=["mesh node=512,gpu=8 cannot be checked", "--budget"])
        self.assertIn("or --represented, by which a smaller mesh stands for it", said)
        [line] = self.succeeds(*compile_, "--budget", "16K", "--represented").splitlines()[1:]
        found = re.fullmatch(r"railAllGather: node=512,gpu=8 is represented: node=(\d+),gpu=8 was proved in its place", line)
        self.assertTrue(found, line)
        found_proofs = proofs(json.loads(self.succeeds("inspect", "x.so", "--json"))["programs"][0])
        self.assertEqual(found_proofs, [{"mesh": [2, 4], "on": [2, 4], "represented": False},
                                        {"mesh": [512, 8], "on": [int(found[1]), 8], "represented": True}])
        [line] = self.succeeds(*compile_, "--budget", "32K", "--represented").splitlines()[1:]
        self.assertNotEqual(line, found[0], "more room, a larger mesh")

    def test_a_whole_machine_is_proved_itself(self):
        for algorithm in ("hierarchicalAllReduce", "railAllGather"):
            said = self.succeeds("compile", algorithm, "--mesh", "node=9408,gpu=8", "-o", "x.so")
            self.assertEqual(said.splitlines()[1:], [], "nothing represents it")
            found_proofs = proofs(json.loads(self.succeeds("inspect", "x.so", "--json"))["programs"][0])
            self.assertEqual(found_proofs, [{"mesh": [9408, 8], "on": [9408, 8], "represented": False}])

    def test_a_mesh_given_twice_counts_once(self):
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=4", "--mesh", "rank=3", "--mesh", "rank=4", "-o", "x.so")
        self.assertEqual(json.loads(self.succeeds("inspect", "x.so", "--json"))["programs"][0]["meshes"], [[4], [3]])

    def test_the_same_bytes_twice(self):
        for name in ("a.so", "b.so"):
            self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", name)
        with open(self.file("a.so"), "rb") as a, open(self.file("b.so"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_kernels_for_two_kinds_of_processors(self):
        self.succeeds("compile", "oneShotAllReduce", "--mesh", "rank=4", "-o", "x.so")
        objdump = os.path.join(os.environ["LLVM_TOOLS"], "llvm-objdump")
        for cpu, register, other in (("x86-64-v3", "%ymm", "%zmm"), ("x86-64-v4", "%zmm", None)):
            text = subprocess.run([objdump, "-d", f"--disassemble-symbols={cpu}.sum.f32", self.file("x.so")],
                                  capture_output=True, text=True, check=True).stdout
            self.assertRegex(text, rf"vaddps.*{register}")
            self.assertRegex(text, rf"vmovntps\s+{register}", "outputs that do not fit use non-temporal stores")
            self.assertIn("sfence", text)
            self.assertNotIn("%rsp", text, "nothing is spilled")
            if other:
                self.assertNotIn(other, text, "a host without AVX-512 runs this")

    def test_conversions_for_two_kinds_of_processors(self):
        self.succeeds("compile", "quantisedRingAllReduce", "--mesh", "rank=4", "-o", "x.so")
        objdump = os.path.join(os.environ["LLVM_TOOLS"], "llvm-objdump")
        codec = "i8 per 256 scale f32 fit"
        for symbol, has in ((f"kolo.encode.{codec}.x86-64-v3", False), (f"kolo.decode.{codec}.x86-64-v3", False),
                            (f"kolo.encode.{codec}.x86-64-v4", True), (f"kolo.decode.{codec}.x86-64-v4", True),
                            ("kolo.convert", False), ("kolo.convertPut", False), ("kolo.convertGet", False)):
            text = subprocess.run([objdump, "-d", f"--disassemble-symbols={symbol}", self.file("x.so")],
                                  capture_output=True, text=True, check=True).stdout
            self.assertIn("retq", text, symbol)
            self.assertEqual("%zmm" in text, has, f"{symbol}: a host without AVX-512 runs what has no v4 in its name")

    def test_code_for_one_kind_of_processor(self):
        objdump = os.path.join(os.environ["LLVM_TOOLS"], "llvm-objdump")
        for cpu, has in (("x86-64-v3", False), ("x86-64-v4", True)):
            self.succeeds("compile", "quantisedRingAllReduce", "--mesh", "rank=4", "--target", "cpu:" + cpu, "-o", "x.so")
            text = subprocess.run([objdump, "-d", self.file("x.so")], capture_output=True, text=True, check=True).stdout
            self.assertEqual("%zmm" in text, has)
            self.assertEqual(json.loads(self.succeeds("inspect", "x.so", "--json"))["target"]["cpu"], cpu)
        for target, reason in (("cpu:x86-64-v5", "--target: 'cpu:x86-64-v5' is none of cpu, cpu:x86-64-v3 (AVX2), cpu:x86-64-v4 (AVX-512)"),
                               ("cpu:", "--target: 'cpu:' is none of cpu, "), ("cpu,cpu:x86-64-v3", "cpu:x86-64-v3 is there twice")):
            self.refuses(2, "compile", "ringAllReduce", "--mesh", "rank=4", "--target", target, "-o", "y.so", says=[reason])

    def test_earlier_names_of_protocols_mean_the_same(self):
        for earlier, current in (("slots", "published"), ("packets", "ll"), ("lines", "ll128")):
            plugins = []
            for protocol in (earlier, current):
                self.succeeds("compile", "twoShotAllReduce", "--mesh", "rank=4", "--protocol", protocol, "-o", "x.so")
                with open(self.file("x.so"), "rb") as plugin:
                    plugins.append(plugin.read())
            self.assertEqual(*plugins)
        self.assertNotIn("packets", re.search(r"--protocol.*", self.succeeds("compile", "--help"))[0])

    def test_packets_are_written_by_their_senders(self):
        for flags in (["--transfers", "pull"], ["--pipeline", "2"]):
            for protocol in ("ll", "ll128"):
                self.refuses(2, "compile", "ringAllReduce", "--mesh", "rank=4", "--protocol", protocol, *flags, "-o", "x.so",
                             says=f"protocol {protocol}: everything is written by its sender")
        found = self.mistakes("compile", "twoSlotRingAllReduce", "--mesh", "rank=4", "--protocol", "ll", "-o", "x.so")
        self.assertIn("protocol ll: this sends to slots that hold something of the same call", found[0][2])
        self.refuses(2, "compile", "ringAllReduce", "--mesh", "rank=4", "--target", "cpu,hip:gfx90a", "--protocol", "ll128", "-o",
                     "x.so", says="protocol ll128 is for hosts and CUDA devices")
        self.assertEqual(self.listing(), [])

    def test_path_that_cannot_be_written(self):
        for path in ("missing/x.so", ".", "/dev/null", "-"):
            self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=4", "-o", path, says=f"cannot write {path}: ")

    def test_existing_output_survives_a_failure(self):
        self.write("x.so", "precious")
        self.mistakes("compile", self.copy("mistakes.cpp"), "--mesh", "node=2,gpu=2", "-o", "x.so")
        with open(self.file("x.so")) as old:
            self.assertEqual(old.read(), "precious")

    def test_instrumented_code_says_so_and_runs_only_under_its_sanitizer(self):
        for optimization in ([], ["--no-optimization"]):
            self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "--sanitize", "thread", "-o", "x.so", *optimization)
            self.assertEqual(json.loads(self.succeeds("inspect", "x.so", "--json"))["sanitize"], "thread")
            self.refuses(2, "run", "x.so", "--mesh", "rank=4", says=["x.so", "thread sanitizer"])
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", "x.so")
        self.assertNotIn("sanitize", json.loads(self.succeeds("inspect", "x.so", "--json")))
        self.refuses(2, "compile", "ringAllReduce", "--mesh", "rank=4", "--sanitize", "memory", says=["--sanitize", "memory"])

    def test_required_passes_only(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "--no-optimization", "-o", "plain.so")
        self.succeeds("run", "plain.so", "--mesh", "rank=4", "--bytes", "64K")


class Sources(ToolTest):
    def test_a_file_of_two_programs(self):
        self.succeeds("compile", self.copy("two.cpp"), "--mesh", "rank=4", "--target", "cpu")
        for program in ("direct", "ring"):
            self.succeeds("run", "two.so", "--program", program, "--mesh", "rank=4", "--bytes", "1K")
        self.refuses(2, "run", "two.so", "--mesh", "rank=4", says=["--program", "direct, ring"])
        self.refuses(2, "run", "two.so", "--program", "x", "--mesh", "rank=4", says=["'x'", "direct, ring"])

    def test_one_program_of_a_file(self):
        self.succeeds("compile", self.copy("two.cpp"), "--mesh", "rank=4", "--program", "ring")
        self.succeeds("run", "two.so", "--mesh", "rank=4", "--bytes", "1K")
        self.refuses(2, "compile", "two.cpp", "--mesh", "rank=4", "--program", "x", says=["'x'", "direct, ring"])

    def test_both_phases_of_ir(self):
        for name, mesh in (("choreography", "rank=8"), ("channel", "rank=4")):
            self.succeeds("compile", self.copy(name + ".mlir"), "-o", name + ".so")
            for lanes in ("1", "3"):
                self.succeeds("run", name + ".so", "--mesh", mesh, "--bytes", "64K", "--lanes", lanes)
        self.refuses(2, "compile", "channel.mlir", "--mesh", "rank=4", says=["--mesh", "channel.mlir"])
        self.refuses(2, "compile", "channel.mlir", "--program", "ring", says="--program")

    def test_names_that_look_like_options(self):
        for name in ("-two.cpp", "two words.cpp", "@two.cpp"):
            shutil.copy(self.file(self.copy("two.cpp")), self.file(name))
        for name in ("-two.cpp", "two words.cpp"):
            self.succeeds("compile", "--mesh", "rank=4", "-o", "x.so", "--", name)
        for name in ("@two.cpp", self.file("@two.cpp")):
            self.refuses(2, "compile", "--mesh", "rank=4", "-o", "x.so", name, says=[f"{name}: ", "rename it"])
        self.write("bad\x1b[2J.cpp", "")
        self.refuses(2, "compile", "--mesh", "rank=4", "-o", "x.so", "bad\x1b[2J.cpp", says="bad\\u001b[2J.cpp")

    def test_compilers_named_by_the_environment(self):
        self.copy("two.cpp")
        for compiler in ("g++", "clang++-22", "g++ -Wall"):
            if shutil.which(compiler.split()[0]):
                self.succeeds("compile", "two.cpp", "--mesh", "rank=4", CXX=compiler)
        self.refuses(2, "compile", "two.cpp", "--mesh", "rank=4", CXX="no-such-compiler", says=["no-such-compiler", "CXX"])

    def test_no_place_for_temporary_files(self):
        for what in (self.copy("two.cpp"), "ringAllGather"):
            self.refuses(2, "compile", what, "--mesh", "rank=4", TMPDIR="/nonexistent", says="temporary file")
            self.assertNotIn("two.so", self.listing())

    def test_a_temporary_folder_that_looks_like_an_option(self):
        os.mkdir(self.file("-d"))
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=2", "-o", "x.so", TMPDIR="-d")
        self.assertEqual(os.listdir(self.file("-d")), [])

    def test_names_with_control_characters(self):
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=2", "--emit", "choreography", "-o", "ring.mlir")
        with open(self.file("ring.mlir")) as file:
            text = file.read()
        self.assertIn("@ringAllGather ", text)
        self.write("name.mlir", text.replace("@ringAllGather ", '@"evil\\1B[2J" '))
        self.write("dim.mlir", text.replace('["rank"]', '["ra\\1B[2Jnk"]'))
        for name in ("name", "dim"):
            self.refuses(1, "compile", f"{name}.mlir", "-o", "x.so", says="a name has control characters: ")
        self.write("table.json", '{"entries": [{"collective": "all_reduce", "program": "evil\\u001b[2J"}]}')
        self.refuses(2, "compile", "--table", "table.json", "-o", "x.so")
        self.write("machine.json", '{"evil\\u001b[2J": 1}')
        self.refuses(2, "cost", "ringAllGather", "--mesh", "rank=2", "--machine", "./machine.json", says="evil\\u001b[2J")
        self.assertNotIn("x.so", self.listing())


    def test_a_statement_of_a_building_block_is_one_whoever_calls_it(self):
        self.write("user.cpp", """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
static void step(Choreography &c, const Index &i, Location caller = Location::current()) {
  CalledFrom scope(c, caller);
  c.send(c.output()[c.rank()[c.dim("rank")] - i]).to(c.rank().next(c.dim("rank")));
}
KOLO_COLLECTIVE(user, AllGather, Mesh("rank")) {
  c.copy(c.input(), c.output()[c.rank()]);
  step(c, 0);
  step(c, 1);
}
""")
        self.succeeds("compile", "user.cpp", "--mesh", "rank=3")
        [program] = json.loads(self.succeeds("inspect", "user.so", "--json"))["programs"]
        self.assertEqual([(statement["file"], statement["line"]) for statement in program["statements"]], [("user.cpp", 5)])


class Temporaries(ToolTest):
    """Code that will be loaded is written where nobody else can reach it."""

    # Tells what others may do with the folder of the output, before and after the real compiler has run; and waits.
    WRAPPER = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -o) output=$2;; esac; words="$words '$1'"; shift; done
folder=$(dirname "$output")
stat -c %a "$folder" "$TMPDIR" >> "$SEEN"
sleep "${WAIT:-0}"
eval exec c++ $words
"""

    def wrapper(self):
        self.write("wrapper", self.WRAPPER)
        os.chmod(self.file("wrapper"), 0o755)
        return {"CXX": self.file("wrapper"), "SEEN": self.file("seen")}

    def test_others_cannot_reach_code_that_is_loaded(self):
        variables, old = self.wrapper(), os.umask(0)
        try:
            self.succeeds("compile", self.copy("two.cpp"), "--mesh", "rank=4", "-o", "x.so", **variables)
        finally:
            os.umask(old)
        with open(self.file("seen")) as file:
            self.assertEqual(set(file.read().split()), {"700"})
        self.assertEqual(oct(os.stat(self.file("x.so")).st_mode & 0o777), "0o644")

    def test_what_a_killed_process_leaves_is_removed_by_the_next_one(self):
        variables = self.wrapper()
        self.copy("two.cpp")
        os.mkdir(os.path.join(self.temporary, "kolo-others"))  # no folder of Kolo's
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            for seconds in (0.03, 0.15, 0.3):
                before = set(os.listdir(self.temporary))
                process = self.start("compile", "two.cpp", "--mesh", "rank=4", "-o", "y.so", start_new_session=True, WAIT="0.1",
                                     **variables)
                time.sleep(seconds)
                end = time.monotonic() + 20
                while number == signal.SIGKILL and not set(os.listdir(self.temporary)) - before and time.monotonic() < end:
                    time.sleep(0.001)
                os.killpg(process.pid, number)
                process.communicate()
                if number != signal.SIGKILL:
                    self.assertEqual(os.listdir(self.temporary), ["kolo-others"])
        self.assertGreater(len(os.listdir(self.temporary)), 1, "a killed process left nothing: nothing was tested")
        running = self.start("compile", "two.cpp", "--mesh", "rank=4", "-o", "z.so", WAIT="1", **variables)
        time.sleep(0.3)
        self.succeeds("compile", "ringAllGather", "--mesh", "rank=2", "-o", "x.so")
        self.assertEqual(len(os.listdir(self.temporary)), 2, "one folder is in use")
        self.assertEqual((running.communicate()[1], running.returncode), ("", 0))
        os.rmdir(os.path.join(self.temporary, "kolo-others"))

    def test_a_new_file_has_no_name_until_it_is_whole(self):
        """A kill before the file gets its name would leave another one for ever."""
        self.write("killed.c", r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
int rename(const char *from, const char *to) {
  return strstr(to, "/kolo-temporary-") ? renameat(AT_FDCWD, from, AT_FDCWD, to) : raise(SIGKILL);
}
""")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.file("killed.so"), self.file("killed.c")], check=True)
        if self.kolo("--version", LD_PRELOAD=self.file("killed.so")).code != 0:
            self.skipTest("a sanitizer must be loaded first")
        before = self.listing()
        for file, words in (("x.so", ["compile", "ringAllGather", "--mesh", "rank=2", "-o", "x.so"]),
                            ("x.mlir", ["compile", "ringAllGather", "--mesh", "rank=2", "--emit", "channel", "-o", "x.mlir"])):
            self.succeeds(*words, LD_PRELOAD=self.file("killed.so"))
            before = sorted([*before, file])
            self.assertEqual(sorted(self.listing()), before)


class Refusals(ToolTest):
    def test_unknown_algorithm_gives_the_nearest(self):
        self.refuses(2, "compile", "ringAllGathr", "--mesh", "rank=4", says=["'ringAllGathr'", "did you mean ringAllGather?"])
        self.refuses(2, "compile", "RINGALLREDUCE", "--mesh", "rank=4", says="did you mean ringAllReduce?")
        self.assertNotIn("did you mean", self.refuses(2, "compile", "zzz", "--mesh", "rank=4", says="'zzz'"))

    def test_files_that_are_not_there(self):
        self.refuses(2, "compile", says="algorithm")
        for name in ("missing.cpp", "missing.mlir"):
            mesh = ["--mesh", "rank=4"] if name.endswith(".cpp") else []
            self.refuses(2, "compile", name, *mesh, says=["no file", name])
        self.refuses(2, "compile", "a.txt", "--mesh", "rank=4", says=["a.txt", ".cpp", ".mlir"])

    def test_texts_that_are_no_mesh(self):
        for mesh, says in [("rank", "'rank'"), ("rank=", "''"), ("rank=0", "size 0"), ("rank=-3", "size -3"), ("", "''"),
                           ("rank=4,", "''"), ("rank=x", "'x'"), ("rank=4;", "'4;'"), ("rank=4,rank=2", "twice"),
                           ("=4", "no name"), ("rank=99999999999999999999", "99999999999999999999"),
                           ("a=1,b=1,c=1,d=1,e=1", "at most 4")]:
            self.refuses(2, "compile", "ringAllGather", "--mesh", mesh, says=["--mesh", says, "node=2,gpu=4"])
        self.refuses(2, "compile", "ringAllGather", says="--mesh node=2,gpu=4")

    def test_meshes_that_do_not_fit(self):
        self.refuses(2, "compile", "ringAllGather", "--mesh", "node=4", says=["rank=N", "node=4"])
        self.refuses(2, "compile", "railAllGather", "--mesh", "gpu=2,node=4", says=["node=N,gpu=N", "gpu=2,node=4"])
        self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=2000000000", says=["2000000000", "1048576"])
        self.refuses(2, "compile", "railAllGather", "--mesh", "node=524288,gpu=4", says=["'gpu'", "1048576"])
        outcome = self.kolo("compile", "recursiveDoublingAllGather", "--mesh", "rank=6", "-o", "x.so")
        self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
        self.assertRegex(outcome.err, r"\A\S+Blocks\.cpp:\d+:\d+: error: [^\n]*power of two[^\n]*\n"
                                      r"\S+RecursiveDoublingAllGather\.cpp:\d+:\d+: note: called from here\n")

    def test_targets(self):
        self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=4", "--target", "abacus", says=["abacus", "cpu"])
        self.assertEqual(self.listing(), [])


class Mistakes(ToolTest):
    """Of authors: every one at its place, and nothing written."""

    def tearDown(self):
        self.assertEqual([name for name in self.listing() if name.endswith(".so")], [])
        super().tearDown()

    def user(self, body, head=""):
        return self.write("user.cpp", "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n" + head +
                          'KOLO_COLLECTIVE(user, AllGather, Mesh("rank")) {\n' + body + "\n}\n")

    def test_all_are_reported_at_their_lines(self):
        found = self.mistakes("compile", self.copy("mistakes.cpp"), "--mesh", "node=2,gpu=2")
        self.assertEqual({file for file, _, _ in found}, {"mistakes.cpp"})
        self.assertLessEqual({8, 9, 10, 11}, {line for _, line, _ in found})
        self.assertEqual(found, sorted(found))
        self.assertTrue(any("nowhere" in message for _, line, message in found if line == 10))

    def test_a_wrong_result(self):
        [(_, line, message)] = self.mistakes("compile", self.user("c.copy(c.input(), c.output()[c.rank()]);"), "--mesh", "rank=2")
        self.assertEqual(line, 3)
        self.assertIn("all_gather", message)

    def test_what_the_host_compiler_says(self):
        outcome = self.kolo("compile", self.user("Buffr out = c.output();"), "--mesh", "rank=2")
        self.assertEqual((outcome.code, outcome.out), (1, ""))
        self.assertTrue(outcome.err.startswith("user.cpp does not compile:\n"), outcome.err)
        self.assertRegex(outcome.err, r"user\.cpp:4:\d+: error: .*Buffr")

    def test_a_condition_is_no_bool(self):
        outcome = self.kolo("compile", self.user("if (c.rank() == c.rank()) c.copy(c.input(), c.output());"), "--mesh", "rank=2")
        self.assertEqual((outcome.code, outcome.out), (1, ""))
        self.assertIn("a condition of the ranks is no bool: write c.when(condition", outcome.err)
        self.assertIn("user.cpp:4:", outcome.err)

    def test_an_unknown_collective(self):
        self.write("meet.cpp", '#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n'
                               'KOLO_COLLECTIVE(mine, Barrier, Mesh("rank")) {}\n')
        outcome = self.kolo("compile", "meet.cpp", "--mesh", "rank=2")
        self.assertEqual((outcome.code, outcome.out), (1, ""))
        self.assertEqual(outcome.err.splitlines()[1], "meet.cpp:3: 'Barrier' may be meant as a collective; there are AllGather, "
                                                      "ReduceScatter, AllReduce, Broadcast, Reduce, Gather, Scatter, AllToAll, "
                                                      "Scan, Exscan")

    def test_a_name_of_a_shipped_algorithm(self):
        self.write("mine.cpp", '#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n'
                               'KOLO_COLLECTIVE(ringAllGather, AllGather, Mesh("rank")) {\n  c.copy(c.input(), c.output()[c.rank()]);\n'
                               '  c.send(c.input()).to(c.rank().others(c.dim("rank"))).at(c.output()[c.rank()]);\n}\n')
        outcome = self.kolo("check", "mine.cpp", "--mesh", "rank=2")
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertEqual(outcome.err, "kolo: warning: ringAllGather of mine.cpp has the name of a shipped algorithm\n")

    def test_a_mistake_has_no_consequences(self):
        body = ("Rank me = c.rank(); Buffer out = c.output();\nc.send(c.input()).to(me.others(c.dim(\"rank\"))).at(out[0]);\n"
                "c.copy(out[me], out[0]);")
        [(_, line, message)] = self.mistakes("compile", self.user(body), "--mesh", "rank=4")
        self.assertEqual(line, 5)
        self.assertIn("several senders write chunk [0] of 'output'", message)

    def test_code_that_crashes(self):
        for body in ("*(volatile int *)nullptr = 3;", "__builtin_trap();"):
            [(_, line, message)] = self.mistakes("compile", self.user(body), "--mesh", "rank=2")
            self.assertEqual(line, 3)
            self.assertIn("crashed", message)

    def test_code_that_crashes_while_it_is_loaded(self):
        head = "static int early = [] { *(volatile int *)nullptr = 3; return 0; }();\n"
        self.assertIn("crashed", self.mistakes("compile", self.user("", head), "--mesh", "rank=2")[0][2])

    def test_recursion_without_end(self):
        head = "int forever(volatile int n) { volatile char pad[9999]; pad[n] = 1; return forever(n + 1) + pad[n]; }\n"
        self.assertIn("crashed", self.mistakes("compile", self.user("forever(0);", head), "--mesh", "rank=2")[0][2])

    def test_code_that_throws(self):
        [(_, line, message)] = self.mistakes("compile", self.user('throw std::string("no");'), "--mesh", "rank=2")
        self.assertIn("exception", message)

    def test_undefined_function(self):
        [(_, _, message)] = self.mistakes("compile", self.user("elsewhere();", "void elsewhere();\n"), "--mesh", "rank=2")
        self.assertIn("elsewhere()", message)

    def test_no_choreography(self):
        self.write("none.cpp", "#include <kolo/dsl/Language.h>\n")
        self.assertIn("KOLO_COLLECTIVE", self.mistakes("compile", "none.cpp", "--mesh", "rank=2")[0][2])

    def test_two_of_one_name(self):
        one = 'KOLO_COLLECTIVE(same, AllGather, Mesh("rank")) {} }\n'
        self.write("same.cpp", "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n" +
                   "namespace a { " + one + "namespace b { " + one)
        [(_, line, message)] = self.mistakes("compile", "same.cpp", "--mesh", "rank=2")
        self.assertEqual(line, 4)
        self.assertIn("same.cpp:3", message)

    BLOCK = ("static void gather(Choreography &c, const Index &step, Location caller = Location::current()) {\n"
             "  CalledFrom scope(c, caller);\n"
             "  c.send(c.output()[c.rank()]).to(c.rank().next(c.dim(\"rank\"), step));\n"
             "}\n"
             "static void twice(Choreography &c, const Index &step, Location caller = Location::current()) {\n"
             "  CalledFrom scope(c, caller);\n"
             "  gather(c, step);\n"
             "}\n")

    def test_a_building_block_names_its_caller(self):
        source = self.user("gather(c, 1);\ntwice(c, c.rank()[c.dim(\"rank\")]);", self.BLOCK)
        outcome = self.kolo("compile", source, "--mesh", "rank=3")
        self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
        lines = [re.sub(r":\d+: (?=error|note)", ": ", line) for line in outcome.err.splitlines()]
        self.assertEqual(len(lines), 5, str(outcome))
        # The mistakes of the recording and those of the compiler, in the order of their places.
        self.assertRegex(lines[0], r"\Auser\.cpp:5: error: next\(dim, distance\) depends on a coordinate")
        self.assertEqual(lines[1:3], ["user.cpp:9: note: called from here", "user.cpp:13: note: called from here"])
        self.assertRegex(lines[3], r"\Auser\.cpp:5: error: rank \d reads chunk .* before anything wrote it")
        self.assertEqual(lines[4], "user.cpp:12: note: called from here")

    def test_bad_ir(self):
        for name, text in [("empty.mlir", ""), ("text.mlir", "hello\n"), ("open.mlir", "module {\n"), ("zero.mlir", "\0\0")]:
            [(file, _, _)] = self.mistakes("compile", self.write(name, text))
            self.assertEqual(file, name)

    def test_ir_with_a_mistake(self):
        with open(self.file(self.copy("choreography.mlir"))) as source:
            text = source.read()
        found = self.mistakes("compile", self.write("wrong.mlir", text.replace("subi %me, %s", "addi %me, %s")))
        self.assertEqual(found[0][:2], ("wrong.mlir", 13))
        found = self.mistakes("compile", self.write("wrong.mlir", text.replace("kolo.transfer", "kolo.transfre")))
        self.assertEqual(found[0][:2], ("wrong.mlir", 13))


if __name__ == "__main__":
    unittest.main(verbosity=2)
