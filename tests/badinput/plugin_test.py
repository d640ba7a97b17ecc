"""Plugin files that are damaged, foreign, or lie: refused with one line before any of their code runs."""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import unittest

from tool import KOLO, ToolTest

# KoloPluginFooter of runtime/include/kolo/runtime/PluginAbi.h.
FOOTER = struct.Struct("<QQQII8s")
MAGIC = b"KOLOPLUG"
HEADER = pathlib.Path(__file__).parents[2] / "runtime/include/kolo/runtime/PluginAbi.h"
ABI = int(re.search(r"KOLO_ABI_VERSION (\d+)u", HEADER.read_text())[1])


def fnv1a(data):
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return checksum


def pack(elf, manifest, abi=ABI, footerBytes=FOOTER.size, magic=MAGIC, elfBytes=None, manifestBytes=None):
    body = elf + manifest
    return body + FOOTER.pack(len(elf) if elfBytes is None else elfBytes,
                              len(manifest) if manifestBytes is None else manifestBytes, fnv1a(body), abi, footerBytes, magic)


class PluginTest(ToolTest):
    options = []

    @classmethod
    def setUpClass(cls):
        import tempfile
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.so")
            subprocess.run([KOLO, "compile", "ringAllReduce", "--mesh", "rank=2", "-o", path, *cls.options], check=True, capture_output=True)
            with open(path, "rb") as file:
                cls.good = file.read()
        elfBytes, manifestBytes, *_ = FOOTER.unpack(cls.good[-FOOTER.size:])
        cls.elf, cls.text = cls.good[:elfBytes], cls.good[elfBytes:elfBytes + manifestBytes]
        assert pack(cls.elf, cls.text) == cls.good

    def refused(self, content, *says, inspect=True):
        """Refused by run, and by inspect too unless what is wrong is beyond what it looks at."""
        with open(self.file("x.so"), "wb") as file:
            file.write(content)
        self.refuses(2, "run", "x.so", "--mesh", "rank=2", "--bytes", "1K", says=["x.so: ", *says])
        if inspect:
            self.refuses(2, "inspect", "x.so", says=["x.so: ", *says])


class Files(PluginTest):
    def test_the_good_one_is_good(self):
        with open(self.file("x.so"), "wb") as file:
            file.write(self.good)
        self.succeeds("run", "x.so", "--mesh", "rank=2", "--bytes", "1K")

    def test_truncated(self):
        size, elf = len(self.good), len(self.elf)
        for length in (0, 1, FOOTER.size - 1, FOOTER.size, 64, elf // 2, elf, elf + 1, size // 2, size - FOOTER.size, size - 1):
            self.refused(self.good[:length])

    def test_bytes_after_the_end(self):
        self.refused(self.good + b"\0")
        self.refused(self.good + self.good[-FOOTER.size:], "truncated")

    def test_a_corrupted_byte_anywhere(self):
        dice = random.Random(7)
        elf, body, size = len(self.elf), len(self.elf) + len(self.text), len(self.good)
        for at in [0, 4, dice.randrange(elf), elf - 1, elf, dice.randrange(elf, body), body - 1, *range(body, size, 4), size - 1]:
            damaged = bytearray(self.good)
            damaged[at] ^= 1 << dice.randrange(8)
            with self.subTest(at=at, of=size):
                self.refused(bytes(damaged))

    def test_files_of_another_kind(self):
        with open(KOLO, "rb") as file:
            self.refused(file.read(1 << 20), "Kolo plugin")
        self.refused(b"hello\n" * 1000, "Kolo plugin")
        self.refused(b"\0" * 10000, "Kolo plugin")
        libc = next(path for path in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6")
                    if os.path.exists(path))
        self.refuses(2, "run", libc, "--mesh", "rank=2", says=[libc, "Kolo plugin"])
        for path in ("/", "/dev/null"):
            self.refuses(2, "run", path, "--mesh", "rank=2", says="not a regular file")
        os.mkfifo(self.file("pipe.so"))
        self.refuses(2, "run", "pipe.so", "--mesh", "rank=2", says="not a regular file")


class Footers(PluginTest):
    def test_another_abi(self):
        for abi in (0, ABI + 1, 0xFFFFFFFF):
            self.refused(pack(self.elf, self.text, abi=abi), f"ABI version {abi}")

    def test_wrong_sizes(self):
        self.refused(pack(self.elf, self.text, footerBytes=FOOTER.size + 8), "footer")
        for elfBytes, manifestBytes in [(0, 0), (len(self.elf) + 1, len(self.text)), (2**64 - 1, len(self.elf) + len(self.text) + 1),
                                        (2**63, 2**63)]:
            self.refused(pack(self.elf, self.text, elfBytes=elfBytes, manifestBytes=manifestBytes), "footer")

    def test_the_border_between_code_and_manifest_moved(self):
        for shift in (-1, 1, -len(self.elf)):
            moved = pack(self.elf, self.text, elfBytes=len(self.elf) + shift, manifestBytes=len(self.text) - shift)
            self.refused(moved, "manifest", inspect=False)


class Manifests(PluginTest):
    def changed(self, change):
        manifest = json.loads(self.text)
        change(manifest)
        return pack(self.elf, json.dumps(manifest).encode())

    def test_what_is_no_manifest(self):
        for text in (b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"{" * 100000, b"[" * 100000):
            self.refused(pack(self.elf, text), "manifest", inspect=False)

    def test_every_field_missing_or_of_another_type(self):
        manifest = json.loads(self.text)
        def places(value, path):
            items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
            for key, inner in items:
                yield (*path, key)
                yield from places(inner, (*path, key))

        def parent(root, path):
            for key in path[:-1]:
                root = root[key]
            return root

        numRefused = 0
        for path in places(manifest, ()):
            for wrong in ("missing", {"no": "sense"}):
                broken = json.loads(self.text)
                if wrong == "missing":
                    del parent(broken, path)[path[-1]]
                else:
                    parent(broken, path)[path[-1]] = wrong
                if wrong == "missing" and isinstance(path[-1], int):
                    continue  # a shorter list is not of another type
                with self.subTest(path=path, wrong=wrong):
                    self.refused(pack(self.elf, json.dumps(broken).encode()), "manifest", inspect=False)
                    numRefused += 1
        self.assertGreater(numRefused, 30)

    def test_values_out_of_range(self):
        def program(field, value):
            return lambda manifest: manifest["programs"][0].update({field: value})
        for field, value in [("name", ""), ("collective", "dance"), ("groupDims", []), ("groupDims", [1]), ("groupDims", [-1]),
                             ("groupDims", [0, 0]), ("mesh", []), ("mesh", ["a", "b", "c", "d", "e"]), ("meshes", [[0]]),
                             ("meshes", [[2, 2]]), ("meshes", [[-2]]), ("meshes", [[2**40]]), ("meshes", [[2.5]]),
                             ("semaphores", -1), ("semaphores", 2**31), ("semaphores", 2**64), ("semaphores", 1e99),
                             ("inPlace", "perhaps"), ("granule", 512), ("reduces", 1), ("unproved", 0), ("unproved", "true"), ("proved", [[2]]),
                             ("proved", [{"mesh": [2]}]), ("proved", [{"on": [2]}]), ("proved", [{"mesh": [3], "on": [3]}]),
                             ("proved", [{"mesh": [2], "on": [0]}]), ("proved", [{"mesh": [2, 2], "on": [2]}])]:
            with self.subTest(field=field, value=value):
                self.refused(self.changed(program(field, value)), f"programs[0].{field}", inspect=False)

    def test_what_disagrees_with_the_code(self):
        self.refused(self.changed(lambda m: m["programs"][0].update(name="other")), "'other'", inspect=False)
        self.refused(self.changed(lambda m: m["programs"].append({**m["programs"][0], "name": "two"})), "2 programs", inspect=False)
        self.refused(self.changed(lambda m: m["programs"].append(m["programs"][0])), "twice", inspect=False)
        self.refused(self.changed(lambda m: m.update(programs=[])), "programs", inspect=False)
        self.refused(self.changed(lambda m: m.update(abi=ABI + 1)), f"ABI version {ABI + 1}", inspect=False)

    def test_another_target(self):
        self.refused(self.changed(lambda m: m["target"].update(kind="cuda")), "cuda", inspect=False)
        self.refused(self.changed(lambda m: m["target"].update(triple="riscv64-linux-gnu")), "riscv64", inspect=False)
        self.refused(self.changed(lambda m: m["target"].update(cpu="x86-64-v9")), "x86-64-v9", inspect=False)

    def test_code_that_is_no_library(self):
        for elf in (b"", b"\x7fELF", b"not a library at all" * 100, self.elf[:200], self.elf[:len(self.elf) // 2]):
            with self.subTest(elf=elf[:20], size=len(elf)):
                self.refused(pack(elf, self.text), inspect=False)

    def test_a_mesh_of_the_manifest_alone(self):
        """The code is parametric, so it would run."""
        with open(self.file("x.so"), "wb") as file:
            file.write(self.changed(lambda m: m["programs"][0].update(meshes=[[3], [2]])))
        self.succeeds("run", "x.so", "--mesh", "rank=2", "--bytes", "1K")
        self.refuses(2, "run", "x.so", "--mesh", "rank=4", says="compiled for rank=3 or rank=2")
        self.refuses(2, "run", "x.so", "--mesh", "rank=3", says="ringAllReduce is not proved on rank=3")

    def test_a_mesh_that_is_not_proved(self):
        with open(self.file("x.so"), "wb") as file:
            file.write(self.changed(lambda m: m["programs"][0].update(proved=[])))
        self.refuses(2, "run", "x.so", "--mesh", "rank=2", says="ringAllReduce is not proved on rank=2")

    def test_control_characters(self):
        """A name that clears the screen, raw or escaped: no command prints it."""
        evil = "\x1b[2J\x7f\u009b31m\r\nname"
        for change in (lambda m: m["programs"][0].update(name=evil),
                       lambda m: m["programs"][0]["statements"][0].update(file=evil, what=evil),
                       lambda m: m["target"].update(cpu=evil), lambda m: m.update(kolo=evil),
                       lambda m: m["programs"][0].update(choreography=evil), lambda m: m.update({"future": [{"x": evil}]})):
            for ascii_only in (True, False):
                manifest = json.loads(self.text)
                change(manifest)
                content = pack(self.elf, json.dumps(manifest, ensure_ascii=ascii_only).encode())
                self.refused(content, "control characters", "\\u001b[2J\\u007f\\u009b31m", inspect=False)
                for command in (["inspect", "x.so"], ["inspect", "x.so", "--json"],
                                ["doctor", "--collective", "all_reduce", "--ranks", "2"]):
                    done = self.kolo(*command, KOLO_PLUGIN_PATH=self.file("x.so"))
                    self.assertFalse(set(done.out + done.err) & set("\x1b\x7f\u009b\r"), command)
                    if "--json" in command:
                        self.assertEqual(json.loads(done.out), manifest)
        for key in ("programs", "future"):
            self.refused(self.changed(lambda m: m.update({key: [{evil: 1}]})), "control characters")
        for junk in (b"\x1b[2J{", b'{"a": "\x9b"}', b"\xc2\x9b"):
            with open(self.file("x.so"), "wb") as file:
                file.write(pack(self.elf, junk))
            shown = self.succeeds("inspect", "x.so", "--json")
            self.assertFalse(set(shown) & set("\x1b\x9b\ufffd"), shown)


class Images(PluginTest):
    options = ["--target", "cpu,cuda:sm_90,hip:gfx90a"]

    def extract(self, change):
        manifest = json.loads(self.text)
        change(manifest["devices"])
        with open(self.file("x.so"), "wb") as file:
            file.write(pack(self.elf, json.dumps(manifest).encode()))

    def test_what_the_manifest_says_of_images_stays_in_the_folder(self):
        outside = self.file("outside")
        for field in ("kind", "architecture", "format"):
            for wrong in (outside, "../outside", "..", "", "/", "cuda/../../outside", "x\0y", "\x1b[2J", "sm_90/../../outside",
                          "gfx90a/x", "sm_90\n", None, 7, [], {"a": 1}):
                self.extract(lambda d: d["images"][1].update({field: wrong}))
                said = self.refuses(2, "inspect", "x.so", "--extract", "images", says=["x.so: ", f"images[1].{field}'"])
                self.assertTrue(said[:-1].isprintable(), said)
            self.extract(lambda d: d["images"][0].pop(field))
            self.refuses(2, "inspect", "x.so", "--extract", "images", says=["x.so: ", f"images[0].{field}' is missing"])
            self.assertEqual(self.listing(), ["x.so"])
        for field in ("offset", "bytes"):
            for wrong in (-1, 2**63, 2**64 - 1, 1.5, "1", None):
                self.extract(lambda d: d["images"][1].update({field: wrong}))
                self.refuses(2, "inspect", "x.so", "--extract", "images", says=["x.so: ", "devices.images[1]."])
        for wrong in (7, {}, {"images": 7}, {"images": {"a": 1}}, [7], None):
            self.extract(lambda d: (d.clear(), d.update(wrong)) if isinstance(wrong, dict) else d.update(images=wrong))
            self.refuses(2, "inspect", "x.so", "--extract", "images", says=["x.so: ", "devices.images"])
        self.extract(lambda d: d["images"].append(d["images"][0]))
        self.refuses(2, "inspect", "x.so", "--extract", "images", says="two images cuda-sm_90.ptx")
        self.assertEqual(self.listing(), ["x.so"])

    def test_a_link_in_the_folder_is_not_followed(self):
        self.extract(lambda d: None)
        os.mkdir(self.file("images"))
        os.symlink(self.file("outside"), self.file("images/hip-gfx90a.hsaco"))
        self.refuses(2, "inspect", "x.so", "--extract", "images", says="images/hip-gfx90a.hsaco")
        self.assertFalse(os.path.exists(self.file("outside")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
