"""What the code for devices says, in the end: PTX, and what a disassembler makes of code objects.

code_test.py text|ptxas ALGORITHM...   or `all` for every shipped algorithm; `ptxas` ends with 77 where there is no ptxas.
"""
import atexit
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import amd_order

KOLO, LLVM = os.environ["KOLO"], pathlib.Path(os.environ["LLVM_TOOLS"])
CUDA, HIP = ("sm_80", "sm_90", "sm_100"), ("gfx90a", "gfx942")
SKIPPED = 77


def run(*arguments):
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def algorithms(names):
    shipped = {row["name"]: row["mesh"] for row in json.loads(run(KOLO, "list", "--json"))}
    return [(name, shipped[name]) for name in (sorted(shipped) if names == ["all"] else names)]


def mesh_of(dims, sizes={1: (8,), 2: (2, 4), 3: (2, 2, 2)}):
    return ",".join(f"{dim}={size}" for dim, size in zip(dims, sizes[len(dims)]))


def of_nodes(name, dims):
    """The mesh for comparisons with more nodes. Algorithms for Frontier are other programs on nodes that are not of 8 devices."""
    return mesh_of(dims, {2: (2, 8)}) if name.startswith("frontier") else mesh_of(dims)


class Compiled:
    """A shipped algorithm, compiled for all architectures, with its images as files."""

    def __init__(self, folder, name, mesh, targets, *flags):
        plugin = pathlib.Path(folder) / f"{name}.so"
        run(KOLO, "compile", name, "--mesh", mesh, "--target", ",".join(["cpu", *targets]), *flags, "-o", plugin)
        self.files = [pathlib.Path(line) for line in run(KOLO, "inspect", plugin, "--extract", folder).splitlines()]
        self.manifest = json.loads(run(KOLO, "inspect", plugin, "--json"))
        program = self.manifest["programs"][0]
        self.reduces, self.has_codecs = program["reduces"], bool(program["lossy"])

    def image(self, architecture):
        return next(path for path in self.files if path.stem.endswith("-" + architecture))


ALL_TARGETS = [f"cuda:{one}" for one in CUDA] + [f"hip:{one}" for one in HIP]


@functools.cache
def compiled_for_all(name, dims):
    """Which several tests look at; on the mesh of `mesh_of`. Its files stay until the program ends."""
    folder = tempfile.TemporaryDirectory(prefix="kolo-code-")
    atexit.register(folder.cleanup)
    return Compiled(folder.name, name, mesh_of(dims), ALL_TARGETS)


def functions(text, begin, end):
    """The functions of an assembly text by name: the lines from one that `begin` matches to one that `end` matches."""
    found, lines = {}, None
    for line in text.splitlines():
        if match := re.search(begin, line):
            lines = found[match.group(1)] = []
        elif lines is not None:
            if re.match(end, line):
                lines = None
            else:
                lines.append(line.split("//")[0].strip())
    return found


def reads_of_others(text):
    """Loads by ld.global.nc of a PTX text that read anything but the program's tables, which are constant."""
    wrong = []
    for function in re.split(r"^}$", text, flags=re.MULTILINE):
        bases = {}  # by register: what each of its definitions moves or adds to
        for operation, register, base in re.findall(r"^\t(\S+)\s+(%rd\d+), ([^,;]+)", function, re.MULTILINE):
            bases.setdefault(register, set()).add(base if operation in ("mov.b64", "add.s64") else None)
        inTables, before = set(bases), None
        while inTables != before:
            before = inTables
            inTables = {register for register in before
                        if all(base and (base.startswith("table_$_") or base in before) for base in bases[register])}
        reads = re.findall(r"^(.*ld\.global\.nc.*\[(%rd\d+).*)$", function, re.MULTILINE)
        wrong += [line for line, address in reads if address not in inTables]
    return wrong


def longest_run(lines, wanted, unless):
    """How many lines match `wanted` before one matches `unless`, at most."""
    most = count = 0
    for line in lines:
        count = 0 if re.match(unless, line) else count + bool(re.match(wanted, line))
        most = max(most, count)
    return most


class Text(unittest.TestCase):
    names = ()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kolo-code-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_the_code_is_what_the_memory_models_and_the_hardware_want(self):
        for name, dims in algorithms(self.names):
            compiled = compiled_for_all(name, tuple(dims))
            for architecture in CUDA:
                with self.subTest(name, architecture=architecture):
                    self.check_ptx(compiled, compiled.image(architecture).read_text())
            for architecture in HIP:
                with self.subTest(name, architecture=architecture):
                    self.check_code_object(compiled, architecture)

    def test_packets_are_words_written_and_read_at_once(self):
        compiled = Compiled(self.folder, "twoShotAllReduce", "rank=8", ALL_TARGETS, "--protocol", "ll")
        self.assertEqual(compiled.manifest["programs"][0]["semaphores"], 0)
        for architecture in CUDA:
            with self.subTest(architecture=architecture):
                text = compiled.image(architecture).read_text()
                found = functions(text, r"\.func .*?kolo_\$_([\w$]+)\($", r"^}")
                store, load = r"st\.relaxed\.sys\.global\.b64", r"ld\.relaxed\.sys\.global\.b64"
                self.assertGreaterEqual(longest_run(found["send"], store, r"ld\."), 4)
                for name in ("receive_$_blocked", "receiveReduce_$_blocked"):
                    self.assertGreaterEqual(longest_run(found[name], load, r"setp|st\.|bar\."), 4, "four packets in flight")
                    self.assertRegex("\n".join(found[name]), r"bar\.red\.or\.pred", "all threads learn of a failure")
                self.assertGreaterEqual(longest_run(found["sendAll"], store, r"ld\.global"), 16)
                for name in ("receiveAll_$_blocked", "receiveReduceAll_$_blocked"):
                    self.assertGreaterEqual(longest_run(found[name], load, r"setp|st\.|bar\."), 16, "those of four peers in flight")
                self.assertIsNone(re.search(r"ld\.global\.nc|\s(atom|red)\.", text))
        for architecture in HIP:
            with self.subTest(architecture=architecture):
                text = run(LLVM / "llvm-objdump", "-d", compiled.image(architecture))
                found = functions(text, r"<([\w.]+)>:$", r"^$")
                self.check_amd_order(architecture, {name.removeprefix("kolo."): lines for name, lines in found.items()})
                system = r"sc0 sc1" if architecture == "gfx942" else r"glc|slc|$"
                store, load = rf"global_store_dwordx2 .*({system})", rf"global_load_dwordx2 .*({system})"
                self.assertGreaterEqual(longest_run(found["kolo.send"], store, r"global_load"), 4)
                for name in ("kolo.receive.blocked", "kolo.receiveReduce.blocked"):
                    self.assertGreaterEqual(longest_run(found[name], load, r"s_barrier|global_store"), 4)
                    self.assertTrue(any(line.startswith("s_barrier") for line in found[name]))
                for name in ("kolo.receiveAll.blocked", "kolo.receiveReduceAll.blocked"):
                    self.assertGreaterEqual(longest_run(found[name], load, r"s_barrier|global_store"), 16)
                self.assertIsNone(re.search(r"_atomic_|_cmpswap|buffer_atomic", text))

    def test_lines_are_written_and_read_by_groups_at_once(self):
        compiled = Compiled(self.folder, "twoShotAllReduce", "rank=8", [f"cuda:{one}" for one in CUDA], "--protocol", "ll128")
        self.assertEqual(compiled.manifest["programs"][0]["semaphores"], 0)
        for architecture in CUDA:
            with self.subTest(architecture=architecture):
                text = compiled.image(architecture).read_text()
                found = functions(text, r"\.func .*?kolo_\$_([\w$]+)\($", r"^}")
                store, load = r"st\.volatile\.global\.v2\.b64", r"ld\.volatile\.global\.v2\.b64"
                for name, access in (("sendLines", store), ("receiveLines_$_blocked", load), ("receiveReduceLines_$_blocked", load),
                                     ("sendAllLines", store), ("receiveAllLines_$_blocked", load), ("receiveReduceAllLines_$_blocked", load)):
                    code = [line for line in found[name] if not re.match(r"(add|mad|shl|mov|selp|cvt|or)\.|//|$", line)]
                    places = [i for i, line in enumerate(code) if re.match(access, line)]
                    self.assertGreaterEqual(len(places), 5)
                    for place in places:
                        self.assertRegex(code[place - 1], r"bar\.warp\.sync", "the group meets right before")
                    self.assertGreaterEqual(longest_run(code, access, r"setp|ld\.global|st\.global|shfl"), 4, "four lines in flight")
                for name in ("receiveLines_$_blocked", "receiveReduceLines_$_blocked", "receiveAllLines_$_blocked",
                             "receiveReduceAllLines_$_blocked"):
                    self.assertRegex("\n".join(found[name]), r"shfl\.sync\.idx\.b32\s.*, 7, 6175, ", "the last of eight says whether")
                    self.assertRegex("\n".join(found[name]), r"bar\.red\.or\.pred", "all threads learn of a failure")
                self.assertIsNone(re.search(r"ld\.global\.nc|\s(atom|red)\.|\.local|\.extern", text))

    def test_lines_are_refused_for_devices_of_which_nothing_is_known(self):
        with self.assertRaisesRegex(AssertionError, "exit code 2\nkolo: protocol ll128 is for hosts and CUDA devices: "):
            Compiled(self.folder, "twoShotAllReduce", "rank=8", ["hip:gfx90a"], "--protocol", "ll128")

    def check_kernels(self, compiled, names):
        """A kernel for all calls but those with block tables; where a proof says that these may be, one for them, too."""
        program = compiled.manifest["programs"][0]
        plain, tabled = program["name"], program["name"] + "_tables"
        self.assertIn(sorted(names), ([plain], [plain, tabled]))
        if any(isinstance(proof, dict) and proof.get("blockTables") for proof in program["proved"]):
            self.assertIn(tabled, names)

    def check_ptx(self, compiled, text):
        self.assertEqual(reads_of_others(text), [], "memory that peers write is not coherent there")
        for absent, why in ((r"\s(atom|red)\.", "nobody adds to memory of others"), (r"\.extern", "nothing defines it"),
                            (r"\.local|\.param \.align", "registers are enough"), (r"__nv_|vprintf|malloc", "a library")):
            self.assertIsNone(re.search(absent, text), f"{absent}: {why}")
        self.check_kernels(compiled, re.findall(r"\.visible \.entry (.*?)\($", text, re.MULTILINE))
        self.assertEqual(len(re.findall(r"\.maxntid 512$", text, re.MULTILINE)), len(re.findall(r"\.visible \.entry", text)))
        found = functions(text, r"\.func .*?kolo_\$_([\w$]+)\($", r"^}")
        self.check_moves(compiled, found, r"ld\.global\.(v4\.b32|v2\.b64)", r"st\.", r"add\.rn|fma\.")
        for name in {"reduce", "combine"} & set(found):
            self.assertRegex("\n".join(found[name]), r"\.f16x2", "two halves at a time")
        self.check_reads(functions(text, r"\.func (move_[\w$]+)\($", r"^}"))
        if self.has_semaphores(compiled):
            order = r"bar\.sync|st\.release|call\.uni kolo_\$_signal_\$_one"
            ordered = {name: [line.split()[0] for line in lines if re.match(order, line)]
                       for name, lines in self.signalling(text).items()}
            self.assertEqual(ordered.pop("kolo_$_signal_$_one"), ["st.release.sys.global.b64"])
            self.assertTrue(ordered, "somebody signals")
            for name, lines in ordered.items():
                self.assertEqual(lines[0], "bar.sync", name)
            waits = "\n".join(found["wait_$_one"])
            self.assertIn("ld.acquire.sys.global.b64", waits)
            self.assertIn("nanosleep.u32", waits)
            self.assertIn("%globaltimer", waits, "a wait ends by the clock")
            for name in {"wait_$_blocked", "wait_$_end_$_blocked"} & set(found):
                self.assertRegex("\n".join(found[name]), r"bar\.red\.or\.pred", "all threads learn of a failure")

    def check_reads(self, moves):
        """No register keeps type and reduction over the calls of a loop: they are read right before the call that gets them."""
        for name, lines in moves.items():
            for place in (i for i, line in enumerate(lines) if re.match(r"call\.uni kolo_\$_reduce,", line)):
                before = "\n".join(lines[:place])
                block = re.split(r"\n\$L__\w+:|\ncall\.uni ", before)[-1]
                self.assertRegex(block, r"ld\.global\.b64\s+%rd\d+, \[%rd\d+\+104\]", name)
                self.assertRegex(block, r"ld\.global\.b64\s+%rd\d+, \[%rd\d+\+112\]", name)

    def check_moves(self, compiled, found, load, store, use):
        """Loads of 16 bytes are in flight together; what is fused goes through memory once. Elements are converted 16 bytes a load."""
        for name in {"copy", "multicast"} & set(found):
            self.assertGreaterEqual(longest_run(found[name], load, store), 4)
        for name in {"reduce", "combine"} & set(found):
            self.assertGreaterEqual(longest_run(found[name], load, f"{store}|{use}"), 8)
        conversions = [lines for name, lines in found.items() if re.match(r"convert(_\$_|\.)absorb(_\$_|\.)0$", name)]
        self.assertEqual(len(conversions), int(compiled.has_codecs))
        for lines in conversions:
            self.assertRegex("\n".join(lines), load)
        moves = {"reduce", "combine"} if compiled.reduces else {"copy", "multicast"}
        self.assertTrue(conversions or moves & set(found))

    def signalling(self, text):
        """What one thread does to signal, and the functions that call it."""
        everything = functions(text, r"(?:\.func|\.visible \.entry) .*?([\w$]+)\($", r"^}")
        return {name: lines for name, lines in everything.items()
                if name == "kolo_$_signal_$_one" or any("call.uni kolo_$_signal_$_one" in line for line in lines)}

    def has_semaphores(self, compiled):
        return compiled.manifest["programs"][0]["semaphores"] > 0

    def check_code_object(self, compiled, architecture):
        path = compiled.image(architecture)
        symbols = run(LLVM / "llvm-readelf", "--dyn-symbols", "--wide", path)
        name = compiled.manifest["programs"][0]["name"]
        self.check_kernels(compiled, re.findall(r"GLOBAL\s+\w+\s+\d+ (\S+)\.kd$", symbols, re.MULTILINE))
        undefined = [line for line in symbols.splitlines() if " UND " in line and not re.match(r"\s*0:", line)]
        self.assertEqual(undefined, [])
        text = run(LLVM / "llvm-objdump", "-d", path)
        self.assertIsNone(re.search(r"_atomic_|_cmpswap|buffer_atomic", text), "no atomics, of floats least of all")
        found = functions(text, r"<([\w.]+)>:$", r"^$")
        named = {name.removeprefix("kolo."): lines for name, lines in found.items()}
        self.check_amd_order(architecture, named)
        self.check_moves(compiled, named, r"global_load_dwordx4", r"global_store_", r"v_pk_add|v_add_f")
        if self.has_semaphores(compiled):
            self.check_order(architecture, found)
        resources = next(image for image in compiled.manifest["devices"]["images"]
                         if image["architecture"] == architecture)["resources"][name]
        notes = run(LLVM / "llvm-readelf", "--notes", path)
        spilled, used = ([int(number) for number in re.findall(rf"\.{what}: +(\d+)", notes)]
                         for what in ("vgpr_spill_count", "vgpr_count"))
        self.assertEqual(set(spilled), {0})
        self.assertIn(resources["vectorRegisters"], used)
        self.assertLessEqual(max(used), 256, "512 threads must fit")

    def check_amd_order(self, architecture, found):
        """The sequences of the memory model are there; and in a text where one is broken, that is seen."""
        self.assertEqual(amd_order.problems(architecture, found), [])
        for change, mutant in amd_order.mutants(architecture, found):
            self.assertNotEqual(amd_order.problems(architecture, mutant), [], change)

    def check_order(self, architecture, found):
        """Every wave's stores are drained before the barrier; the flag is stored once the caches are written back."""
        drain = r"s_waitcnt vmcnt\(0\)$"
        if signal := found.get("kolo.signal"):
            barrier = next(i for i, line in enumerate(signal) if line.startswith("s_barrier"))
            self.assertRegex(signal[barrier - 1], drain)
            self.assertFalse(any("buffer_wbl2" in line for line in signal[:barrier]), "thread 0 alone writes the cache back")
        writeBack = "buffer_wbl2" + (" sc0 sc1" if architecture == "gfx942" else "")
        ends = [found[name] for name in ("kolo.wait.blocked", "kolo.wait.end.blocked") if name in found]
        self.assertTrue(ends, "somebody waits")
        for code in (found["kolo.signal.one"], found["kolo.wait.note"]):
            last = max(i for i, line in enumerate(code) if line == writeBack)
            self.assertRegex(code[last + 1], drain)
            self.assertRegex(code[last + 2], r"global_store_dwordx2 .*" + ("sc0 sc1" if architecture == "gfx942" else "off"))
        wait = found["kolo.wait.one"]
        poll = [line for line in wait if re.match(r"global_load_dwordx2 .*(sc0 sc1|glc)$", line)]
        self.assertGreaterEqual(len(poll), 2)
        invalidate = ["buffer_inv sc0 sc1"] if architecture == "gfx942" else ["buffer_invl2", "buffer_wbinvl1_vol"]
        first = wait.index(invalidate[0])
        self.assertEqual(wait[first:first + len(invalidate)], invalidate)
        self.assertTrue(any(line.startswith("s_memrealtime") for line in wait), "a wait ends by the clock")
        for code in ends:
            self.assertTrue(any(line.startswith("s_barrier") for line in code))

    def test_the_code_is_the_same_for_any_number_of_ranks(self):
        many = {1: (1048576,), 2: (131072, 8), 3: (131072, 4, 2)}
        for name, dims in algorithms(self.names):
            with self.subTest(name):
                targets = ["cuda:sm_90", "hip:gfx90a"]
                few = of_nodes(name, dims)
                first = compiled_for_all(name, tuple(dims)) if few == mesh_of(dims) else Compiled(self.folder, name, few, targets)
                second = Compiled(self.folder, name, mesh_of(dims, many), targets)
                for architecture in ("sm_90", "gfx90a"):
                    self.assertTrue(first.image(architecture).read_bytes() == second.image(architecture).read_bytes(),
                                    "another mesh, another image")

    def test_there_is_code_for_the_first_architectures_too(self):
        compiled = Compiled(self.folder, "ringAllReduce", "rank=8", ["cuda:sm_70", "cuda:sm_72", "cuda:sm_75"])
        for architecture in ("sm_70", "sm_72", "sm_75"):
            text = compiled.image(architecture).read_text()
            self.assertIn(".target " + architecture, text)
            self.assertIn("nanosleep.u32", text)

    def test_the_code_is_the_same_each_time(self):
        name, dims = algorithms(self.names)[0]
        first, second = compiled_for_all(name, tuple(dims)), Compiled(self.folder, name, mesh_of(dims), ["cuda:sm_90", "hip:gfx942"])
        for architecture in ("sm_90", "gfx942"):
            self.assertTrue(first.image(architecture).read_bytes() == second.image(architecture).read_bytes(), architecture)

    def test_half_precision_is_computed_in_f32_unless_that_is_not_wanted(self):
        for flag, isNative in (("f32", False), ("native", True)):
            compiled = Compiled(self.folder, "ringAllReduce", "rank=8", ["hip:gfx90a"], "--device-types", "f16",
                                "--device-ops", "product", "--accumulate", flag)
            text = run(LLVM / "llvm-objdump", "-d", compiled.image("gfx90a"))
            self.assertIn("v_pk_mul_f16", text)  # rounding once from f32 is the same: LLVM knows
            self.assertEqual(compiled.manifest["devices"]["accumulate"], flag)
            self.assertEqual(compiled.manifest["devices"]["types"], ["f16"])
            self.assertEqual(compiled.manifest["devices"]["reductions"], ["product"])


def check_with_ptxas(names):
    """0 spills; a table of registers and shared memory."""
    ptxas = shutil.which("ptxas") or next(iter(map(str, pathlib.Path("/usr/local/cuda/bin").glob("ptxas"))), None)
    if not ptxas:
        print("skipped: there is no ptxas")
        return SKIPPED
    wrong = False
    print(f"{'algorithm':<34} {'protocol':<8} {'architecture':<12} {'registers':>9} {'shared':>7} {'spilled':>8} {'stack':>6}")
    rows = [(name, dims, "bulk", ()) for name, dims in algorithms(names)]
    rows += [(name, ["rank"], protocol, ()) for name in ("twoShotAllReduce", "quantisedTwoShotAllReduce") for protocol in ("ll", "ll128")]
    rows.append(("quantisedTwoShotAllReduce", ["rank"], "bulk", ("--codec", "wire=i8 per 256 scale f32 fit stochastic")))
    for name, dims, protocol, words in rows:
        with tempfile.TemporaryDirectory(prefix="kolo-code-") as folder:
            compiled = Compiled(folder, name, mesh_of(dims), [f"cuda:{one}" for one in CUDA], "--ptxas", ptxas, "--protocol", protocol, *words)
            cubins = [image for image in compiled.manifest["devices"]["images"] if image["format"] == "cubin"]
            wrong |= [cubin["architecture"] for cubin in cubins] != list(CUDA)
            for cubin in cubins:
                registers, shared, spilled, stack = (cubin["resources"][name][kind] for kind in
                                                     ("registers", "sharedBytes", "spilledBytes", "stackBytes"))
                print(f"{name:<34} {protocol:<8} {cubin['architecture']:<12} {registers:>9} {shared:>7} {spilled:>8} {stack:>6}", flush=True)
                wrong |= registers == 0 or registers > 128 or spilled != 0 or stack != 0
    return int(wrong)


if __name__ == "__main__":
    mode, *names = sys.argv[1:]
    if mode == "ptxas":
        sys.exit(check_with_ptxas(names))
    Text.names = names
    sys.exit(not unittest.main(verbosity=2, argv=sys.argv[:1], exit=False).result.wasSuccessful())
