import os

import lit.formats

config.name = "passes"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join([config.kolo_bin, config.llvm_tools, os.environ["PATH"]])
