"""The commands of `run` in both orders, on a machine without packages: apt-get, and what is built, are stand-ins."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
STANDIN = pathlib.Path(__file__).parent / "standin"
PACKAGE = "libsodium-dev"


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tests-of-run-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name, "tree")
        shutil.copytree(STANDIN, self.tree)
        shutil.copytree(SOURCE / "tests/support", self.tree / "tests/support")
        shutil.copy(SOURCE / "run", self.tree)
        self.installed = pathlib.Path(folder.name, "installed")
        self.installed.mkdir()
        self.environment = {**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}",
                            "STANDIN_INSTALLED": str(self.installed), "STANDIN_PREFIX": str(self.installed)}

    def run_it(self, *words, code=0, **variables):
        done = subprocess.run([self.tree / "run", *words], env={**self.environment, **variables}, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def built(self):
        return (self.tree / "build/dev/built").read_text().split()

    def skips(self, output):
        """The tables of what was skipped: rows by build folder."""
        tables = re.findall(r"^(\S+) +skipped  why\n((?: +\d+  .*\n)*)", output, re.M)
        return {folder: [row.split(maxsplit=1) for row in rows.splitlines()] for folder, rows in tables}

    def test_demo_and_then_test(self):
        self.assertIn("bus bandwidth", self.run_it("demo"))
        self.assertEqual(self.built(), ["kolo-core"])
        self.assertFalse((self.installed / PACKAGE).exists())
        skips = self.skips(self.run_it("test"))
        self.assertEqual(skips, {folder: [["0", "nothing was skipped"]] for folder in ("dev", "tsan", "asan-runtime")})
        self.assertEqual(sorted(self.built()), ["kolo", "kolo-core"], "what demo built was built again, or too little")

    def test_test_and_then_demo(self):
        self.run_it("test")
        self.assertEqual(sorted(self.built()), ["kolo", "kolo-core"])
        self.run_it("demo")
        self.assertEqual(sorted(self.built()), ["kolo", "kolo-core"])

    def test_a_package_that_cannot_be_had_is_named_and_found_later(self):
        output = self.run_it("test", "network", STANDIN_REFUSED=PACKAGE)
        self.assertEqual(self.skips(output), {"dev": [["1", f"no secrets (Debian: {PACKAGE})"]]})
        self.assertIn(f"run: without {PACKAGE}", output)
        self.assertEqual(self.skips(self.run_it("test", "network")), {"dev": [["0", "nothing was skipped"]]})

    def test_a_package_that_is_gone_is_forgotten(self):
        self.run_it("test", "network")
        (self.installed / PACKAGE).unlink()
        output = self.run_it("test", "network", STANDIN_REFUSED=PACKAGE)
        self.assertEqual(self.skips(output), {"dev": [["1", f"no secrets (Debian: {PACKAGE})"]]})

    def test_a_part_that_is_skipped_though_its_packages_are_installed_is_a_failure(self):
        output = self.run_it("test", "network", STANDIN_PREFIX="/nowhere", code=1)
        self.assertIn(f"skipped in dev, though its packages are installed: no secrets (Debian: {PACKAGE})", output)

    def test_the_checks_of_a_change_run_the_commands_of_the_readme_in_their_order(self):
        shown = re.search(r"^## Try it$.*?^```\n(.*?)^```", (SOURCE / "README.md").read_text(), re.M | re.S).group(1)
        commands = re.findall(r"\./run \w+", shown)
        self.assertGreater(len(commands), 1)
        run = re.findall(r"\./run \w+", (SOURCE / ".ci/run").read_text())
        self.assertEqual(run[:len(commands)], commands)


class Skips(unittest.TestCase):
    """The table, of what each kind of test prints."""

    def table(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "dev")
            path.mkdir()
            (path / "tests.xml").write_text("<testsuite>" + "".join(
                f'<testcase name="t" status="{status}"><system-out>{output}</system-out></testcase>'
                for status, output in cases) + "</testsuite>")
            done = subprocess.run([SOURCE / "tests/support/print_skips.py", path], text=True, capture_output=True, check=True)
        return [line.strip() for line in done.stdout.strip().splitlines()[1:]]

    def test_counts_cases_by_reason(self):
        google = "[ RUN ] A.B\n/a/b.cpp:3: Skipped\nno GPU\n\n[  SKIPPED ] A.B (0 ms)\n"
        python = "test_a (a.B.test_a) ... skipped 'no GPU'\ntest_b (a.B.test_b) ... ok\ntest_c (a.B.test_c) ... skipped \"it isn't\"\n"
        self.assertEqual(self.table(("run", google * 2), ("run", python), ("notrun", "skipped: no MPI\n"), ("run", "all is well")),
                         ["3  no GPU", "1  it isn't", "1  no MPI"])

    def test_says_where_no_reason_is_given(self):
        self.assertEqual(self.table(("notrun", "")), ["1  no reason is given"])


class Sources(unittest.TestCase):
    """The commands for each file of a build that compiles several as one."""

    def test_a_unit_stands_for_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            unit = build / "ir/CMakeFiles/kolo_ir.dir/Unity/unity_0_cxx.cxx"
            unit.parent.mkdir(parents=True)
            unit.write_text('/* generated by CMake */\n\n#include "/s/A.cpp"\n#undef X\n\n#include "/s/B.cpp"\n')
            entries = [{"directory": folder, "file": file, "command": f"clang++ -DX -o {file}.o -c {file}", "output": f"{file}.o"}
                       for file in (str(unit), "/s/Alone.cpp")]
            (build / "compile_commands.json").write_text(json.dumps(entries))
            subprocess.run([SOURCE / "tests/support/list_sources.py", build, build / "sources"], check=True)
            listed = json.loads((build / "sources/compile_commands.json").read_text())
        self.assertEqual([(entry["file"], entry["command"].split()[-2:]) for entry in listed],
                         [(file, ["-c", file]) for file in ("/s/A.cpp", "/s/B.cpp", "/s/Alone.cpp")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
