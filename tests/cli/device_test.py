"""kolo compile --target with devices, and what kolo inspect says of such a plugin. Needs no device."""
import ctypes
import json
import os
import shutil
import unittest

from tool import ToolTest


# The C boundary, as kolo/runtime/DeviceAbi.h has it.
class Reduction(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("reduction", ctypes.c_int32)]


class Image(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char_p), ("architecture", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("sizeBytes", ctypes.c_uint64), ("format", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class DevicePlugin(ctypes.Structure):
    _fields_ = [("abiVersion", ctypes.c_uint32), ("numKernels", ctypes.c_uint32),
                ("kernels", ctypes.POINTER(ctypes.c_char_p)), ("numReductions", ctypes.c_uint32),
                ("numImages", ctypes.c_uint32), ("reductions", ctypes.POINTER(Reduction)),
                ("images", ctypes.POINTER(Image)), ("tableKernels", ctypes.POINTER(ctypes.c_char_p)),
                ("inboxBytes", ctypes.POINTER(ctypes.c_void_p)), ("peers", ctypes.POINTER(ctypes.c_void_p))]


class Shape(ctypes.Structure):
    _fields_ = [("dimSizes", ctypes.c_int64 * 4), ("count", ctypes.c_int64), ("elementBytes", ctypes.c_int64),
                ("numLanes", ctypes.c_int64)]


class Device(ToolTest):
    def compile(self, *arguments, target="cpu,cuda:sm_90,hip:gfx90a", mesh="rank=4"):
        self.succeeds("compile", *arguments, "--mesh", mesh, "--target", target, "-o", "x.so")
        return json.loads(self.succeeds("inspect", "x.so", "--json"))

    def test_a_plugin_for_devices_runs_on_the_host_as_before(self):
        for optimization in ([], ["--no-optimization"]):
            self.compile("ringAllReduce", *optimization)
            self.assertIn("every byte is right", self.succeeds("run", "x.so", "--mesh", "rank=4", "--bytes", "64K"))

    def test_the_manifest_says_what_is_in_it(self):
        manifest = self.compile("ringAllReduce", "--device-types", "f32,i32", "--device-ops", "sum,max")
        devices = manifest["devices"]
        self.assertEqual((devices["types"], devices["reductions"]), (["f32", "i32"], ["sum", "max"]))
        self.assertEqual([(image["kind"], image["architecture"], image["format"]) for image in devices["images"]],
                         [("cuda", "sm_90", "ptx"), ("hip", "gfx90a", "hsaco")])
        resources = devices["images"][1]["resources"]["ringAllReduce"]
        self.assertTrue(0 < resources["vectorRegisters"] <= 256, resources)
        self.assertEqual(manifest["target"]["kind"], "cpu")
        self.assertNotIn("devices", self.compile("ringAllReduce", target="cpu"))

    def test_the_table_of_the_library_is_what_the_tool_extracts(self):
        self.compile(self.copy("two.cpp"), "--device-ops", "min", "--device-types", "all")
        paths = self.succeeds("inspect", "x.so", "--extract", "images").split()
        self.assertEqual(paths, ["images/cuda-sm_90.ptx", "images/hip-gfx90a.hsaco"])
        library = ctypes.CDLL(self.file("x.so"))
        library.kolo_device_plugin.restype = ctypes.POINTER(DevicePlugin)
        plugin = library.kolo_device_plugin().contents
        manifest = json.loads(self.succeeds("inspect", "x.so", "--json"))
        names = [program["name"] for program in manifest["programs"]]
        self.assertEqual(plugin.abiVersion, manifest["devices"]["abi"])
        self.assertEqual([plugin.kernels[i].decode() for i in range(plugin.numKernels)], names)
        for number, program in enumerate(manifest["programs"]):
            takes_tables = any(proof.get("blockTables") for proof in program["proved"])
            self.assertEqual(plugin.tableKernels[number], f"{program['name']}_tables".encode() if takes_tables else None)
        self.assertEqual([(plugin.reductions[i].type, plugin.reductions[i].reduction) for i in range(plugin.numReductions)],
                         [(number, 2) for number in range(10)])
        images = [plugin.images[i] for i in range(plugin.numImages)]
        self.assertEqual([(image.kind, image.architecture, image.format) for image in images],
                         [(b"cuda", b"sm_90", 0), (b"hip", b"gfx90a", 1)])
        for image, path in zip(images, paths):
            data = ctypes.string_at(image.data, image.sizeBytes)
            with open(self.file(path), "rb") as file:
                self.assertEqual(data.rstrip(b"\0") if image.format == 0 else data, file.read())
        self.assertEqual(ctypes.string_at(images[0].data, images[0].sizeBytes)[-1:], b"\0", "the driver wants a C string")
        for name in names:
            self.assertIn(f".visible .entry {name}(".encode(), ctypes.string_at(images[0].data, images[0].sizeBytes))

    def test_programs_of_a_staged_network_say_how_large_inboxes_are(self):
        for memory, isStaged in (("direct", False), ("staged", True)):
            self.compile("railAllGather", "--network", "node", "--network-memory", memory, mesh="node=2,gpu=2")
            os.rename(self.file("x.so"), self.file(f"{memory}.so"))  # a name that is loaded once
            library = ctypes.CDLL(self.file(f"{memory}.so"))
            library.kolo_device_plugin.restype = ctypes.POINTER(DevicePlugin)
            function = library.kolo_device_plugin().contents.inboxBytes[0]
            self.assertEqual(bool(function), isStaged)
            self.assertEqual(bool(library.kolo_device_plugin().contents.peers[0]), isStaged)
            if isStaged:
                shape = Shape((2, 2, 1, 1), 1000, 4, 3)
                size = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(Shape))(function)(ctypes.byref(shape))
                self.assertGreaterEqual(size, 4000, "a block arrives from the other node")
                self.assertLess(size, 8 * 4000)

    def fake_ptxas(self, *lines):
        """A program that is called like ptxas: -v -arch=A INPUT -o OUTPUT."""
        path = self.write("ptxas", "\n".join(["#!/bin/sh", 'echo "$@" >> calls', *lines]) + "\n")
        os.chmod(self.file(path), 0o755)
        return self.file(path)

    REPORT = """cat >&2 <<'END'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'ringAllReduce' for 'sm_90'
ptxas info    : Function properties for ringAllReduce
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 24 bytes cumulative stack size, 128 bytes smem, 896 bytes cmem[0]
ptxas info    : Compile time = 1.000 ms
ptxas info    : Function properties for kolo_$_reduce
    0 bytes stack frame, 100 bytes spill stores, 0 bytes spill loads
END"""

    def test_ptxas_makes_cubins_beside_the_ptx(self):
        ptxas = self.fake_ptxas('grep -q "^.target sm_" "$3" || exit 1', 'echo "machine code for $2" > "$5"', self.REPORT)
        manifest = self.compile("ringAllReduce", "--ptxas", ptxas, target="cpu,cuda:sm_80,hip:gfx90a,cuda:sm_90")
        images = manifest["devices"]["images"]
        self.assertEqual([(image["architecture"], image["format"]) for image in images],
                         [("sm_80", "ptx"), ("sm_80", "cubin"), ("gfx90a", "hsaco"), ("sm_90", "ptx"), ("sm_90", "cubin")])
        self.assertNotIn("resources", images[0], "drivers have still to compile it")
        self.assertEqual(images[4]["resources"]["ringAllReduce"],
                         {"registers": 80, "spilledBytes": 116, "stackBytes": 24, "sharedBytes": 128})
        paths = self.succeeds("inspect", "x.so", "--extract", ".").split()
        self.assertEqual([os.path.basename(path) for path in paths],
                         ["cuda-sm_80.ptx", "cuda-sm_80.cubin", "hip-gfx90a.hsaco", "cuda-sm_90.ptx", "cuda-sm_90.cubin"])
        with open(self.file("cuda-sm_90.cubin")) as cubin:
            self.assertEqual(cubin.read(), "machine code for -arch=sm_90\n")
        library = ctypes.CDLL(self.file("x.so"))
        library.kolo_device_plugin.restype = ctypes.POINTER(DevicePlugin)
        plugin = library.kolo_device_plugin().contents
        self.assertEqual([plugin.images[i].format for i in range(plugin.numImages)], [0, 2, 1, 0, 2])
        self.assertIn("every byte is right", self.succeeds("run", "x.so", "--mesh", "rank=4", "--bytes", "64K"))

    def test_what_ptxas_complains_of_is_one_line(self):
        for lines, says in (
                (["echo \"ptxas fatal   : Value '$2' is not defined\" >&2", "exit 255"], "Value '-arch=sm_90' is not defined"),
                (['echo "ptxas info : 0 bytes" >&2', 'echo "ptxas $3, line 7; error   : Unknown symbol" >&2',
                  'echo "ptxas fatal   : Ptx assembly aborted" >&2', "exit 1"], "Unknown symbol (line 7 of the PTX)"),
                (["exit 3"], "it says nothing"), (["exit 0"], "wrote nothing"), (["kill -9 $$"], "cannot run"),
                (['echo code > "$5"'], "does not say what kernel ringAllReduce takes")):
            with self.subTest(says):
                said = self.refuses(2, "compile", "ringAllReduce", "--mesh", "rank=4", "--target", "cpu,cuda:sm_90", "--ptxas",
                                    self.fake_ptxas(*lines), "-o", "x.so", says=["ptxas", says])
                self.assertNotIn("/proc", said)
        self.assertEqual(self.listing(), ["calls", "ptxas"])

    def test_ptxas_has_to_be_there(self):
        compile = ("compile", "ringAllReduce", "--mesh", "rank=4", "--target")
        self.refuses(2, *compile, "cpu,cuda:sm_90", "--ptxas", "/nowhere/ptxas", says=["--ptxas", "/nowhere/ptxas"])
        self.refuses(2, *compile, "cpu,cuda:sm_90", "--ptxas", ".", says=["--ptxas", "there is no program ."])
        self.refuses(2, *compile, "cpu,hip:gfx90a", "--ptxas", "auto", says=["--ptxas", "cuda:sm_90"])
        if not os.path.exists("/usr/local/cuda/bin/ptxas"):
            self.refuses(2, *compile, "cpu,cuda:sm_90", "--ptxas", "auto", PATH="/nowhere", says=["--ptxas", "PATH"])
        self.fake_ptxas('echo code > "$5"', self.REPORT)
        for changes in ({"PATH": self.directory + ":" + os.environ["PATH"]}, {"PATH": "/usr/bin:/bin", "CUDA_PATH": self.toolkit()}):
            before = self.numCalls()
            self.succeeds(*compile, "cpu,cuda:sm_90", "--ptxas", "auto", "-o", "x.so", **changes)
            self.assertEqual(self.numCalls(), before + 1, changes)

    def toolkit(self):
        """A folder with the fake ptxas in its bin."""
        os.makedirs(self.file("toolkit/bin"), exist_ok=True)
        shutil.copy(self.file("ptxas"), self.file("toolkit/bin/ptxas"))
        return self.file("toolkit")

    def numCalls(self):
        try:
            with open(self.file("calls")) as calls:
                return len(calls.readlines())
        except FileNotFoundError:
            return 0

    def test_the_ptxas_of_the_toolkit_takes_the_code(self):
        outcome = self.kolo("compile", "twoShotAllReduce", "--mesh", "rank=4", "--target", "cpu,cuda:sm_90", "--ptxas", "auto",
                            "-o", "x.so")
        if "there is no ptxas" in outcome.err:
            self.skipTest(outcome.err)
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        images = json.loads(self.succeeds("inspect", "x.so", "--json"))["devices"]["images"]
        resources = images[1]["resources"]["twoShotAllReduce"]
        self.assertTrue(0 < resources["registers"] <= 128, resources)
        self.assertEqual((resources["spilledBytes"], resources["stackBytes"]), (0, 0))
        self.succeeds("inspect", "x.so", "--extract", ".")
        with open(self.file("cuda-sm_90.cubin"), "rb") as cubin:
            self.assertEqual(cubin.read(4), b"\x7fELF")

    def test_targets_that_do_not_exist(self):
        for target, says in (("cuda:sm_90", "cpu must be among them"), ("cpu,cuda", "cuda:sm_90"), ("cpu,cuda:sm_60", "sm_70"),
                             ("cpu,cuda:sm_9000", "sm_9000"), ("cpu,hip:gfx1100", "gfx942"), ("cpu,cpu", "twice"),
                             ("cpu,rocm:gfx90a", "rocm:gfx90a"), ("cpu,", "''")):
            self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=4", "--target", target, "-o", "x.so", says=says)
        for flag, value in (("--device-types", "f31"), ("--device-ops", "xor"), ("--device-ops", "")):
            self.refuses(2, "compile", "ringAllGather", "--mesh", "rank=4", flag, value, says=flag)
        self.assertEqual(self.listing(), [])

    def test_there_may_be_nothing_to_extract(self):
        self.compile("ringAllGather", target="cpu")
        self.refuses(2, "inspect", "x.so", "--extract", "images", says="no code for devices")
        self.compile("ringAllGather")
        self.refuses(2, "inspect", "x.so", "--extract", "x.so", says="x.so")


if __name__ == "__main__":
    unittest.main(verbosity=2)
