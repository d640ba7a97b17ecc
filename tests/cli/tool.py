"""What the tests of the `kolo` program share: running it, and what must hold of every failure."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

KOLO = os.environ["KOLO"]
FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit code {self.code}\nstdout: {self.out}\nstderr: {self.err}"


def shared_memory():
    """Named objects of shared memory, without those of the door for NCCL, whose tests may run at the same time."""
    return {name for name in glob.glob("/dev/shm/*kolo*") if not os.path.basename(name).startswith(("kolo-nccl-", "kolo-standin-"))}


class ToolTest(unittest.TestCase):
    """Runs in a directory of its own. Afterwards nothing may be left: no temporary file, no shared memory, no process."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tests-of-tool-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.temporary = os.path.join(self.directory, "tmp")
        os.mkdir(self.temporary)
        self.sharedMemory = shared_memory()

    def tearDown(self):
        self.assertEqual(os.listdir(self.temporary), [], "temporary files are left")
        self.assertEqual(shared_memory() - self.sharedMemory, set(), "shared memory is left")
        self.assertEqual(self.processes(), [], "processes are left")

    def processes(self):
        """Those whose working directory is this test's."""
        found = []
        for directory in glob.glob("/proc/[0-9]*"):
            try:
                if os.readlink(directory + "/cwd") == self.directory:
                    found.append(int(directory[len("/proc/"):]))
            except OSError:
                pass
        return found

    def environment(self, **changes):
        environment = {**os.environ, "TMPDIR": self.temporary, "LC_ALL": "C", "XDG_CACHE_HOME": self.directory + "/cache"}
        if shutil.which("ccache"):  # tests compile the same files again and again
            environment |= {"CXX": "ccache c++", "CCACHE_DIR": os.path.join(os.path.dirname(KOLO), "..", "ccache")}
        else:
            environment.pop("CXX", None)
        for name in ("KOLO_PLUGIN_PATH", "KOLO_TIMEOUT_MS", "KOLO_WAIT", "KOLO_ORDINARY_MEMORY"):
            environment.pop(name, None)
        return {**environment, **changes}

    def start(self, *arguments, start_new_session=False, **changes):
        return subprocess.Popen([KOLO, *arguments], cwd=self.directory, env=self.environment(**changes), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=start_new_session)

    def kolo(self, *arguments, timeout=60, **changes):
        process = self.start(*arguments, **changes)
        try:
            out, err = process.communicate(timeout=timeout)
            return Outcome(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"kolo {' '.join(arguments)} did not end within {timeout} s")

    def succeeds(self, *arguments, **changes):
        outcome = self.kolo(*arguments, **changes)
        self.assertEqual((outcome.code, outcome.err), (0, ""), f"kolo {' '.join(arguments)}\n{outcome}")
        return outcome.out

    def refuses(self, code, *arguments, says=(), **changes):
        """Fails with this code and one line that contains all of `says`."""
        outcome = self.kolo(*arguments, **changes)
        text = f"kolo {' '.join(arguments)}\n{outcome}"
        self.assertEqual((outcome.code, outcome.out), (code, ""), text)
        self.assertRegex(outcome.err, r"\A[^\n]+\n\Z", text)
        self.assertNotRegex(outcome.err, r"[\x00-\x08\x0b-\x1f\x7f]", text)  # a terminal would obey it
        if code != 1:
            self.assertTrue(outcome.err.startswith("kolo: "), text)
        self.assertNoJargon(outcome.err)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, outcome.err, text)
        return outcome.err

    def mistakes(self, *arguments, **changes):
        """Refused with lines file:line:column: error: message; gives them as (file, line, message). Below an error may be notes
        that say where a building block was called from."""
        outcome = self.kolo(*arguments, **changes)
        self.assertEqual((outcome.code, outcome.out), (1, ""), str(outcome))
        self.assertNoJargon(outcome.err)
        found = []
        for line in outcome.err.splitlines():
            if found and re.fullmatch(r"[^:]+:\d+:\d+: note: called from here", line):
                continue
            match = re.fullmatch(r"([^:]+):(\d+):\d+: error: (.+)", line)
            self.assertTrue(match, f"not file:line:column: error: ...\n{line}")
            found.append((match[1], int(match[2]), match[3]))
        return found

    def assertNoJargon(self, text):
        for word in ("mlir::", "MLIR", "LLVM", "' op ", "#0 0x", "Stack dump", "std::", "what():", "terminate", "?:0:0"):
            self.assertNotIn(word, text)

    def file(self, name):
        """A path in the test's directory."""
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.file(name), "w") as out:
            out.write(text)
        return name

    def copy(self, name):
        shutil.copy(os.path.join(FILES, name), self.directory)
        return name

    def listing(self):
        return sorted(name for name in os.listdir(self.directory) if name != "tmp")


def proofs(program):
    """Of a program in a manifest, without what they say of all sizes of a dimension, and of counts for each block."""
    return [{key: value for key, value in proof.items() if key not in ("forAllSizes", "blockTables", "rowLists", "whyNoBlockTables")}
            for proof in program["proved"]]
