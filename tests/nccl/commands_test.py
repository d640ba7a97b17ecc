"""What the commands of kolo do for programs of NCCL."""

import os
import unittest

from support import BUILD, CLIENT, LIB, STANDIN, compile_plugins, run


class Commands(unittest.TestCase):
    """kolo preload and kolo doctor."""
    KOLO = BUILD / "bin/kolo"

    def test_preload_finds_programs_of_nccl(self):
        done = run(self.KOLO, "preload", "--print", "--", CLIENT, "one", "2", LD_PRELOAD=None)
        self.assertEqual((done.returncode, done.stdout), (0, f"LD_PRELOAD={LIB}/libkolo_nccl.so\n"), done.stderr)
        done = run(self.KOLO, "preload", "--print", "--nccl", "--", "python3", "train.py", LD_PRELOAD="/other.so")
        self.assertEqual(done.stdout, f"LD_PRELOAD={LIB}/libkolo_nccl.so:/other.so\n", done.stderr)

    def test_preload_runs_the_program(self):
        compile_plugins("ringAllReduce")
        done = run(self.KOLO, "preload", "--", CLIENT, "threads", "2", "capture", LD_PRELOAD=None)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("kolo nccl: 4 calls: 4 carried", done.stderr)

    def test_doctor_names_the_door(self):
        done = run(self.KOLO, "doctor", LD_PRELOAD=None, LD_LIBRARY_PATH=os.path.dirname(STANDIN), KOLO_PLUGIN_PATH=None)
        self.assertRegex(done.stdout, rf"(?m)^NCCL +{STANDIN}, door: {LIB}/libkolo_nccl.so$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
