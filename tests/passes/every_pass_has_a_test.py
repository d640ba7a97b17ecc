"""Fails when a pass of a Passes.td has no test here that is named like its flag, or a test belongs to no pass.

More tests of a pass have the flag, a dash and their subject as name."""
import pathlib
import re
import sys

root, tests = map(pathlib.Path, sys.argv[1:3])
tables = [*root.glob("compiler/Passes.td"), *root.glob("targets/*/Passes.td")]
flags = {flag for path in tables for flag in re.findall(r'Pass<"kolo-([a-z-]+)"', path.read_text())}
files = {path.stem for path in tests.glob("*.mlir")}
strays = {name for name in files if not any(name == flag or name.startswith(f"{flag}-") for flag in flags)}
for flag in sorted(flags - files):
    print(f"kolo-{flag}: no {flag}.mlir")
for name in sorted(strays):
    print(f"{name}.mlir: there is no pass kolo-{name}")
if not flags:
    print("no pass found: wrong folder?")
sys.exit(bool(flags - files or strays or not flags))
