"""kolo compile --emit: the stages of a compilation as text, and that kolo-opt and kolo compile read IR back."""
import os
import re
import subprocess
import unittest

from tool import ToolTest

KOLO_OPT = os.environ["KOLO_OPT"]
TARGETS = ["--target", "cpu,cuda:sm_90,hip:gfx90a"]


class EmitTest(ToolTest):
    def emit(self, stage, *arguments):
        return self.succeeds("compile", *arguments, "--emit", stage)

    def bytes(self, name):
        with open(self.file(name), "rb") as file:
            return file.read()

    def optimizer(self, text, *flags):
        done = subprocess.run([KOLO_OPT, *flags], input=text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


class Ir(EmitTest):
    CASES = (["ringAllReduce", "--mesh", "rank=4"],
             ["ringAllReduce", "--mesh", "rank=4", "--no-optimization"],
             ["ringAllReduce", "--mesh", "rank=4", *TARGETS],
             ["ringAllReduce", "--mesh", "rank=4", "--protocol", "ll"],
             ["allPairsAllGather", "--mesh", "rank=4", "--protocol", "published"],
             ["twoWayRingAllReduce", "--mesh", "rank=4", "--mesh", "rank=3", "--pipeline", "3"],
             ["threeLevelAllReduce", "--mesh", "node=2,module=2,die=2"],
             ["binomialBroadcast", "--mesh", "rank=5", "--synchronisation", "handshake"])

    def test_the_same_plugin_comes_of_the_text_of_either_phase(self):
        for case in self.CASES:
            self.succeeds("compile", *case, "-o", "direct.so")
            schedule = [word for i, word in enumerate(case[1:], 1) if word != "--mesh" and case[i - 1] != "--mesh"]
            for stage in ("choreography", "channel"):
                with self.subTest(case=case, stage=stage):
                    self.succeeds("compile", *case, "--emit", stage, "-o", "stage.mlir")
                    self.succeeds("compile", "stage.mlir", *schedule, "-o", "again.so")
                    self.assertTrue(self.bytes("again.so") == self.bytes("direct.so"), "the plugins differ")

    def test_kolo_opt_reads_both_phases(self):
        case = ["ringAllReduce", "--mesh", "rank=4"]
        self.succeeds("compile", *case, "-o", "direct.so")
        choreography, channel = self.emit("choreography", *case), self.emit("channel", *case)
        self.assertIn("kolo.choreography @ringAllReduce", self.optimizer(choreography))
        self.assertIn("kolo.chan.program @ringAllReduce", self.optimizer(choreography, "--kolo-to-channel"))
        self.assertIn("@run.ringAllReduce(", self.optimizer(channel, "--kolo-cpu"))
        for text in (choreography, channel):
            self.assertIn("Blocks.cpp", text, "statements go by the author's lines")
            self.assertNotIn("loc(", self.optimizer(text))
            self.write("again.mlir", self.optimizer(text, "--mlir-print-debuginfo"))
            self.succeeds("compile", "again.mlir", "-o", "again.so")
            self.assertTrue(self.bytes("again.so") == self.bytes("direct.so"), "the plugins differ")

    def test_a_mistake_is_one_at_every_stage_but_the_first(self):
        case = ["recursiveDoublingAllGather", "--mesh", "rank=6"]
        self.assertIn("kolo.choreography", self.emit("choreography", *case))
        for stage in ("channel", "llvm"):
            outcome = self.kolo("compile", *case, "--emit", stage)
            self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
            self.assertIn("power of two", outcome.err)


class Code(EmitTest):
    CASE = ["ringAllReduce", "--mesh", "rank=4", *TARGETS]

    def test_the_host(self):
        self.assertRegex(self.emit("llvm", *self.CASE), r"(?m)^define [^\n]*@run\.ringAllReduce\(")
        self.assertRegex(self.emit("asm", *self.CASE), r"(?m)^run\.ringAllReduce:")
        self.assertIn("__tsan_", self.emit("asm", *self.CASE[:3], "--sanitize", "thread"))

    def test_devices(self):
        self.succeeds("compile", *self.CASE, "-o", "x.so")
        self.succeeds("inspect", "x.so", "--extract", ".")
        with open(self.file("cuda-sm_90.ptx")) as ptx:
            self.assertEqual(self.emit("ptx", *self.CASE), ptx.read())
        assembly = self.emit("hsaco-asm", *self.CASE)
        self.assertIn(".amdhsa_kernel ringAllReduce", assembly)
        self.assertRegex(assembly, r'\.amdgcn_target "amdgcn-amd-amdhsa-[^"]*-gfx90a"')
        first = self.emit("ptx", *self.CASE[:3], "--target", "cpu,cuda:sm_80,cuda:sm_90")
        self.assertIn(".target sm_80", first)


class CodeOfCodecs(EmitTest):
    def functions(self, *arguments):
        """Instructions of every function of the host's code."""
        text = self.emit("llvm", "quantisedRingAllReduce", *arguments)
        bodies = re.findall(r'(?m)^define [^@]*@"?([^"(]*)"?\([^\n]*\{\n(.*?)^\}', text, re.DOTALL)
        return {name: sum(line.startswith("  ") for line in body.splitlines()) for name, body in bodies}

    def test_a_codec_adds_its_conversions_and_nothing_else(self):
        exact = self.functions("--mesh", "rank=4", "--codec", "wire=none")
        for codec, text in [("int8(256)", "i8 per 256 scale f32 fit"), ("nvfp4", "e2m1 per 16 scale e4m3 fit"),
                            ("quick6", "i6 per 32 scale f16 signed"), ("sign(1024)", "sign per 1024 scale f32 mean")]:
            with self.subTest(codec=codec):
                coded = self.functions("--mesh", "rank=4", "--codec", "wire=" + codec)
                conversions = [f"kolo.{way}.{text}" for way in ("encode", "decode")]
                versions = [f"{name}.x86-64-{level}" for name in conversions for level in ("v3", "v4")]
                rest = [f"kolo.resolve.{name}" for name in conversions] + [f"kolo.roundTrip.{text}", "kolo.isOfLevel4"]
                shared = ["encodeScales", "decodeScales"] + ["firstLargest"] * text.endswith("signed")
                self.assertEqual(set(coded) - set(exact), {*versions, *rest, *(f"kolo.{name}.{text}" for name in shared)})
                self.assertLess(sum(coded.values()) - sum(exact.values()), 700)

    def test_the_code_is_the_same_for_any_number_of_ranks(self):
        self.assertEqual(self.functions("--mesh", "rank=4"), self.functions("--mesh", "rank=4096"))


class Outputs(EmitTest):
    CASE = ["ringAllGather", "--mesh", "rank=4", "--emit", "channel"]

    def test_a_file_or_standard_output(self):
        text = self.succeeds("compile", *self.CASE)
        self.assertEqual(self.succeeds("compile", *self.CASE, "-o", "-"), text)
        self.assertEqual(self.succeeds("compile", *self.CASE, "-o", "x.mlir"), "")
        self.assertEqual(self.bytes("x.mlir").decode(), text)
        self.assertEqual(self.listing(), ["x.mlir"])

    def test_warnings_go_beside_the_text(self):
        outcome = self.kolo("compile", self.copy("racy.mlir"), "--emit", "channel", "--unproved")
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertRegex(outcome.err, r"\Aracy\.mlir:22:5: warning: .*V2[^\n]*\n\Z")
        self.assertIn("unproved", outcome.out)

    def test_an_existing_file_survives_a_failure(self):
        self.write("x.mlir", "precious")
        self.mistakes("compile", self.copy("mistakes.cpp"), "--mesh", "node=2,gpu=2", "--emit", "channel", "-o", "x.mlir")
        self.assertEqual(self.bytes("x.mlir"), b"precious")

    def test_paths_that_cannot_be_written(self):
        for path in ("missing/x.mlir", ".", "/dev/null"):
            self.refuses(2, "compile", *self.CASE, "-o", path, says=f"-o: cannot write {path}: ")


class Refusals(EmitTest):
    def test_what_does_not_go_together(self):
        case = ["compile", "ringAllGather", "--mesh", "rank=4"]
        for arguments, says in [([*case, "--emit", "ptx"], ["--emit ptx", "cuda:sm_90"]),
                                ([*case, "--emit", "ptx", "--target", "cpu,hip:gfx90a"], ["--emit ptx", "cuda:sm_90"]),
                                ([*case, "--emit", "hsaco-asm", "--target", "cpu,cuda:sm_90"], ["--emit hsaco-asm", "hip:gfx90a"]),
                                ([*case, "--emit", "tea"], ["--emit", "tea", "choreography"]),
                                ([*case, "--emit", "ptx", "--target", "cpu,cuda:sm_90", "--ptxas", "auto"], ["--emit", "--ptxas"]),
                                ([*case, "--emit", "channel", "--sanitize", "thread"], ["--sanitize", "llvm and asm"]),
                                (["compile", "--table", "default", "--emit", "channel"], ["--emit", "--table"]),
                                (["compile", self.copy("channel.mlir"), "--emit", "choreography"], ["channel.mlir", "channel form"])]:
            self.refuses(2, *arguments, says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
