"""Ranks that die, stop or disagree, and machines without room: named in one line, and nothing is left behind."""
import os
import signal
import subprocess
import time
import unittest

from tool import KOLO, ToolTest

MISUSE = os.environ["MISUSE"]
# Run until something ends them: each message takes milliseconds.
ENDLESS = ["run", "ringAllReduce", "--mesh", "rank=8", "--bytes", "16M", "--iterations", "1000000"]
PACKETS = ["run", "ringAllReduce", "--mesh", "rank=8", "--bytes", "2M", "--iterations", "1000000", "--protocol", "ll"]


class Processes(ToolTest):
    def start8(self, *flags, endless=ENDLESS):
        """kolo with eight ranks that exchange messages, and the ranks' process ids, in order."""
        process = self.start(*endless, *flags)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(process.poll())
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                children = file.read().split()
            if len(children) == 8:
                time.sleep(1.5)  # past the start: in the middle of messages
                return process, [int(child) for child in children]
            time.sleep(0.02)
        self.fail("the ranks did not start")

    def ends(self, process, code, within, *says):
        start = time.monotonic()
        out, err = process.communicate(timeout=within + 20)
        took = time.monotonic() - start
        self.assertEqual((process.returncode, out), (code, ""), err)
        self.assertRegex(err, r"\Akolo: [^\n]+\n\Z")
        for words in says:
            self.assertIn(words, err)
        self.assertLess(took, within, err)
        return err

    def test_a_killed_rank(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            process, ranks = self.start8()
            os.kill(ranks[5], number)
            self.ends(process, 3, 10, "rank 5", f"signal {int(number)}")
            self.assertEqual(self.processes(), [])

    def test_a_rank_that_others_wait_for_packets_of(self):
        process, ranks = self.start8(endless=PACKETS)
        os.kill(ranks[5], signal.SIGKILL)
        self.ends(process, 3, 10, "rank 5", "signal 9")
        process, ranks = self.start8("--timeout-ms", "2000", endless=PACKETS)
        os.kill(ranks[3], signal.SIGSTOP)
        self.ends(process, 3, 15, "rank 3 does not respond", "timed out")

    def test_two_killed_ranks(self):
        process, ranks = self.start8()
        os.kill(ranks[0], signal.SIGKILL)
        os.kill(ranks[7], signal.SIGKILL)
        self.ends(process, 3, 10, "rank 0")

    def test_a_stopped_rank(self):
        process, ranks = self.start8("--timeout-ms", "2000")
        os.kill(ranks[3], signal.SIGSTOP)
        self.ends(process, 3, 15, "rank 3 does not respond", "timed out")

    def test_a_stopped_rank_that_goes_on_in_time(self):
        process, ranks = self.start8("--timeout-ms", "20000")
        os.kill(ranks[3], signal.SIGSTOP)
        time.sleep(1)
        os.kill(ranks[3], signal.SIGCONT)
        time.sleep(1)
        self.assertIsNone(process.poll())
        process.terminate()
        process.communicate(timeout=20)
        self.nothingRuns()

    def nothingRuns(self):
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])

    def test_the_tool_itself_ends(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            process, _ = self.start8()
            process.send_signal(number)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, -number)
            self.nothingRuns()

    def test_interrupted_while_it_compiles(self):
        """No temporary file remains: see tearDown. As from a terminal, the signal goes to the host compiler too."""
        self.copy("two.cpp")
        for delay in (0.05, 0.2, 0.5):
            process = self.start("compile", "two.cpp", "--mesh", "rank=4", start_new_session=True)
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=20)
            self.assertIn(process.returncode, (-signal.SIGTERM, 0))
            self.nothingRuns()


class Disagreement(ToolTest):
    def test_on_counts(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4")
        done = subprocess.run([MISUSE, "counts", self.file("ringAllReduce.so")], text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        for rank, line in enumerate(lines[:4]):
            self.assertTrue(line.startswith(f"rank {rank}: Mismatch: "), line)
            self.assertIn("count", line)
        # It stays usable.
        self.assertEqual(lines[4:], [f"rank {rank}: Ok: " for rank in range(4)])


class Room(ToolTest):
    def test_a_window_larger_than_free_memory(self):
        """Refused beforehand: nothing is allocated, or this machine would suffer."""
        with open("/proc/meminfo") as file:
            available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        for size in (available + (1 << 30), 1 << 40, 1 << 62, (1 << 64) - 1):
            start = time.monotonic()
            done = subprocess.run([MISUSE, "allocate", str(size)], text=True, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertRegex(done.stdout, r"\Arank 0: OutOfMemory: [^\n]+available\n\Z")
            self.assertLess(time.monotonic() - start, 5)

    def test_no_room_in_shared_memory(self):
        """Nothing is stored there, so a full /dev/shm does no harm."""
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=4", "-o", "x.so")
        script = ("mount -t tmpfs -o size=64k kolo-test /dev/shm && dd if=/dev/zero of=/dev/shm/full bs=64k count=1 status=none && "
                  "! touch /dev/shm/more 2>/dev/null || true; df --output=avail /dev/shm | tail -n 1; "
                  f"exec {KOLO} run x.so --mesh rank=4 --bytes 16M --memory $0")
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs root and mount namespaces")
        for memory in ("windows", "ordinary"):
            done = subprocess.run(["unshare", "-m", "sh", "-c", script, memory], cwd=self.directory, env=self.environment(),
                                  text=True, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertEqual(done.stdout.split("\n")[0].strip(), "0")
            self.assertIn("every byte is right", done.stdout)

    def test_no_room_for_the_output(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs root and mount namespaces")
        os.mkdir(self.file("full"))
        script = f"mount -t tmpfs -o size=4k kolo-test full && exec {KOLO} compile ringAllReduce --mesh rank=4 -o full/x.so"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=self.directory, env=self.environment(), text=True,
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Akolo: cannot write full/x.so: [^\n]+\n\Z")

    def test_too_few_processes_allowed(self):
        if os.geteuid() == 0:
            self.skipTest("root has no limit of processes")
        done = subprocess.run(["sh", "-c", f"ulimit -u 3; exec {KOLO} run ringAllReduce --mesh rank=64 --bytes 1K"],
                              cwd=self.directory, env=self.environment(), text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_too_few_file_descriptors_allowed(self):
        done = subprocess.run(["sh", "-c", f"ulimit -n 16; exec {KOLO} run ringAllReduce --mesh rank=32 --bytes 1K"],
                              cwd=self.directory, env=self.environment(), text=True, capture_output=True, timeout=60)
        if done.returncode != 0:
            self.assertIn(done.returncode, (2, 3), done.stderr)
            self.assertRegex(done.stderr, r"\Akolo: [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
