"""Receivers need to exist only where a condition holds: `flip` and `at` may lead out of the mesh elsewhere."""
import unittest

from tool import ToolTest

HEAD = "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n"
COLLECTIVE = """KOLO_COLLECTIVE(partly, %s, Mesh(%s)) {
  auto [%s] = c.dims<%d>();
  Rank me = c.rank();
  %s
}
"""
MASKS = "pow2(log2(d.size()) + 1) - 1"  # all that lead from a coordinate to another one, and some that lead out
GATHER = "Buffer in = c.input(), out = c.output(); c.copy(in, out[me]); "
REDUCE = "Buffer in = c.input(), out = c.output(); c.copy(in, out); "
FLIP_GATHER = GATHER + "c.loop(" + MASKS + """, [&, d = d](Index i) {
    Rank peer = me.flip(d, i + 1);
    c.when(%s, [&] { c.send(out[me]).to(peer); });
  });"""
FLIP_REDUCE = REDUCE + "c.loop(" + MASKS + """, [&, d = d](Index i) {
    Rank peer = me.flip(d, i + 1);
    c.when(%s, [&] { c.send(in).to(peer).at(out).reduce(); });
  });"""
AT_GATHER = GATHER + """c.loop(d + 3, [&, d = d](Index i) {
    Index there = i - 1;
    c.when(there >= 0 && there < d && me[d] != there, [&] { c.send(out[me]).to(me.at(d, there)); });
  });"""
AT_ALL = GATHER + """c.loop(d + 3, [&, d = d](Index i) {
    c.when(i > 0 && i <= d, [&] { c.send(in).to(me.at(d, i - 1)).at(out[me]); });
  });"""
TWO_LEVELS = GATHER + "c.loop(" + MASKS + """, [&, d = d](Index i) {
    c.when((me[d] ^ (i + 1)) < d, [&] { c.send(out[{me[e], me[d]}]).to(me.flip(d, i + 1)); });
  });
  c.loop(pow2(log2(e.size()) + 1) - 1, [&, e = e](Index i) {
    Rank peer = me.flip(e, i + 1);
    c.when(peer[e] < e, [&] { c.send(out[{me[e], all}]).to(peer); });
  });"""
SENDER, RECEIVER = "(me[d] ^ (i + 1)) < d", "peer[d] < d && peer[d] >= 0"


def source(collective, body, dims=("d",)):
    names = ", ".join(f'"{dim}"' for dim in dims)
    return HEAD + COLLECTIVE % (collective, names, ", ".join(dims), len(dims), body)


PROGRAMS = {
    "gather": (source("AllGather", FLIP_GATHER % SENDER), "d={}"),
    "gatherByPeer": (source("AllGather", FLIP_GATHER % RECEIVER), "d={}"),
    "reduce": (source("AllReduce", FLIP_REDUCE % SENDER), "d={}"),
    "reduceByPeer": (source("AllReduce", FLIP_REDUCE % RECEIVER), "d={}"),
    "reduceByTable": (source("AllReduce", "Table ones({1, 1, 1, 1, 1, 1}); " + FLIP_REDUCE % (SENDER + " && ones[me[d]] == 1")),
                      "d={}"),
    "at": (source("AllGather", AT_GATHER), "d={}"),
    "atAll": (source("AllGather", AT_ALL), "d={}"),
    "twoLevels": (source("AllGather", TWO_LEVELS, ("e", "d")), "e=3,d={}"),
}
SCHEDULES = ([], ["--no-optimization"], ["--protocol", "ll"], ["--network", "d"], ["--pipeline", "2"], ["--transfers", "pull"],
             ["--synchronisation", "handshake"], ["--entry", "credits"])


class Proofs(ToolTest):
    def test_are_found_and_every_byte_is_right(self):
        """Each program with two more schedules than the default, each schedule with two programs."""
        for number, (name, (text, mesh)) in enumerate(PROGRAMS.items()):
            others = [SCHEDULES[1 + (2 * number + more) % (len(SCHEDULES) - 1)] for more in (0, 1)]
            self.write("x.cpp", text)
            for size in (3, 6):
                if name == "twoLevels" and size == 6:
                    continue
                on = mesh.format(size)
                said = self.succeeds("check", "x.cpp", "--mesh", on, timeout=60)
                self.assertIn("V1   right result                      proved", said, name)
                for flags in [[], *others] if size == 3 else [[]]:
                    self.succeeds("compile", "x.cpp", "--mesh", on, "-o", "x.so", *flags, timeout=60)
                    self.assertIn("every byte is right", self.succeeds("run", "x.so", "--mesh", on, "--bytes", "12K"),
                                  f"{name} {on} {flags}")

    def test_are_found_for_many_ranks(self):
        for name in ("gather", "reduce", "atAll"):
            self.write("x.cpp", PROGRAMS[name][0])
            self.succeeds("check", "x.cpp", "--mesh", "d=100", timeout=100)

    def test_costs_are_predicted(self):
        for name, (text, mesh) in PROGRAMS.items():
            self.write("x.cpp", text)
            on = mesh.format(8 if name == "twoLevels" else 6)
            self.succeeds("cost", "x.cpp", "--mesh", on, "--machine", "frontier")
            self.succeeds("simulate", "x.cpp", "--mesh", on, "--machine", "frontier", "--bytes", "1M")


class Refusals(ToolTest):
    def test_a_receiver_must_exist_where_the_condition_holds(self):
        for body, says in ((FLIP_GATHER % "me[d] >= 0", "flip(d, 2) leads from coordinate 4 to 6, but d has 6 ranks"),
                           (FLIP_GATHER % "(me[d] ^ (i + 1)) <= d", "flip(d, 2) leads from coordinate 4 to 6, but d has 6 ranks"),
                           (AT_GATHER.replace("there < d", "there <= d"), "at(d, 6), but d has 6 ranks"),
                           (AT_GATHER.replace("there >= 0", "there >= -1"), "at(d, -1), but d has 6 ranks"),
                           (AT_ALL.replace("i <= d", "i <= d + 1"), "at(d, 6), but d has 6 ranks")):
            text = source("AllGather", body)
            self.write("x.cpp", text)
            line = 1 + next(i for i, of in enumerate(text.splitlines()) if "c.when" in of)
            for command in (["check"], ["compile"], ["cost", "--machine", "frontier"]):
                [(file, found, message)] = self.mistakes(command[0], "x.cpp", "--mesh", "d=6", *command[1:])
                self.assertEqual((file, found), ("x.cpp", line), message)
                self.assertIn(says, message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
