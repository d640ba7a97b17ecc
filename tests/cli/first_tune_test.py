"""kolo tune without -o: the table of this machine is kept for the doors, which take it; and what they say if they cannot."""
import glob
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from tool import KOLO, ToolTest

FOOTER = struct.Struct("<QQQII8s")  # KoloPluginFooter of runtime/include/kolo/runtime/PluginAbi.h
QUICK = ["tune", "--mesh", "rank=2", "--collective", "broadcast", "--max-bytes", "512"]
CALL = ["doctor", "--collective", "broadcast", "--ranks", "2", "--bytes", "64"]


class FirstTune(ToolTest):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.mkdtemp(prefix="tests-of-tool-")
        cls.addClassCleanup(shutil.rmtree, cls.kept)
        cls.said = subprocess.run([KOLO, *QUICK], env={**os.environ, "XDG_CACHE_HOME": cls.kept}, text=True, check=True,
                                  stdout=subprocess.PIPE).stdout

    def setUp(self):
        super().setUp()
        self.cache = self.file("cache")

    def plugin(self):
        [path] = glob.glob(self.cache + "/kolo/*.kolo.so")
        return path

    def tuned(self):
        """The cache after `kolo tune`."""
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.kept, self.cache)

    def change(self, field, value, of="tuned"):
        """Writes another manifest, and the checksum that belongs to it."""
        with open(self.plugin(), "rb") as file:
            content = file.read()
        code_bytes, manifest_bytes, _, *rest = FOOTER.unpack(content[-FOOTER.size:])
        manifest = json.loads(content[code_bytes:code_bytes + manifest_bytes])
        (manifest[of] if of else manifest)[field] = value
        text = json.dumps(manifest).encode()
        body = content[:code_bytes] + text
        checksum = 0xCBF29CE484222325
        for byte in body:
            checksum = (checksum ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        with open(self.plugin(), "wb") as file:
            file.write(body + FOOTER.pack(code_bytes, len(text), checksum, *rest))

    def test_is_kept_by_machine_and_taken_by_doors(self):
        self.tuned()
        self.assertIn("measured 2 of 2 groups", self.said)
        self.assertIn(f"{os.path.basename(self.plugin())}: doors take it", self.said)
        self.assertRegex(os.path.basename(self.plugin()), r"\Atuned-[0-9a-f]{16}\.kolo\.so\Z")
        with open(self.plugin().replace(".kolo.so", ".json")) as file:
            table = json.load(file)
        self.assertEqual({(row["collective"], row["ranks"]) for row in table["entries"]}, {("broadcast", 2)})
        self.assertEqual(sorted(os.listdir(self.cache + "/kolo")), sorted(os.path.basename(path) for path in (
            self.plugin(), self.plugin().replace(".kolo.so", ".json"))), "nothing half written is left")
        self.assertRegex(self.succeeds(*CALL), rf"a call .*Broadcast\S* of {re.escape(self.plugin())}")
        other = self.succeeds("doctor", "--ranks", "4")
        self.assertRegex(other, r"a call .* of \S*default\.kolo\.so", "what it lacks, the table that ships has")
        self.assertRegex(other, r"own table +measured on this machine on \d{4}-")

    def test_a_named_plugin_goes_before(self):
        self.tuned()
        shutil.copy(self.plugin(), self.file("named.kolo.so"))
        os.remove(self.plugin())
        said = self.succeeds(*CALL, KOLO_PLUGIN_PATH=self.file("named.kolo.so"))
        self.assertRegex(said, r"a call .* of \S*named\.kolo\.so")
        self.assertRegex(said, r"own table +none: `kolo tune` makes")

    def test_what_is_not_measured_in_time_is_as_shipped(self):
        said = self.succeeds("tune", "--mesh", "rank=4", "--collective", "broadcast", "--collective", "gather", "--seconds", "0.001")
        self.assertRegex(said, r"measured [0-2] of 4 groups")
        self.assertRegex(said, r"the other \d are as in the table that ships")
        self.assertRegex(self.succeeds("doctor", "--collective", "gather", "--ranks", "4"), rf"a call .*Gather\S* of {self.plugin()}")

    def test_shows_progress_on_a_terminal(self):
        main, other = pty.openpty()
        environment = {**os.environ, "XDG_CACHE_HOME": self.cache}
        subprocess.run([KOLO, *QUICK], env=environment, stderr=other, stdout=subprocess.DEVNULL, check=True)
        os.close(other)
        shown = os.read(main, 100000).decode()
        self.assertIn("measuring [", shown)
        self.assertIn("100 %", shown)

    def test_a_cache_that_cannot_be_written(self):
        self.write("file", "")
        self.refuses(2, *QUICK, XDG_CACHE_HOME=self.file("file"), says=["tune: cannot make", "XDG_CACHE_HOME"])
        self.refuses(2, *QUICK, XDG_CACHE_HOME="", HOME="", says=["XDG_CACHE_HOME nor HOME"])
        self.refuses(2, *QUICK, XDG_CACHE_HOME="relative", HOME="", says=["XDG_CACHE_HOME nor HOME"])

    def test_flags_that_belong_to_tables(self):
        self.refuses(2, *QUICK, "--seconds-per-cell", "1", says=["--seconds-per-cell", "--output"])
        self.refuses(2, *QUICK, "--machine", "host", says=["--machine", "--output"])
        self.refuses(2, *QUICK, "-o", "table.json", "--seconds", "1", says=["--seconds", "--output"])

    def not_used(self, *says):
        """The doctor tells why, and a door takes the table that ships."""
        said = self.succeeds(*CALL)
        [line] = re.findall(r"^own table +not used: .*$", said, re.M)
        for word in (*says, "`kolo tune` makes a new one"):
            self.assertIn(word, line)
        self.assertRegex(said, r"a call .* of \S*default\.kolo\.so")

    def test_a_plugin_that_is_damaged_or_of_others(self):
        self.tuned()
        os.chmod(self.plugin(), 0o666)
        self.not_used("others may write this file")
        os.chmod(self.plugin(), 0o644)
        if os.geteuid() == 0:
            os.chown(self.plugin(), 12345, -1)
            self.not_used("belongs to user 12345")
            os.chown(self.plugin(), 0, -1)
        os.chmod(os.path.dirname(self.plugin()), 0o777)
        self.not_used("others may write the folder")
        os.chmod(os.path.dirname(self.plugin()), 0o755)
        with open(self.plugin(), "r+b") as file:
            file.truncate(1000)
        self.not_used(self.plugin())
        self.tuned()
        self.assertRegex(self.succeeds(*CALL), r"own table +measured on this machine")

    def test_a_table_of_another_machine_or_version(self):
        for field, value, of in (("kernel", "2.6.32", "tuned"), ("cores", "64", "tuned"), ("caches", "1K", "tuned"),
                                 ("processor", "MOS 6502", "tuned"), ("kolo", "0.0.1", None)):
            self.tuned()
            self.change(field, value, of)
            self.not_used(f"measured with {'Kolo' if field == 'kolo' else field} '{value}'; here it is")
        self.tuned()
        self.change("tuned", None, None)
        self.not_used("measured with processor ''")


if __name__ == "__main__":
    unittest.main(verbosity=2)
