"""Ranks of two hosts, which KOLO_HOSTID makes of one, over libfabric; and what is said where that cannot be."""
import os
import unittest

import hosts_test
from tool import ToolTest


class Fabric(ToolTest):
    compiled = hosts_test.Hosts.compiled
    launch = hosts_test.Hosts.launch

    def with_network(self, name, plugin, *more, **variables):
        """What four ranks on two hosts say."""
        return self.launch("run", plugin, *more, KOLO_NETWORK=name, **variables)

    def test_every_byte_is_right(self):
        plugins = [self.compiled(name, "--network", "node") for name in ("slottedHierarchicalAllReduce", "twoLevelAllToAll")]
        for plugin in plugins:
            first, *others = self.with_network("tcp;ofi_rxm", plugin, "--bytes", "300K")
            self.assertEqual((first[0], first[2]), (0, ""))
            self.assertIn("every byte is right", first[1])
            self.assertEqual(others, [(0, "", "")] * 3)

    def test_each_reason_why_it_cannot_be_is_one_line_on_all_ranks(self):
        plugin = self.compiled("railAllGather", "--network", "node")
        standin = os.environ["KOLO_LIBFABRIC_STANDIN"]
        cases = (("quantum", {}, "KOLO_NETWORK=quantum: this is neither auto, nor tcp, nor a provider that Kolo has rules for"),
                 ("sockets", {}, "KOLO_NETWORK=sockets: libfabric has this provider, but Kolo has no rules for it"),
                 ("cxi", {}, "KOLO_NETWORK=cxi: libfabric.so.1 finds no such provider on this host"),
                 ("cxi", {"KOLO_LIBFABRIC": "/nowhere.so"}, "KOLO_NETWORK=cxi: cannot open libfabric: /nowhere.so"),
                 ("cxi", {"KOLO_LIBFABRIC": standin, "STAND_IN_MINOR_VERSION": "9"},
                  f"KOLO_NETWORK=cxi: {standin} is libfabric 1.9, but 1.15 is the oldest that Kolo uses"),
                 ("tcp;ofi_rxm", {"KOLO_ORDINARY_MEMORY": "attach"},
                  "KOLO_ORDINARY_MEMORY=attach is not possible over libfabric, whose devices get only windows and Kolo's own"))
        for name, variables, says in cases:
            with self.subTest(name=name, variables=variables):
                for code, out, err in self.with_network(name, plugin, "--bytes", "1K", **variables):
                    self.assertNotEqual(code, 0)
                    self.assertIn(says, err)
                    self.assertEqual((out, err.count("\n")), ("", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
