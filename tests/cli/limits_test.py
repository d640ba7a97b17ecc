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


if __name__ == "__main__":
    unittest.main()
