"""kolo codec, --codec, and that nothing is lowered as if its codecs were not there."""
import json
import unittest

from tool import ToolTest

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
  signal to noise       18.8 dB on normal, 17.9 dB on Laplacian numbers
""")
        self.assertIn("i8 per 64 scale bf16 full", self.succeeds("codec", "i8 per 64 scale bf16 full"))
        self.assertIn("exact on normal", self.succeeds("codec", "f32"))

    def test_bad_codecs_are_refused_in_one_line(self):
        for text, reason in (("mxfp5", "there is no codec 'mxfp5' (kolo codec)"),
                             ("int8(48)", "codec 'int8(48)' has a block of 48; a block is a power of two from 16 to 1024"),
                             ("none", "codec 'none' stores elements as the call gives them")):
            self.refuses(2, "codec", text, says=[reason])


class Programs(ToolTest):
    def test_a_program_with_codecs_is_not_lowered(self):
        self.write("mine.cpp", MINE)
        reason = "error: this version lowers no codecs: buffer 'packed' is levels [-1, -0.5, 0, 0.5, 1] per 64 scale bf16 fit"
        for command in (["compile", "-o", "mine.so"], ["check"], ["cost", "--machine", "frontier"]):
            with self.subTest(command=command):
                self.refuses(1, command[0], "mine.cpp", "--mesh", "rank=4", *command[1:], says=["mine.cpp:8:", reason])

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
    unittest.main()
