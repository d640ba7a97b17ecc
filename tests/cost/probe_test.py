"""`kolo probe` measures this machine, and --machine host is what it wrote."""

import json
import os
import time
import unittest

from tool import ToolTest

PROBE = ("probe", "--seconds", "0.1", "--cores", "2")
# As nvidia-smi 570 writes it, underlined for a terminal; two NICs and columns that Kolo leaves aside.
MATRIX = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tNODE\tSYS\t0-31\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\tPIX\t32-63\t1\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\tNODE\t32-63\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPIX\tNODE\tSYS\t X

Legend:

  X    = Self
NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
SMI = """#!/bin/sh
case "$1" in
topo) printf '%s' "$MATRIX" ;;
--query-gpu=index,pci.bus_id,compute_cap) echo "$DEVICES" ;;
*) exit 1 ;;
esac
"""
# (from, to, links) of devices of AMD.
AMD_LINKS = [(0, 1, 4), (0, 2, 1), (1, 3, 1), (2, 3, 4)]


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "this machine has one core")
class Probe(ToolTest):
    def test_measures_and_writes_a_machine(self):
        data = self.file("data")
        self.slot("sys", "pci0000:00/0000:00:01.0", vendor="0x1af4", **{"class": "0x020000"})
        nothing = {"XDG_DATA_HOME": data, "PATH": self.file("nothing")}
        text = self.succeeds(*PROBE, "--sysfs", "sys", **nothing)
        self.assertEqual(os.listdir(os.path.join(data, "kolo")), ["host.json"])
        self.assertNotIn("devices", text)
        self.refuses(2, "probe", "--devices", "--sysfs", "sys", says="--devices: there are no accelerators", **nothing)
        path = os.path.join(data, "kolo", "host.json")
        self.assertIn(f"written to {path}, which --machine host reads", text)
        with open(path) as file:
            written = json.load(file)
        machine = json.loads(self.succeeds("machine", "host", "--json", XDG_DATA_HOME=data))
        usable = len(os.sched_getaffinity(0))
        self.assertIn(f"2 of {usable} cores", text)
        self.assertIn("1 pairs like core 0 and core 1: a signal takes", text)
        self.assertTrue(written["title"].endswith("2 cores" if usable == 2 else f"2 of {usable} cores"), written["title"])
        self.assertEqual(machine["devicesPerNode"], 2)
        self.assertEqual([(link["from"], link["to"]) for link in machine["links"]], [("core 0", "core 1")])
        self.assertTrue(machine["device"]["sharesMemory"])
        self.assertIn("kolo probe", written["source"])
        lane, writes = machine["device"]["lane"], machine["device"]["memoryWrites"]
        self.assertGreater(writes["bytesPerSecond"], 0)
        rates = [step["bytesPerSecond"] for step in lane["bySize"]] + [lane["bytesPerSecond"]]
        self.assertGreater(len(rates), 8)
        for rate in rates:  # between a slow disk and a fast cache
            self.assertTrue(1e7 < rate < 1e12, rates)
        latency = machine["linkClasses"][0]["latencySeconds"]["bulk"]
        self.assertTrue(1e-9 < latency < 1e-2, latency)

    def put(self, path, text):
        os.makedirs(os.path.dirname(self.file(path)), exist_ok=True)
        self.write(path, text)

    def slot(self, root, path, **files):
        """A PCI device in a tree like that of sysfs; its address is the last part of the path."""
        folder = self.file(os.path.join(root, "devices", path))
        for name, text in {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16", "numa_node": "0", **files}.items():
            self.put(os.path.join(folder, name), text + "\n")
        link = self.file(os.path.join(root, "bus/pci/devices", os.path.basename(path)))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(folder, link)

    def devices(self, *flags, **environment):
        """(the machine of accelerators, what was said of it); --machine takes it."""
        text = self.succeeds("probe", *flags, "-o", "probed.json", **environment)
        machine = json.loads(self.succeeds("machine", "probed-devices.json", "--json"))
        self.assertIn("devices: written to probed-devices.json", text)
        again = self.kolo("machine", "--import", "probed-topology.xml")
        with open(self.file("probed-devices.json"), encoding="ascii") as file:
            self.assertEqual(file.read(), again.out)
        return machine, text

    def test_devices_of_nvidia_are_taken_from_sysfs_and_nvidia_smi(self):
        for number, (bridge, bus, numa) in enumerate((("04:01", "07", 0), ("04:02", "0a", 0), ("84:01", "87", 1), ("84:02", "8a", 1))):
            above = f"pci0000:{bridge[:2]}/0000:{bridge}.0"
            self.slot("sys", above, numa_node=str(numa))
            self.slot("sys", f"{above}/0000:{bus}:00.0", vendor="0x10de", numa_node=str(numa), max_link_speed="32.0 GT/s PCIe",
                      **{"class": "0x030200"})
            if number % 2 == 0:
                name = f"mlx5_{number // 2}"
                self.slot("sys", f"{above}/0000:{bus}:00.1", vendor="0x15b3", numa_node=str(numa), max_link_speed="32.0 GT/s PCIe",
                          **{"class": "0x020700", f"infiniband/{name}/ports/1/rate": "400 Gb/sec (4X NDR)"})
        self.put("bin/nvidia-smi", SMI)
        os.chmod(self.file("bin/nvidia-smi"), 0o755)
        buses = "\n".join(f"{number}, 00000000:{bus}:00.0, 9.0" for number, bus in enumerate(("07", "0A", "87", "8A")))
        machine, text = self.devices(*PROBE[1:], "--sysfs", "sys", PATH=f"{self.file('bin')}:{os.environ['PATH']}", MATRIX=MATRIX, DEVICES=buses)
        self.assertTrue(os.path.exists(self.file("probed.json")))
        self.assertEqual(machine["devicesPerNode"], 4)
        links = sorted((link["from"], link["to"], link["count"]) for link in machine["links"])
        self.assertEqual([link for link in links if link[1] == "switch0"], [(f"GPU {device}", "switch0", 18) for device in range(4)])
        self.assertEqual([link[:2] for link in links if link[1].startswith("mlx5")], [("GPU 0", "mlx5_0"), ("GPU 2", "mlx5_1")])
        rates = {each["name"]: each["bandwidth"]["bytesPerSecond"] for each in machine["linkClasses"]}
        self.assertIn(50e9, rates.values())
        self.assertIn("took: 4 links between 4 devices and 1 switches", text)

    def test_devices_of_amd_are_taken_from_the_driver(self):
        nodes = "sys/class/kfd/kfd/topology/nodes"
        self.put(f"{nodes}/0/properties", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\ndomain 0\n")
        for device, bus in enumerate((0xc1, 0xc6, 0xc9, 0xce)):
            self.slot("sys", f"pci0000:{bus - 1:02x}/0000:{bus:02x}:00.0", vendor="0x1002", **{"class": "0x038000"})
            self.put(f"{nodes}/{device + 1}/properties",
                       f"simd_count 440\ngfx_target_version 90010\nlocation_id {bus << 8}\ndomain 0\n")
            ends = [(one + other - device, count) for one, other, count in AMD_LINKS if device in (one, other)]
            self.put(f"{nodes}/{device + 1}/io_links/0/properties", "type 2\nnode_to 0\nmin_bandwidth 0\nmax_bandwidth 0\n")
            for number, (other, count) in enumerate(ends, 1):
                self.put(f"{nodes}/{device + 1}/io_links/{number}/properties",
                           f"type 11\nnode_from {device + 1}\nnode_to {other + 1}\nmin_bandwidth 50000\nmax_bandwidth {50000 * count}\n")
        self.slot("sys", "pci0000:c0/0000:c5:00.0", **{"class": "0x020000", "cxi/cxi0/device": "", "net/hsn0/speed": "200000"})
        machine, text = self.devices("--devices", "--sysfs", "sys", PATH=self.file("nothing"))
        self.assertFalse(os.path.exists(self.file("probed.json")))
        links = sorted((link["from"], link["to"], link["count"]) for link in machine["links"] if link["to"].startswith("GPU"))
        self.assertEqual(links, [(f"GPU {one}", f"GPU {other}", count) for one, other, count in AMD_LINKS])
        self.assertEqual([link["to"] for link in machine["links"] if not link["to"].startswith("GPU")], ["cxi0"])
        self.assertIn("took: 4 links between 4 devices and 0 switches", text)
        # A device that the reader does not know.
        self.put(f"{nodes}/1/properties", f"simd_count 440\ngfx_target_version 70000\nlocation_id {0xc1 << 8}\ndomain 0\n")
        outcome = self.kolo("probe", "--devices", "--sysfs", "sys", "-o", "other.json", PATH=self.file("nothing"))
        self.assertEqual(outcome.code, 1, outcome.err)
        self.assertRegex(outcome.err, r"other-topology\.xml:\d+:1: error: .*gcn='700'")
        self.assertFalse(os.path.exists(self.file("other-devices.json")))

    def test_refuses_before_it_measures(self):
        start = time.monotonic()
        self.refuses(2, "probe", "-o", "nowhere/host.json", says="--output: cannot write nowhere/host.json")
        self.refuses(2, "probe", HOME="", XDG_DATA_HOME="", says="--output is needed")
        self.refuses(2, "probe", "--seconds", "0", says="--seconds")
        self.refuses(2, "probe", "--cores", "1", says="--cores")
        self.refuses(2, "probe", "--sysfs", "absent", says="--sysfs")
        self.refuses(2, "probe", "--devices", "--json", says="--devices")
        self.refuses(2, "probe", "--json", "-o", "-", says=["--json", "--output -"])
        self.write("file", "")
        self.refuses(2, "probe", XDG_DATA_HOME=self.file("file"), says="cannot make")
        self.assertLess(time.monotonic() - start, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
