"""kolo cost: what algorithms cost on a machine, in closed form."""
import json
import re
import unittest

from tool import ToolTest

FRONTIER = ("--machine", "frontier", "--mesh", "node=4,gpu=8")


class Cost(ToolTest):
    def cost(self, *arguments):
        return json.loads(self.succeeds("cost", *arguments, "--json"))

    def test_prints_sizes_and_what_each_statement_costs(self):
        text = self.succeeds("cost", "railAllGather", *FRONTIER, "--bytes", "1K..4M")
        self.assertEqual(len(re.findall(r"^ +\d+ +[\d.]+ [um]?s +[\d.]+ +[\d.]+ [um]?s +[\d.]+ %  \S+", text, re.M)), 13)
        self.assertRegex(text, r"RailAllGather\.cpp:\d+")
        self.assertEqual(text.count("of it latency"), 1)
        self.assertEqual(self.succeeds("cost", "railAllGather", *FRONTIER, "--bytes", "1K,4K", "--breakdown").count("of it latency"), 2)

    def test_json_has_the_fields_that_reports_read(self):
        report = self.cost("railAllGather", *FRONTIER, "--bytes", "1M", "--pipeline", "4")
        self.assertEqual((report["machine"], report["mesh"], report["collective"], report["model"], report["rates"]),
                         ("frontier", "node=4,gpu=8", "all_gather", "closed form", "peak"))
        [schedule] = report["schedules"]
        self.assertEqual((schedule["name"], schedule["schedule"]), ("railAllGather", {"pipeline": 4}))
        [size] = schedule["sizes"]
        self.assertEqual(size["bytes"], 1 << 20)
        self.assertAlmostEqual(size["fractionOfBound"], size["boundSeconds"] / size["seconds"])
        self.assertAlmostEqual(sum(row["seconds"] for row in size["statements"]), size["seconds"])
        self.assertTrue(all(link["share"] <= 1.000001 for link in size["links"]))
        self.assertTrue(any(row["file"].endswith("RailAllGather.cpp") for row in size["statements"]))

    def test_entry_credits_have_a_row_of_their_own(self):
        [schedule] = self.cost("ringAllGather", "--machine", "frontier", "--mesh", "rank=8", "--bytes", "1M")["schedules"]
        files = [row["file"] for row in schedule["sizes"][0]["statements"]]
        self.assertIn("entry", files)

    def test_counts_of_blocks_are_equal_or_left_to_simulation(self):
        direct = ["directAllToAll", "--machine", "frontier", "--mesh", "rank=8", "--bytes", "1M,8M"]
        self.assertEqual(self.cost(*direct, "--counts", "zipf:0:0"), self.cost(*direct))
        self.refuses(2, "cost", *direct, "--counts", "onehot:3",
                     says="--counts: the closed form is of equal blocks, and of 1048576 bytes these have 0 to 1048576; "
                          "kolo simulate --counts follows each of them")
        self.refuses(2, "cost", "bruckAllToAll", *direct[1:], "--counts", "zipf:0:0", says="--counts: the program takes no block tables")
        self.refuses(2, "cost", *direct, "--counts", "onehot:8", says="--counts: there is no block 8 among 8")
        self.refuses(2, "cost", *direct, "--counts", "zipf:x:1", says="'zipf:x:1' is not zipf:EXPONENT:SEED")

    def test_writes_json_to_a_file(self):
        self.succeeds("cost", "railAllGather", *FRONTIER, "--bytes", "1M", "--json", "cost.json")
        with open(self.file("cost.json")) as file:
            self.assertEqual(json.load(file), self.cost("railAllGather", *FRONTIER, "--bytes", "1M"))

    def test_compares_algorithms_of_one_collective(self):
        text = self.succeeds("cost", "railAllGather", "ringAllGather", *FRONTIER, "--bytes", "64M..256M")
        [header] = [line for line in text.splitlines() if line.split()[:2] == ["bytes", "bound"]]
        self.assertEqual(header.split()[2:], ["railAllGather", "ringAllGather"])
        report = self.cost("railAllGather", "ringAllGather", *FRONTIER, "--bytes", "64M")
        self.assertEqual([schedule["mesh"] for schedule in report["schedules"]], ["node=4,gpu=8", "rank=32"])
        self.refuses(2, "cost", "railAllGather", "ringAllReduce", *FRONTIER, says=["railAllGather", "all_gather", "ringAllReduce", "one collective"])

    def test_rates_and_placement_count(self):
        def seconds(*arguments):
            return self.cost("railAllGather", *FRONTIER, "--bytes", "1G", *arguments)["schedules"][0]["sizes"][0]["seconds"]
        self.assertGreater(seconds("--rates", "kernel"), seconds())
        self.assertGreater(seconds("--placement", "order=gpu,node"), seconds())

    def test_the_network_is_direct_or_staged(self):
        words = ["cost", "hierarchicalAllReduce", "--machine", "frontier", "--mesh", "node=16,gpu=8", "--bytes", "64M"]
        for memory, bottleneck in (("direct", "slingshot link"), ("staged", "memory of the host")):
            rows = self.succeeds(*words, "--network-memory", memory)
            self.assertIn(bottleneck, rows.splitlines()[2])
        self.refuses(2, *words[:3], "dgx-h100", *words[4:], "--network-memory", "staged", says=("--network-memory", "node.host"))
        for command in ("cost", "simulate"):
            found = self.mistakes(command, *words[1:], "--network-memory", "direct", "--protocol", "ll")
            self.assertIn("dimension 'node' may be a network, which carries no packets", found[0][2])
        found = self.succeeds("explore", "all_gather", "--machine", "frontier", "--nodes", "2", "--bytes", "1K", "--structures", "0",
                              "--network-memory", "staged")
        self.assertIn("which carries no packets", found)
        self.assertNotIn(".ll", found)

    def test_a_users_file(self):
        source = self.write("Mine.cpp", """#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
KOLO_COLLECTIVE(mine, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  c.send(out[me]).to(me.others(d));
}
""")
        text = self.succeeds("cost", "Mine.cpp", "--machine", "frontier", "--mesh", "rank=8", "--bytes", "1M")
        self.assertRegex(text, r"Mine\.cpp:8  c\.send\(out\[me\]\)\.to\(me\.others\(d\)\);")

    def test_a_page_for_browsers(self):
        self.succeeds("cost", "railAllGather", *FRONTIER, "--bytes", "1K..1M", "--html", "cost.html")
        with open(self.file("cost.html")) as file:
            self.assertIn("railAllGather", file.read())


class Mistakes(ToolTest):
    def refused(self, *arguments, says):
        self.refuses(2, "cost", "railAllGather", *arguments, says=says)

    def test_sizes(self):
        for text, says in [("1K..1X", "--bytes: '1X' is not a size"), ("0", "--bytes: 0 must be at least 1 byte"),
                           ("1K..17T", "17T must be at least 1 byte and at most 16T"), ("1M..1K", "1M..1K ends before it begins"),
                           ("1K..", "--bytes: '' is not a size"), ("1K,,2K", "--bytes: '' is not a size"), ("-4", "--bytes"),
                           ("1K..2K..4K", "--bytes: '2K..4K' is not a size"), ("99999999999999999999", "is not a size")]:
            self.refused(*FRONTIER, "--bytes=" + text, says=says)

    def test_machines_and_meshes(self):
        self.refused("--machine", "frontire", "--mesh", "node=4,gpu=8", says=["--machine", "frontire"])
        self.refused("--machine", "ring8", "--mesh", "node=2,gpu=8", says="16 ranks need 2 nodes of ring8, which has 1")
        self.refused("--machine", "frontier", "--mesh", "node=3,gpu=3", says=["9 ranks do not fill nodes of 8"])
        self.refused("--machine", "frontier", "--mesh", "node=4", says="railAllGather runs on meshes node=N,gpu=N")
        self.refused("--machine", "frontier", says="--mesh")
        self.refused("--mesh", "node=4,gpu=8", says="--machine")
        self.refused(*FRONTIER, "--placement", "order=gpu", says=["placement", "order"])
        self.refused(*FRONTIER, "--placement", "devices=0,0", says=["placement", "device 0"])

    def test_names_flags_and_files(self):
        self.refuses(2, "cost", "railAllGahter", *FRONTIER, says="did you mean railAllGather?")
        self.refuses(2, "cost", "mine.txt", *FRONTIER, says=["mine.txt", "neither an algorithm nor a file"])
        self.refuses(2, "cost", *FRONTIER, says="algorithms")
        self.refused(*FRONTIER, "--rates", "best", says=["--rates", "best"])
        self.refused(*FRONTIER, "--lanes", "-1", says="--lanes")
        self.refused(*FRONTIER, "--protocol", "ll", "--pipeline", "2", says=["--protocol", "pipeline"])
        self.refused(*FRONTIER, "--json", "/nowhere/cost.json", says=["--json", "/nowhere/cost.json"])
        self.refused(*FRONTIER, "--html", "/nowhere/cost.html", says=["--html", "/nowhere/cost.html"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
