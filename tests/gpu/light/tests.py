"""Parts that run tests of GoogleTest."""

import re

from light.outcome import Failed, NotPossible


class TestLines:
    """Reads what GoogleTest prints. After the first failure the process may be of no use, so nothing counts then."""

    def __init__(self, results):
        self.results, self.running, self.text, self.has_failed = results, None, [], False

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
        self.results[self.running] = told
        self.running = None


def run_tests(run, entry, pattern):
    """The tests of a pattern that have no result yet. One that fails ends its process; the others get another."""
    program = run.binaries / "kolo_gpu_packed_tests"
    listed, suite = [], ""

    def list_test(line):
        nonlocal suite
        if line.startswith("  "):
            listed.append(suite + line.split("#")[0].strip())
        elif re.match(r"[\w/]+\.", line):
            suite = line.split("#")[0].strip()
    if run.stream([program, "--gtest_list_tests", f"--gtest_filter={pattern}"], list_test) != 0:
        raise Failed(f"{program} does not run: see the log")
    results = entry.setdefault("tests", {})
    while pending := [name for name in listed if name not in results]:
        reader = TestLines(results)
        try:
            code = run.stream([program, f"--gtest_filter={':'.join(pending)}", "--gtest_fail_fast"], reader)
        except Failed as problem:
            code = str(problem)
        if reader.running:
            reader.text.append(f"[{code if isinstance(code, str) else f'the process ended with {code}'}]")
            reader.finish("failed: ")
        elif code != 0 and not reader.has_failed:
            raise Failed(f"all tests passed, and then their process ended with {code}")
        if all(name not in results for name in pending):
            raise Failed(f"the tests do not start: {code}")
        run.save()
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


def tests(pattern):
    return lambda run, entry: run_tests(run, entry, pattern)
