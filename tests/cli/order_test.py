"""`--order fixed`: sums in one order (V12), what is refused, and who says it."""

import json
import re
import unittest

from tool import ToolTest

# Pairs of ranks, the low bits of their numbers first, and the high ones first.
BUTTERFLIES = """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
static void pairs(Choreography &c, const Dim &dim, const Buffer &out) {
  c.loop(log2(dim), [&](Index step) { c.send(out).to(c.rank().flip(dim, pow2(step))).reduce(); });
}
KOLO_COLLECTIVE(low, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Buffer out = c.inPlace();
  pairs(c, gpu, out);
  pairs(c, node, out);
}
KOLO_COLLECTIVE(high, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Buffer out = c.inPlace();
  pairs(c, node, out);
  pairs(c, gpu, out);
}
"""


class Order(ToolTest):
    def v12(self, *arguments):
        return re.search(r"^V12 +one order of summation +(.*)$", self.succeeds("check", *arguments), re.M)[1]

    def orders(self, plugin):
        [program] = json.loads(self.succeeds("inspect", plugin, "--json"))["programs"]
        return program.get("order")

    def test_every_check_says_the_order(self):
        for algorithm, says in (("rabenseifnerAllReduce", "proved; every element: (0+2)+(1+3)"),
                                ("recursiveDoublingAllReduce", "proved; every element: (0+1)+(2+3)"),
                                ("orderedAllReduce", "proved; every element: ((0+1)+2)+3"),
                                ("ringReduceScatter", "proved; every block in one order, that of the first rank: 0+((1+2)+3)"),
                                ("ringAllGather", "proved; nothing is summed")):
            with self.subTest(algorithm):
                self.assertEqual(self.v12(algorithm, "--mesh", "rank=4"), says)
        self.assertRegex(self.v12("ringAllReduce", "--mesh", "rank=4"), r"\Ano; an element is summed in another order in chunk 1 than in chunk 0, ")
        self.assertRegex(self.v12("oneShotAllReduce", "--mesh", "rank=4"), r"\Ano; ranks combine in different orders")
        self.assertRegex(self.v12("ringAllReduce", "--mesh", "rank=128"), r"\Anot decided; orders are followed on up to 64 ranks")

    def test_many_ranks_in_turn_are_told_shortly(self):
        self.assertEqual(self.v12("orderedAllReduce", "--mesh", "rank=32"), "proved; every element: 0+1+...+31, from the left")

    def test_a_smaller_mesh_does_not_decide_it(self):
        mesh = ["--mesh", "rank=64", "--budget", "64K", "--represented"]
        self.assertEqual(self.v12("orderedAllReduce", *mesh), "not decided; a smaller mesh does not decide it")
        self.assertRegex(self.v12("ringAllGather", "--mesh", "rank=64", "--budget", "200", "--represented"),
                         r"\Arepresented: proved on rank=\d+; nothing is summed\Z")

    def test_what_has_no_order_is_refused_in_one_line(self):
        for command in ("compile", "check"):
            outcome = self.kolo(command, "twoShotAllReduce", "--mesh", "rank=4", "--order", "fixed")
            self.assertEqual(outcome.code, 1)
            [error] = [line for line in (outcome.err + outcome.out).splitlines() if "error: " in line]
            self.assertRegex(error, r"Blocks\.cpp:\d+:\d+: error: an element is summed in another order in chunk 1 than in chunk 0, "
                                    r".*the size decides in which chunk it is \(V12: one order of summation; mesh rank=4\)")
        self.assertNotIn("twoShotAllReduce.so", self.listing())
        outcome = self.kolo("compile", "ringAllReduce", "--mesh", "rank=1025", "--order", "fixed")
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("V12, one order of summation, is decided on the mesh itself, and on up to 1024 ranks", outcome.err)

    def test_predictions_refuse_it(self):
        for command in ("cost", "simulate"):
            self.refuses(2, command, "ringAllReduce", "--mesh", "rank=4", "--machine", "frontier", "--order", "fixed",
                         says=["--order fixed changes no time"])

    def test_two_ranks_have_one_order_whatever_the_algorithm(self):
        for algorithm in ("ringAllReduce", "twoShotAllReduce", "oneShotAllReduce"):
            self.assertEqual(self.v12(algorithm, "--mesh", "rank=2"), "proved; every element: 0+1")

    def test_the_manifest_has_fingerprints_that_no_schedule_changes(self):
        found = set()
        for number, flags in enumerate(([], ["--protocol", "ll"], ["--pipeline", "4"], ["--no-optimization"], ["--transfers", "pull"])):
            plugin = f"{number}.so"
            self.succeeds("compile", "rabenseifnerAllReduce", "--mesh", "rank=4", "--order", "fixed", *flags, "-o", plugin)
            [order] = self.orders(plugin)
            self.assertEqual((order["mesh"], order["text"]), ([4], "every element: (0+2)+(1+3)"))
            found.add(order["fingerprint"])
        self.assertEqual(len(found), 1)
        self.assertRegex(self.succeeds("inspect", "0.so"), rf"order +rank=4: every element: \(0\+2\)\+\(1\+3\), {found.pop()}")
        self.succeeds("compile", "rabenseifnerAllReduce", "--mesh", "rank=4", "-o", "any.so")
        self.assertIsNone(self.orders("any.so"))

    def test_run_takes_a_plugin_whose_order_is_fixed(self):
        self.succeeds("compile", "recursiveDoublingAllReduce", "--mesh", "rank=2", "--order", "fixed", "-o", "fixed.so")
        self.succeeds("compile", "recursiveDoublingAllReduce", "--mesh", "rank=2", "-o", "any.so")
        for what in ("fixed.so", "recursiveDoublingAllReduce"):
            said = self.succeeds("run", what, "--mesh", "rank=2", "--bytes", "4K", "--iterations", "1", "--order", "fixed")
            self.assertIn("every byte is right", said)
        self.refuses(2, "run", "any.so", "--mesh", "rank=2", "--bytes", "4K", "--order", "fixed",
                     says="--order: any.so was compiled without --order fixed")

    def test_meshes_of_as_many_ranks_need_the_same_order(self):
        self.write("butterflies.cpp", BUTTERFLIES)
        arguments = ["compile", "butterflies.cpp", "--mesh", "node=2,gpu=4", "--mesh", "node=4,gpu=2", "--order", "fixed", "--program"]
        self.succeeds(*arguments, "low", "-o", "low.so")
        for order in self.orders("low.so"):
            self.assertEqual(order["text"], "every element: ((0+1)+(2+3))+((4+5)+(6+7))")
        outcome = self.kolo(*arguments, "high", "-o", "high.so")
        self.assertEqual(outcome.code, 1)
        self.assertIn("error: sums in another order on mesh node=4,gpu=2 than on mesh node=2,gpu=4, which has as many ranks "
                      "(V12: one order of summation)", outcome.err)
        self.assertNotIn("high.so", self.listing())

    def test_a_table_has_schedules_of_its_own(self):
        self.refuses(2, "compile", "--table", "default", "--order", "fixed", says="--order")


if __name__ == "__main__":
    unittest.main(verbosity=2)
