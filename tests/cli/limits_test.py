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


if __name__ == "__main__":
    unittest.main()
