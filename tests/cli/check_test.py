"""kolo check: what it proves, what it refutes and how, and the gate that kolo compile has."""
import json
import os
import re
import signal
import subprocess
import unittest

from tool import ToolTest, proofs

NUMBERS = [f"V{number}" for number in range(1, 13)]


class CheckTest(ToolTest):
    def states(self, text):
        """The lines of properties, by number, in their order."""
        found = dict(re.findall(r"^(V\d+) +\S.*?  (\S.*)$", text, re.M))
        self.assertEqual([number for number in found], NUMBERS, text)
        return found

    def refuted(self, *arguments):
        """Refuted: everything on standard output. Gives it."""
        outcome = self.kolo("check", *arguments)
        self.assertEqual((outcome.code, outcome.err), (1, ""), str(outcome))
        self.assertNoJargon(outcome.out)
        return outcome.out


class Proofs(CheckTest):
    def test_all_is_proved_of_a_shipped_algorithm(self):
        for flags in ([], ["--no-optimization"]):
            out = self.succeeds("check", "railAllGather", "--mesh", "node=2,gpu=4", *flags)
            self.assertEqual(out.splitlines()[0], "railAllGather on node=2,gpu=4")
            states = self.states(out)
            self.assertEqual({text.split(";")[0] for text in states.values()}, {"proved"})
            self.assertRegex(states["V3"], r"\Aproved; shared: \w")
        self.assertEqual(self.listing(), [], "nothing is written")

    def test_whether_bits_are_the_same_in_every_run_and_on_all_ranks(self):
        for algorithm, mesh, bits in (("ringAllReduce", "rank=4", "proved; on all ranks"),
                                      ("ringAllGather", "rank=4", "proved; on all ranks"),
                                      ("ringReduceScatter", "rank=4", "proved; every rank has an output of its own"),
                                      ("ringAllReduce", "rank=128", "proved; on all ranks")):
            with self.subTest(algorithm=algorithm, mesh=mesh):
                states = self.states(self.succeeds("check", algorithm, "--mesh", mesh))
                self.assertEqual((states["V9"], states["V11"]), ("proved; the same bits in every run", bits))

    def test_for_which_counts_of_blocks_the_proof_holds(self):
        def counts(*arguments):
            lines = [line.strip() for line in self.succeeds("check", *arguments).splitlines()]
            found = [line.removeprefix("counts").strip() for line in lines if line.startswith("counts")]
            reported = json.loads(self.succeeds("check", *arguments, "--json"))
            return found, [each["blockTables"] for each in reported]
        self.assertEqual(counts("ringAllGather", "--mesh", "rank=4"), (["any, also of each block its own"], [True]))
        self.assertEqual(counts("twoLevelAllToAll", "--mesh", "node=2,gpu=2"), (["any, also of each block its own"], [True]))
        [found], reported = counts("bruckAllToAll", "--mesh", "rank=4")
        self.assertRegex(found, r"^equal ones: moves a chunk to a block of another length: .*BruckAllToAll\.cpp:\d+$")
        self.assertEqual(reported, [False])
        self.assertEqual(counts("ringAllReduce", "--mesh", "rank=4"), ([], [False]))

    def test_every_mesh_and_every_program(self):
        out = self.succeeds("check", self.copy("two.cpp"), "--mesh", "rank=2", "--mesh", "rank=3")
        self.assertEqual(re.findall(r"^(\w+ on .*)$", out, re.M),
                         ["direct on rank=2", "direct on rank=3", "ring on rank=2", "ring on rank=3"])
        out = self.succeeds("check", "two.cpp", "--mesh", "rank=2", "--program", "ring")
        self.assertEqual(re.findall(r"^(\w+ on .*)$", out, re.M), ["ring on rank=2"])

    def test_a_mesh_that_an_algorithm_is_not_for_is_refused_in_its_own_words(self):
        for algorithm, mesh, what in (("bineAllReduce", "rank=6", "a power of two of ranks"),
                                      ("recursiveMultiplyingAllGather", "rank=6", "a power of 4 of ranks, or less than 4 times one")):
            for command in ("check", "compile"):
                flags = ["-o", "x.so"] if command == "compile" else []
                said = self.refuses(1, command, algorithm, "--mesh", mesh, *flags, says=f"{algorithm} needs {what}, which {mesh} is not")
                self.assertRegex(str(said), r"algorithms/\w+\.cpp:\d+:")
        self.assertEqual(self.listing(), [])

    def test_ir_of_both_phases(self):
        self.states(self.succeeds("check", self.copy("channel.mlir")))
        self.states(self.succeeds("check", self.copy("choreography.mlir")))

    def test_a_mesh_beyond_the_budget_is_represented_by_a_smaller_one(self):
        arguments = ["ringAllGather", "--mesh", "rank=64", "--budget", "200"]
        out = self.succeeds("check", *arguments, "--represented")
        smaller = re.match(r"ringAllGather on rank=64\n(rank=\d+) was checked in its place\n", out)
        self.assertTrue(smaller, out)
        self.assertEqual({text.split(";")[0] for text in self.states(out).values()},
                         {f"represented: proved on {smaller[1]}"})
        for flags in ([], ["--no-sampling"]):
            self.refuses(2, "check", *arguments, *flags, says=["ringAllGather", "rank=64", "--budget"])
        self.assertNotIn("in its place", self.succeeds("check", *arguments[:-1], "64M", "--represented"))

    def test_a_budget_that_ends_on_the_way_says_where_and_what_would_do(self):
        arguments = ["bruckAllGather", "--mesh", "rank=1000", "--no-sampling", "--budget"]
        on_the_way = (r"took all of its budget for \d+ of \d+ steps, and ended where rank \d+ .* \((?:first|second) call\); "
                      r"all steps would take about --budget (\d+);")
        predicted = r"would take too much, as smaller meshes show: about --budget (\d+);"
        for budget, pattern in (("6K", on_the_way), ("2K", predicted)):
            said = self.kolo("check", *arguments, budget).err
            found = re.search(pattern, said)
            self.assertTrue(found, said)
            self.succeeds("check", *arguments, found[1])

    def test_a_budget_that_ends_before_the_first_step_says_so_too(self):
        listed = (r"took all of its budget to list the steps of its ranks, and ended where rank \d+ \w+; "
                  r"all steps would take (?:at most )?about --budget (\d+);")
        predicted = r"would take too much, as smaller meshes show: about --budget (\d+);"
        for algorithm, ranks, budget, pattern in [("ringAllReduce", 64, "300", listed),
                                                  ("scatterAllGatherBroadcast", 64, "2K", listed),
                                                  ("recursiveDoublingAllGather", 4096, "1000", predicted)]:
            arguments = [algorithm, "--mesh", f"rank={ranks}", "--no-sampling", "--budget"]
            said = self.kolo("check", *arguments, budget).err
            found = re.search(pattern, said)
            self.assertTrue(found, said)
            if pattern == predicted:
                self.succeeds("check", *arguments, found[1])

    def test_an_interrupted_proof_leaves_nothing_behind(self):
        self.write("earlier.so", "the plugin of an earlier call")
        budget = ["scatterAllGatherBroadcast", "--mesh", "rank=4096", "--budget", "1T"]  # minutes
        for arguments in (["check", *budget, "--no-sampling"], ["compile", *budget, "-o", "earlier.so"]):
            for number in (signal.SIGINT, signal.SIGTERM):
                process = self.start(*arguments)
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                process.send_signal(number)
                self.assertEqual((process.communicate(timeout=60)[0], process.returncode), ("", -number))
                with open(self.file("earlier.so")) as text:
                    self.assertEqual(text.read(), "the plugin of an earlier call")
        self.assertEqual(sorted(os.listdir(self.directory)), ["earlier.so", "tmp"])

    def test_a_machine_of_75264_ranks_is_proved_itself(self):
        for algorithm, mesh in [("railAllGather", "node=9408,gpu=8"), ("ringAllGather", "rank=75264"),
                                ("directAllToAll", "rank=75264")]:
            self.assertNotIn("in its place", self.succeeds("check", algorithm, "--mesh", mesh, "--no-sampling"))

    def test_a_million_ranks_are_represented_and_more_are_refused(self):
        for algorithm, mesh in [("railRecursiveAllGather", "node=131072,gpu=8"), ("binomialGather", "rank=1048576"),
                                ("rabenseifnerAllReduce", "rank=1048576")]:
            said = self.succeeds("check", algorithm, "--mesh", mesh, "--budget", "64K", "--represented", "-v")
            [checked] = re.findall(r"(\S+) was checked in its place", said)
            self.assertRegex(said, rf"synchronisation per rank, lane and call\n.*\n{checked} ")
            [found] = json.loads(self.succeeds("check", algorithm, "--mesh", mesh, "--budget", "64K", "--represented",
                                                "--json"))
            self.assertEqual((found["mesh"], found["checkedOn"]), (mesh, checked))
            self.assertIsNotNone(found["synchronisation"])
        with open(self.file(self.copy("channel.mlir"))) as text:
            program = text.read()
        for sizes in ("1048577", "4294967296"):
            path = self.write("many.mlir", re.sub(r"meshes \[.*?\]\]", f"meshes [[{sizes}]]", program))
            for command in ("check", "compile"):
                [(_, _, message)] = self.mistakes(command, path)
                self.assertIn("more than 1048576 ranks", message)
        table = '  %t = kolo.buffer scratch "pairs" grid(%n, %n) blocks 2 : !kolo.buffer<2>\n'
        pairs = program.replace("[[4]]", "[[1048576]]").replace("  %out = ", table + "  %out = ")
        said = self.succeeds("check", self.write("pairs.mlir", pairs), "--budget", "64K", "--represented")
        self.assertIn("was checked in its place", said, "2^40 chunks are no mistake")
        self.refuses(2, "check", "pairs.mlir", "--no-sampling", says=["rank=1048576", "too many chunks of 'pairs'"])

    def test_verbose_counts_what_synchronisation_remains(self):
        out = self.kolo("check", self.copy("racy.mlir"), "-v").out
        rows = [re.split(r"  +", line) for line in out[out.index("racy: synchronisation"):].splitlines()[1:]]
        self.assertEqual(rows, [["mesh", "data signals", "data waits", "entry credits", "flushes", "waits"],
                                ["rank=1", "0", "0", "1", "1", "1"], ["rank=4", "3", "3", "1", "1", "4"]])
        self.assertIn("flushes", self.succeeds("check", "ringAllGather", "--mesh", "rank=4", "--verbose"))


class Refutations(CheckTest):
    def test_a_race(self):
        out = self.refuted(self.copy("racy.mlir"))
        one, four = out.split("\n\n")
        self.assertEqual(one.splitlines()[0], "racy on rank=1")
        self.assertEqual({text.split(";")[0] for text in self.states(one).values()}, {"proved"})
        self.assertEqual(four.splitlines()[0], "racy on rank=4")
        states = self.states(four)
        self.assertRegex(states["V2"], r"\Arefuted: .*'out' on rank \d")
        self.assertEqual({state for number, state in states.items() if number != "V2"}, {"not decided"})
        lines = four.splitlines()[15:]
        self.assertRegex(lines[0], r"\Aracy\.mlir:22:5: error: .* \(V2: no data race; mesh rank=4\)\Z")
        steps = [re.fullmatch(r"racy\.mlir:(\d+):\d+: note: (\d+)\. rank \d, call [12]: \S.*", line) for line in lines[1:]]
        self.assertTrue(all(steps), four)
        self.assertEqual([int(step[2]) for step in steps], list(range(1, len(steps) + 1)))
        self.assertEqual([step[1] for step in steps[-2:]], ["22", "22"], "it ends with the two accesses")

    def test_a_deadlock(self):
        out = self.refuted(self.copy("stuck.mlir"))
        self.assertIn("rank=1\nV1", out)
        self.assertRegex(out, r"\nV4 +no deadlock +refuted: rank 0 waits for ever")
        self.assertRegex(out, r"\nstuck\.mlir:21:5: error: .* \(V4: no deadlock; mesh rank=4\)\n")

    def test_the_transport_may_break_the_order_of_puts(self):
        self.copy("channel.mlir")
        for transport in ("shared", "peer", "network"):
            self.assertIn(f"proved; {transport}: ", self.states(self.succeeds("check", "channel.mlir", "--transport", transport))["V3"])
        out = self.refuted("channel.mlir", "--transport", "network:nics=4")
        self.assertRegex(self.states(out)["V3"], r"\Arefuted: .*4 NICs")

    def test_each_dimension_has_its_transport(self):
        rail = ("check", "railAllGather", "--mesh", "node=2,gpu=2")
        states = self.states(self.succeeds(*rail, "--transport", "node=network"))
        self.assertIn("proved; node=network,gpu=shared: along node, a lane's puts", states["V3"])
        self.assertIn("; along gpu, stores are ordered", states["V3"])
        for transport, where in (("node=network:nics=4", "node"), ("gpu=network:nics=2,node=peer", "gpu")):
            refuted = self.states(self.refuted(*rail[1:], "--transport", transport))
            self.assertRegex(refuted["V3"], rf"\Arefuted: .*along {where}, a put is striped over")
        # Within a node no put crosses the network that stripes.
        self.succeeds("check", "nodeLocalAllGather", *rail[2:], "--transport", "node=network:nics=4")

    def test_transports_of_devices(self):
        rail = ("check", "railAllGather", "--mesh", "node=2,gpu=2", "--transport")
        for transport, why in (("staged", "wait in one queue"), ("direct", "in the device's memory")):
            states = self.states(self.succeeds(*rail, f"node={transport}"))
            self.assertIn(f"proved; node={transport},gpu=shared: along node, ", states["V3"])
            self.assertIn(why, states["V3"])
        self.refuses(2, *rail, "node=staged,gpu=network", says=("--transport", "staged along all"))

    def test_nothing_is_pulled_along_a_network(self):
        words = ("check", "hierarchicalAllReduce", "--mesh", "node=2,gpu=2", "-v")
        self.assertIn("V1   right result                      proved", self.succeeds(*words, "--transport", "node=network"))
        found = self.mistakes(*words, "--transport", "node=network", "--protocol", "published")
        self.assertIn("dimension 'node' may be a network", found[0][2])

    def test_one_missing_credit(self):
        """Without it a peer may write while the application still does."""
        out = self.refuted(self.copy("eager.mlir"))
        self.assertRegex(self.states(out)["V7"], r"\Arefuted: ")
        self.assertIn("application", out)

    def test_what_the_choreography_already_gets_wrong(self):
        self.copy("mistakes.cpp")
        self.assertEqual(self.mistakes("check", "mistakes.cpp", "--mesh", "node=2,gpu=2"),
                         self.mistakes("compile", "mistakes.cpp", "--mesh", "node=2,gpu=2"))


class Json(CheckTest):
    def test_proved(self):
        [entry] = json.loads(self.succeeds("check", "ringAllReduce", "--mesh", "rank=4", "--json"))
        self.assertEqual((entry["program"], entry["mesh"], entry["checkedOn"], entry["refutation"], entry["tooLarge"]),
                         ("ringAllReduce", "rank=4", "rank=4", None, None))
        self.assertEqual(list(entry["properties"]), NUMBERS)
        states = {number: value["state"] for number, value in entry["properties"].items()}
        self.assertEqual((states.pop("V12"), set(states.values())), ("no", {"proved"}))
        self.assertEqual(entry["properties"]["V2"]["title"], "no data race")
        synchronisation = entry["synchronisation"]
        self.assertEqual(sorted(synchronisation), ["creditWaits", "dataSignals", "dataWaits", "enters", "flushes", "waits"])
        self.assertEqual(synchronisation["waits"], synchronisation["dataWaits"] + sum(synchronisation["creditWaits"].values()))

    def test_refuted(self):
        one, four = json.loads(self.refuted(self.copy("racy.mlir"), "--json"))
        self.assertEqual((one["mesh"], one["refutation"]), ("rank=1", None))
        self.assertEqual(four["properties"]["V2"]["state"], "refuted")
        self.assertEqual(four["properties"]["V1"]["state"], "not decided")
        refutation = four["refutation"]
        self.assertEqual((refutation["property"], refutation["file"], refutation["line"], refutation["mesh"]),
                         ("V2", "racy.mlir", 22, "rank=4"))
        self.assertEqual(sorted(refutation["other"]), ["column", "file", "line"])
        self.assertEqual(len(refutation["ranks"]), 2)
        self.assertIn("'out'", refutation["chunk"])
        for step in refutation["steps"]:
            self.assertEqual(sorted(step), ["call", "file", "line", "rank", "text"])
        text = self.refuted("racy.mlir")
        last = refutation["steps"][-1]
        self.assertIn(f"{len(refutation['steps'])}. rank {last['rank']}, call {last['call']}: {last['text']}\n", text)

    def test_too_large(self):
        outcome = self.kolo("check", "ringAllGather", "--mesh", "rank=64", "--budget", "200", "--no-sampling", "--json")
        self.assertEqual(outcome.code, 2)
        [entry] = json.loads(outcome.out)
        self.assertIn("--budget", entry["tooLarge"])
        self.assertEqual({value["state"] for value in entry["properties"].values()}, {"not decided"})


class Arguments(CheckTest):
    def test_what_is_refused(self):
        ring = ["ringAllGather", "--mesh", "rank=4"]
        for arguments, says in [(["ringAllGather"], "--mesh is needed"), (["ringAllGathr", *ring[1:]], "did you mean"),
                                ([*ring, "--transport", "pigeon"], ["--transport", "'pigeon'", "network"]),
                                ([*ring, "--transport", "network:nics=0"], "--transport"),
                                ([*ring, "--transport", "rank=pigeon"], ["--transport", "'pigeon'"]),
                                ([*ring, "--transport", "rank=peer,"], ["--transport", "''"]),
                                ([*ring, "--transport", "node=network"], ["--transport", "ringAllGather", "'node'"]),
                                ([*ring, "--transport", "rank=peer,rank=shared"], ["'rank'", "two transports"]),
                                ([*ring, "--budget", "0"], "--budget"), ([*ring, "--budget", "lots"], "--budget"),
                                ([*ring, "--budget", "17T"], "--budget"), (["missing.mlir"], "no file"),
                                ([self.copy("channel.mlir"), "--mesh", "rank=4"], ["--mesh", "channel.mlir"])]:
            self.refuses(2, "check", *arguments, says=says)


class Gate(CheckTest):
    """What is not proved is not packed, unless one insists; then everybody is told."""

    def test_what_is_refuted_is_not_packed(self):
        for name, line, number in (("racy.mlir", 22, "V2"), ("stuck.mlir", 21, "V4")):
            self.copy(name)
            for flags in ([], ["--no-optimization"]):
                outcome = self.kolo("compile", name, "-o", "x.so", *flags)
                self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
                self.assertNoJargon(outcome.err)
                self.assertRegex(outcome.err, rf"\A{name}:{line}:5: error: .*\({number}: .*; mesh rank=4\)\n"
                                              rf"({name}:\d+:\d+: note: \d+\. rank \d, call [12]: .*\n)+\Z")
                self.assertNotIn("x.so", self.listing())

    def test_unproved_says_so_everywhere(self):
        outcome = self.kolo("compile", self.copy("racy.mlir"), "--unproved")
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertRegex(outcome.err, r"\Aracy\.mlir:22:5: warning: .*V2[^\n]*\n\Z")
        self.assertEqual(outcome.out.splitlines()[1:], ["racy: rank=4 is not proved"])
        [program] = json.loads(self.succeeds("inspect", "racy.so", "--json"))["programs"]
        self.assertEqual((proofs(program), program["unproved"]), ([{"mesh": [1], "on": [1], "represented": False}], True))
        for command in (["run", "racy.so", "--bytes", "1K"], ["bench", "racy.so", "-b", "1K", "-e", "1K", "-n", "2"]):
            self.succeeds(*command, "--mesh", "rank=1")
            outcome = self.kolo(*command, "--mesh", "rank=4")
            self.assertRegex(outcome.err, r"\Akolo: warning: racy is not proved on rank=4; [^\n]+\n")
            self.assertEqual(outcome.err.count("warning"), 1)

    def test_unproved_changes_nothing_of_what_is_proved(self):
        for name, flags in (("a.so", []), ("b.so", ["--unproved"])):
            self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", name, *flags)
        with open(self.file("a.so"), "rb") as a, open(self.file("b.so"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        [program] = json.loads(self.succeeds("inspect", "a.so", "--json"))["programs"]
        self.assertEqual((proofs(program), program["unproved"]), ([{"mesh": [4], "on": [4], "represented": False}], False))

    def test_unproved_does_not_pass_what_the_choreography_gets_wrong(self):
        self.mistakes("compile", self.copy("mistakes.cpp"), "--mesh", "node=2,gpu=2", "--unproved")


if __name__ == "__main__":
    unittest.main(verbosity=2)
