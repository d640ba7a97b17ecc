"""What needs no GPU, by NVIDIA's NCCL: alone, and behind the door."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import DOOR, build, compile_plugins, needed, run


class Stock(unittest.TestCase):
    """NVIDIA's NCCL, alone and behind the door."""

    def test_answers_are_the_same(self):
        library = needed("KOLO_NCCL_LIBRARY")
        compile_plugins("ringAllGather")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(DOOR, os.path.join(folder, "libnccl.so.2"))
            stock = os.path.dirname(library)
            for binding in ("lazy", "now"):
                program = build(folder, "stock.c", stock, binding)
                alone = run(program, LD_PRELOAD=None, LD_LIBRARY_PATH=stock)
                self.assertEqual((alone.returncode, alone.stderr), (0, ""), alone.stdout)
                self.assertGreater(len(alone.stdout.splitlines()), 50)
                preloaded = run(program, LD_LIBRARY_PATH=stock, KOLO_STATS="0")
                self.assertEqual((preloaded.stdout, preloaded.stderr), (alone.stdout, ""))
                dropped_in = run(program, LD_PRELOAD=None, LD_LIBRARY_PATH=f"{folder}:{stock}", KOLO_STATS="0")
                self.assertEqual((dropped_in.stdout, dropped_in.stderr), (alone.stdout, ""))

    def test_every_name_is_there(self):
        def names(path):
            listed = subprocess.run(["nm", "-D", "--defined-only", path], text=True, capture_output=True, check=True).stdout
            return set(re.findall(r" [TW] (p?nccl[A-Z]\w*)$", listed, re.M))
        stock = names(needed("KOLO_NCCL_LIBRARY"))
        self.assertGreater(len(stock), 100)
        self.assertEqual(stock - names(DOOR), set())

    def test_the_tuner_has_every_structure_that_nccl_looks_for(self):
        def structures(path):
            return set(re.findall(rb"ncclTunerPlugin_v\d+", pathlib.Path(path).read_bytes()))
        wanted = structures(needed("KOLO_NCCL_LIBRARY"))
        self.assertGreaterEqual(len(wanted), 4)
        self.assertEqual(wanted - structures(DOOR), set())

    def test_the_environment_plugin_is_loaded(self):
        stock = needed("KOLO_NCCL_LIBRARY")
        wanted = set(re.findall(rb"ncclEnvPlugin_v\d+", pathlib.Path(stock).read_bytes()))
        self.assertGreaterEqual(len(wanted), 1)
        self.assertEqual(wanted - set(re.findall(rb"ncclEnvPlugin_v\d+", pathlib.Path(DOOR).read_bytes())), set())
        test = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).ncclGetUniqueId(ctypes.create_string_buffer(128)))"
        done = run(sys.executable, "-c", test, stock, LD_PRELOAD=None, NCCL_ENV_PLUGIN=DOOR, NCCL_DEBUG="INFO")
        self.assertRegex(done.stdout, r"ENV/Plugin: Using Kolo \(v1\)", done.stderr)
        self.assertIn(f"Successfully loaded external env plugin {DOOR}", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^0$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
