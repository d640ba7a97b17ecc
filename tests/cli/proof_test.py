"""What kolo calls proved is proved on the mesh asked for, with all its slices: programs that small meshes or few slices
misjudge, what --represented says of itself, and all programs that ship. With the argument `all`, the largest ones too."""
import json
import os
import re
import sys
import unittest

from tool import KOLO, ToolTest, proofs

IS_WHOLE = sys.argv[1:] == ["all"]
BUILD = os.path.join(os.path.dirname(KOLO), "..")
WARNING = r"kolo: warning: ringAllGather on rank=16 is represented: a smaller mesh was proved in its place\n"


class ProofTest(ToolTest):
    def proves(self, *arguments, **changes):
        """V1 to V11, on the mesh itself."""
        for found in json.loads(self.succeeds("check", *arguments, "--json", **changes)):
            self.assertEqual((found["checkedOn"], found["tooLarge"]), (found["mesh"], None))
            states = {number: each["state"] for number, each in found["properties"].items()}
            states.pop("V12")  # no promise of a program that was not asked for one
            self.assertEqual(set(states.values()), {"proved"}, f"{arguments}: {states}")

    def programs(self, plugin):
        return json.loads(self.succeeds("inspect", plugin, "--json"))["programs"]

    def assertProvedThemselves(self, plugin, programs):
        for program in programs:
            name = f"{plugin}: {program['name']}"
            self.assertEqual(proofs(program), [{"mesh": mesh, "on": mesh, "represented": False}
                                                 for mesh in program["meshes"]], name)
            self.assertFalse(program["unproved"], name)
        self.assertGreater(len(programs), 0)


class Guesses(ProofTest):
    """Synchronisation is found on small meshes and few slices. Here they show too little of what the program needs."""

    def test_a_pipeline_that_needs_more_than_few_slices_show(self):
        out = self.succeeds("run", "binomialScatter", "--mesh", "rank=13", "--pipeline", "64", "--count", "100003", "--root",
                            "5", "--iterations", "2")
        self.assertIn("every byte is right", out)
        self.proves("binomialScatter", "--mesh", "rank=13", "--pipeline", "64")
        for depth in ("16", "32"):
            self.proves("binomialScatter", "--mesh", "rank=12", "--mesh", "rank=14", "--mesh", "rank=15", "--pipeline", depth)

    def test_slots_that_small_meshes_do_not_use_again(self):
        self.succeeds("compile", self.copy("fineSlots.cpp"), "--mesh", "rank=4")
        self.assertProvedThemselves("fineSlots.so", self.programs("fineSlots.so"))
        out = self.succeeds("run", "fineSlots.so", "--mesh", "rank=4", "--count", "100003", "--iterations", "1", timeout=300)
        self.assertIn("every byte is right", out)

    def test_pipelines_of_many_slices(self):
        for algorithm in ("orderedAllReduce", "twoSlotRingAllReduce", "twoWayRingAllReduce"):
            self.proves(algorithm, "--mesh", "rank=16", "--pipeline", "64")
        self.proves("frontierAllReduce", "--mesh", "node=3,gpu=4", "--pipeline", "64")


class Meshes(ProofTest):
    """The mesh asked for decides, not a smaller one of its kind."""

    def test_bits_that_differ_are_refuted_on_any_number_of_ranks(self):
        self.copy("roundedRing.cpp")
        for program, ranks in (("eight", 8), ("large", 128), ("late", 128)):
            refuted = self.kolo("compile", "roundedRing.cpp", "--program", program, "--mesh", f"rank={ranks}")
            self.assertEqual(refuted.code, 1)
            self.assertIn(f"(V11: same bits; mesh rank={ranks})", refuted.err)
            self.assertFalse(os.path.exists(self.file("roundedRing.so")))
        self.proves("roundedRing.cpp", "--program", "late", "--mesh", "rank=100")

    def test_bits_of_ranks_that_combine_for_themselves(self):
        """Their orders are compared on up to 1,024 ranks. An exact program is proved without an answer."""
        for ranks, state in (("65", "no"), ("1024", "no"), ("1025", "not decided")):
            [found] = json.loads(self.succeeds("check", "oneShotAllReduce", "--mesh", "rank=" + ranks, "--json"))
            states = {number: each["state"] for number, each in found["properties"].items()}
            self.assertEqual((states.pop("V11"), states.pop("V12"), set(states.values())), (state, state, {"proved"}), ranks)
            self.assertEqual(found["allSizes"], [{"dim": "rank", "from": 1, "sameBits": False, "whyNot": None}])
        self.proves("orderedAllReduce", "--mesh", "rank=128")

    def test_a_program_that_is_right_on_small_meshes_alone(self):
        self.copy("rings.cpp")
        self.proves("rings.cpp", "--program", "capped", "--mesh", "rank=101")
        for size in ("102", "128"):
            for represented in ([], ["--represented"]):
                said = self.kolo("check", "rings.cpp", "--program", "capped", "--mesh", "rank=" + size, *represented)
                self.assertEqual(said.code, 1, str(said))
                self.assertRegex(said.out, r"V1 +right result +refuted: ")
                found = self.mistakes("compile", "rings.cpp", "--program", "capped", "--mesh", "rank=" + size, *represented)
                self.assertIn(f"V1: right result; mesh rank={size}", found[0][2])
        self.assertEqual(self.listing(), ["rings.cpp"])

    def test_a_mesh_that_no_smaller_one_can_stand_for(self):
        self.proves(self.copy("rings.cpp"), "--program", "tabled", "--mesh", "rank=128")
        self.succeeds("compile", "rings.cpp", "--program", "tabled", "--mesh", "rank=128")
        self.assertProvedThemselves("rings.so", self.programs("rings.so"))

    def test_a_loop_of_100000_rounds(self):
        self.proves(self.copy("rings.cpp"), "--program", "longLoop", "--mesh", "rank=2")
        self.succeeds("compile", "rings.cpp", "--program", "longLoop", "--mesh", "rank=2")
        self.assertProvedThemselves("rings.so", self.programs("rings.so"))


class AllSizes(ProofTest):
    """A mesh stands for all sizes of a dimension by a proof, or nothing is said."""

    def sizes(self, *arguments):
        [found] = json.loads(self.succeeds("check", *arguments, "--json"))
        return {entry["dim"]: entry["from"] for entry in found["allSizes"]}

    def test_of_rings_all_pairs_rails_two_levels_and_pipelines(self):
        for arguments in (["ringAllReduce", "--mesh", "rank=5"], ["ringAllReduce", "--mesh", "rank=5", "--pipeline", "64"],
                          ["allPairsAllGather", "--mesh", "rank=4"], ["twoShotAllReduce", "--mesh", "rank=4", "--pipeline", "16"]):
            self.assertEqual(self.sizes(*arguments), {"rank": 1}, arguments)
        for arguments in (["railAllGather", "--mesh", "node=3,gpu=4", "--transport", "node=network,gpu=shared"],
                          ["hierarchicalAllReduce", "--mesh", "node=3,gpu=4", "--pipeline", "16"]):
            self.assertEqual(self.sizes(*arguments)["node"], 1, arguments)
        said = self.succeeds("check", "ringAllReduce", "--mesh", "rank=5")
        self.assertRegex(said, r"\n +all sizes of rank +proved, from 1 on\n\Z")

    def test_of_a_program_that_is_wrong_from_102_ranks_on(self):
        self.assertEqual(self.sizes(self.copy("rings.cpp"), "--program", "capped", "--mesh", "rank=101"), {"rank": None})
        said = self.succeeds("check", "rings.cpp", "--program", "capped", "--mesh", "rank=101")
        self.assertRegex(said, r"\n +all sizes of rank +not decided: [^\n]+ \(rings\.cpp:\d+\)\n\Z")
        self.succeeds("compile", "rings.cpp", "--program", "capped", "--mesh", "rank=101")
        [program] = self.programs("rings.so")
        self.assertEqual(program["proved"][0]["forAllSizes"], [])

    def test_of_what_was_compiled_for_too_few_ranks(self):
        """Two nodes never use a slot again, so their program has no credits, which more nodes need."""
        arguments = ["hierarchicalAllReduce", "--transport", "node=network,gpu=shared", "--mesh"]
        self.assertEqual(self.sizes(*arguments, "node=2,gpu=2")["node"], None)

    def test_plugins_say_so(self):
        self.succeeds("compile", "railAllGather", "--mesh", "node=3,gpu=2", "-o", "x.so")
        [program] = self.programs("x.so")
        self.assertEqual(program["proved"][0]["forAllSizes"], [{"dim": "node", "from": 16}])
        self.assertIn("node=3,gpu=2: proved, for all sizes of node from 16 on\n", self.succeeds("inspect", "x.so"))

    def test_stand_for_a_whole_machine(self):
        """By itself its proof takes gigabytes, as the refusal with a budget of one says of a program without a rule."""
        self.proves("frontierAllReduce", "--mesh", "node=9408,gpu=8", "--pipeline", "32" if IS_WHOLE else "4", "--budget", "64M",
                    "--transport", "node=network,gpu=shared")


class Represented(ProofTest):
    COMPILE = ["compile", "ringAllGather", "--mesh", "rank=16", "-o", "x.so", "--budget"]

    def test_without_it_nothing_is_packed(self):
        said = self.refuses(1, *self.COMPILE, "80", says=["mesh rank=16 cannot be checked", "--represented"])
        self.assertRegex(said, r"would take about --budget \d+; or --represented, by which a smaller mesh stands for it\n\Z")
        self.assertEqual(self.listing(), [])
        [budget] = re.findall(r"about --budget (\d+)", said)
        self.succeeds(*self.COMPILE, budget)
        self.assertProvedThemselves("x.so", self.programs("x.so"))

    def test_all_say_so(self):
        said = self.succeeds(*self.COMPILE, "80", "--represented").splitlines()
        self.assertEqual(len(said), 2)
        smaller = re.fullmatch(r"ringAllGather: rank=16 is represented: rank=(\d) was proved in its place", said[1])
        self.assertTrue(smaller, said)
        self.assertIn(f"rank=16: represented: rank={smaller[1]} was proved in its place\n", self.succeeds("inspect", "x.so"))
        [program] = self.programs("x.so")
        self.assertEqual(proofs(program), [{"mesh": [16], "on": [int(smaller[1])], "represented": True}])
        for command in (["run", "--bytes", "64K"], ["bench", "-b", "64K", "-e", "64K", "-n", "2"]):
            outcome = self.kolo(command[0], "x.so", "--mesh", "rank=16", "--ranks-as", "threads", *command[1:])
            self.assertEqual(outcome.code, 0, str(outcome))
            self.assertRegex(outcome.err, rf"\A{WARNING}\Z")

    def test_it_changes_nothing_where_the_budget_suffices(self):
        plugins = []
        for flags in ([], ["--represented"]):
            self.succeeds(*self.COMPILE, "1M", *flags)
            with open(self.file("x.so"), "rb") as plugin:
                plugins.append(plugin.read())
        self.assertEqual(*plugins)

    def test_a_mesh_that_takes_more_than_a_stand_in_may_is_proved_itself(self):
        self.succeeds("compile", "scatterAllGatherBroadcast", "--mesh", "rank=64", "--pipeline", "64", "--represented", "-o", "x.so")
        self.assertProvedThemselves("x.so", self.programs("x.so"))

    def test_it_does_not_take_a_refuted_program(self):
        self.copy("racy.mlir")
        outcome = self.kolo("compile", "racy.mlir", "--represented", "--budget", "1K")
        self.assertEqual((outcome.code, self.listing()), (1, ["racy.mlir"]), str(outcome))


class Shipped(ProofTest):
    def table(self, name):
        with open(os.path.join(BUILD, "share/kolo/tables", name + ".json")) as file:
            return json.load(file)

    def test_the_plugin_that_doors_load_by_default(self):
        plugin = os.path.join(BUILD, "lib/kolo/default.kolo.so")
        self.assertProvedThemselves(plugin, self.programs(plugin))

    def test_the_measured_table(self):
        self.succeeds("compile", "--table", "cpu", "-o", "x.so")
        self.assertProvedThemselves("x.so", self.programs("x.so"))

    def test_the_table_of_frontier(self):
        table = self.table("frontier")
        table["entries"] = [entry for entry in table["entries"] if entry["mesh"]["node"] <= (128 if IS_WHOLE else 1)]
        self.write("table.json", json.dumps(table))
        self.succeeds("compile", "--table", "./table.json", "-o", "x.so", timeout=600)
        self.assertProvedThemselves("x.so", self.programs("x.so"))

    @unittest.skipUnless(IS_WHOLE, "takes minutes")
    def test_a_whole_machine(self):
        """Each program by itself: some take more than the default budget, and then kolo names one."""
        table, numProved, numBeyond = self.table("frontier"), 0, 0
        rows = {(entry["algorithm"], json.dumps(entry.get("schedule"))): entry for entry in table["entries"]
                if entry["mesh"]["node"] == 9408}
        for entry in rows.values():
            self.write("table.json", json.dumps({**table, "entries": [{**entry, "upToBytes": None}]}))
            outcome = self.kolo("compile", "--table", "./table.json", "-o", "x.so", timeout=600)
            if outcome.code == 0:
                self.assertProvedThemselves("x.so", self.programs("x.so"))
                os.remove(self.file("x.so"))
                numProved += 1
            else:
                self.assertEqual(outcome.code, 1, str(outcome))
                self.assertRegex(outcome.err, r"cannot be checked: .*about --budget \d+; or --represented")
                self.assertNotIn("x.so", self.listing())
                numBeyond += 1
        print(f"{numProved} programs for 75264 ranks are proved, {numBeyond} take more than the default budget")
        self.assertGreater(numProved, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv[:1])
