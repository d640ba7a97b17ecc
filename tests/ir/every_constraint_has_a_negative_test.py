"""Fails when a constraint label documented in ir/*.td is in no expected-error of a test here, or the other way round."""
import pathlib
import re
import sys

ir, tests = map(pathlib.Path, sys.argv[1:3])
documented = {
    label for path in ir.glob("*.td") for label in re.findall(r"\b[a-z_]+_c\d+(?=:)", path.read_text())
}
tested = {
    label
    for path in tests.glob("*.mlir")
    for line in path.read_text().splitlines()
    if "expected-error" in line
    for label in re.findall(r"\b[a-z_]+_c\d+\b", line)
}
for label in sorted(documented - tested):
    print(f"{label}: documented in ir/*.td, but no test expects it to be violated")
for label in sorted(tested - documented):
    print(f"{label}: a test expects it, but ir/*.td does not document it")
if not documented:
    print("no constraint label found: wrong folder?")
sys.exit(documented != tested or not documented)
