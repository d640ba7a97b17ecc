"""kolo machine --import: what becomes of a topology. The inputs are ours; KOLO_TOPOLOGY_FILES names folders with public ones."""
import json
import os
import pathlib
import tempfile
import unittest

import support

FOLDERS = [pathlib.Path(folder) for folder in os.environ.get("KOLO_TOPOLOGY_FILES", "").split(":") if folder]
MACHINES = pathlib.Path(__file__).resolve().parents[2] / "machines"
# A node of Frontier: GCDs 2k and 2k+1 and a NIC on each of four NUMA nodes. (from, to, links)
FRONTIER = [(0, 1, 4), (0, 2, 1), (0, 6, 2), (1, 3, 1), (1, 5, 1), (2, 3, 4), (2, 4, 2), (3, 7, 1), (4, 5, 4), (4, 6, 1), (5, 7, 1),
            (6, 7, 4)]
BUSES = ["c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"]
NICS = ["c5", "cd", "d5", "dd"]


def address(bus):
    return f"0000:{bus}:00.0"


def system(links=FRONTIER, gcn="910"):
    text = '<system version="2">\n'
    for pair in range(4):
        text += f'  <cpu numaid="{pair}">\n'
        for device in (2 * pair, 2 * pair + 1):
            text += f'    <pci busid="{address(BUSES[device])}" link_speed="16 GT/s" link_width="16">\n      <gpu dev="{device}" gcn="{gcn}">\n'
            for one, other, count in links:
                if device in (one, other):
                    target = address(BUSES[one + other - device])
                    text += f'        <xgmi target="{target}" count="{count}" tclass="0x038000"/>\n'
            text += "      </gpu>\n    </pci>\n"
        text += (f'    <pci busid="{address(NICS[pair])}" link_speed="16 GT/s" link_width="16">\n'
                 f'      <nic><net name="net{pair}" speed="200000"/></nic>\n    </pci>\n  </cpu>\n')
    return text + "</system>\n"


class Topology(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def imports(self, path):
        """(machine, what was said); Kolo reads its own file again."""
        made = os.path.join(self.directory, "machine.json")
        run = support.kolo("machine", "--import", str(path), "-o", made)
        self.assertEqual(run.returncode, 0, f"{path}: {run.stderr}")
        shown = support.kolo("machine", made)
        self.assertEqual(shown.returncode, 0, f"{path}: {shown.stderr}")
        with open(made, encoding="utf-8") as file:
            return json.load(file), run.stdout

    @staticmethod
    def links(machine, device):
        """{(from, to): (links, GB/s of one)} between devices."""
        rates = {each["name"]: each["gigabytesPerSecond"] for each in machine["linkClasses"]}
        return {(each["from"].replace(device, "GPU"), each["to"].replace(device, "GPU")): (each["count"], rates[each["class"]])
                for each in machine["node"]["links"] if each["to"].startswith(device)}

    def test_a_node_of_frontier_has_the_links_of_the_machine_that_ships(self):
        machine, said = self.imports(self.write("node.xml", system()))
        shipped = json.loads((MACHINES / "frontier.json").read_text())
        self.assertEqual(self.links(machine, "GPU"), self.links(shipped, "GCD"))
        ofNics = {each["to"]: each["from"] for each in machine["node"]["links"] if each["to"].startswith("net")}
        self.assertEqual(ofNics, {"net0": "GPU 1", "net1": "GPU 3", "net2": "GPU 5", "net3": "GPU 7"})
        wires = {each["name"]: each["gigabytesPerSecond"] for each in machine["linkClasses"]}
        self.assertEqual({wires[nic["class"]] for nic in machine["node"]["nics"]}, {25})
        for words in ("took: 8 devices", "took: 12 links between 8 devices and 0 switches", "took: 4 NICs",
                      "assumed: line", "net0 hangs on GPU 1", "cannot know: memory bandwidth"):
            self.assertIn(words, said)

    def test_devices_behind_nvswitches(self):
        text = '<system version="1">\n <cpu numaid="0">\n'
        for device in range(4):
            text += f'  <pci busid="{address(BUSES[device])}" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{device}" sm="90">'
            text += "".join(f'<nvlink target="0000:0{switch}:00.0" count="4" tclass="0x068000"/>' for switch in range(2))
            text += "</gpu></pci>\n"
        machine, _ = self.imports(self.write("switches.xml", text + " </cpu>\n</system>\n"))
        self.assertEqual([each["name"] for each in machine["node"]["switches"]], ["switch0", "switch1"])
        self.assertEqual(len(machine["node"]["links"]), 8)
        self.assertEqual({each["gigabytesPerSecond"] for each in machine["linkClasses"]}, {25})

    def test_devices_without_links_go_through_pcie(self):
        machine, said = self.imports(self.write("pcie.xml", system(links=[])))
        self.assertEqual([each["name"] for each in machine["node"]["switches"]], ["NUMA0", "NUMA1", "NUMA2", "NUMA3"])
        self.assertIn("assumed: 32 GB/s between every two NUMA nodes", said)

    def test_the_matrix_of_hwloc_is_not_taken(self):
        text = '<topology version="2.0">\n <object type="Package" os_index="9">\n'
        for device in range(2):
            text += (f'  <object type="Package" os_index="{device}"><object type="NUMANode" os_index="{device}"/>\n'
                     f'   <object type="Bridge" pci_busid="0000:{device}0:00.0">'
                     f'<object type="PCIDev" pci_busid="0000:{device}1:00.0" pci_link_speed="31.507692">\n'
                     f'    <object type="OSDev" name="rsmi{device}" subtype="RSMI" osdev_type="5"/></object>'
                     f'<object type="PCIDev" pci_busid="0000:{device}2:00.0" pci_link_speed="31.507692">\n'
                     f'    <object type="OSDev" name="hsn{device}" subtype="Slingshot" osdev_type="2"/></object></object></object>\n')
        text += ' </object>\n <distances2 type="OSDev" nbobjs="2" kind="38" name="XGMIBandwidth">\n </distances2>\n</topology>\n'
        machine, said = self.imports(self.write("hwloc.xml", text))
        self.assertEqual(machine["node"]["devices"]["count"], 2)
        self.assertEqual([each["name"] for each in machine["node"]["nics"]], ["hsn0", "hsn1"])
        self.assertRegex(said, "cannot know: line .*XGMIBandwidth has one value for every pair.*NICs and NUMA nodes alone")

    def test_what_is_refused(self):
        def refused(text, line, *words):
            path = self.write("wrong.xml", text)
            run = support.kolo("machine", "--import", path)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
            for word in (f"wrong.xml:{line}:1: error: ", *words):
                self.assertIn(word, run.stderr)
        refused("<algo/>", 1, "neither <system>")
        refused("<system>\n<cpu>\n</system>", 3, "is no XML")
        refused('<system version="2"/>', 1, "has no device")
        refused(system(gcn="700"), 4, "what its xgmi links carry is not known")
        refused(system().replace(address("c6") + '" count="4"', address("ff") + '" count="4"', 1), 5, "where no device is")
        refused(system().replace('count="4"', 'count="3"', 1), 12, "4 links, and the other end, line 5, has 3")
        refused(system().replace('count="4"', 'count="x"', 1), 5, "count is 'x'")
        run = support.kolo("machine", "frontier", "--import", "x.xml")
        self.assertEqual(run.returncode, 2)
        run = support.kolo("machine", "--import", "absent.xml")
        self.assertEqual(run.returncode, 2)
        self.assertIn("there is no file absent.xml", run.stderr)

    @unittest.skipUnless(FOLDERS, "KOLO_TOPOLOGY_FILES names no folder")
    def test_public_files_are_read_or_refused_with_a_reason(self):
        read, refused = 0, []
        for path in sorted(path for folder in FOLDERS for path in folder.rglob("*.xml")):
            made = os.path.join(self.directory, "machine.json")
            run = support.kolo("machine", "--import", str(path), "-o", made)
            if run.returncode == 1 and ": error: " in run.stderr:
                refused.append(run.stderr.strip())
                continue
            self.assertEqual(run.returncode, 0, f"{path}: {run.stderr}")
            shown = support.kolo("machine", made)
            self.assertEqual(shown.returncode, 0, f"{path}: {shown.stderr}")
            read += 1
        print(f"{read} topologies read, {len(refused)} refused", *refused, sep="\n")
        self.assertGreater(read, 0)


if __name__ == "__main__":
    unittest.main()
