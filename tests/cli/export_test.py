"""kolo export: XML for RCCL, and what it refuses. tests/export reads and replays what it writes."""
import os
import unittest

from tool import ToolTest

XML = ("--format", "msccl-xml", "--profile", "rccl-6.1")


class Export(ToolTest):
    def xml(self, *arguments):
        return self.succeeds("export", *arguments, *XML)

    def test_writes_to_standard_output_or_to_a_file(self):
        text = self.xml("ringAllReduce", "--mesh", "rank=8")
        self.assertTrue(text.startswith('<algo name="ringAllReduce" proto="Simple" nchannels="1" nchunksperloop="8" ngpus="8" '
                                        'coll="allreduce" inplace="0" outofplace="1" minBytes="0" maxBytes="0">\n'))
        said = self.succeeds("export", "ringAllReduce", "--mesh", "rank=8", *XML, "-o", "ring.xml")
        self.assertRegex(said, r"\Aring\.xml: 8 ranks, 1 channel, at most 3 thread blocks per rank and \d+ steps per block\n"
                               r"RCCL takes it for counts that are a multiple of 8\n\Z")
        with open(self.file("ring.xml")) as file:
            self.assertEqual(file.read(), text)

    def test_the_flags_are_in_the_head(self):
        text = self.xml("twoShotAllReduce", "--mesh", "rank=4", "--in-place", "--protocol", "ll128", "--lanes", "2", "--min-bytes",
                        "64K", "--max-bytes", "1M")
        self.assertTrue(text.startswith('<algo name="twoShotAllReduce" proto="LL128" nchannels="2" nchunksperloop="8" ngpus="4" '
                                        'coll="allreduce" inplace="1" outofplace="0" minBytes="65536" maxBytes="1048576">\n'))

    def test_warns_of_versions_that_corrupt_data(self):
        """LL only where it is asked for, and then with the versions."""
        def warnings(algorithm, *arguments, profile="rccl-6.1"):
            outcome = self.kolo("export", algorithm, "--mesh", "rank=4", "--format", "msccl-xml", "--profile", profile, *arguments)
            self.assertEqual(outcome.code, 0, outcome)
            return outcome.out, outcome.err
        text, said = warnings("twoShotAllReduce")
        self.assertIn('proto="Simple"', text)
        self.assertEqual(said, "")
        text, said = warnings("directAllToAll", "--protocol", "ll")
        self.assertIn('proto="LL"', text)
        self.assertRegex(said, r"\Akolo: warning: before ROCm 7\.1\.1, .* LL .*rccl #1960[^\n]*\n\Z")
        self.assertEqual(warnings("directAllToAll", "--protocol", "ll128")[1], "")
        self.assertRegex(warnings("twoShotAllReduce", profile="rccl-6.0")[1], r"\Akolo: warning: before ROCm 6\.1\.0, .*rccl #1014[^\n]*\n\Z")

    def test_profiles(self):
        def refused(profile, says):
            self.refuses(2, "export", "ringAllReduce", "--mesh", "rank=8", "--format", "msccl-xml", "--profile", profile,
                         says=["--profile: " + profile, says])
        for profile in ("rccl-6.2", "rccl-6.4", "rccl-7.0", "rccl-7.2"):
            refused(profile, "rccl-6.1 serves ROCm 6.1 to 7.2")
        for profile in ("rccl-5.6", "rccl-5.7"):
            refused(profile, "rccl-6.0 serves ROCm 5.6 to 6.0")
        refused("rccl-5.5", "from ROCm 5.6 on")
        for profile in ("rccl-7.9", "rccl-7.12"):
            refused(profile, "built without MSCCL after ROCm 7.2")
        for profile in ("rccl-7.13", "rccl-10.0"):
            refused(profile, "no MSCCL from ROCm 7.13 on")
        for profile in ("rccl", "nccl-2.28", "rccl-6.1x"):
            refused(profile, "is none of rccl-6.1, rccl-6.0")

    def test_refuses_at_the_authors_line_what_rccl_cannot_run(self):
        def refused(says, *arguments):
            return self.refuses(1, "export", *arguments, *XML, says=[": error: ", says])
        refused("without looking at the root", "binomialBroadcast", "--mesh", "rank=8")
        refused("runs over groups of 4 of the 8 ranks", "nodeLocalAllGather", "--mesh", "node=2,gpu=4")
        refused("has nobody to send to", "ringAllReduce", "--mesh", "rank=1")
        refused("RCCL knows no codec", "quantisedRingAllReduce", "--mesh", "rank=8")
        self.assertRegex(refused("needs more than 64 thread blocks", "directAllToAll", "--mesh", "rank=40"),
                         r"DirectAllToAll\.cpp:\d+:\d+: error: ")
        refused("at most 64 ranks", "ringAllReduce", "--mesh", "rank=1000000")
        self.assertRegex(refused("needs more than 64 steps", "ringAllReduce", "--mesh", "rank=64"),
                         r"^[^ ]+\.(cpp|h):\d+:\d+: error: ringAllReduce does not fit RCCL")
        refused("needs more than 64 thread blocks", "twoShotAllReduce", "--mesh", "rank=8", "--lanes", "5")
        refused("LL does not tell", "ringAllReduce", "--mesh", "rank=8", "--protocol", "ll")

    def test_a_call_in_place_must_give_the_result(self):
        self.write("early.cpp", """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
KOLO_COLLECTIVE(early, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.copy(in, out);
  c.loop(d.size() - 1, [&](Index i) { c.send(in).to(me.next(d, i + 1)).at(out).reduce(); });
}
""")
        self.assertIn('inplace="0"', self.xml("early.cpp", "--mesh", "rank=4"))
        self.refuses(1, "export", "early.cpp", "--mesh", "rank=4", *XML, "--in-place",
                     says=["early.cpp:3:", "without --in-place"])

    def test_files_of_the_user(self):
        two = self.copy("two.cpp")
        self.refuses(2, "export", two, "--mesh", "rank=4", *XML, says="one file of XML is one algorithm")
        self.refuses(2, "export", self.copy("channel.mlir"), *XML, says="channel form already")

    def test_bad_flags(self):
        def refused(says, *arguments):
            self.refuses(2, "export", *arguments, says=says)
        refused("--format", "ringAllReduce", "--mesh", "rank=8", "--profile", "rccl-6.1")
        refused("--profile", "ringAllReduce", "--mesh", "rank=8", "--format", "msccl-xml")
        refused("--format", "ringAllReduce", "--mesh", "rank=8", "--format", "mscclpp-json", "--profile", "rccl-6.1")
        refused("--mesh is needed", "ringAllReduce", *XML)
        refused("one mesh", "ringAllReduce", "--mesh", "rank=4", "--mesh", "rank=8", *XML)
        refused("--lanes", "ringAllReduce", "--mesh", "rank=8", *XML, "--lanes", "0")
        refused("--lanes", "ringAllReduce", "--mesh", "rank=8", *XML, "--lanes", "129")
        refused("--max-bytes", "ringAllReduce", "--mesh", "rank=8", *XML, "--min-bytes", "2K", "--max-bytes", "1K")
        refused("--max-bytes", "ringAllReduce", "--mesh", "rank=8", *XML, "--max-bytes", "0")
        refused("--protocol", "ringAllReduce", "--mesh", "rank=8", *XML, "--protocol", "bulk")
        refused("did you mean ringAllReduce", "ringAllReduc", "--mesh", "rank=8", *XML)
        refused("-o", "ringAllReduce", "--mesh", "rank=8", *XML, "-o", os.path.join("missing", "ring.xml"))
        self.assertEqual(self.listing(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
