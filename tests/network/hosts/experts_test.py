"""Tokens to experts on two hosts: each token crosses the network once per node, counted at the hosts' interfaces."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import hosts

KOLO, BENCH = os.environ["KOLO"], os.environ["KOLO_BENCH_EXPERTS"]
REASON = hosts.missing()

TOKENS, HIDDEN, EXPERTS, PER_TOKEN, ITERATIONS = 96, 2048, 16, 4, 3
ROW_BYTES = HIDDEN * 2


class Experts(unittest.TestCase):
    def sent_bytes(self, made, host):
        shown = subprocess.run(made.command(host, ["ip", "-s", "-j", "link", "show", "eth0"]), check=True, capture_output=True,
                               text=True)
        return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]

    def run_layers(self, made, plugin, mesh):
        """Bytes that the hosts sent, and rows that the ranks say they send to other nodes in one dispatch."""
        before = sum(self.sent_bytes(made, host) for host in range(2))
        ranks = []
        for rank in range(4):
            variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": made.address(0), "MASTER_PORT": "29517",
                         "KOLO_WAIT": "yield"}
            words = [BENCH, plugin, mesh, TOKENS, HIDDEN, EXPERTS, PER_TOKEN, ITERATIONS]
            ranks.append(made.start(rank // 2, [str(word) for word in words], env=variables, text=True, stdout=subprocess.PIPE))
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * 4)
        after = sum(self.sent_bytes(made, host) for host in range(2))
        return after - before, sum(int(line.split()[0]) for each in said for line in each.splitlines() if "rows to other nodes" in line)

    def compile(self, folder, mesh, dim, *algorithms):
        """The plugins, as kolo-bench-experts takes them."""
        plugins = [os.path.join(folder, f"{algorithm}.so") for algorithm in algorithms]
        for algorithm, plugin in zip(algorithms, plugins):
            subprocess.run([KOLO, "compile", algorithm, "--mesh", mesh, "--network", dim, "-o", plugin], check=True,
                           stdout=subprocess.DEVNULL)
        return ",".join(plugins)

    def test_by_nodes_a_token_crosses_once(self):
        with tempfile.TemporaryDirectory() as folder, hosts.Hosts("kolo-x", 2, rate="2gbit") as made:
            crossed, rows = self.run_layers(made, self.compile(folder, "node=2,gpu=2", "node", "nodeAllToAll", "railAllToAll"),
                                            "node=2,gpu=2")
            # Nearly all of the 384 tokens have an expert on the other node.
            self.assertGreater(rows, 300)
            self.assertLess(rows, 4 * TOKENS + 1)
            # There and back, in each iteration and the one that is not timed. Headers, counts and agreements come to it.
            expected = 2 * (ITERATIONS + 1) * rows * ROW_BYTES
            self.assertGreater(crossed, expected)
            self.assertLess(crossed, 1.1 * expected)
            directly, _ = self.run_layers(made, self.compile(folder, "rank=4", "rank", "directAllToAll"), "rank=4")
            # Directly, a token crosses once for each of its experts there: two of four, on average.
            self.assertGreater(directly, 1.7 * crossed)


if __name__ == "__main__":
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(77)
    unittest.main()
