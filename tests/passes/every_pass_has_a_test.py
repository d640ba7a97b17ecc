"""Fails when a pass of a Passes.td has no test here that is named like its flag, or a test belongs to no pass."""
import pathlib
import re
import sys

root, tests = map(pathlib.Path, sys.argv[1:3])
tables = [*root.glob("compiler/Passes.td"), *root.glob("targets/*/Passes.td")]
flags = {flag for path in tables for flag in re.findall(r'Pass<"kolo-([a-z-]+)"', path.read_text())}
files = {path.stem.removesuffix("-invalid") for path in tests.glob("*.mlir")}
for flag in sorted(flags - files):
    print(f"kolo-{flag}: no {flag}.mlir")
for name in sorted(files - flags):
    print(f"{name}.mlir: there is no pass kolo-{name}")
if not flags:
    print("no pass found: wrong folder?")
sys.exit(flags != files or not flags)
