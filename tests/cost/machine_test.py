"""`kolo machine`, and the machine files against their schema."""

import copy
import glob
import json
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from tool import ToolTest

try:
    import jsonschema
except ImportError:
    jsonschema = None

MACHINES = os.path.join(os.environ["KOLO_SOURCE_DIR"], "machines")
FILES = sorted(set(glob.glob(MACHINES + "/*.json")) - set(glob.glob(MACHINES + "/*.schema.json")))
FILES += sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "machines", "*.json")))


def read(path):
    with open(path) as file:
        return json.load(file)


SCHEMA = read(MACHINES + "/machine.schema.json")

LATENCY = {"bulk": 1, "ll": 1, "ll128": 1, "source": "s"}
STEPS = [{"upToBytes": 1024, "gigabytesPerSecond": 2, "source": "s"}]
# Every field that a machine may have.
WHOLE = {
    "version": 1, "name": "whole", "title": "All fields", "source": "s", "nodes": 2,
    "node": {
        "source": "s",
        "devices": {"name": "d", "count": 2, "source": "s", "launchMicroseconds": 1,
                    "memory": {"gigabytesPerSecond": 1, "bySize": STEPS, "share": 0.5, "isShared": False, "source": "s"},
                    "lane": {"gigabytesPerSecond": 1, "bySize": STEPS, "source": "s",
                             "ll": {"gigabytesPerSecond": 0.5, "source": "s"},
                             "ll128": {"gigabytesPerSecond": 0.5, "source": "s"}, "signalMicroseconds": 1,
                             "reduction": {"gigabytesPerSecond": 1, "bySize": STEPS, "source": "s"}}},
        "switches": [{"name": "hub", "gigabytesPerSecond": 3, "source": "s"}],
        "nics": [{"name": "nic", "class": "link", "source": "s"}],
        "links": [{"from": end, "to": "hub", "class": "link", "count": 1, "source": "s"} for end in ("d 0", "d 1", "nic")],
        "host": {"gigabytesPerSecond": 1, "link": "link", "hasNicsOnDevices": False, "source": "s"}},
    "linkClasses": [{"name": "link", "gigabytesPerSecond": 1, "bySize": STEPS, "kernelShare": 1, "copyShare": 1,
                     "millionMessagesPerSecond": 1, "latencyMicroseconds": LATENCY, "source": "s"}],
    "payloadShare": {"ll": 0.5, "ll128": 0.9, "source": "s"},
    "levels": [{"name": "pair", "nodes": 1, "gigabytesPerSecond": 1, "latencyMicroseconds": LATENCY, "source": "s"},
               {"name": "all", "nodes": 2, "latencyMicroseconds": LATENCY}]}


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def objects(schema, value):
    """The objects of a value, each with its schema."""
    schema = resolved(schema)
    if isinstance(value, list):
        for entry in value:
            yield from objects(schema["items"], entry)
    elif isinstance(value, dict):
        yield schema, value
        for name, entry in value.items():
            yield from objects(schema["properties"][name], entry)


def first_of_each_kind():
    """The number of an object of WHOLE for each schema, with both."""
    kinds = {}
    for number, (schema, value) in enumerate(objects(SCHEMA, WHOLE)):
        kinds.setdefault(id(schema), (number, schema, value))
    return kinds.values()


class Machine(ToolTest):
    def refusal(self, machine):
        self.write("m.json", json.dumps(machine))
        return self.refuses(2, "machine", "m.json", says="m.json: ")

    def test_the_reader_and_the_schema_know_the_same_fields(self):
        self.write("whole.json", json.dumps(WHOLE))
        self.succeeds("machine", "whole.json")
        for number, schema, _ in first_of_each_kind():
            broken = copy.deepcopy(WHOLE)
            list(objects_of(broken))[number]["zzzzzzzzzz"] = 1
            known = re.search(r"there is no such field \(one of (.*)\)", self.refusal(broken))[1].split(", ")
            self.assertEqual(set(known), set(schema["properties"]))

    def test_the_reader_and_the_schema_need_the_same_fields(self):
        for number, schema, value in first_of_each_kind():
            for name in list(value):
                broken = copy.deepcopy(WHOLE)
                del list(objects_of(broken))[number][name]
                self.write("m.json", json.dumps(broken))
                outcome = self.kolo("machine", "m.json")
                self.assertEqual(f".{name}: is missing" in outcome.err or f" {name}: is missing" in outcome.err,
                                 name in schema["required"] or (name == "levels"), f"{name}\n{outcome}")

    @unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
    def test_shipped_files_follow_the_schema(self):
        validator = jsonschema.Draft202012Validator(SCHEMA)
        validator.check_schema(SCHEMA)
        for path in FILES:
            self.assertEqual([error.message for error in validator.iter_errors(read(path))], [], path)
        self.assertEqual([error.message for error in validator.iter_errors(WHOLE)], [])
        self.assertFalse(validator.is_valid({**WHOLE, "colour": 1}))

    def test_prints_the_machine_for_people(self):
        text = self.succeeds("machine", "frontier")
        for words in ("9408 nodes of 8 devices, GCD 0 to GCD 7", "GCD 0 - GCD 1 ", "hsn0 - network"):
            self.assertIn(words, text)
        self.assertRegex(text, r"(?m)^all_gather +1 +333\.3 +1\.6 +into \{GCD 0, GCD 1\}$")
        self.assertRegex(text, r"(?m)^all_to_all +9408 +7\.2 +\S+ +into a group$")

    def test_json_is_what_was_understood(self):
        machine = json.loads(self.succeeds("machine", "dgx-h100", "--json"))
        self.assertEqual((machine["nodes"], machine["devicesPerNode"], len(machine["links"])), (2048, 8, 16))
        self.assertEqual(machine["injectionBytesPerSecond"], 400e9)
        [gather] = [bound for bound in machine["schedules"] if (bound["collective"], bound["mesh"]) == ("all_gather", "node=1,device=8")]
        largest = gather["sizes"][-1]
        self.assertAlmostEqual(1e-9 * largest["bytes"] / largest["boundSeconds"], 450 * 8 / 7, places=6)

    def test_drawings_name_every_part(self):
        for path in FILES:
            machine = read(path)
            self.succeeds("machine", path, "--svg", "out.svg")
            drawn = xml.etree.ElementTree.parse(self.file("out.svg"))
            words = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
            parts = machine["node"].get("switches", []) + machine["node"].get("nics", [])
            devices = machine["node"]["devices"]
            self.assertLessEqual({part["name"] for part in parts}, words)
            self.assertLessEqual({f"{devices['name']} {number}" for number in range(devices["count"])}, words)
            lines = list(drawn.iter("{http://www.w3.org/2000/svg}line"))
            self.assertGreater(len(lines), len(machine["node"]["links"]))

    def test_boxes_of_a_drawing_do_not_overlap(self):
        for path in FILES:
            drawn = xml.etree.ElementTree.fromstring(self.succeeds("machine", path, "--svg", "-"))
            boxes = [[float(box.get(side)) for side in ("x", "y", "width", "height")]
                     for box in drawn.iter("{http://www.w3.org/2000/svg}rect") if box.get("class") in ("box", "nic")]
            for number, (x, y, width, height) in enumerate(boxes):
                for otherX, otherY, otherWidth, otherHeight in boxes[:number]:
                    self.assertTrue(x >= otherX + otherWidth or otherX >= x + width or y >= otherY + otherHeight
                                    or otherY >= y + height, path)

    def test_one_clear_line_for_what_is_wrong(self):
        self.refuses(2, "machine", "frontie", says="there is no machine 'frontie'; did you mean frontier?")
        self.refuses(2, "machine", "no.json", says="cannot read no.json")
        self.refuses(2, "machine", "host", XDG_DATA_HOME=self.file("data"), says="has not measured this machine yet")
        self.refuses(2, "machine", "ring8", "--svg", "nowhere/x.svg", says="--svg: cannot write nowhere/x.svg")
        self.refuses(2, "machine", "--json", says="a machine is missing")

    def test_lists_the_machines(self):
        names = [line.split()[0] for line in self.succeeds("machine").splitlines()]
        self.assertEqual(names, ["dgx-h100", "frontier", "hgx-a100", "mi300x", "perlmutter", "ring8", "host"])


def objects_of(machine):
    return [value for _, value in objects(SCHEMA, machine)]


if __name__ == "__main__":
    if not jsonschema:
        print("SKIPPED: python3-jsonschema is not installed, so that the files are not checked against their schema")
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
