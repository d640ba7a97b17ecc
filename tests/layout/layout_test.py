"""The arrows between folders, and the size of files, are what the documentation says."""

import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
SUFFIXES = {".h", ".cpp", ".c", ".td"}

# What a folder may include of the project and of LLVM, by the start of the path; the standard library is free to all.
MAY_INCLUDE = {
    "codec": ("codec/", "kolo/dsl/Codec.h"),
    "dsl/include": ("kolo/dsl/",),
    "dsl": ("kolo/dsl/", "dsl/", "codec/", "ir/", "mlir/", "llvm/"),
    "ir": ("ir/", "codec/", "Kolo", "mlir/", "llvm/"),
    "compiler/check": ("codec/", "compiler/", "ir/", "mlir/", "llvm/"),
    "compiler/cost": ("compiler/", "ir/", "kolo/runtime/PluginAbi.h", "nlohmann/", "mlir/", "llvm/"),
    "compiler/model": ("compiler/model/", "compiler/SourceLine.h", "ir/", "mlir/", "llvm/"),
    "compiler/explore": ("compiler/explore/", "compiler/cost/", "kolo/dsl/", "kolo/runtime/PluginAbi.h"),
    "compiler/export": ("compiler/export/", "compiler/model/", "compiler/SourceLine.h", "ir/", "mlir/", "llvm/"),
    "compiler/lower": ("compiler/", "ir/", "mlir/", "llvm/"),
    # Passes ask the checker through Verdict.h alone: they depend on its answers, never on how it finds them.
    "compiler/project": ("compiler/project/", "compiler/check/Verdict.h", "compiler/Passes.h", "ir/", "mlir/", "llvm/"),
    "compiler/schedule": ("codec/", "compiler/schedule/", "compiler/project/", "compiler/model/", "compiler/check/Verdict.h",
                          "compiler/Passes.h", "ir/", "mlir/", "llvm/"),
    "compiler/sync": ("compiler/sync/", "compiler/check/Verdict.h", "compiler/Passes.h", "ir/", "mlir/", "llvm/"),
    "targets": ("codec/", "targets/", "compiler/", "ir/", "kolo/runtime/PluginAbi.h", "kolo/runtime/DeviceAbi.h",
                "mlir/", "llvm/", "lld/", "nlohmann/"),
    "runtime": ("kolo/runtime/", "runtime/", "nlohmann/", "fmt/"),
    "algorithms": ("kolo/dsl/", "algorithms/"),
}
# Targets do not know each other, but for `gpu`, which `cuda` and `hip` share. Packaging knows the host's target alone:
# whoever asks for a plugin hands it the images of devices. Nothing that is to be packed knows packaging.
TARGETS_MAY_INCLUDE = {"cpu": {"cpu"}, "gpu": {"gpu"}, "cuda": {"cuda", "gpu"}, "hip": {"hip", "gpu"},
                       "package": {"package", "cpu"}}
PROJECT = re.compile(r"^(kolo/|codec/|dsl/|ir/|compiler/|targets/|runtime/|algorithms/|driver/|mlir/|llvm/|lld/|llvm-c/)")


def sources(folder):
    for path in sorted((SOURCE / folder).rglob("*")):
        if path.suffix in SUFFIXES:
            yield path


def includes(path):
    return re.findall(r'^\s*#?\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M)


class Layout(unittest.TestCase):
    def test_folders_include_only_what_their_arrows_allow(self):
        wrong = []
        for folder, allowed in MAY_INCLUDE.items():
            for path in sources(folder):
                if folder == "dsl" and (SOURCE / "dsl/include") in path.parents:
                    continue
                wrong += [f"{path.relative_to(SOURCE)} includes {name}" for name in includes(path)
                          if PROJECT.match(name) and not name.startswith(allowed)]
        self.assertEqual(wrong, [])

    def test_targets_include_only_what_their_arrows_allow(self):
        folders = {path.name for path in (SOURCE / "targets").iterdir() if path.is_dir()}
        self.assertEqual(folders, set(TARGETS_MAY_INCLUDE))
        wrong = []
        for path in sources("targets"):
            inside = path.relative_to(SOURCE / "targets").parts
            allowed = TARGETS_MAY_INCLUDE[inside[0]] if len(inside) > 1 else set()
            for name in includes(path):
                parts = name.split("/")
                if parts[0] == "targets" and parts[1] in folders - allowed:
                    wrong.append(f"{path.relative_to(SOURCE)} includes {name}")
        self.assertEqual(wrong, [])

    def test_public_headers_include_the_standard_library_only(self):
        wrong = []
        for folder in ("dsl/include", "runtime/include"):
            for path in sources(folder):
                wrong += [f"{path.relative_to(SOURCE)} includes {name}" for name in includes(path)
                          if "/" in name and not name.startswith("kolo/")]
        self.assertEqual(wrong, [])

    def test_only_one_file_of_the_language_knows_mlir(self):
        knowing = [path.name for path in sources("dsl") if any(name.startswith("mlir/") for name in includes(path))]
        self.assertEqual(set(knowing), {"EmitChoreography.cpp", "EmitChoreography.h"})

    def test_no_file_has_800_lines(self):
        folders = ("codec", "dsl", "ir", "compiler", "targets", "runtime", "algorithms", "tests", "bench")
        long = [str(path) for folder in folders for path in sources(folder) if len(path.read_text().splitlines()) >= 800]
        self.assertEqual(long, [])

    def test_the_runtime_reads_variables_where_their_caller_may_set_them(self):
        """Not in a program with more rights than its caller; but for what NCCL itself reads so."""
        ofNccl = {"runtime/nccl/Communicators.cpp", "runtime/nccl/Environment.cpp"}
        reading = {str(path.relative_to(SOURCE)) for path in sources("runtime") if re.search(r"(?<!secure_)\bgetenv\(", path.read_text())}
        self.assertEqual(reading, ofNccl)

    def test_every_header_says_what_it_is(self):
        silent = [str(path.relative_to(SOURCE)) for folder in ("codec", "dsl", "ir", "compiler", "targets", "runtime",
                                                                           "algorithms")
                  for path in sources(folder) if path.suffix == ".h" and not path.read_text().startswith(("//", "/*"))]
        self.assertEqual(silent, [])

    def test_every_link_leads_to_a_file(self):
        broken = []
        for page in sorted(SOURCE.rglob("*.md")):
            if page.relative_to(SOURCE).parts[0] == "build":
                continue
            text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
                if "://" not in link and not (page.parent / link).exists():
                    broken.append(f"{page.relative_to(SOURCE)}: {link}")
            for name in re.findall(r"`(bench/results/[^`]+)`", text):
                if not (SOURCE / name).exists():
                    broken.append(f"{page.relative_to(SOURCE)}: {name}")
        self.assertEqual(broken, [])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
