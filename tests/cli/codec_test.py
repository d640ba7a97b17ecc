"""kolo codec, --codec, what kolo check says of codecs, and that nothing is lowered as if they were not there."""
import json
import os
import re
import socket
import unittest

from tool import ToolTest

PARTITION = "node=2,module=4,die=2"
MINE = """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(mine, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Codec wire = c.codec("wire", levels({-1, -0.5, 0, 0.5, 1}).per(64, Scale::BF16));
  Buffer out = c.output();
  Buffer packed = c.scratch("packed", out).as(wire);
  c.copy(c.input(), packed[c.rank()]);
  c.send(packed[c.rank()]).to(c.rank().others(d));
  c.copy(packed, out);
}
"""
WRONG = MINE.replace(".per(64,", ".per(48,").replace("c.copy(packed, out);", "out.as(int8());")


class Codecs(ToolTest):
    def test_presets_are_listed(self):
        text = self.succeeds("codec")
        for name in ("mxfp8", "mxfp4", "nvfp4", "int8(256)", "quick4", "sign(1024)", "bf16", "none"):
            self.assertIn("\n" + name + " ", text)
        rows = json.loads(self.succeeds("codec", "--json"))
        row = next(row for row in rows if row["name"] == "nvfp4")
        self.assertEqual(row["codec"], "e2m1 per 16 scale e4m3 fit")
        self.assertEqual((row["bitsPerElement"], row["bytesPer1024"]), (4.625, 592))

    def test_one_codec_is_described(self):
        self.assertEqual(self.succeeds("codec", "mxfp4"), """mxfp4: e2m1 per 32 scale e8m0 power
  bits per element      4.25
  bytes per 1024        544
  worst error           0.25 of the largest element of the block
  of small numbers      7.05e-38 more
  largest number        1.7e+38; beyond it, blocks may decode to NaN or infinity
  signal to noise       18.8 dB on normal, 17.9 dB on Laplacian numbers
""")
        self.assertIn("i8 per 64 scale bf16 full", self.succeeds("codec", "i8 per 64 scale bf16 full"))
        self.assertIn("exact on normal", self.succeeds("codec", "f32"))

    def test_bad_codecs_are_refused_in_one_line(self):
        for text, reason in (("mxfp5", "there is no codec 'mxfp5' (kolo codec)"),
                             ("int8(48)", "codec 'int8(48)' has a block of 48; a block is a power of two from 16 to 1024"),
                             ("none", "codec 'none' stores elements as the call gives them")):
            self.refuses(2, "codec", text, says=[reason])


ALL_REDUCE = """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(mine, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Buffer in = c.input().grid(d), out = c.output().grid(d);
  Buffer sum = c.scratch("sum", out).as(f32()), packed = c.scratch("packed", out).as(int8(256));
  Buffer arrived = c.slots("arrived", out, d.size()).as(int8(256));
  c.copy(in[me], sum[me]);
  c.send(in[peer]).to(peer).at(arrived[me[d]]);
  c.loop(d.size() - 1, [&](Index i) { c.reduce(arrived[me[d] + 1 + i], sum[me]); });
  c.copy(sum[me], packed[me]);
  c.send(packed[me]).to(peer);
  c.copy(packed, out);
}
"""
ONE_SHOT = """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(mine, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), sum = c.scratch("sum", out).as(f32());
  Buffer arrived = c.slots("arrived", out, d.size()).as(int8(256));
  c.copy(in, arrived[me[d]]);
  c.send(in).to(me.others(d)).at(arrived[me[d]]);
  c.copy(arrived[FIRST], sum);
  c.loop(d.size() - 1, [&](Index i) { c.reduce(arrived[(FIRST + 1 + i) % d.size()], sum); });
  c.copy(sum, out);
}
"""


def of_owner(statement):
    """The owner's own chunk of the output, from elsewhere."""
    return ALL_REDUCE.replace("  c.copy(packed, out);\n", "  c.copy(packed, out);\n  " + statement + "\n")


class Checks(ToolTest):
    def check(self, text, *flags):
        self.write("mine.cpp", text)
        return self.kolo("check", "mine.cpp", "--mesh", "rank=4", *flags)

    def lossy(self, *arguments):
        out = self.succeeds("check", *arguments)
        return [line.split("lossy", 1)[1].strip() for line in out.splitlines() if line.strip().startswith("lossy")]

    def test_bounds_are_as_published(self):
        for algorithm, mesh, said in (
                ("quantisedRingAllGather", "rank=5", "1 encoding; |error| <= 1 u A, u = 0.00394 of int8(256)"),
                ("quantisedTwoShotAllReduce", "rank=8", "2 encodings; |error| <= 15 u A, u = 0.00394 of int8(256)"),
                ("quantisedRingAllReduce", "rank=100", "100 encodings; |error| <= 5050 u A, u = 0.00394 of int8(256)"),
                ("quantisedReduceScatter", "node=2,gpu=4",
                 "2 encodings; |error| <= 6 u A + 4 u2 A, u = 0.00394 of int8(256), u2 = 0.125 of int4(256)"),
                ("hybridAllReduce", "node=2,gpu=4", "2 encodings; |error| <= 12 u A, u = 0.00394 of int8(256)"),
                ("pairAllGather --codec weights=int8", PARTITION, "1 encoding; |error| <= 1 u A, u = 0.00394 of int8(256)"),
                ("nodeReduceScatter --codec die=int8 --codec module=int8", PARTITION,
                 "2 encodings; |error| <= 10 u A, u = 0.00394 of int8(256)"),
                ("railReduceScatter --codec network=int4", PARTITION, "1 encoding; |error| <= 1 u A, u = 0.125 of int4(256)"),
                ("partitionAllGather --codec weights=int8", PARTITION,
                 "1 encoding; |error| <= 1 u A, u = 0.00394 of int8(256)"),
                ("nodeReduceScatter", PARTITION, "exact")):
            with self.subTest(algorithm=algorithm):
                [line] = self.lossy(*algorithm.split(), "--mesh", mesh)
                self.assertEqual(line.split("; + ")[0], said)
        for wire, domain in (("quick4", "1.67e-06; A <= 6.65e+04"), ("quick6", "6.68e-06; A <= 2.9e+05"),
                             ("int8", "1.05e-35; A <= 2.42e+37"), ("e4m3", "3.69e-35; A <= 2.35e+37")):
            [line] = self.lossy("quantisedTwoShotAllReduce", "--mesh", "rank=4", "--codec", "wire=" + wire)
            self.assertEqual(line.split("; + ")[1].split("; in f16")[0], domain)
        self.assertEqual(self.lossy("ringAllReduce", "--mesh", "rank=4"), ["exact"])
        self.assertEqual(self.lossy("quantisedRingAllGather", "--mesh", "rank=4", "--codec", "weights=none"), ["exact"])

    def test_json_has_the_bound(self):
        [found] = json.loads(self.succeeds("check", "quantisedReduceScatter", "--mesh", "node=2,gpu=4", "--json"))
        self.assertEqual({key: found["lossy"][key] for key in ("isExact", "encodings", "callTypeFactor")},
                         {"isExact": False, "encodings": 2, "callTypeFactor": 8})
        self.assertEqual([(entry["codec"], entry["factor"]) for entry in found["lossy"]["bound"]],
                         [("int8(256)", 6), ("int4(256)", 4)])
        self.assertAlmostEqual(found["lossy"]["bound"][0]["worstError"], 1 / 254, places=6)
        self.assertAlmostEqual(found["lossy"]["leastError"] * 2**126, 6 * 127 + 4 * 8)
        self.assertAlmostEqual(found["lossy"]["largestInput"] / 2**127, 1 / (6 + 6 / 254 + 4 / 8), places=5)
        [found] = json.loads(self.succeeds("check", "ringAllReduce", "--mesh", "rank=4", "--json"))
        self.assertEqual(found["lossy"], {"isExact": True, "encodings": 0, "bound": [], "callTypeFactor": 0})
        self.assertEqual(found["properties"]["V11"]["state"], "proved")

    def test_the_program_carries_its_bound(self):
        text = self.succeeds("compile", "quantisedTwoShotAllReduce", "--mesh", "rank=4", "--emit", "channel")
        self.assertIn('lossy = [{bound = [{codec = "none", factor = 4 : i64}, {codec = "i8 per 256 scale f32 fit", '
                      'factor = 7 : i64}], encodings = 2 : i64, ranks = "on all ranks", runs = "the same bits in every run"}]', text)
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", "exact.so")
        [program] = json.loads(self.succeeds("inspect", "exact.so", "--json"))["programs"]
        self.assertEqual(program["lossy"], [])
        for words, ranks, runs in (
                (["quantisedTwoShotAllReduce", "--mesh", "rank=4"], "on all ranks", "the same bits in every run"),
                (["quantisedAllToAll", "--mesh", "rank=4", "--codec", "tokens=i8 per 64 scale f32 fit stochastic"],
                 "every rank has an output of its own", "the same bits in every run, but others in every call of a run")):
            self.succeeds("compile", *words, "-o", "lossy.so")
            [program] = json.loads(self.succeeds("inspect", "lossy.so", "--json"))["programs"]
            [lossy] = program["lossy"]
            self.assertEqual((lossy["ranks"], lossy["runs"]), (ranks, runs))

    def test_an_owner_that_keeps_its_unrounded_value_is_refused(self):
        line = len(ALL_REDUCE.split("c.copy(packed, out);")[0].splitlines())
        right = self.check(ALL_REDUCE)
        self.assertEqual(right.code, 0, str(right))
        outcome = self.check(of_owner("c.copy(sum[me], out[me]);"))
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn(f"mine.cpp:{line + 1}:9: error: chunk [0] of 'output' on rank 0 has other bits than on rank 1, which "
                      "decodes 'packed': copy what was sent, 'packed', not what it was made from, 'sum' (V11: same bits; "
                      "mesh rank=4)", outcome.out)
        self.assertIn(f"mine.cpp:{line - 2}:9: note: the other statement", outcome.out)
        compiled = self.kolo("compile", "mine.cpp", "--mesh", "rank=4", "-o", "mine.so")
        self.assertIn("(V11: same bits; mesh rank=4)", compiled.err)
        self.assertNotIn("mine.so", self.listing())

    def test_one_encoding_more_is_in_the_bound_and_refused_of_the_owner_alone(self):
        buffers = "".join(f'  Buffer {name} = c.scratch("{name}", out).as({codec});\n'
                          for name, codec in (("wide", "f32()"), ("twice", "int8(256)")))
        begin = "  c.copy(in[me], sum[me]);\n"
        again = "c.copy(packed, wide);\n  c.copy(wide, twice);\n  c.copy(twice, out);"
        outcome = self.check(ALL_REDUCE.replace(begin, buffers + begin).replace("c.copy(packed, out);", again))
        self.assertIn(" 3 encodings; |error| <= 11 u A, ", outcome.out)
        owner = of_owner("c.copy(packed[me], wide[me]);\n  c.copy(wide[me], twice[me]);\n  c.copy(twice[me], out[me]);")
        outcome = self.check(owner.replace(begin, buffers + begin))
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn("which decodes 'twice': copy what it was made from, 'wide', there too, which is what most ranks have", outcome.out)

    def test_ranks_that_combine_decoded_values_in_different_orders_are_refused(self):
        self.assertEqual(self.check(ONE_SHOT.replace("FIRST", "0")).code, 0)
        outcome = self.check(ONE_SHOT.replace("FIRST", "me[d]"))
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertRegex(outcome.out, r"has other bits than on rank \d: the two combine in different orders")

    def test_an_exact_program_that_sums_in_different_orders_is_told_so_and_proved(self):
        text = ONE_SHOT.replace(".as(int8(256))", "").replace(".as(f32())", "")
        self.assertRegex(self.check(text.replace("FIRST", "0")).out, r"\nV11 +same bits +proved; on all ranks\n")
        outcome = self.check(text.replace("FIRST", "me[d]"))
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertRegex(outcome.out, r"\nV11 +same bits +no; ranks combine in different orders, so floating-point sums")

    def test_stochastic_codecs_give_the_same_bits_once_encoded_bytes_are_forwarded(self):
        out = self.succeeds("check", "quantisedRingAllReduce", "--mesh", "rank=4", "--codec",
                            "wire=i8 per 256 scale f32 fit stochastic")
        self.assertIn("the same bits in every run, but others in every call of a run", out)
        self.assertRegex(out, r"\nV11 +same bits +proved")


def entry(algorithm, **fields):
    return {"collective": "all_reduce", "ranks": 2, **{name: fields[name] for name in ("tag",) if name in fields},
            "memory": fields.get("memory", "windows"), "upToBytes": None, "algorithm": algorithm,
            **{name: fields[name] for name in ("lossy",) if name in fields}}


class Selections(ToolTest):
    def selected(self, *words):
        text = self.succeeds("run", "x.so", "--collective", "all_reduce", "--mesh", "rank=2", "--count", "3000",
                             "--iterations", "1", *words)
        self.assertEqual("signal-to-noise" in text, "selects quantised" in text, text)
        return re.search("the plugin selects (\\w+)", text)[1]

    def compile(self, *entries):
        self.write("table.json", json.dumps({"entries": entries}))
        self.succeeds("compile", "--table", "./table.json", "-o", "x.so")

    def test_only_communicators_with_the_tag_lose_bits(self):
        self.compile(entry("ringAllReduce"), entry("ringAllReduce", memory="ordinary"),
                     entry("quantisedTwoShotAllReduce", tag="dp", lossy=True))
        self.assertEqual(self.selected(), "ringAllReduce")
        self.assertEqual(self.selected("--lossy"), "ringAllReduce")
        self.assertEqual(self.selected("--tag", "tp"), "ringAllReduce")
        self.assertEqual(self.selected("--tag", "dp"), "quantisedTwoShotAllReduce")
        self.assertEqual(self.selected("--tag", "dp", "--dtype", "bf16", "--op", "max"), "quantisedTwoShotAllReduce")
        for words in (["--dtype", "i32"], ["--dtype", "f64"], ["--op", "product"], ["--memory", "ordinary"]):
            self.assertEqual(self.selected("--tag", "dp", *words), "ringAllReduce", words)
        self.assertRegex(self.succeeds("inspect", "x.so"),
                         "no end +quantisedTwoShotAllReduce, of communicators tagged dp, may lose bits\n")

    def test_nothing_is_lost_that_neither_the_entry_nor_the_call_allows(self):
        self.compile(entry("ringAllReduce"), entry("quantisedTwoShotAllReduce", tag="dp"))
        self.assertEqual(self.selected("--tag", "dp"), "ringAllReduce")
        self.assertEqual(self.selected("--tag", "dp", "--lossy"), "quantisedTwoShotAllReduce")
        self.compile(entry("quantisedTwoShotAllReduce"))
        self.refuses(2, "run", "x.so", "--collective", "all_reduce", "--mesh", "rank=2",
                     says=["--collective: x.so selects no program for all_reduce on 2 ranks (rank=2), for elements of f32;"])
        self.assertEqual(self.selected("--lossy"), "quantisedTwoShotAllReduce")

    def test_fields_of_a_table_are_checked(self):
        for changes, reason in (({"tag": 5}, "entries[0].tag: is no text"), ({"tag": ""}, "entries[0].tag: is empty"),
                                ({"lossy": "yes"}, "entries[0].lossy: is neither true nor false")):
            self.write("table.json", json.dumps({"entries": [{**entry("ringAllReduce"), **changes}]}))
            self.refuses(2, "compile", "--table", "./table.json", "-o", "y.so", says=["table.json: " + reason])

    def test_shipped_tables_and_tuning_lose_nothing(self):
        tables = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "algorithms", "tables")
        for name in os.listdir(tables):
            with open(os.path.join(tables, name), encoding="utf-8") as file:
                table = file.read()
            self.assertNotRegex(table, "quantised|hybrid|lossy", name)
        self.succeeds("tune", "--mesh", "rank=2", "--collective", "all_reduce", "--max-bytes", "256", "--seconds-per-cell", "0.001", "-o", "tuned.json")
        with open(self.file("tuned.json"), encoding="utf-8") as file:
            self.assertNotRegex(file.read(), "quantised|hybrid|lossy")


class Programs(ToolTest):
    def test_a_program_with_codecs_runs_and_says_what_it_loses(self):
        self.write("mine.cpp", MINE)
        self.succeeds("compile", "mine.cpp", "--mesh", "rank=4", "-o", "mine.so")
        text = self.succeeds("run", "mine.so", "--mesh", "rank=4", "--count", "5000")
        self.assertIn("every byte is what the reference interpreter gives", text)
        self.assertRegex(text, r"\nevery element is within the bound: worst error 0\.\d+ A, bound 0\.\d+ A; A is .*\n"
                               r"signal-to-noise ratio 8\.\d dB on normal numbers\n")
        for codec, quality in (("f32", "nothing is lost"), ("int8", "ratio 4[23]"), ("quick4", "ratio 2[01]")):
            with self.subTest(codec=codec):
                text = self.succeeds("run", "quantisedRingAllGather", "--mesh", "rank=3", "--codec", "weights=" + codec,
                                     "--count", "20000", "--lanes", "2")
                self.assertRegex(text, quality)

    def test_numbers_of_every_size_are_within_the_bound_or_flagged(self):
        """Every other 1,024 numbers are from 1e-44 to 3e38 in size."""
        for codec, dtype, op in (("quick4", "f32", "sum"), ("quick6", "bf16", "max"), ("quick8", "f32", "average"),
                                 ("fp4", "f32", "sum"), ("nvfp4", "f32", "sum"), ("sign", "f32", "sum"),
                                 ("e4m3 per 128 scale f32 fit", "bf16", "sum"), ("quick8", "f16", "average")):
            with self.subTest(codec=codec, dtype=dtype):
                text = self.succeeds("run", "quantisedTwoShotAllReduce", "--mesh", "rank=2", "--codec", "wire=" + codec,
                                     "--dtype", dtype, "--op", op, "--count", "20000", "--iterations", "1")
                self.assertIn("\nevery element is within the bound", text)
                flagged = r"\n\d+ elements of inputs beyond the bound's domain are infinities or NaNs\n"
                (self.assertNotRegex if dtype == "f16" else self.assertRegex)(text, flagged)  # no f16 is beyond it

    def test_partitions_are_exact_unless_a_codec_is_chosen(self):
        for words, said in (([], "right"), (["--codec", "weights=mxfp8"], "what the reference interpreter gives")):
            text = self.succeeds("run", "partitionAllGather", "--mesh", "node=2,module=2,die=1", "--count", "9000", *words)
            self.assertIn("every byte is " + said, text)

    def test_errors_reach_a_quarter_of_the_bound_and_stay_within_it(self):
        for algorithm, mesh, words in (("quantisedTwoShotAllReduce", "rank=4", ["--op", "average", "--dtype", "f16"]),
                                       ("quantisedTwoShotAllReduce", "rank=2", ["--codec", "wire=mxfp4", "--dtype", "bf16"]),
                                       ("quantisedRingAllReduce", "rank=4", ["--codec", "wire=e4m3"]),
                                       ("quantisedReduceScatter", "node=2,gpu=2", []),
                                       ("hybridAllReduce", "node=2,gpu=2", ["--codec", "network=bf16"]),
                                       ("nodeReduceScatter", "node=1,module=2,die=2", ["--codec", "die=int8", "--codec", "module=int4"]),
                                       ("railReduceScatter", "node=3,module=1,die=1", ["--codec", "network=int4"])):
            with self.subTest(algorithm=algorithm, words=words):
                text = self.succeeds("run", algorithm, "--mesh", mesh, "--count", "9000", "--iterations", "1", *words)
                found = re.search(r"within the bound: worst error (\S+) A, bound (\S+) A;", text)
                self.assertGreater(float(found[1]), float(found[2]) / 4, text)
                self.assertLess(float(found[1]), float(found[2]), text)

    def test_devices_have_code_for_packets_of_codecs(self):
        self.write("mine.cpp", MINE)
        for protocol in ("bulk", "ll", "ll128"):
            with self.subTest(protocol=protocol):
                self.succeeds("compile", "mine.cpp", "--mesh", "rank=4", "-o", "x.so", "--target", "cpu,cuda:sm_90",
                              "--protocol", protocol)
                self.assertIn("sm_90", self.succeeds("inspect", "x.so"))

    def test_packets_carry_encoded_bytes(self):
        for protocol in ("ll", "ll128"):
            with self.subTest(protocol=protocol):
                text = self.succeeds("run", "quantisedTwoShotAllReduce", "--mesh", "rank=3", "--count", "3072", "--protocol",
                                     protocol, "--iterations", "2", "--traffic")
                self.assertIn("every byte is what the reference interpreter gives", text)
                self.assertIn(f"\nin a call, every rank sends {4 * 1040} bytes, fetches 0\n", text)

    def test_costs_depend_on_the_codec_and_on_the_type(self):
        def seconds(command, *words):
            report = json.loads(self.succeeds(command, "hybridAllReduce", "--machine", "frontier", "--mesh", "node=2,gpu=8",
                                              "--bytes", "64M", "--json", *words))
            [size] = report["schedules"][0]["sizes"]
            self.assertNotIn("boundSeconds", size)  # which is of exact calls
            return size["seconds"]
        for command in ("cost", "simulate"):
            exact, eight, four = (seconds(command, "--codec", "network=" + codec) for codec in ("none", "int8", "int4"))
            self.assertLess(eight, exact)
            self.assertLess(four, eight)
            self.assertLess(eight, seconds(command, "--codec", "network=int8", "--dtype", "bf16"))  # twice the elements
        two = self.succeeds("cost", "hybridAllReduce", "slottedHierarchicalAllReduce", "--machine", "frontier", "--mesh",
                            "node=2,gpu=8", "--bytes", "64M", "--codec", "network=int4")
        self.assertIn("hybridAllReduce  slottedHierarchicalAllReduce", two)
        self.refuses(2, "cost", "hybridAllReduce", "ringAllReduce", "--machine", "frontier", "--mesh", "node=2,gpu=8",
                     "--codec", "wire=int4", says=["--codec: no program has a codec named 'wire'"])
        self.refuses(2, "cost", "hybridAllReduce", "--machine", "frontier", "--mesh", "node=2,gpu=8", "--dtype", "i8",
                     says=["--dtype"])

    def test_calls_that_codecs_are_not_for_are_refused_in_one_line(self):
        self.succeeds("compile", "quantisedTwoShotAllReduce", "--mesh", "rank=2", "-o", "two.so")
        for words, reason in ((["--dtype", "i32"], "elements are f16, bf16 or f32, not i32"),
                              (["--dtype", "f64"], "elements are f16, bf16 or f32, not f64"),
                              (["--op", "product"], "nothing is multiplied")):
            with self.subTest(words=words):
                self.refuses(2, "run", "two.so", "--mesh", "rank=2", "--count", "100", *words, says=[reason])
        self.refuses(2, "run", "two.so", "--mesh", "rank=2", "--codec", "wire=mxfp8",
                     says=["--codec: two.so is compiled already, by kolo compile --codec"])

    def test_ranks_with_plugins_of_different_codecs_are_told(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        ranks = []
        for rank, codec in enumerate(("int8", "mxfp8")):
            self.succeeds("compile", "quantisedTwoShotAllReduce", "--mesh", "rank=2", "--codec", "wire=" + codec, "-o", codec + ".so")
            ranks.append(self.start("run", codec + ".so", "--mesh", "rank=2", "--count", "5000", "--ranks-as", "launched",
                                    RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
        for rank in ranks:
            out, err = rank.communicate(timeout=60)
            self.assertEqual((rank.returncode, out), (3, ""), err)
            self.assertRegex(err, r"\Akolo: ranks disagree on plugin: rank 0 called with \w{16}, rank 1 with \w{16}\n\Z")

    def test_a_program_whose_codecs_are_none_is(self):
        self.write("mine.cpp", MINE)
        self.succeeds("compile", "mine.cpp", "--mesh", "rank=4", "--codec", "wire=none", "-o", "mine.so")
        self.succeeds("run", "mine.so", "--mesh", "rank=4", "--bytes", "1M")

    def test_the_choice_of_a_codec_is_in_the_choreography(self):
        self.write("mine.cpp", MINE)
        text = self.succeeds("compile", "mine.cpp", "--mesh", "rank=4", "--codec", "wire=mxfp8", "--emit", "choreography")
        self.assertIn('"packed" as <e4m3 per 32 scale e8m0 power>', text)

    def test_bad_choices_are_refused_in_one_line(self):
        self.write("mine.cpp", MINE)
        for choice, reason in (("wir=mxfp8", "--codec: no program has a codec named 'wir'; there are wire"),
                               ("wire", "--codec: wire is not NAME=CODEC, for example wire=mxfp8 (kolo codec)"),
                               ("wire=mxfp5", "--codec: wire=mxfp5 is not NAME=CODEC"),
                               ("wire=int8(48)", "--codec: wire=int8(48) has a block of 48")):
            with self.subTest(choice=choice):
                self.refuses(2, "compile", "mine.cpp", "--mesh", "rank=4", "--codec", choice, "-o", "x.so", says=[reason])

    def test_mistakes_are_reported_at_their_lines(self):
        self.write("wrong.cpp", WRONG)
        text = self.kolo("compile", "wrong.cpp", "--mesh", "rank=4", "-o", "x.so").err
        self.assertIn("wrong.cpp:8:", text)
        self.assertIn("the codec of 'packed' has a block of 48", text)
        self.assertIn("'output' is the caller's and has no codec", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
