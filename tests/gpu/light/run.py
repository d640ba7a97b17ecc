"""A run of first_light where the GPU is: its output folder, its programs."""

import concurrent.futures
import json
import lzma
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

from light.outcome import Failed, OutOfTime


class Run:
    """One output folder: the log, and the report that is written after each part."""

    def __init__(self, args):
        self.args = args
        self.lock = threading.Lock()  # of the report, while several programs run
        self.end = time.monotonic() + 60 * args.minutes
        self.limit = self.end  # of the part that runs
        args.out.mkdir(parents=True, exist_ok=True)
        args.work.mkdir(parents=True, exist_ok=True)
        self.log = open(args.out / "first_light.log", "a", encoding="utf-8")
        self.path = args.out / "first_light.json"
        self.binaries = args.binaries or args.plugins / "programs/bin"
        is_stand_in = args.driver == "stand-in" or "kolo_test_standin" in str(args.driver)
        self.driver = "stand-in" if is_stand_in else "cuda"
        self.packed = json.loads((args.plugins / "pack.json").read_text())
        if self.packed["driver"] != self.driver:
            sys.exit(f"first_light: --plugins {args.plugins}: they are for {self.packed['driver']}, and --driver is "
                     f"{self.driver}")
        self.report = json.loads(self.path.read_text()) if self.path.exists() else {"driver": self.driver, "parts": {}}
        if self.report["driver"] != self.driver:
            sys.exit(f"first_light: --out {args.out}: its report is of {self.report['driver']}; choose another folder")

    def plugin(self, name):
        """The path of an unpacked plugin, "ringAllGather.bulk"."""
        return self.args.work / "plugins" / f"{name}.so"

    def environment(self):
        # A hardware queue for each stream of each rank: a rank that waits must not hold up its peer. A wait ends, and
        # says what was awaited, before its program counts as hung.
        environment = {**os.environ, "KOLO_GPU_PLUGINS": str(self.args.work / "plugins"),
                       "CUDA_DEVICE_MAX_CONNECTIONS": "32", "KOLO_TIMEOUT_MS": "8000"}
        if self.args.driver:
            standin = self.binaries.parent / "lib/libkolo_test_standin.so"
            environment["KOLO_CUDA_DRIVER"] = str(standin if self.args.driver == "stand-in" else self.args.driver)
        return environment

    def say(self, text):
        print(text, flush=True)
        self.log.write(text + "\n")
        self.log.flush()

    def save(self):
        with self.lock:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.report, indent=1) + "\n")
            part.replace(self.path)

    def stream(self, command, on_line=lambda line: None, silence=None, variables=None, is_logged=True):
        """Runs a program to its end, line by line. Its exit code; raises OutOfTime, and Failed for one that hangs."""
        silence = self.args.silence if silence is None else silence
        self.log.write(f"$ {' '.join(map(str, command))}\n")
        process = subprocess.Popen([str(word) for word in command], env={**self.environment(), **(variables or {})},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True)
        lines = queue.Queue()

        def read():
            for line in process.stdout:
                lines.put(line.rstrip("\n"))
            lines.put(None)
        threading.Thread(target=read, daemon=True).start()
        try:
            while True:
                left = self.limit - time.monotonic()
                try:
                    line = lines.get(timeout=max(0, min(left, silence)))
                except queue.Empty:
                    if left <= silence:
                        raise OutOfTime("its time was over") from None
                    raise Failed(f"no sign of life for {silence} s") from None
                if line is None:
                    return process.wait()
                if is_logged:
                    self.log.write(line + "\n")
                on_line(line)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.log.flush()


def unpack(run):
    folder = run.args.work / "plugins"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def unpack_one(packed):
        (folder / packed.name.removesuffix(".xz")).write_bytes(lzma.decompress(packed.read_bytes()))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(unpack_one, run.args.plugins.glob("*.so.xz")))
