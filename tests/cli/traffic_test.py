"""kolo run --traffic: every algorithm sends the bytes that its row in algorithms/README.md says."""
import json
import math
import os
import re
import unittest

from tool import ToolTest

ALGORITHMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "algorithms")
RANKS = {"rank": "rank=4", "node, gpu": "node=2,gpu=4", "node, module, die": "node=3,module=2,die=2"}
GRANULES = 24  # of 1,024 elements, so that every chunk on these meshes is of whole ones
CODECS = {"quantisedReduceScatter": ("int8(256)", "int4(256)"), "hybridAllReduce": ("none", "int8(256)"),
          **{f"quantised{kind}AllToAll": ("e4m3(128)",) for kind in ("", "Rail", "TwoLevel")}}  # E, and F where it differs
EXACT = ("ringAllReduce", "slottedHierarchicalAllReduce", "railAllGather", "nodeReduceScatter", "partitionAllGather",
         "railReduceScatter", "rabenseifnerAllReduce", "twoLevelAllToAll", "scatterAllGatherBroadcast")


def rows():
    """Name, mesh and formula of every algorithm."""
    with open(os.path.join(ALGORITHMS, "README.md"), encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 7 and cells[0].startswith("["):
                yield re.match(r"\[(\w+)\]", cells[0])[1], cells[2], cells[4]


def evaluated(formula, values):
    """A sum of terms such as `2 S/G (N-1)/N network`: products of factors."""
    total = 0
    for term in formula.split(", "):
        term = re.sub(r" (network|node|between \w+)$", "", term).replace("log2 N", str(int(math.log2(values["N"]))))
        total += eval(re.sub(r"(?<=[\w)]) (?=[\w(])", "*", term), {}, values)  # pylint: disable=eval-used
    return total


def names_of(mesh):
    sizes = {name: int(size) for name, size in (part.split("=") for part in mesh.split(","))}
    total = math.prod(sizes.values())
    if "rank" in sizes:
        return {"N": total}
    return {"N": sizes["node"], "G": total // sizes["node"], "M": sizes.get("module", 1), "P": sizes.get("die", 1)}


class Traffic(ToolTest):
    def test_algorithms_send_what_their_rows_say_to_the_byte(self):
        text = self.succeeds("codec", "int4(256)")
        sizes = {row["name"]: row.get("bytesPer1024", 4096) for row in json.loads(self.succeeds("codec", "--json"))}
        sizes |= {"int4(256)": int(re.search(r"bytes per 1024 +(\d+)", text)[1])}
        numCoded = 0
        for name, dims, formula in rows():
            isCoded = name.startswith("quantised") or name == "hybridAllReduce"
            if not isCoded and name not in EXACT:
                continue
            numCoded += isCoded
            with self.subTest(algorithm=name):
                mesh, codecs = RANKS[dims], CODECS.get(name, ("int8(256)",))
                values = {**names_of(mesh), "S": 4096 * GRANULES, "E": sizes[codecs[0]] * GRANULES,
                          "F": sizes[codecs[-1]] * GRANULES}
                text = self.succeeds("run", name, "--mesh", mesh, "--bytes", str(values["S"]), "--iterations", "1",
                                     "--transfers", "push", "--ranks-as", "threads", "--lanes", "2", "--traffic")
                moved = re.findall(r"sends (\d+) bytes, fetches (\d+)\n", text)
                # A rank that combines what a peer has fetches it. Of a broadcast, the row says what the root sends.
                sums = [int(sent) + int(fetched) for sent, fetched in moved]
                self.assertEqual({max(sums)} if "Broadcast" in name else set(sums), {evaluated(formula, values)}, text)
                if isCoded:
                    self.assertEqual({fetched for _, fetched in moved}, {"0"}, text)
        self.assertGreaterEqual(numCoded, 9)

    def test_who_fetches_is_counted_too(self):
        for words in (["--transfers", "pull"], ["--protocol", "published", "--memory", "ordinary"]):
            text = self.succeeds("run", "allPairsAllGather", "--mesh", "rank=3", "--bytes", "12K", "--traffic", *words)
            self.assertIn("\nin a call, every rank sends 0 bytes, fetches 8192\n", text)

    def test_packets_count_as_their_data(self):
        text = self.succeeds("run", "oneShotAllReduce", "--mesh", "rank=3", "--bytes", "12K", "--protocol", "ll", "--traffic")
        self.assertIn("\nin a call, every rank sends 24576 bytes, fetches 0\n", text)

    def test_ranks_that_differ_have_a_line_each(self):
        text = self.succeeds("run", "directBroadcast", "--mesh", "rank=3", "--bytes", "8K", "--transfers", "push", "--traffic")
        self.assertIn("\nin a call, rank 0 sends 16384 bytes, fetches 0\nin a call, rank 1 sends 0 bytes, fetches 0\n", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
