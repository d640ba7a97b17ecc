"""`kolo simulate` of files of MSCCL as RCCL's interpreter runs them: times that can be worked out by hand."""

import json
import os
import sys
import unittest

from tool import ToolTest

sys.path.insert(0, os.path.join(os.environ["KOLO_SOURCE_DIR"], "bench", "measured"))
import schedules

LINK, LANE, LL, LATENCY, SIGNAL, LAUNCH = 100, 10, 2, 1, 0.5, 3  # GB/s and microseconds


def machine(**lane):
    return {"version": 1, "name": "pair", "title": "Two devices", "nodes": 1,
            "node": {"devices": {"name": "d", "count": 2, "launchMicroseconds": LAUNCH, "lane": {"gigabytesPerSecond": LANE, **lane}},
                     "links": [{"from": "d 0", "to": "d 1", "class": "link", "count": 1}]},
            "linkClasses": [{"name": "link", "gigabytesPerSecond": LINK, "latencyMicroseconds": {"bulk": LATENCY, "ll": LATENCY}}],
            "payloadShare": {"ll": 0.5}}


class Blocks(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("pair.json", json.dumps(machine(ll={"gigabytesPerSecond": LL}, signalMicroseconds=SIGNAL)))

    def exchange(self, protocol):
        self.write("exchange.xml", schedules.all_gather_all_pairs(protocol, 1, size=2))

    def microseconds(self, size, *flags, name="exchange.xml"):
        [schedule] = json.loads(self.succeeds("simulate", name, "--machine", "pair.json", "--mesh", "rank=2", "--bytes", str(size),
                                              "--json", *flags))["schedules"]
        return schedule["sizes"][0]["seconds"] * 1e6

    def assertTakes(self, found, wanted):
        self.assertAlmostEqual(found, wanted, delta=1e-6 * wanted)

    def test_a_small_message_is_sent_travels_and_is_received(self):
        self.exchange("Simple")
        chunk = 32 << 10
        self.assertTakes(self.microseconds(2 * chunk), LAUNCH + 2 * chunk / (1e3 * LANE) + LATENCY)

    def test_the_second_slice_travels_while_the_first_one_is_received(self):
        self.exchange("Simple")
        chunk = 1 << 20
        self.assertTakes(self.microseconds(2 * chunk), LAUNCH + 2 * chunk / (1e3 * LANE))

    def test_each_piece_takes_as_long_as_the_one_before(self):
        """64 pieces are simulated, 1,024 of which half are not; both are exact."""
        self.exchange("Simple")
        for pieces in (64, 1024):
            chunk = pieces * (2 << 20)
            self.assertTakes(self.microseconds(2 * chunk), LAUNCH + 2 * chunk / (1e3 * LANE))

    def test_packets_go_at_their_own_rate(self):
        self.exchange("LL")
        chunk = 16 << 10
        self.assertTakes(self.microseconds(2 * chunk), LAUNCH + 2 * chunk / (1e3 * LL))

    def test_a_machine_that_does_not_know_its_lanes_runs_the_plugin(self):
        self.exchange("Simple")
        both = {}
        for name, lane in (("knows", {"signalMicroseconds": SIGNAL}), ("does not", {})):
            self.write("pair.json", json.dumps(machine(**lane)))
            both[name] = self.microseconds(1 << 20, "--as", "plugin")
        self.assertEqual(both["knows"], both["does not"])
        self.assertEqual(self.microseconds(1 << 20), both["does not"])
        self.refuses(2, "simulate", "exchange.xml", "--machine", "pair.json", "--mesh", "rank=2", "--bytes", "1M", "--as", "interpreter",
                     says="does not say what a lane moves")

    def test_what_thread_blocks_do_not_have_is_refused(self):
        self.exchange("Simple")
        for flags in (["--lanes", "2"], ["--calls", "2"], ["--trace", "t.json"]):
            self.refuses(2, "simulate", "exchange.xml", "--machine", "pair.json", "--mesh", "rank=2", "--bytes", "1M", *flags,
                         says="has thread blocks of its own")
        self.write("line.xml", schedules.all_gather_all_pairs("LL128", 1, size=2))
        self.refuses(2, "simulate", "line.xml", "--machine", "pair.json", "--mesh", "rank=2", "--bytes", "1M", says="protocol ll128: pair has none")

    def test_a_call_that_needs_more_messages_than_a_connection_holds_is_refused(self):
        """The blocks of both ranks send all before they receive. Above 2 MiB a block is more than two messages."""
        self.write("sum.xml", schedules.all_reduce_all_pairs("Simple", 1, size=8))
        arguments = ["simulate", "sum.xml", "--machine", "mi300x", "--mesh", "rank=8", "--bytes"]
        self.succeeds(*arguments, "16M")
        self.refuses(1, *arguments, "64M", says="V4 no deadlock")


if __name__ == "__main__":
    unittest.main(verbosity=2)
