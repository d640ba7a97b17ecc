"""Installs Kolo, moves it elsewhere, and builds and runs every example against it, as users do: by the commands of their
READMEs. Arguments: the build directory, the directory of examples."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, EXAMPLES = (os.path.abspath(path) for path in sys.argv[1:3])
# What a fresh machine may lack must not come from this build's surroundings.
ENVIRONMENT = {**os.environ, "LC_ALL": "C"}
for variable in ("LD_LIBRARY_PATH", "CMAKE_PREFIX_PATH", "kolo_DIR", "KOLO_TIMEOUT_MS"):
    ENVIRONMENT.pop(variable, None)


def call(command, directory, **environment):
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=directory, env={**ENVIRONMENT, **environment}, text=True, capture_output=True,
                          timeout=300, shell=isinstance(command, str))
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def listing(directory):
    return {os.path.relpath(os.path.join(path, name), directory) for path, _, names in os.walk(directory) for name in names}


def transcript(readme):
    """The commands of the README's console blocks, each with the lines that it shows as its output."""
    with open(readme) as text:
        blocks = re.findall(r"```console\n(.*?)```", text.read(), re.DOTALL)
    steps = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def pattern(line):
    """What a line of output must match: times and bandwidths differ."""
    if line == "...":
        return r"(.*\n)*?"
    return re.sub(r"\d+\\\.\d+|\d+(?=\\ ms)", lambda _: r"[\d.]+", re.escape(line)) + r"\n"


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="tests-of-install-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        call(["cmake", "--install", BUILD, "--prefix", cls.directory + "/first"], cls.directory)
        cls.prefix = cls.directory + "/moved here"
        os.rename(cls.directory + "/first", cls.prefix)

    def path(self, name):
        return os.path.join(self.prefix, name)

    def test_what_is_installed(self):
        files = listing(self.prefix)
        for name in ["bin/kolo", "bin/kolo-compiler", "bin/kolo-lsp-server", "bin/kolo-opt", "lib/libkolo_dsl.so", "lib/libkolo_runtime.so",
                     "include/kolo/dsl/Language.h", "include/kolo/runtime/Communicator.h",
                     "include/kolo/runtime/PluginAbi.h", "lib/cmake/kolo/koloConfig.cmake",
                     "lib/cmake/kolo/koloConfigVersion.cmake", "share/doc/kolo/LICENSE", "share/kolo/tables/cpu.json", "share/kolo/tables/frontier.json",
                     "lib/kolo/default.kolo.so", "share/kolo/machines/frontier.json", "share/kolo/report/report.html"]:
            self.assertIn(name, files)
        # Nothing private: no header of LLVM's, no static library, no test.
        for name in files:
            self.assertRegex(name, r"\A(bin/kolo(-compiler|-lsp-server|-opt)?|lib/libkolo_(dsl|runtime)\.so[.\d]*|"
                                   r"lib/libkolo_(cuda|fabric|hip|nccl|mpi_\w+)\.so|lib/kolo/nccl/libnccl\.so\.2|lib/kolo/default\.kolo\.so|"
                                   r"lib/kolo/python/kolo_torch/(\w+\.py|_C\.[\w-]+\.so)|"
                                   r"lib/kolo/python/kolo_torch-[\d.]+\.dist-info/[\w.]+|include/kolo/(dsl|runtime)/\w+\.h|"
                                   r"lib/cmake/kolo/kolo\w+(-\w+)?\.cmake|share/doc/kolo/LICENSE|share/kolo/tables/(cpu|frontier)\.json|"
                                   r"share/kolo/algorithms/\w+\.(cpp|h)|share/kolo/machines/[\w.-]+\.json|share/kolo/report/[\w.-]+)\Z")

    def test_no_file_names_the_source_or_the_first_prefix(self):
        for name in listing(self.prefix):
            if name.endswith((".cmake", ".h")):
                with open(self.path(name)) as file:
                    text = file.read()
                self.assertNotIn(os.path.dirname(EXAMPLES), text, name)
                self.assertNotIn(self.directory, text, name)

    def test_a_file_of_the_user_without_the_source_tree(self):
        work = tempfile.mkdtemp(dir=self.directory)
        shutil.copy(EXAMPLES + "/collective/RailDirectAllGather.cpp", work)
        call([self.path("bin/kolo"), "compile", "RailDirectAllGather.cpp", "--mesh", "node=3,gpu=2", "-o", "x.so"], work)
        out = call([self.path("bin/kolo"), "run", "x.so", "--mesh", "node=3,gpu=2", "--bytes", "1M"], work)
        self.assertIn("every byte is right", out)
        opened = call(["ldd", self.path("bin/kolo-compiler")], work)
        self.assertNotIn(BUILD, opened)
        self.assertIn(os.path.join(self.prefix, "bin/../lib/libkolo_dsl.so"), opened)

    def configure(self, request):
        work = tempfile.mkdtemp(dir=self.directory)
        with open(work + "/CMakeLists.txt", "w") as file:
            file.write(f"cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\nfind_package(kolo {request})\n"
                       "foreach(name runtime dsl kolo)\nif(TARGET kolo::${name})\nmessage(STATUS \"has ${name}\")\nendif()\nendforeach()\n"
                       "message(STATUS \"found ${kolo_FOUND}\")\n")
        return call(["cmake", "-S", work, "-B", work + "/b", "-DCMAKE_PREFIX_PATH=" + self.prefix], work)

    def test_package(self):
        out = self.configure("0.1 REQUIRED COMPONENTS runtime dsl compiler")
        for name in ("runtime", "dsl", "kolo"):
            self.assertIn("has " + name, out)
        self.assertIn("found 0", self.configure("9.0 QUIET"))
        self.assertIn("found 0", self.configure("0.1 QUIET COMPONENTS teleport"))

    def test_the_language_as_a_library(self):
        work = tempfile.mkdtemp(dir=self.directory)
        with open(work + "/CMakeLists.txt", "w") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\nfind_package(kolo REQUIRED)\n"
                       "add_executable(x x.cpp)\ntarget_link_libraries(x kolo::dsl)\n")
        shutil.copy(EXAMPLES + "/collective/RailDirectAllGather.cpp", work + "/x.cpp")
        with open(work + "/x.cpp", "a") as file:
            file.write("#include <cstdio>\nint main() { std::puts(registeredChoreographies().at(0).name.c_str()); }\n")
        call(["cmake", "-S", work, "-B", work + "/b", "-DCMAKE_PREFIX_PATH=" + self.prefix], work)
        call(["cmake", "--build", work + "/b"], work)
        self.assertEqual(call([work + "/b/x"], work), "railDirectAllGather\n")


def exampleTest(name):
    def test(self):
        """Every command of the README gives what the README shows."""
        work = shutil.copytree(os.path.join(EXAMPLES, name), tempfile.mkdtemp(dir=self.directory) + "/" + name)
        steps = transcript(work + "/README.md")
        self.assertTrue(steps)
        for command, shown in steps:
            out = call(command, work, PREFIX=self.prefix, PATH=self.path("bin") + ":" + os.environ["PATH"])
            if shown:
                self.assertRegex(out, r"\A" + "".join(map(pattern, shown)) + r"\Z", command)

    return test


for example in sorted(os.listdir(EXAMPLES)):
    setattr(Installed, f"test_example_{example}", exampleTest(example))

if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[3:])
