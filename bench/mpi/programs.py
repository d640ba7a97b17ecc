#!/usr/bin/env python3
"""Time of unchanged MPI programs, alone and under the door, in turns.

usage: programs.py BUILD [--rounds N] [--ranks 2,4] [--root DIR] [--seconds N] [PROGRAM...]

BUILD: a build of Kolo. --root: a folder into which more Debian packages were unpacked (`dpkg -x`): programs that are not
installed come from there. Prints a table in Markdown: medians and ranges of wall time in seconds, and medians of the processor
time of all processes, start-up of `kolo preload` and of mpirun included. A program is slower if its median of wall time is longer by
more than 3 % and by more than 20 ms; then the exit code is 1. Other programs disturb processor time less; `more` by the same rule.
Where there are more ranks than processors, MPICH yields in its waits, by yield.c.
"""
import argparse
import glob
import gzip
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LIBRARIES = f"/usr/lib/{os.uname().machine}-linux-gnu"
HERE = os.path.dirname(os.path.abspath(__file__))

NWCHEM = """start water
memory 200 mb
geometry units angstrom noautosym
 O 0 0 0
 H 0 0.757 0.587
 H 0 -0.757 0.587
end
basis
 * library 6-31g*
end
scf
 direct
end
task scf gradient
"""
CP2K = """&GLOBAL
  PROJECT ar
  RUN_TYPE MD
&END GLOBAL
&MOTION
  &MD
    STEPS 200
    TIMESTEP 2
    TEMPERATURE 80
  &END MD
&END MOTION
&FORCE_EVAL
  METHOD FIST
  &MM
    &FORCEFIELD
      &NONBONDED
        &LENNARD-JONES
          atoms Ar Ar
          EPSILON 119.8
          SIGMA 3.405
          RCUT 8.4
        &END LENNARD-JONES
      &END NONBONDED
      &CHARGE
        ATOM Ar
        CHARGE 0
      &END CHARGE
    &END FORCEFIELD
    &POISSON
      &EWALD
        EWALD_TYPE none
      &END EWALD
    &END POISSON
  &END MM
  &SUBSYS
    &CELL
      ABC 17.16 17.16 17.16
    &END CELL
    &COORD
%s
    &END COORD
  &END SUBSYS
&END FORCE_EVAL
"""
QE = """&control
 calculation='scf', pseudo_dir='%s', outdir='.', disk_io='none'
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=20
/
&electrons
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Si 0 0 0
 Si 0.25 0.25 0.25
K_POINTS automatic
 4 4 4 0 0 0
"""
MRBAYES = """#NEXUS
begin data;
 dimensions ntax=6 nchar=60;
 format datatype=dna;
 matrix
 a ACGTTGCAAGCTAGCTACGATCGATCGGATCGATTACGACTAGCTAGCATCGACTACGAT
 b ACGTTGCAAGCTAGCTACGATCGATCGGATCGATTACGACTAGCTAGCATCGACTACGTT
 c ACGATGCAAGCTTGCTACGATCGATGGGATCGATTACGACTAGCTTGCATCGACTACGAT
 d ACGATGCAAGCTTGCTACGATCGTTGGGATCGATTACGAGTAGCTTGCATCGAGTACGAT
 e TCGATGCATGCTTGCTACGTTCGTTGGGATCGATTACGAGTAGCTTGGATCGAGTACGAA
 f TCGATGCATGCTTGCTACGTTCGTTGGGAACGATTACGAGTAGCATGGATCGAGTACGAA
 ;
end;
begin mrbayes;
 set autoclose=yes nowarn=yes;
 lset nst=6 rates=gamma;
 mcmc ngen=20000 nchains=4 nruns=1 printfreq=10000 samplefreq=1000;
end;
"""


class Missing(Exception):
    pass


class Folder:
    """An empty folder for one run, and where the programs are."""

    def __init__(self, directory, root, abi):
        self.directory, self.root, self.abi = directory, root, abi

    def find(self, *paths):
        for path in paths:
            for base in ["", self.root] if self.root else [""]:
                found = shutil.which(path) if "/" not in path and not base else None
                found = found or next((base + each for each in (path, "/usr/bin/" + path)
                                       if each.startswith("/") and os.path.exists(base + each)), None)
                if found:
                    return found
        raise Missing(paths[0])

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def copy(self, pattern):
        for path in glob.glob(pattern):
            if path.endswith(".gz"):
                with gzip.open(path) as packed, open(f"{self.directory}/{os.path.basename(path)[:-3]}", "wb") as out:
                    shutil.copyfileobj(packed, out)
            elif os.path.isfile(path):
                shutil.copy(path, self.directory)

    def edit(self, name, pattern, replacement):
        path = os.path.join(self.directory, name)
        if os.path.exists(path):
            with open(path) as file:
                self.write(name, re.sub(pattern, replacement, file.read(), flags=re.MULTILINE))


def lammps(name, steps):
    def prepare(folder):
        program = folder.find("lmp")
        folder.copy(f"/usr/share/lammps/examples/{name}/*")
        path = os.path.join(folder.directory, f"in.{name}")
        with open(path) as file:
            text = re.sub(r"^run\s+\d+", f"run {steps}", file.read(), flags=re.MULTILINE)
        folder.write(f"in.{name}", text)
        return [program, "-in", path, "-log", "none"]
    return prepare


def scalapack(name):
    def prepare(folder):
        tests = f"{LIBRARIES}/scalapack/{folder.abi}-tests"
        folder.copy(tests + "/*.dat")
        for each in ("LU.dat", "LLT.dat"):
            folder.edit(each, r"^T\b(.*Iter\. Ref\.)", r"F\1")  # there, ranks branch on a variable that is never set
        return [folder.find(f"{tests}/{name}")]
    return prepare


def hpcc(folder):
    program = folder.find("hpcc")
    with open(folder.find("/usr/share/doc/hpcc/examples/_hpccinf.txt")) as file:
        text = re.sub(r"^\d+ +Ns$", "400 Ns", file.read(), flags=re.MULTILINE)
    folder.write("hpccinf.txt", re.sub(r"^2 +Ps$", "1 Ps", text, flags=re.MULTILINE))
    return [program]


def mpi4py(folder):
    folder.find("/usr/lib/python3/dist-packages/mpi4py")
    return ["/usr/bin/python3", os.path.join(HERE, "../../tests/mpi/collectives.py")]


def nwchem(folder):
    program = folder.find("nwchem.openmpi", "/usr/bin/nwchem.openmpi")
    folder.write(".nwchemrc", f"nwchem_basis_library {folder.find('/usr/share/nwchem/libraries')}/\n")
    return [program, folder.write("water.nw", NWCHEM)]


def cp2k(folder):
    program = folder.find("/usr/bin/cp2k.psmp")
    atoms = "\n".join(f"Ar {x * 4.29} {y * 4.29} {z * 4.29}" for x in range(4) for y in range(4) for z in range(4))
    return [program, "-i", folder.write("ar.inp", CP2K % atoms)]


def espresso(folder):
    program = folder.find("/usr/bin/pw.x")
    return [program, "-in", folder.write("si.in", QE % folder.find("/usr/share/espresso/pseudo"))]


def mrbayes(folder):
    return [folder.find("/usr/lib/mrbayes-mpi/mb-mpi"), folder.write("six.nex", MRBAYES)]


def built(source, *arguments):
    def prepare(folder):
        program = os.path.join(folder.directory, "program")
        subprocess.run([f"mpicc.{folder.abi}", "-O1", "-w", "-o", program, os.path.join(HERE, source)], check=True)
        return [program, *arguments]
    return prepare


def netpipe(folder):
    return [folder.find("/usr/bin/NPopenmpi"), "-u", "100000", "-n", "50", "-o", os.path.join(folder.directory, "np.out")]


BOTH, OPEN = ("openmpi", "mpich"), ("openmpi",)
# ScaLAPACK's testers that end by themselves with both libraries on two and on four ranks.
TESTERS = ("xdlu", "xdqr", "xdllt", "xdinv", "xdls", "xdbrd", "xdhrd", "xdtrd", "xdnep", "xdgblu", "xdpbllt", "xdptllt", "xddblu",
           "xclu")
PROGRAMS = {
    "LAMMPS melt": (OPEN, lammps("melt", 300)), "LAMMPS peptide": (OPEN, lammps("peptide", 150)),
    "LAMMPS rigid": (OPEN, lammps("rigid", 2000)), "HPCC": (OPEN, hpcc), "mpi4py": (OPEN, mpi4py),
    "NWChem": (OPEN, nwchem), "CP2K": (OPEN, cp2k), "Quantum ESPRESSO": (OPEN, espresso), "MrBayes": (OPEN, mrbayes),
    "NetPIPE": (OPEN, netpipe), **{f"ScaLAPACK {name}": (BOTH, scalapack(name)) for name in TESTERS},
}
FIXED_RANKS = {"NetPIPE": 2}


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def preloaded(abi, ranks, directory):
    """What MPICH's ranks need to share cores."""
    if abi != "mpich" or ranks <= os.cpu_count():
        return {}
    made = os.path.join(directory, "yield.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, os.path.join(HERE, "yield.c")], check=True)
    return {"LD_PRELOAD": made}


def run(build, root, abi, ranks, prepare, has_door, seconds):
    """Wall time and processor time."""
    with tempfile.TemporaryDirectory(prefix="programs-of-mpi-") as directory:
        command = prepare(Folder(directory, root, abi))
        variables = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
                     "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                     "OMPI_MCA_btl_base_warn_component_unused": "0", "HOME": directory, "KOLO_DEBUG": ""}
        if root:
            variables["LD_LIBRARY_PATH"] = ":".join(f"{root}{LIBRARIES}{each}" for each in ("", "/openmpi/lib"))
            variables["CP2K_DATA_DIR"] = f"{root}/usr/share/cp2k/data"
        variables |= preloaded(abi, ranks, directory)
        launch = [os.path.join(build, "bin/kolo"), "preload", "--"] if has_door else []
        start, used = time.monotonic(), processor_time()
        done = subprocess.run([*launch, f"mpirun.{abi}", "-n", str(ranks), *command], cwd=directory, env=variables, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        taken = time.monotonic() - start, processor_time() - used
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stdout[-600:]}")
        return taken


def spread(times):
    return f"{statistics.median(times):.2f} [{min(times):.2f}-{max(times):.2f}]"


def is_slower(door, alone):
    return door > 1.03 * alone and door > alone + 0.02


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--root", default="")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("programs", nargs="*")
    given = parser.parse_intermixed_args()
    isSlower = False
    print("| program | MPI | ranks | alone | with the door | ratio | | processor time alone | with the door | ratio | |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, (abis, prepare) in PROGRAMS.items():
        if given.programs and name not in given.programs:
            continue
        fixed = next((ranks for prefix, ranks in FIXED_RANKS.items() if name.startswith(prefix)), None)
        for abi in abis:
            for ranks in [fixed] if fixed else map(int, given.ranks.split(",")):
                times = {False: [], True: []}
                try:
                    for index in range(given.rounds):
                        for has_door in (False, True) if index % 2 == 0 else (True, False):
                            times[has_door].append(run(given.build, given.root, abi, ranks, prepare, has_door, given.seconds))
                except Missing as missing:
                    print(f"| {name} | {abi} | {ranks} | not here: {missing} | | | |", flush=True)
                    continue
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"| {name} | {abi} | {ranks} | failed {'with' if has_door else 'without'} the door: "
                          f"{' '.join(str(error).split())[:300]} | | | |", flush=True)
                    isSlower |= has_door
                    continue
                (walls, processors), (door_walls, door_processors) = (list(zip(*times[each])) for each in (False, True))
                alone, door = statistics.median(walls), statistics.median(door_walls)
                alone_work, door_work = statistics.median(processors), statistics.median(door_processors)
                isSlower |= is_slower(door, alone)
                print(f"| {name} | {abi} | {ranks} | {spread(walls)} | {spread(door_walls)} | {door / alone:.2f} | "
                      f"{'slower' if is_slower(door, alone) else ''} | {alone_work:.2f} | {door_work:.2f} | "
                      f"{door_work / alone_work:.2f} | {'more' if is_slower(door_work, alone_work) else ''} |", flush=True)
    return 1 if isSlower else 0


if __name__ == "__main__":
    sys.exit(main())
