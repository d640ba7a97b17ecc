"""Programs that are small to write down and large to go through: answered at once, or refused at the author's line."""
import unittest

from tool import ToolTest

HEAD = "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n"


class SharedParts(ToolTest):
    """Expressions with 60 doublings: 2^60 paths lead from the last to the first."""

    SOURCE = HEAD + """KOLO_COLLECTIVE(doublings, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  auto doubled = [&, d = d](Index number) {
    for (int i = 0; i < 60; ++i)
      number = (number + number) % d;
    return number;
  };
  Index zero = doubled(0 * me[d]), none = doubled(d.size());
  c.when(zero == zero * zero, [&] { c.copy(in, out[me[d] + zero * zero]); });
  c.loop(d.size() - 1 + none, [&, d = d](Index step) {
    Index far = doubled(step);
    c.stripe(2, [&](int) {
      c.loop(1 + none * none, [&](Index) {
        c.when(far == far + zero, [&] { c.send(out[me[d] - step + (far - far) + zero]).to(me.next(d, 1 + none)); });
      });
    });
  });
}
"""

    def setUp(self):
        super().setUp()
        self.write("doublings.cpp", self.SOURCE)

    def answers(self, *arguments):
        return self.succeeds(*arguments, timeout=60)

    def test_are_emitted_once(self):
        text = self.answers("compile", "doublings.cpp", "--mesh", "rank=4", "--emit", "choreography")
        self.assertLess(len(text.splitlines()), 12000)

    def test_are_checked_compiled_and_run(self):
        self.answers("check", "doublings.cpp", "--mesh", "rank=4", "--mesh", "rank=1024")
        for flags in ([], ["--no-optimization"], ["--protocol", "ll"], ["--network", "rank"], ["--pipeline", "2"]):
            self.answers("compile", "doublings.cpp", "--mesh", "rank=4", "-o", "x.so", *flags)
            self.assertIn("every byte is right", self.answers("run", "x.so", "--mesh", "rank=4", "--bytes", "64K"))

    def test_are_predicted(self):
        self.answers("cost", "doublings.cpp", "--mesh", "rank=1024", "--machine", "frontier")
        self.answers("simulate", "doublings.cpp", "--mesh", "rank=8", "--machine", "frontier", "--bytes", "1M")


class Steps(ToolTest):
    """The step of a loop is a positive constant, whether anybody takes it or not."""

    def refuses_loop(self, file, before, loop):
        with open(self.file(self.copy(file))) as source:
            lines = source.read().splitlines()
        at = next(i for i, line in enumerate(lines) if line.lstrip().startswith(before))
        added = ("%zero = arith.constant 0 : index\n%minus = arith.constant -1 : index\n" + loop).splitlines()
        self.write("loop.mlir", "\n".join(lines[:at] + added + lines[at:]) + "\n")
        line = at + 1 + next(i for i, text in enumerate(added) if "scf.for" in text)
        for command in ("check", "compile"):
            [(name, found, message)] = self.mistakes(command, "loop.mlir")
            self.assertEqual((name, found), ("loop.mlir", line), message)
            self.assertIn("a loop with a step", message)

    def test_of_a_channel_program(self):
        isFirst = "%is = arith.cmpi eq, %me, %zero : index\n"
        for loop in ("scf.for %q = %zero to %last step %zero {\n}\n",
                     "scf.for %q = %last to %zero step %zero {\nkolo.chan.flush\n}\n",
                     "scf.for %q = %last to %zero step %minus {\nkolo.chan.flush\n}\n",
                     isFirst + "scf.if %is {\nscf.for %q = %last to %zero step %minus {\nkolo.chan.flush\n}\n}\n",
                     isFirst + "scf.for %q = %last to %zero step %minus {\nscf.if %is {\nkolo.chan.flush\n}\n}\n"):
            self.refuses_loop("channel.mlir", "kolo.chan.flush", loop)

    def test_of_a_choreography(self):
        for step in ("%zero", "%minus", "%n"):
            self.refuses_loop("choreography.mlir", "kolo.copy", f"scf.for %q = %n to %zero step {step} {{\n}}\n")


class Sizes(ToolTest):
    """Numbers that are too large to be gone through are refused where the author wrote them."""

    BODY = HEAD + """KOLO_COLLECTIVE(large, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in, out[me]);
  c.send(out[me]).to(me.others(d));
  %s
}
"""
    LINE = 9
    LOOP = "c.loop(%s, [&, d = d](Index i) { %s });"
    COPY = "c.copy(out[me], out[me]);"

    def refuses_statement(self, statement, *says, mesh="rank=4"):
        self.write("large.cpp", self.BODY % statement)
        for command in (["check"], ["compile", "-o", "x.so"], ["cost", "--machine", "frontier"],
                        ["simulate", "--machine", "frontier", "--bytes", "1M"]):
            [(name, line, message)] = self.mistakes(command[0], "large.cpp", "--mesh", mesh, *command[1:], timeout=60)
            self.assertEqual((name, line), ("large.cpp", self.LINE), message)
            for words in says:
                self.assertIn(words, message)

    def test_loops(self):
        once = self.LOOP % ("pow2(40)", self.COPY)
        self.refuses_statement(once, "takes 1099511627776 executions of statements", "16777216 moves are allowed (mesh rank=4)")
        self.refuses_statement(self.LOOP % ("pow2(20)", self.LOOP % ("pow2(21)", self.COPY)), "takes 2199023255552 executions")
        self.refuses_statement(self.LOOP % ("pow2(62)", self.LOOP % ("pow2(62)", self.COPY)), "takes 4611686018427387904 ex")
        self.refuses_statement(self.LOOP % ("pow2(20)", self.LOOP % ("i", self.COPY)), "takes at least 1678")
        self.refuses_statement(self.LOOP % ("1 << 22", "c.when(i < 0, [&] { %s });" % (self.COPY * 5)), "takes 20971520 ex")
        self.refuses_statement(self.LOOP % ("1 << 21", "c.send(out).to(me.others(d));"),
                               "takes 2097152 executions of statements, and 25165824 moves of chunks by each rank")
        self.refuses_statement("c.stripe(2, [&](int) { %s });" % once, "takes 1099511627776 executions")
        self.refuses_statement(once, "1099511627776", "1048576 moves are allowed (mesh rank=64)", mesh="rank=4096")

    def test_grids(self):
        for memory, number in (("grid(pow2(40))", 1 << 40), ("grid(pow2(62), pow2(62))", (1 << 64) - 1)):
            self.refuses_statement(f'c.scratch("large", in).{memory};', f"'large' has {number} chunks on every rank",
                                   "together may have 4194304 (mesh rank=4)")
        self.refuses_statement('c.slots("large", in, pow2(50));', f"'large' has {1 << 50} chunks on every rank")

    def test_many_rounds_are_proved(self):
        self.write("large.cpp", self.BODY % (self.LOOP % (100000, "c.send(out[me]).to(me.next(d));")))
        self.assertIn("V1   right result                      proved",
                      self.succeeds("check", "large.cpp", "--mesh", "rank=2", "--synchronisation", "handshake", timeout=100))

    def test_loops_of_a_channel_program(self):
        """The budget decides: nothing is proved, and nothing hangs."""
        with open(self.file(self.copy("channel.mlir"))) as source:
            text = source.read()
        flush = "kolo.chan.flush"
        idle = ("%half = arith.divsi %last, %q : index\n%is = arith.cmpi slt, %half, %c0 : index\n"
                f"scf.if %is {{\n{flush}\n}}")
        for body, says in ((flush, "took all of its budget to list the steps of its ranks, and ended where rank 0 flushes"),
                           (idle, "has a loop in which rank 0 runs "), ("", "")):
            loop = ("%many = arith.constant 1099511627776 : index\n"
                    f"scf.for %q = %c1 to %many step %c1 {{\n{body}\n}}\n")
            self.write("large.mlir", text.replace("  kolo.chan.flush", loop + "  kolo.chan.flush"))
            outcome = self.kolo("check", "large.mlir", "--budget", "1M", timeout=60)
            if body:
                self.assertEqual(outcome.code, 2, str(outcome))
                self.assertIn("mesh rank=4 cannot be checked: " + says, outcome.err)
            else:
                self.assertEqual(outcome.code, 0, "nothing is left of a loop without anything")


if __name__ == "__main__":
    unittest.main(verbosity=2)
