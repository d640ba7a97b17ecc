"""kolo run: every way to run, on real data, and what it refuses."""
import itertools
import json
import re
import unittest

from tool import ToolTest

REDUCE = ["ringAllReduce", "--mesh", "rank=3", "--bytes", "10K", "--iterations", "2"]
DTYPES = ["f16", "bf16", "f32", "f64", "i8", "u8", "i32", "u32", "i64", "u64"]


class Ways(ToolTest):
    def test_prints_what_ran_and_that_it_is_right(self):
        lines = self.succeeds("run", "railAllGather", "--mesh", "node=2,gpu=2", "--bytes", "64K").splitlines()
        self.assertEqual(lines[:2], ["railAllGather on node=2,gpu=2: 4 processes, f32, window memory, 1 lane per rank",
                                     "65536 bytes (4096 elements): every byte is right"])
        self.assertRegex(lines[2], r"\Atime [\d.]+ us \(min [\d.]+, max [\d.]+, 5 iterations\), "
                                   r"algorithm bandwidth [\d.]+ GB/s, bus bandwidth [\d.]+ GB/s\Z")

    def test_ranks_memory_place_and_lanes(self):
        for ranks, memory, place, lanes in itertools.product(["processes", "threads"], ["windows", "ordinary"],
                                                             [[], ["--in-place"]], ["1", "3"]):
            self.succeeds("run", *REDUCE, "--ranks-as", ranks, "--memory", memory, "--lanes", lanes, *place)

    def test_every_dtype(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=3")
        for dtype in DTYPES:
            self.assertIn(f" {dtype} sum,", self.succeeds("run", "ringAllReduce.so", *REDUCE[1:], "--dtype", dtype))

    def test_every_op(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=3")
        for op in ("sum", "product", "min", "max", "average"):
            self.assertIn(f" f32 {op},", self.succeeds("run", "ringAllReduce.so", *REDUCE[1:], "--op", op))

    def test_every_root(self):
        for algorithm in ("binomialBroadcast", "directReduce", "binomialGather", "directScatter"):
            for root in ("0", "2"):
                self.succeeds("run", algorithm, *REDUCE[1:], "--root", root)

    def test_packets_of_any_size_in_any_memory(self):
        for protocol in ("ll", "ll128"):
            self.succeeds("compile", "twoShotAllReduce", "--mesh", "rank=2", "--mesh", "rank=3", "--protocol", protocol, "-o", "p.so")
            program = json.loads(self.succeeds("inspect", "p.so", "--json"))["programs"][0]
            self.assertEqual((program["semaphores"], program["shared"], program["ll128"]), (0, [], protocol == "ll128"))
            for mesh, size, memory in itertools.product(["rank=2", "rank=3"], ["8", "20000", "3M"], ["windows", "ordinary"]):
                self.succeeds("run", "p.so", "--mesh", mesh, "--bytes", size, "--memory", memory)
            self.succeeds("run", "p.so", "--mesh", "rank=2", "--bytes", "1K", "--lanes", "3", "--dtype", "f16", "--in-place")

    def test_a_program_that_publishes_an_input_which_peers_read_too(self):
        self.succeeds("compile", self.copy("published.mlir"))
        for size, memory, place in itertools.product(["64", "20000", "3M"], ["windows", "ordinary"], [[], ["--in-place"]]):
            self.succeeds("run", "published.so", "--mesh", "rank=2", "--bytes", size, "--memory", memory, *place)

    def test_files_that_are_compiled_first(self):
        self.copy("two.cpp")
        for program in ("direct", "ring"):
            out = self.succeeds("run", "two.cpp", "--program", program, "--mesh", "rank=3", "--bytes", "10K")
            self.assertIn(program + " on rank=3", out)
            self.assertIn("every byte is right", out)
        self.refuses(2, "run", "two.cpp", "--mesh", "rank=3", says=["--program is needed", "direct, ring"])
        self.refuses(2, "run", "two.cpp", "--program", "third", "--mesh", "rank=3", says=["there is no 'third'"])
        self.succeeds("bench", "two.cpp", "--program", "ring", "--mesh", "rank=2", "-b", "1K", "-e", "1K", "-n", "2")
        self.succeeds("run", self.copy("published.mlir"), "--mesh", "rank=2", "--bytes", "1K")
        self.assertEqual(self.listing(), ["published.mlir", "two.cpp"], "nothing remains")

    def test_sums_that_no_codec_rounds(self):
        """An f32 accumulator loses nothing; what is left are roundings of sums."""
        self.write("wide.cpp", '''#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
KOLO_COLLECTIVE(wide, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.inPlace(), sum = c.scratch("sum", out).as(f32());
  c.copy(out, sum);
  c.send(out).to(me.others(d)).at(sum).reduce();
  c.copy(sum, out);
}
''')
        out = self.succeeds("run", "wide.cpp", "--mesh", "rank=2", "--bytes", "10K", "--dtype", "bf16")
        self.assertRegex(out, r"worst error \S+ A, by the rounding of sums alone: no codec loses anything")

    def test_one_rank(self):
        self.succeeds("run", "ringAllReduce", "--mesh", "rank=1", "--bytes", "1K")


class Sizes(ToolTest):
    def test_units(self):
        for text, size in [("64", 64), ("64B", 64), ("2K", 2048), ("2k", 2048), ("2KiB", 2048), ("2KB", 2048),
                           ("1M", 1 << 20), ("16MiB", 16 << 20)]:
            out = self.succeeds("run", "ringAllReduce", "--mesh", "rank=2", "--bytes", text, "--iterations", "1")
            self.assertIn(f"\n{size} bytes ({size // 4} elements)", out)

    def test_counts(self):
        for count in (0, 1, 5):
            out = self.succeeds("run", "ringAllGather", "--mesh", "rank=3", "--count", str(count))
            self.assertIn(f"\n{count * 12} bytes ({count} elements)", out)
        self.succeeds("run", "ringAllGather", "--mesh", "rank=3", "--bytes", "0")

    def test_texts_that_are_no_size(self):
        for text in ("", "-1", "1.5M", "64X", "K", " 8", "8 ", "0x10", "1GiB8", "99999999999999999999", "9999999999G"):
            self.refuses(2, "run", "ringAllReduce", "--mesh", "rank=2", f"--bytes={text}" if text else "--bytes", "--count=1",
                         says="--bytes")
        self.refuses(2, "run", "ringAllGather", "--mesh", "rank=2", "--bytes", "7", says=["--bytes", "7", "8"])

    def test_variables_that_are_wrong_or_empty(self):
        for ranks in ("processes", "threads"):
            command = ["run", "ringAllReduce", "--mesh", "rank=2", "--bytes", "1K", "--ranks-as", ranks]
            for name in ("KOLO_WAIT", "KOLO_TIMEOUT_MS", "KOLO_ORDINARY_MEMORY"):
                self.refuses(2, *command, says=f"{name}='wrong'", **{name: "wrong"})
                self.succeeds(*command, **{name: ""})

    def test_more_memory_than_there_is(self):
        for memory in ("windows", "ordinary"):
            for size in (["--bytes", "1T"], ["--count", str((1 << 63) - 1)]):
                self.refuses(3, "run", "ringAllReduce", "--mesh", "rank=2", *size, "--memory", memory,
                             says=["2 ranks", "GiB", "available"])


class CountsOfBlocks(ToolTest):
    def test_every_collective_and_law(self):
        for algorithm in ("directAllToAll", "ringAllGather", "ringReduceScatter", "directGather", "directScatter"):
            self.succeeds("compile", algorithm, "--mesh", "rank=3", "-o", "p.so")
            for law, memory in itertools.product(("zipf:1.2:1", "zipf:0:0", "random:7", "onehot:1"), ("windows", "ordinary")):
                with self.subTest(algorithm=algorithm, law=law, memory=memory):
                    said = self.succeeds("run", "p.so", "--mesh", "rank=3", "--bytes", "10K", "--counts", law, "--memory", memory,
                                         "--ranks-as", "threads", "--iterations", "1")
                    self.assertIn(f"\ncounts {law}: ", said)
                    self.assertIn("every byte is right", said)
                    self.assertNotIn("bus bandwidth", said)
            for root in ("0", "2"):
                self.succeeds("run", "p.so", "--mesh", "rank=3", "--bytes", "1K", "--counts", "random:3", "--root", root, "--lanes", "2")

    def test_says_what_ran(self):
        said = self.succeeds("run", "directAllToAll", "--mesh", "rank=4", "--bytes", "64K", "--counts", "onehot:2").splitlines()
        self.assertEqual(said[1:3], ["counts onehot:2: 0 to 16384 elements in a block, 12 of 16 blocks empty, at most 262144 bytes in a buffer",
                                     "65536 bytes (4096 elements): every byte is right"])
        self.write("numbers", "1 0\n3")
        said = self.succeeds("run", "ringAllGather", "--mesh", "rank=3", "--count", "4", "--counts", "numbers", "--dtype", "u8", "--traffic")
        self.assertIn("counts numbers: 0 to 9 elements in a block, 1 of 3 blocks empty, at most 12 bytes in a buffer\n", said)
        self.assertIn("12 bytes (4 elements): every byte is right\n", said)
        # Each block goes round the ring but for its last step.
        self.assertEqual(sum(int(sent) for sent in re.findall(r"sends (\d+) bytes", said)), 2 * 12)

    def test_of_blocks_that_are_forwarded(self):
        for algorithm, mesh in (("twoLevelAllToAll", "node=3,gpu=2"), ("binomialGather", "rank=5"), ("binomialScatter", "rank=5"),
                                ("patAllGather", "rank=5"), ("patReduceScatter", "rank=5")):
            for law in ("zipf:1.2:1", "random:3", "onehot:1"):
                said = self.succeeds("run", algorithm, "--mesh", mesh, "--bytes", "20K", "--counts", law, "--lanes", "2",
                                     "--transfers", "push")
                self.assertIn("every byte is right", said)

    def test_in_place(self):
        for algorithm in ("directAllToAll", "ringAllGather", "ringReduceScatter"):
            self.succeeds("run", algorithm, "--mesh", "rank=3", "--bytes", "10K", "--counts", "zipf:1:0", "--in-place")

    def test_of_some_dimensions_and_of_what_the_plugin_selects(self):
        said = self.succeeds("run", "railAllGather", "--mesh", "node=2,gpu=2", "--bytes", "64K", "--counts", "zipf:2:1")
        self.assertIn("every byte is right", said)
        self.write("table.json", json.dumps({"machine": "none", "entries": [
            {"collective": "all_to_all", "ranks": 4, "memory": "windows", "upToBytes": 1024, "algorithm": "bruckAllToAll"},
            {"collective": "all_to_all", "ranks": 4, "memory": "windows", "upToBytes": None, "algorithm": "directAllToAll"}]}))
        self.succeeds("compile", "--table", "table.json", "-o", "t.so")
        call = ["run", "t.so", "--collective", "all_to_all", "--mesh", "rank=4", "--bytes", "1K"]
        self.assertIn("the plugin selects bruckAllToAll\n", self.succeeds(*call))
        said = self.succeeds(*call, "--counts", "random:1")
        self.assertIn("the plugin selects directAllToAll\n", said)
        self.assertIn("every byte is right", said)

    def test_with_codecs(self):
        for algorithm, mesh in (("quantisedAllToAll", "rank=3"), ("quantisedRailAllGather", "node=2,gpu=2"),
                                ("quantisedTwoLevelAllToAll", "node=2,gpu=2"),
                                ("quantisedReduceScatter", "node=2,gpu=2")):
            for law in ("zipf:1.2:1", "random:3", "onehot:1"):
                said = self.succeeds("run", algorithm, "--mesh", mesh, "--bytes", "96K", "--counts", law, "--iterations", "1")
                self.assertIn("every byte is what the reference interpreter gives", said)
                self.assertIn("every element is within the bound", said)

    def test_what_takes_none(self):
        three = ["--mesh", "rank=3", "--bytes", "1K", "--counts"]
        self.refuses(2, "run", "bruckAllToAll", *three, "random:1",
                     says=["--counts: bruckAllToAll takes no block tables on rank=3: moves a chunk to a block of another length",
                           "BruckAllToAll.cpp:"])
        self.refuses(2, "run", "ringAllReduce", *three, "random:1", says="--counts: all_reduce has no block for each rank")
        self.refuses(2, "run", "ringReduceScatter", *three, "random:1", "--op", "average", "--dtype", "bf16",
                     says="averages of f16 and bf16 take no block tables")
        self.refuses(2, "run", "ringAllGather", *three, "random:1", "--device", "cuda", says="--device")
        for law, says in (("zipf:x:1", "'zipf:x:1' is not zipf:EXPONENT:SEED"), ("zipf:1", "'zipf:1' is not zipf:EXPONENT:SEED"),
                          ("random:", "'random:' is not random:SEED"), ("onehot:-1", "'onehot:-1' is not onehot:BLOCK"),
                          ("nothing", "'nothing' is neither zipf:EXPONENT:SEED, random:SEED nor onehot:BLOCK"),
                          ("onehot:3", "there is no block 3 among 3")):
            self.refuses(2, "run", "ringAllGather", *three, law, says="--counts: " + says)
        self.write("two", "1 2")
        self.refuses(2, "run", "ringAllGather", *three, "two", says="--counts: 2 counts are not the 3 of 3 ranks")
        self.write("wrong", "1 -2 3")
        self.refuses(2, "run", "ringAllGather", *three, "wrong", says="--counts: '-2' in wrong is no count")
        self.refuses(2, "run", "ringAllGather", "--mesh", "rank=3", "--count", str(1 << 61), "--counts", "random:1", says="too many")
        self.refuses(2, "bench", "ringAllReduce", "--mesh", "rank=3", "--counts", "random:1", says="--counts: all_reduce has no block")


class Refusals(ToolTest):
    def test_values(self):
        for flag, value, says in [("--dtype", "f8", "bf16"), ("--op", "xor", "average"), ("--ranks-as", "fibers", "threads"),
                                  ("--memory", "gpu", "ordinary"), ("--lanes", "0", "64"), ("--lanes", "65", "64"),
                                  ("--lanes", "two", "two"), ("--iterations", "0", "0"), ("--count", "-1", "-1"),
                                  ("--timeout-ms", "-1", "-1"), ("--iterations", "9999999999", "9999999999")]:
            self.refuses(2, "run", "ringAllReduce", "--mesh", "rank=2", flag, value, says=[flag, says])

    def test_roots(self):
        for root in ("3", "-1"):
            self.refuses(2, "run", "binomialBroadcast", "--mesh", "rank=3", "--root", root, says=["--root", root, "0 to 2"])

    def test_missing_flags(self):
        self.refuses(2, "run", says="algorithm")
        self.refuses(2, "run", "ringAllReduce", says="--mesh")
        self.refuses(2, "run", "ringAllReduce", "--mesh", "rank=2", "--mesh", "rank=3", says="--mesh")

    def test_names(self):
        self.refuses(2, "run", "ringAllReduc", "--mesh", "rank=2", says="did you mean ringAllReduce?")
        self.refuses(2, "run", "ringAllReduce", "--mesh", "node=2", says=["rank=N", "node=2"])
        self.refuses(2, "run", "ringAllReduce", "--mesh", "rank=4097", says=["4097", "4096"])

    def test_a_mesh_that_the_plugin_is_not_for(self):
        self.succeeds("compile", "railAllGather", "--mesh", "node=2,gpu=4", "--mesh", "node=1,gpu=2", "-o", "p.so")
        for mesh in ("node=4,gpu=2", "rank=8"):
            self.refuses(2, "run", "p.so", "--mesh", mesh, says=["node=2,gpu=4 or node=1,gpu=2", mesh])

    def test_a_bad_environment(self):
        for name, value in [("KOLO_TIMEOUT_MS", "soon"), ("KOLO_WAIT", "idly"), ("KOLO_ORDINARY_MEMORY", "magic")]:
            for ranks in ("processes", "threads"):
                error = self.kolo("run", *REDUCE, "--ranks-as", ranks, **{name: value})
                self.assertIn(error.code, (2, 3), str(error))
                self.assertIn(name, error.err)

    def test_the_flag_is_meant_more_than_the_variable(self):
        self.succeeds("run", *REDUCE, "--timeout-ms", "20000", KOLO_TIMEOUT_MS="soon")

    def test_a_wrong_result(self):
        with open(self.file(self.copy("channel.mlir"))) as source:
            text = source.read()
        # What is sent on is not what arrived.
        wrong = text.replace("put %out[%i] size [%c1] ->", "put %out[%me] size [%c1] ->")
        self.assertNotEqual(wrong, text)
        self.refuses(1, "compile", self.write("wrong.mlir", wrong), says="V1: right result")
        self.assertEqual(self.kolo("compile", "wrong.mlir", "--unproved").code, 0)
        outcome = self.kolo("run", "wrong.so", "--mesh", "rank=4", "--bytes", "1K")
        self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
        warning, error = outcome.err.splitlines()
        self.assertIn("ring is not proved on rank=4", warning)
        self.assertRegex(error, r"\Aring: rank \d: element \d+ of the output is wrong")


if __name__ == "__main__":
    unittest.main(verbosity=2)
