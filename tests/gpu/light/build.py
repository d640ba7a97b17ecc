"""The first parts: builds the programs, and describes the device."""

import json
import lzma
import math
import os
import pathlib
import re
import shutil

from light.machine import ask, cuda_folders
from light.nccl import flags_for_cmake
from light.outcome import Failed, NotPossible

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = ("kolo_gpu_packed_tests", "kolo_gpu_figures")
DOOR = "kolo_nccl"


def prefix_for_cmake(run):
    """A folder where CMake finds what was packed of other projects."""
    deps, prefix = (run.args.plugins / "deps").resolve(), run.args.work / "prefix"
    prefix.mkdir(exist_ok=True)
    interface = ("add_library({0} INTERFACE IMPORTED)\n"
                 'target_include_directories({0} SYSTEM INTERFACE "' + str(deps / "include") + '")\n')
    if (deps / "include/fmt").is_dir():
        (prefix / "fmt-config.cmake").write_text(
            interface.format("fmt::fmt") + "target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)\n")
    if (deps / "include/nlohmann").is_dir():
        (prefix / "nlohmann_json-config.cmake").write_text(interface.format("nlohmann_json::nlohmann_json"))
    if (deps / "googletest/src").is_dir():
        (prefix / "GTestConfig.cmake").write_text(f"""find_package(Threads REQUIRED)
foreach(name gtest-all gtest_main)
  add_library(packed_${{name}} STATIC "{deps}/googletest/src/${{name}}.cc")
  target_include_directories(packed_${{name}} SYSTEM PUBLIC "{deps}/googletest/include" PRIVATE "{deps}/googletest")
endforeach()
target_link_libraries(packed_gtest-all PUBLIC Threads::Threads)
target_link_libraries(packed_gtest_main PUBLIC packed_gtest-all)
add_library(GTest::gtest ALIAS packed_gtest-all)
add_library(GTest::gtest_main ALIAS packed_gtest_main)
""")
    return prefix


def build(run, entry):
    entry["compiler"] = ask(os.environ.get("CXX", "c++"), "--version")
    if run.args.binaries:
        entry["binaries"] = str(run.args.binaries)
        return
    if not shutil.which("cmake"):
        raise NotPossible("there is no cmake; --binaries DIR takes programs that were built elsewhere")
    prefix, tree = prefix_for_cmake(run), run.args.work / "build"
    flags = ["-DKOLO_COMPILER=OFF", "-DKOLO_BENCHMARKS=OFF", "-DCMAKE_BUILD_TYPE=Release",
             *(f"-D{name}_DIR={prefix}" for name in ("fmt", "nlohmann_json", "GTest")
               if list(prefix.glob(f"{name}*onfig.cmake")))]
    if not any((folder / "include/cuda.h").exists() for folder in cuda_folders()):
        flags.append(f"-DKOLO_CUDA_INCLUDE_DIR={(run.args.plugins / 'deps/cuda').resolve()}")
    flags += flags_for_cmake()
    if shutil.which("ninja"):
        flags.append("-GNinja")
    problems = []

    def note(line):
        if re.search(r"\berror\b|Error", line):
            problems.append(line.strip())
    for command in (["cmake", "-S", SOURCE, "-B", tree, *flags],
                    ["cmake", "--build", tree, "-j", str(os.cpu_count()), "--target", *PROGRAMS, DOOR]):
        if run.stream(command, note, silence=math.inf) != 0: # compilers do not hang, and say nothing for long
            raise Failed(problems[0] if problems else "the build failed: see the log")


def describe(run, entry):
    said = []
    if run.stream([run.binaries / "kolo_gpu_figures", "device"], said.append) != 0:
        raise NotPossible(said[-1] if said else "the program that looks at devices does not run")
    device = json.loads(said[-1])
    if device["name"].startswith("stand-in") != (run.driver == "stand-in"):
        raise NotPossible(f"the device is '{device['name']}', and --driver is {run.driver}")
    run.report["device"] = device
    entry["nvidia-smi"] = ask("nvidia-smi") if run.driver == "cuda" else None


def unpack(run):
    folder = run.args.work / "plugins"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for packed in sorted(run.args.plugins.glob("*.so.xz")):
        (folder / packed.name.removesuffix(".xz")).write_bytes(lzma.decompress(packed.read_bytes()))
