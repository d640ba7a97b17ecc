"""kolo compile --target with devices, and what kolo inspect says of such a plugin. Needs no device."""
import ctypes
import json
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
                ("images", ctypes.POINTER(Image))]


class Device(ToolTest):
    def compile(self, *arguments, target="cpu,cuda:sm_90,hip:gfx90a", mesh="rank=4"):
        self.succeeds("compile", *arguments, "--mesh", mesh, "--target", target, "-o", "x.so")
        return json.loads(self.succeeds("inspect", "x.so"))

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
        manifest = json.loads(self.succeeds("inspect", "x.so"))
        names = [program["name"] for program in manifest["programs"]]
        self.assertEqual(plugin.abiVersion, manifest["devices"]["abi"])
        self.assertEqual([plugin.kernels[i].decode() for i in range(plugin.numKernels)], names)
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
    unittest.main()
