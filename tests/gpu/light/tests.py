"""Parts that run tests of GoogleTest."""

import concurrent.futures
import re

from light.outcome import Failed, NotPossible


class TestLines:
    """Reads what GoogleTest prints. After the first failure the process may be of no use, so nothing counts then."""

    def __init__(self, results, lock):
        self.results, self.lock, self.running, self.text, self.has_failed = results, lock, None, [], False

    def __call__(self, line):
        if self.has_failed:
            return
        match = re.match(r"\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([\w/.]+\.[\w/]+)", line)
        if not match:
            self.text.append(line.strip())
        elif match[1] == "RUN":
            self.running, self.text = match[2], []
        elif match[2] == self.running:
            self.finish({"OK": "passed", "SKIPPED": "skipped: ", "FAILED": "failed: "}[match[1]])

    def finish(self, how):
        self.has_failed = how.startswith("failed")
        told = how if how == "passed" else how + " ".join(self.text)[:1000]
        with self.lock:
            self.results[self.running] = told
        self.running = None


def list_tests(run, program, pattern):
    listed, suite = [], ""

    def list_test(line):
        nonlocal suite
        if line.startswith("  "):
            listed.append(suite + line.split("#")[0].strip())
        elif re.match(r"[\w/]+\.", line):
            suite = line.split("#")[0].strip()
    if run.stream([program, "--gtest_list_tests", f"--gtest_filter={pattern}"], list_test) != 0:
        raise Failed(f"{program} does not run: see the log")
    return listed


def run_share(run, program, results, share, variables=None):
    """Tests in one process after the other: one that fails ends its process, and the others get another."""
    while pending := [name for name in share if name not in results]:
        reader = TestLines(results, run.lock)
        try:
            code = run.stream([*program, f"--gtest_filter={':'.join(pending)}", "--gtest_fail_fast"], reader, variables=variables)
        except Failed as problem:
            code = str(problem)
        if reader.running:
            reader.text.append(f"[{code if isinstance(code, str) else f'the process ended with {code}'}]")
            reader.finish("failed: ")
        elif code != 0 and not reader.has_failed:
            raise Failed(f"all tests passed, and then their process ended with {code}: {' '.join(reader.text[-3:])}")
        if all(name not in results for name in pending):
            raise Failed(f"the tests do not start: {code}")
        run.save()


def run_tests(run, entry, pattern, jobs=None, wrapper=(), variables=None):
    """The tests of a pattern that have no result yet, in several processes at once."""
    program = run.binaries / "kolo_gpu_packed_tests"
    listed, results = list_tests(run, program, pattern), entry.setdefault("tests", {})
    pending, jobs = [name for name in listed if name not in results], jobs or run.args.jobs
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        shares = [pool.submit(run_share, run, [*wrapper, program], results, pending[number::jobs], variables) for number in range(jobs)]
    for share in shares:
        share.result()
    judge_tests(entry, listed)


def judge_tests(entry, listed):
    results = entry["tests"]
    failed = [name for name in listed if results[name].startswith("failed")]
    skipped = [name for name in listed if results[name].startswith("skipped")]
    entry["counts"] = {"passed": len(listed) - len(failed) - len(skipped), "failed": len(failed),
                       "skipped": len(skipped)}
    if failed:
        raise Failed(f"{len(failed)} of {len(listed)} tests; the first: {failed[0]}: {results[failed[0]][8:300]}")
    if len(skipped) == len(listed):
        raise NotPossible(results[skipped[0]] if skipped else "no such plugin was packed")


def tests(pattern, jobs=None, variables=None):
    return lambda run, entry: run_tests(run, entry, pattern, jobs, variables=variables)
