"""kolo bench: the table, CSV and JSON, and the progress that only a terminal sees."""
import csv
import io
import json
import os
import pty
import subprocess
import unittest

from tool import KOLO, ToolTest

KEYS = ["bytes", "count", "minUs", "medianUs", "maxUs", "algBandwidthGBps", "busBandwidthGBps"]
BENCH = ["bench", "ringAllReduce", "--mesh", "rank=2", "-b", "1K", "-e", "16K", "-f", "4", "-w", "1", "-n", "3"]


class Reports(ToolTest):
    def check(self, rows):
        self.assertEqual([int(row["bytes"]) for row in rows], [1024, 4096, 16384])
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(int(row["count"]) * 4, int(row["bytes"]))
            low, middle, high = (float(row[key]) for key in ("minUs", "medianUs", "maxUs"))
            self.assertTrue(0 < low <= middle <= high)
            self.assertAlmostEqual(float(row["algBandwidthGBps"]), int(row["bytes"]) / middle / 1000, places=6)
            self.assertAlmostEqual(float(row["busBandwidthGBps"]), float(row["algBandwidthGBps"]), places=9)  # 2 (n-1)/n

    def test_table(self):
        lines = self.succeeds(*BENCH).splitlines()
        head = next(line for line in lines if "busbw" in line).lstrip("#").split()
        self.assertEqual(head, ["size", "count", "type", "redop", "root", "min", "median", "max", "algbw", "busbw"])
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual([row[:5] for row in rows], [["1024", "256", "f32", "sum", "0"], ["4096", "1024", "f32", "sum", "0"],
                                                     ["16384", "4096", "f32", "sum", "0"]])
        self.assertEqual({len(row) for row in rows}, {len(head)})

    def test_csv_to_standard_output(self):
        self.check(list(csv.DictReader(io.StringIO(self.succeeds(*BENCH, "--csv", "-")))))

    def test_json_to_standard_output(self):
        result = json.loads(self.succeeds(*BENCH, "--json", "-", "--ranks-as", "threads", "--lanes", "2"))
        self.check(result["rows"])
        del result["rows"]
        self.assertEqual(result, {"program": "ringAllReduce", "mesh": "rank=2", "ranksAs": "threads", "memory": "windows",
                                  "lanes": 2, "dtype": "f32", "op": "sum"})

    def test_files_beside_the_table(self):
        self.assertIn("busbw", self.succeeds(*BENCH, "--csv", "x.csv", "--json", "x.json"))
        with open(self.file("x.csv")) as text:
            self.check(list(csv.DictReader(text)))
        with open(self.file("x.json")) as text:
            self.check(json.load(text)["rows"])

    def test_bus_bandwidth_of_an_all_gather(self):
        rows = json.loads(self.succeeds("bench", "ringAllGather", "--mesh", "rank=4", "-b", "4K", "-e", "4K", "--json", "-"))["rows"]
        self.assertAlmostEqual(rows[0]["busBandwidthGBps"], rows[0]["algBandwidthGBps"] * 3 / 4, places=9)

    def test_counts_of_blocks(self):
        self.write("numbers", "0 1 3")
        sweep = ["bench", "ringAllGather", "--mesh", "rank=3", "-b", "12K", "-e", "48K", "-f", "4", "-n", "3", "--counts"]
        said = json.loads(self.succeeds(*sweep, "numbers", "--json", "-", "--csv", "x.csv"))
        self.assertEqual(said["counts"], "numbers")
        with open(self.file("x.csv")) as text:
            for row, line, size in zip(said["rows"], csv.DictReader(text), (12288, 49152), strict=True):
                self.assertEqual((row["bytes"], row["largestBufferBytes"]), (size, size))
                self.assertNotIn("busBandwidthGBps", row)
                self.assertEqual({name: float(value) for name, value in line.items()}, row)
        # All ranks send to one, whose output is three times the buffer of equal blocks.
        said = self.succeeds("bench", "directAllToAll", *sweep[2:], "onehot:1", "--memory", "ordinary").splitlines()
        self.assertEqual(said[2], "# counts onehot:1; size and count are those of equal blocks, largest: the largest buffer of any rank")
        self.assertEqual([line.split()[-1] for line in said[3:]], ["largest", "(B)", "36864", "147456"])


class Progress(ToolTest):
    def errors(self, *arguments):
        """What a terminal on standard error sees."""
        leader, follower = pty.openpty()
        process = subprocess.Popen([KOLO, *arguments], cwd=self.directory, env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=follower)
        os.close(follower)
        seen = b""
        try:
            while piece := os.read(leader, 4096):
                seen += piece
        except OSError:
            pass  # the other end is closed
        os.close(leader)
        self.assertEqual(process.wait(60), 0)
        return seen.decode()

    def test_is_drawn_on_a_terminal_and_wiped(self):
        for ranks in ("processes", "threads"):
            seen = self.errors(*BENCH, "--ranks-as", ranks)
            for done in range(4):
                self.assertIn(f"{done}/3 sizes", seen)
            self.assertTrue(seen.endswith("\r\033[K"), repr(seen))

    def test_is_not_drawn_elsewhere(self):
        self.succeeds(*BENCH)  # nothing on standard error


class Refusals(ToolTest):
    def bench(self, *arguments, says):
        self.refuses(2, "bench", "ringAllReduce", "--mesh", "rank=2", *arguments, says=says)

    def test_sweeps(self):
        self.bench("-b", "4K", "-e", "2K", says=["--min-bytes", "4K", "2K"])
        self.bench("-b", "0", says=["--min-bytes", "0"])
        self.bench("-e", "lots", says=["--max-bytes", "'lots'"])
        self.bench("-b", "1", "-e", "2", says=["--max-bytes", "2", "4"])
        for flag, value in [("-f", "1"), ("-n", "0"), ("-w", "-1")]:
            self.bench(flag, value, says=value)

    def test_outputs_are_checked_before_anything_is_measured(self):
        for flag in ("--csv", "--json"):
            self.bench(flag, "missing/x", "-e", "1T", says=[flag, "missing/x"])
            self.bench(flag, ".", "-e", "1T", says=[flag, "directory"])
        self.bench("--csv", "-", "--json", "-", says=["--csv", "--json"])

    def test_more_memory_than_there_is(self):
        self.refuses(3, "bench", "ringAllReduce", "--mesh", "rank=2", "-b", "1T", "-e", "1T", "--csv", "x.csv", says="available")
        self.assertEqual(self.listing(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
