"""The arrows between folders, and the size of files, are what the documentation says."""

import os
import pathlib
import re
import sys
import unittest

import classes
import includes

SOURCE = pathlib.Path(os.environ["KOLO_SOURCE_DIR"])
SUFFIXES = set(includes.SUFFIXES)
PRODUCT = ("algorithms", "codec", "compiler", "dsl", "ir", "runtime", "targets", "tools")
TREES = (*PRODUCT, "bench")

MLIR = ("mlir/", "llvm/")
PASSES = ("ir/", "compiler/Passes.h", "compiler/check/Verdict.h", *MLIR)  # passes ask the checker through Verdict.h alone
# What the files of a folder may include beside those of the folder itself: starts of paths. The standard library, and libraries
# that LIBRARIES does not name, are free to all. Every folder has a rule; those of the runtime follow from LAYERS.
MAY_INCLUDE = {
    "algorithms": ("kolo/dsl/",),
    "bench/codec": ("codec/", "kolo/runtime/PluginAbi.h", "targets/", *MLIR, "fmt/"),
    "bench/compare": ("kolo/runtime/PluginAbi.h", "kolo/runtime/"),
    "bench/compile": ("compiler/", "dsl/", "kolo/dsl/", "ir/", "tools/compile/", *MLIR, "fmt/"),
    "bench/cost": ("compiler/cost/closedform/", "ir/", "tools/compile/", *MLIR, "fmt/"),
    "bench/experts": ("kolo/runtime/",),
    "bench/hosts": ("bench/compare/", "kolo/runtime/", "runtime/network/"),
    "bench/mpi": ("kolo/runtime/",),
    "bench/nccl": ("kolo/runtime/",),
    "bench/ptx": ("tests/ptx/", "fmt/"),
    "bench/simulate": ("compiler/cost/simulation/", "tools/compile/", *MLIR, "fmt/"),
    "bench/sync": ("tools/compile/", "tools/run/", "fmt/"),
    "bench/writes": (),
    "codec": ("kolo/dsl/Codec.h",),
    "compiler": ("compiler/check/Verdict.h", "ir/", *MLIR),
    "compiler/check": ("codec/", "compiler/Passes.h", "compiler/SourceLine.h", "compiler/model/", "compiler/project/", "ir/", *MLIR,
                       "nlohmann/"),
    "compiler/check/sizes": ("compiler/SourceLine.h", "compiler/check/", "compiler/model/", "ir/", *MLIR),
    "compiler/cost": ("compiler/cost/bounds/", "ir/", *MLIR),
    "compiler/cost/blocks": ("compiler/cost/Prediction.h", "compiler/cost/machine/", "compiler/cost/simulation/",
                             "compiler/import/Schedule.h", "fmt/"),
    "compiler/cost/bounds": ("compiler/cost/machine/", "kolo/runtime/PluginAbi.h", "fmt/"),
    "compiler/cost/closedform": ("compiler/SourceLine.h", "compiler/cost/Encoding.h", "compiler/cost/Prediction.h",
                                 "compiler/cost/machine/", "compiler/model/", "compiler/project/", "ir/", *MLIR),
    "compiler/cost/machine": ("compiler/Schedule.h", "llvm/", "fmt/", "nlohmann/"),
    "compiler/cost/simulation": ("compiler/SourceLine.h", "compiler/cost/Encoding.h", "compiler/cost/LevelTraffic.h", "compiler/cost/Prediction.h",
                                 "compiler/cost/machine/", "compiler/model/", "ir/", *MLIR, "fmt/", "nlohmann/"),
    "compiler/export": ("compiler/SourceLine.h", "compiler/model/", "ir/", *MLIR, "fmt/"),
    "compiler/import": ("ir/", *MLIR, "fmt/", "nlohmann/"),
    "compiler/lower": ("ir/", *MLIR),
    "compiler/model": ("ir/", *MLIR),
    "compiler/project": PASSES,
    "compiler/schedule": ("codec/", "compiler/model/", "compiler/project/", *PASSES),
    "compiler/sync": ("compiler/InferenceMemory.h", *PASSES),
    "dsl": ("kolo/dsl/", "codec/", "ir/", *MLIR),
    "dsl/include/kolo/dsl": (),
    "ir": ("codec/", *MLIR),
    "ir/reference": ("codec/", "ir/", *MLIR),
    "runtime/doors/mpi": ("kolo/runtime/",),
    "runtime/doors/nccl": ("kolo/runtime/",),
    "runtime/doors/torch": ("kolo/runtime/",),
    "runtime/include/kolo/runtime": (),
    "targets": ("codec/", "targets/", "compiler/", "ir/", "kolo/runtime/PluginAbi.h", "kolo/runtime/DeviceAbi.h", *MLIR, "lld/",
                "nlohmann/"),
    "tools": ("",),
    "tools/compile": ("compiler/", "dsl/", "ir/", "kolo/", "targets/", *MLIR, "fmt/", "nlohmann/"),
    "tools/explore": ("algorithms/", "compiler/", "dsl/", "ir/", "kolo/", "tools/compile/", *MLIR),
    "tools/preload": ("kolo/runtime/", "fmt/"),
    "tools/report": ("compiler/cost/", "tools/compile/ToolError.h", "nlohmann/"),
    "tools/run": ("codec/", "ir/reference/", "kolo/runtime/", "tools/compile/", *MLIR, "fmt/"),
    "tools/tune": ("compiler/cost/", "kolo/runtime/", "tools/compile/", "tools/run/", *MLIR, "fmt/", "nlohmann/"),
}
# The folders of the runtime, but for its doors, in layers: each may include those before it.
LAYERS = ("base", "wait", "memory", "network", "network/tcp", "network/fabric", "peers", "bootstrap", "loader", "call", "experts", "device",
          "device/cuda", "device/hip")
MAY_INCLUDE |= {f"runtime/{layer}": ("kolo/runtime/", *(f"runtime/{before}/" for before in LAYERS[:place]), "nlohmann/", "fmt/")
                for place, layer in enumerate(LAYERS)}
RULE_BELOW = {"targets": "targets"}  # whose folders share one rule, but for those that have their own
LIBRARIES = re.compile(r"^(CLI|fmt|gmock|gtest|lld|llvm|llvm-c|mlir|nlohmann)/")

# Folders that include each other. This list only shrinks.
MUTUAL = [("compiler", "compiler/check")]

# Names that several files give to classes. This number only shrinks.
SHARED_NAMES = 101

# Names with several definitions in files of tests that no program links together.
LINKED_APART = {"kolo::test::Graph", "kolo::test::Member", "kolo::test::driverFunction(const char * symbol )"}

# A class has at most so many methods and fields. C interfaces, whose names begin with Kolo, are lists by nature.
MOST_METHODS, MOST_FIELDS = 30, 15
# Wider ones, as (methods, fields). This list only shrinks, and so do its numbers: tests/layout/measure.py prints them.
WIDER = {
    "compiler/check/sizes/SizeRun": (60, 20),
    "compiler/cost/closedform/Calculator": (31, 22),
    "compiler/cost/closedform/LoadModel": (44, 11),
    "compiler/cost/simulation/FairRates": (33, 13),
    "compiler/cost/simulation/Simulator": (25, 26),
    "compiler/import/ForeignSchedule": (3, 17),
    "compiler/model/Tracer": (28, 17),
    "dsl/Recording": (3, 17),
    "runtime/include/kolo/runtime/ProgramInfo": (3, 19),
    "targets/cpu/ProgramLowering": (33, 2),
    "targets/gpu/KernelLowering": (40, 7),
    "targets/gpu/MoveFunctions": (36, 6),
    "tools/compile/CompileRequest": (0, 20),
    "tools/run/RankJob": (8, 18),
}
# Targets do not know each other, but for `gpu`, which `cuda` and `hip` share. Packaging knows the host's target alone:
# whoever asks for a plugin hands it the images of devices. Nothing that is to be packed knows packaging.
TARGETS_MAY_INCLUDE = {"cpu": {"cpu"}, "gpu": {"gpu"}, "cuda": {"cuda", "gpu"}, "hip": {"hip", "gpu"},
                       "package": {"package", "cpu"}}


def sources(folder):
    for path in sorted((SOURCE / folder).rglob("*")):
        if path.suffix in SUFFIXES:
            yield path


def spelled(name):
    """The path of a public header as authors write it."""
    return re.sub(r"^(dsl|runtime)/include/", "", name)


def rule_of(folder):
    """What a folder may include; None: it has no rule."""
    return MAY_INCLUDE.get(folder, MAY_INCLUDE.get(RULE_BELOW.get(folder.split("/")[0])))


def forbidden_includes(tree):
    """Includes that no rule allows, and folders without a rule."""
    wrong = [f"{folder} has no rule" for folder in sorted({os.path.dirname(path) for path in tree}) if rule_of(folder) is None]
    for path in tree:
        folder = os.path.dirname(path)
        for name in includes.includes(path, tree):
            isOwn = name in tree and os.path.dirname(name) == folder
            if (name in tree or LIBRARIES.match(name)) and not isOwn and not spelled(name).startswith(rule_of(folder) or ()):
                wrong.append(f"{path} includes {name}")
    return wrong


def wide_classes(tree):
    """The classes that are wider than a class may be: (methods, fields) by name and folder."""
    return {f"{os.path.dirname(path)}/{each.name}": (each.methods, each.fields)
            for path, text in tree.items() if path.endswith((".h", ".cpp")) for each in classes.classes_of(text)
            if (each.methods > MOST_METHODS or each.fields > MOST_FIELDS) and not each.name.startswith("Kolo")}


class Layout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = includes.read_tree(SOURCE, TREES)

    def test_folders_include_only_what_their_arrows_allow(self):
        self.assertGreater(len(self.tree), 800)
        self.assertEqual(forbidden_includes(self.tree), [])

    def test_every_rule_is_for_a_folder(self):
        self.assertEqual(set(MAY_INCLUDE) - {os.path.dirname(path) for path in self.tree}, set())

    def test_folders_do_not_include_each_other_but_for_a_list_that_shrinks(self):
        self.assertEqual(includes.mutual(includes.pairs(self.tree)), MUTUAL)

    def test_classes_are_not_wide_but_for_a_list_that_shrinks(self):
        self.assertEqual(wide_classes(self.tree), WIDER)

    def test_targets_include_only_what_their_arrows_allow(self):
        folders = {path.name for path in (SOURCE / "targets").iterdir() if path.is_dir()}
        self.assertEqual(folders, set(TARGETS_MAY_INCLUDE))
        wrong = []
        for path in sources("targets"):
            inside = path.relative_to(SOURCE / "targets").parts
            allowed = TARGETS_MAY_INCLUDE[inside[0]] if len(inside) > 1 else set()
            for name in includes.includes(str(path.relative_to(SOURCE)), self.tree):
                parts = name.split("/")
                if parts[0] == "targets" and parts[1] in folders - allowed:
                    wrong.append(f"{path.relative_to(SOURCE)} includes {name}")
        self.assertEqual(wrong, [])

    def test_public_headers_include_the_standard_library_only(self):
        wrong = []
        for folder in ("dsl/include", "runtime/include"):
            for path in sources(folder):
                wrong += [f"{path.relative_to(SOURCE)} includes {name}" for name in includes.INCLUDE.findall(path.read_text())
                          if "/" in name and not name.startswith("kolo/")]
        self.assertEqual(wrong, [])

    def test_only_one_file_of_the_language_knows_mlir(self):
        knowing = [path.name for path in sources("dsl") if any(name.startswith("mlir/") for name in includes.INCLUDE.findall(path.read_text()))]
        self.assertEqual(set(knowing), {"EmitChoreography.cpp", "EmitChoreography.h"})

    def test_few_names_are_given_to_several_classes_and_never_more(self):
        shared = classes.shared_names(self.tree)
        self.assertLessEqual(len(shared), SHARED_NAMES, sorted(shared))
        self.assertGreaterEqual(len(shared), SHARED_NAMES - 3, f"SHARED_NAMES is {len(shared)} now")

    def test_what_linkers_merge_has_one_definition(self):
        """Of two definitions a program gets one, without a word: for both files, or for what is not inlined there."""
        merged = classes.merged_names(includes.read_tree(SOURCE, (*TREES, "tests")))
        self.assertEqual(set(merged), LINKED_APART)
        self.assertEqual({path.split("/")[0] for paths in merged.values() for path in paths}, {"tests"})

    def test_tools_do_not_depend_on_the_order_in_which_algorithms_were_linked(self):
        """They take shippedAlgorithms, which Compile.cpp sorts; UserSource.cpp looks for the choreographies of a library."""
        asking = {path for path, text in self.tree.items() if path.startswith("tools/") and "registeredChoreographies()" in text}
        self.assertEqual(asking, {"tools/compile/Compile.cpp", "tools/compile/UserSource.cpp"})

    def test_few_files_know_each_collective(self):
        """But for doors, exploration, exports and imports, which serve some. All else follows from the facts in these."""
        known = {path for path, text in self.tree.items()
                 if re.search(r'\bAllToAll\b|KOLO_ALL_TO_ALL\b|"all_to_all"', re.sub("//.*", "", text))
                 and not re.match("algorithms/|bench/|compiler/(export|import)/|runtime/doors/|tools/explore/", path)}
        self.assertEqual(known, {"compiler/cost/bounds/Bounds.cpp", "dsl/Collectives.h", "dsl/include/kolo/dsl/Collective.h",
                                 "ir/Kolo.h", "ir/KoloBase.td", "ir/reference/Oracle.cpp", "ir/reference/SimulatedCall.cpp",
                                 "runtime/include/kolo/runtime/PluginAbi.h"})

    def test_no_file_has_800_lines(self):
        folders = (*TREES, "tests")
        long = [str(path) for folder in folders for path in sources(folder) if len(path.read_text().splitlines()) >= 800]
        self.assertEqual(long, [])

    def test_the_runtime_reads_variables_where_their_caller_may_set_them(self):
        """Not in a program with more rights than its caller; but for what NCCL itself reads so."""
        ofNccl = {"runtime/doors/nccl/Communicators.cpp", "runtime/doors/nccl/Environment.cpp"}
        reading = {str(path.relative_to(SOURCE)) for path in sources("runtime") if re.search(r"(?<!secure_)\bgetenv\(", path.read_text())}
        self.assertEqual(reading, ofNccl)

    def test_every_header_says_what_it_is(self):
        silent = [str(path.relative_to(SOURCE)) for folder in PRODUCT
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


class PlantedViolations(unittest.TestCase):
    """What each check says of a tree with a fault."""

    def wrong(self, path, include, *others):
        tree = {name: "" for name in others}
        return forbidden_includes({**tree, path: f'#include "{include}"\n'})

    def test_a_door_that_reaches_inside_the_runtime_by_a_relative_path(self):
        self.assertEqual(self.wrong("runtime/doors/mpi/Process.cpp", "../../call/CommunicatorState.h", "runtime/call/CommunicatorState.h"),
                         ["runtime/doors/mpi/Process.cpp includes runtime/call/CommunicatorState.h"])

    def test_a_name_that_begins_in_a_folder_that_a_target_adds(self):
        self.assertEqual(self.wrong("runtime/doors/nccl/Door.cpp", "wait/Wait.h", "runtime/wait/Wait.h"),
                         ["runtime/doors/nccl/Door.cpp includes runtime/wait/Wait.h"])

    def test_a_compiler_that_knows_its_tools(self):
        self.assertEqual(self.wrong("compiler/check/Bits.cpp", "tools/run/Data.h", "tools/run/Data.h"),
                         ["compiler/check/Bits.cpp includes tools/run/Data.h"])

    def test_a_pass_that_looks_inside_the_checker(self):
        self.assertEqual(self.wrong("compiler/sync/Settling.cpp", "../check/Clock.h", "compiler/check/Clock.h"),
                         ["compiler/sync/Settling.cpp includes compiler/check/Clock.h"])

    def test_cost_models_that_know_each_other(self):
        self.assertEqual(self.wrong("compiler/cost/closedform/Loads.cpp", "compiler/cost/simulation/Simulator.h",
                                    "compiler/cost/simulation/Simulator.h"),
                         ["compiler/cost/closedform/Loads.cpp includes compiler/cost/simulation/Simulator.h"])

    def test_a_library_where_it_does_not_belong(self):
        self.assertEqual(self.wrong("runtime/wait/Wait.cpp", "llvm/ADT/StringRef.h"),
                         ["runtime/wait/Wait.cpp includes llvm/ADT/StringRef.h"])
        self.assertEqual(self.wrong("codec/Codec.cpp", "fmt/format.h"), ["codec/Codec.cpp includes fmt/format.h"])

    def test_a_folder_without_a_rule(self):
        self.assertEqual(self.wrong("compiler/new/Pass.cpp", "vector"), ["compiler/new has no rule"])
        self.assertEqual(self.wrong("bench/new/Bench.cpp", "kolo/runtime/Plugin.h", "runtime/include/kolo/runtime/Plugin.h"),
                         ["bench/new has no rule", "bench/new/Bench.cpp includes runtime/include/kolo/runtime/Plugin.h"])

    def test_what_is_allowed(self):
        for path, include, other in (("runtime/doors/mpi/Process.cpp", "kolo/runtime/Plugin.h", "runtime/include/kolo/runtime/Plugin.h"),
                                     ("runtime/doors/mpi/Process.cpp", "Handles.h", "runtime/doors/mpi/Handles.h"),
                                     ("compiler/check/Bits.cpp", "mlir/IR/Value.h", "ir/Kolo.h")):
            self.assertEqual(self.wrong(path, include, other), [])

    def test_a_layer_that_includes_one_behind_it(self):
        self.assertEqual(self.wrong("runtime/wait/Wait.h", "../bootstrap/Join.h", "runtime/bootstrap/Join.h"),
                         ["runtime/wait/Wait.h includes runtime/bootstrap/Join.h"])
        self.assertEqual(self.wrong("runtime/network/Choice.h", "network/tcp/Wire.h", "runtime/network/tcp/Wire.h"),
                         ["runtime/network/Choice.h includes runtime/network/tcp/Wire.h"])
        self.assertEqual(self.wrong("runtime/new/A.h", "wait/Wait.h", "runtime/wait/Wait.h"),
                         ["runtime/new has no rule", "runtime/new/A.h includes runtime/wait/Wait.h"])

    def test_folders_that_include_each_other(self):
        tree = {"ir/A.h": '#include "codec/B.h"\n', "codec/B.h": '#include "../ir/A.h"\n'}
        self.assertEqual(includes.mutual(includes.pairs(tree)), [("codec", "ir")])

    def test_names_that_linkers_merge(self):
        def merged(text, other):
            return sorted(classes.merged_names({"ir/A.h": text, "tools/B.cpp": other}))

        choice = "namespace kolo::tools {\nstruct Choice {\n  int a = 0;\n};\n}"
        self.assertEqual(merged(choice, "namespace kolo {\nnamespace tools {\nenum class Choice : int { A };\n}\n}"), ["kolo::tools::Choice"])
        self.assertEqual(merged(choice, "namespace kolo::tools {\nnamespace {\nclass Choice {};\n}\n}"), [])
        self.assertEqual(merged(choice, "namespace kolo::ir {\nclass Choice {};\n}"), [])
        self.assertEqual(merged(choice, "namespace kolo::tools {\nstruct Choice;\nstruct Cell {\n  struct Choice {};\n};\n}"), [])
        self.assertEqual(merged('extern "C" {\nstruct Choice {\n};\n}', 'extern "C" {\nstruct Choice {\n  int a;\n};\n}'), ["C::Choice"])
        twice = "namespace kolo {\n%s int twice(int a) { return 2 * a; }\n}"
        for word in ("inline", "constexpr", "template <class T>"):
            self.assertEqual(merged(twice % word, twice % word), ["kolo::twice(int a )"])
        self.assertEqual(merged(twice % "inline", twice % "static inline"), [])
        size = "namespace kolo {\n%s int most = 3, least{}, all[2] = {};\n}"
        self.assertEqual(merged(size % "inline constexpr", size % "inline const"), ["kolo::most"])
        self.assertEqual(merged(size.replace("most =", "most[] =") % "inline", size % "inline"), ["kolo::most"])
        self.assertEqual(merged(size % "inline constexpr", size % "constexpr"), [])

    def test_wide_classes(self):
        methods = "".join(f"  virtual std::function<void(int)> get{i}(int a = {{}}) const;\n" for i in range(30))
        narrow = "class A final : public B<int> {\npublic:\n  A() = default;\n  static constexpr int most = 3;\n" + methods
        self.assertEqual(wide_classes({"ir/A.h": narrow + "};"}), {})
        self.assertEqual(wide_classes({"ir/A.h": narrow + "  void set() { x = f(); }\n};"}), {"ir/A": (31, 0)})
        fields = "".join(f"  std::function<bool(int)> f{i} = {{}};\n" for i in range(14))
        self.assertEqual(wide_classes({"ir/A.h": "struct A {\n" + fields + "  int a{};\n};"}), {})
        self.assertEqual(wide_classes({"ir/A.h": "struct A {\n" + fields + "  int a{}, b = f(1);\n};"}), {"ir/A": (0, 16)})


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
