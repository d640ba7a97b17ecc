"""What a build against the torch of this Python needs, as JSON. Fails, with one line, if it cannot be built."""
import json
import os
import sys
import sysconfig


def fail(why):
    print(f"{sys.executable}: {why}", file=sys.stderr)
    sys.exit(1)


try:
    import torch
    import torch.distributed
except ImportError as error:
    fail(error)
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    fail(f"torch {torch.__version__} has no torch.distributed with Gloo")
if not torch._C._GLIBCXX_USE_CXX11_ABI:
    fail(f"torch {torch.__version__} is built with the C++ ABI from before C++11")
home = os.path.dirname(torch.__file__)
includes = [os.path.join(home, "include"), os.path.join(home, "include/torch/csrc/api/include"), sysconfig.get_path("include")]
for header in ("torch/csrc/distributed/c10d/Work.hpp", "pybind11/pybind11.h", "Python.h"):
    if not any(os.path.exists(os.path.join(folder, header)) for folder in includes + ["/usr/include"]):
        fail(f"{header} is not there")
# Only with equal values do two modules share their types.
definitions = []
for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
    value = getattr(torch._C, f"_PYBIND11_{name}", None)
    if value is not None:
        definitions.append(f'PYBIND11_{name}="{value}"')
print(json.dumps({
    "python": sys.executable,
    "version": torch.__version__,
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "includes": ";".join(includes),
    "libraries": ";".join(os.path.join(home, "lib", f"lib{name}.so") for name in ("torch", "torch_cpu", "c10", "torch_python")),
    "definitions": ";".join(definitions),
}))
