"""Ranks of a launcher, on several hosts, which KOLO_HOSTID makes of one."""
import json
import os
import socket
import subprocess
import unittest

from tool import KOLO, ToolTest


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


ROTATING = """
#include <kolo/dsl/Language.h>
using namespace kolo::dsl;
KOLO_COLLECTIVE(rotatingAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), held = c.scratch("held", in);
  c.copy(in, held);
  c.copy(in, out[me]);
  c.loop(d.size() - 1, [&](Index step) {
    c.send(held).to(me.next(d));
    c.copy(held, out[me[d] - step - 1]);
  });
}
"""


class Hosts(ToolTest):
    def compiled(self, algorithm, *more, mesh="node=2,gpu=2"):
        path = os.path.join(self.directory, algorithm + ".so")
        self.succeeds("compile", algorithm, "--mesh", mesh, "-o", path, *more)
        return path

    def launch(self, *arguments, mesh="node=2,gpu=2", hosts=(0, 0, 1, 1), **variables):
        """(exit code, standard output, standard error) of four ranks on two hosts."""
        port = free_port()
        ranks = [self.start(*arguments, "--mesh", mesh, "--ranks-as", "launched", RANK=str(rank), WORLD_SIZE="4",
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=port, KOLO_HOSTID=f"host{hosts[rank]}", KOLO_WAIT="yield",
                            **variables)
                 for rank in range(4)]
        try:
            for rank in ranks:
                rank.wait(timeout=60)
        except subprocess.TimeoutExpired:  # what an ended rank says is the cause
            for rank in ranks:
                rank.kill()
            self.fail(f"ranks wait after 60 s: {[(rank.communicate(), rank.returncode) for rank in ranks]}")
        return [(rank.returncode, *rank.communicate()) for rank in ranks]

    def test_every_byte_is_checked_and_rank_0_prints(self):
        for algorithm in ("slottedHierarchicalAllReduce", "railAllGather", "twoLevelAllToAll"):
            plugin = self.compiled(algorithm, "--network", "node")
            for size in ("300K",):
                with self.subTest(algorithm=algorithm, size=size):
                    first, *others = self.launch("run", plugin, "--bytes", size)
                    self.assertEqual((first[0], first[2]), (0, ""))
                    self.assertIn("4 launched ranks", first[1])
                    self.assertIn("every byte is right", first[1])
                    self.assertEqual(others, [(0, "", "")] * 3)

    def test_what_combines_goes_to_slots_of_its_receiver(self):
        reductions = {"rank=4": ("ringAllReduce", "twoWayRingAllReduce", "ringReduceScatter", "recursiveHalvingReduceScatter",
                                 "oneShotAllReduce", "twoShotAllReduce"),
                      "node=2,gpu=2": ("hierarchicalAllReduce", "hierarchicalReduceScatter")}
        for mesh, algorithms in reductions.items():
            for algorithm in algorithms:
                with self.subTest(algorithm=algorithm):
                    plugin = self.compiled(algorithm, "--network", mesh.partition("=")[0], mesh=mesh)
                    first, *others = self.launch("run", plugin, "--count", "30011", "--op", "average", mesh=mesh)
                    self.assertEqual((first[0], first[2]), (0, ""))
                    self.assertIn("every byte is right", first[1])
                    self.assertEqual(others, [(0, "", "")] * 3)

    def test_staged_data_arrives_in_inboxes(self):
        for algorithm, mesh in (("ringAllGather", "rank=4"), ("oneShotAllReduce", "rank=4"), ("directGather", "rank=4"),
                                ("railAllGather", "node=2,gpu=2"), ("hierarchicalAllReduce", "node=2,gpu=2")):
            with self.subTest(algorithm=algorithm):
                plugin = self.compiled(algorithm, "--network", mesh.partition("=")[0], "--network-memory", "staged", mesh=mesh)
                first, *others = self.launch("run", plugin, "--count", "30011", mesh=mesh)
                self.assertEqual((first[0], first[2]), (0, ""))
                self.assertIn("every byte is right", first[1])
                self.assertEqual(others, [(0, "", "")] * 3)
        self.assertIn("on different hosts along node, staged", self.succeeds("inspect", plugin))
        self.assertEqual(json.loads(self.succeeds("inspect", plugin, "--json"))["programs"][0]["networkMemory"], "staged")
        self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=4", "--network-memory", "staged",
                     says=("--network-memory", "--network"))
        found = self.mistakes("compile", "hierarchicalAllReduce", "--mesh", "node=2,gpu=2", "--network", "node",
                              "--network-memory", "staged", "--protocol", "published")
        self.assertIn("dimension 'node' may be a network, over which ranks read nothing where data is staged",
                      [each[2] for each in found])

    def test_memory_that_is_sent_onto_itself_is_staged_in_an_inbox(self):
        self.write("ring.cpp", ROTATING)
        path = self.file("ring.so")
        self.succeeds("compile", "ring.cpp", "--mesh", "rank=4", "--network", "rank", "--network-memory", "staged", "-o", path)
        first, *others = self.launch("run", path, "--count", "3001", mesh="rank=4")
        self.assertEqual((first[0], first[2]), (0, ""))
        self.assertIn("every byte is right", first[1])
        self.assertEqual(others, [(0, "", "")] * 3)

    def test_codecs_draw_alike_where_peers_have_no_address(self):
        for algorithm, network, name, mesh in (("quantisedRingAllReduce", "rank", "wire", "rank=4"),
                                               ("hybridAllReduce", "node", "network", "node=2,gpu=2")):
            for codec in ("i8 per 256 scale f32 fit stochastic", "nvfp4"):
                with self.subTest(algorithm=algorithm, codec=codec):
                    plugin = self.compiled(algorithm, "--network", network, "--codec", f"{name}={codec}", mesh=mesh)
                    first, *others = self.launch("run", plugin, "--count", "30011", mesh=mesh)
                    self.assertEqual((first[0], first[2]), (0, ""))
                    self.assertIn("every byte is what the reference interpreter gives", first[1])
                    self.assertEqual(others, [(0, "", "")] * 3)

    def test_slots_serve_a_pipeline_and_ranks_that_do_not_enter_together(self):
        for schedule in (("--pipeline", "8"), ("--entry", "credits"), ("--no-optimization",)):
            with self.subTest(schedule=schedule):
                plugin = self.compiled("hierarchicalAllReduce", "--network", "node", *schedule)
                first, *others = self.launch("run", plugin, "--bytes", "200K")
                self.assertEqual((first[0], first[2], others), (0, "", [(0, "", "")] * 3))
                self.assertIn("every byte is right", first[1])

    def test_bench_has_the_times_of_all_ranks(self):
        plugin = self.compiled("railAllGather", "--network", "node")
        first, *others = self.launch("bench", plugin, "-b", "1K", "-e", "4K", "-n", "5", "--json", "-")
        self.assertEqual((first[0], first[2]), (0, ""))
        self.assertEqual(others, [(0, "", "")] * 3)
        result = json.loads(first[1])
        self.assertEqual(result["ranksAs"], "launched ranks")
        self.assertTrue(all(row["minUs"] > 0 for row in result["rows"]))

    def test_tune_measures_pipelines_and_its_table_selects(self):
        words = ("--collective", "all_to_all", "--max-bytes", "1K", "--seconds-per-cell", "0.01", "-o", "table.json")
        first, *others = self.launch("tune", "--network", "node", *words)
        self.assertEqual((first[0], first[2], others), (0, "", [(0, "", "")] * 3))
        self.assertIn("all_to_all on node=2,gpu=2, windows", first[1])
        with open(self.file("table.json")) as text:
            table = json.load(text)
        self.assertEqual(table["command"], "kolo tune --mesh node=2,gpu=2 --collective all_to_all --ranks-as launched "
                                           "--network node --max-bytes 1K --seconds-per-cell 0.01 -o table.json")
        self.assertEqual([row["mesh"] for row in table["entries"]], [{"node": 2, "gpu": 2}] * len(table["entries"]))
        self.assertEqual({row["memory"] for row in table["entries"]}, {"windows", "ordinary"})
        self.assertEqual({row["algorithm"] for row in table["entries"]}, {"twoLevelAllToAll"})
        self.succeeds("compile", "--table", "table.json", "--network", "node", "-o", "table.so")
        first, *others = self.launch("run", "table.so", "--collective", "all_to_all", "--bytes", "4K")
        self.assertEqual((first[0], first[2], others), (0, "", [(0, "", "")] * 3))
        self.assertIn("every byte is right", first[1])
        self.refuses(2, "compile", "--table", "table.json", "--network", "rank", says=("--network", "no program", "'rank'"))

    def test_what_tune_cannot_do(self):
        words = ("tune", "--mesh", "node=2,gpu=2", "--seconds-per-cell", "0.01", "-o", "table.json")
        self.refuses(2, *words, says=("--mesh", "more than one dimension"))
        self.refuses(2, *words, "--ranks-as", "launched", "--network", "nod", says=("--network", "'nod'"))
        self.refuses(2, *words, "--ranks-as", "launched", "--mesh", "rank=2", says=("--ranks-as launched", "one --mesh"))
        self.refuses(2, *words, "--ranks-as", "launched", says=("--ranks-as launched", "RANK is not set"), RANK="")

    def test_a_plugin_for_one_host_is_refused_by_all(self):
        for code, out, err in self.launch("run", self.compiled("railAllGather"), "--bytes", "64"):
            self.assertEqual((code, out), (2, ""))
            self.assertIn("share no memory (different hosts, users or namespaces): compile it with --network node", err)

    def test_ranks_on_different_hosts_along_another_dimension_are_refused_by_all(self):
        plugin = self.compiled("hierarchicalAllReduce", "--network", "node")
        for code, out, err in self.launch("run", plugin, "--bytes", "4K", hosts=(0, 1, 0, 1)):
            self.assertEqual((code, out), (2, ""))
            self.assertIn("needs shared memory along dimension gpu", err)
            self.assertIn("share no memory (different hosts, users or namespaces): compile it with --network node,gpu", err)
        [program] = json.loads(self.succeeds("inspect", plugin, "--json"))["programs"]
        self.assertEqual(program["networkDims"], [0])

    def test_what_reads_over_a_network_is_not_compiled(self):
        found = self.mistakes("compile", "hierarchicalAllReduce", "--mesh", "node=2,gpu=2", "--network", "node", "--protocol",
                              "published")
        self.assertIn("dimension 'node' may be a network, over which ranks read nothing but published inputs", found[0][2])
        found = self.mistakes("compile", "ringAllReduce", "--mesh", "rank=4", "--network", "rank", "--protocol", "ll")
        self.assertIn("dimension 'rank' may be a network, which carries no packets", found[0][2])
        self.refuses(2, "compile", "railAllGather", "--mesh", "node=2,gpu=2", "--network", "nodes",
                     says=("--network", "'nodes'", "node=2,gpu=2"))

    def test_launched_ranks_need_their_variables(self):
        plugin = self.compiled("railAllGather")
        words = ("run", plugin, "--mesh", "node=2,gpu=2", "--ranks-as", "launched")
        self.refuses(2, *words, says=("--ranks-as launched", "RANK is not set"), RANK="")
        self.refuses(2, *words, says=("--mesh", "has 4 ranks", "started 2"), RANK="0", WORLD_SIZE="2")


@unittest.skipIf(os.geteuid() != 0, "only root can start ranks of other users")
class Users(ToolTest):
    """Ranks on this host that may not open each other's memory, as in containers without root."""

    WAYS = {"another user": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
            "another group": ["setpriv", "--regid=65534", "--clear-groups"],
            "another user namespace": ["unshare", "--user", "--map-root-user"]}

    def launch(self, way, plugin):
        port, ranks = free_port(), []
        for rank in range(4):
            variables = self.environment(RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, KOLO_WAIT="yield",
                                         KOLO_TIMEOUT_MS="20000")
            ranks.append(subprocess.Popen([*(self.WAYS[way] if rank > 1 else []), KOLO, "run", plugin, "--mesh", "rank=4",
                                           "--bytes", "300K", "--ranks-as", "launched"], cwd="/", env=variables, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        return [(process.communicate(timeout=60)[0], process.returncode) for process in ranks]

    def test_they_meet_as_ranks_that_share_no_memory(self):
        os.chmod(self.directory, 0o755)
        network, here = self.file("network.so"), self.file("here.so")
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "--network", "rank", "-o", network)
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", here)
        for way in self.WAYS:
            with self.subTest(way=way):
                ends = self.launch(way, network)
                self.assertEqual([code for _, code in ends], [0] * 4, ends)
                self.assertIn("every byte is right", ends[0][0])
                for text, code in self.launch(way, here):
                    self.assertEqual(code, 2, text)
                    self.assertIn("share no memory", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
