#!/usr/bin/env python3
"""Time of unchanged MPI programs, alone and under the door, in turns.

usage: programs.py BUILD [--rounds N] [--ranks 2,4] [--mpi openmpi,mpich] [--root DIR] [--built DIR] [--seconds N] [PROGRAM...]

BUILD: a build of Kolo. --root: a folder into which more Debian packages were unpacked (`dpkg -x`): programs that are not
installed come from there. --built: a folder of programs that were built from their public sources: DIR/MPI/NAME/FILE, for
instance DIR/mpich/AMG/amg. Prints a table in Markdown: medians and ranges of wall time in seconds, and medians of the processor
time of all processes, start-up of `kolo preload` and of mpirun included. A program is slower if its median of wall time is longer by
more than 3 % and by more than 20 ms; then the exit code is 1. Other programs disturb processor time less; `more` by the same rule.
Every run must print the results of the first run without the door, numbers up to a relative difference of 1e-6 or the program's own.
Where there are more ranks than processors, MPICH yields in its waits, by yield.c.
"""
import argparse
import glob
import gzip
import itertools
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

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
GROMACS_TOPOLOGY = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
GROMACS_STEPS = """integrator = md
nsteps = 800
dt = 0.001
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 300
nstenergy = 50
nstcalcenergy = 10
nstlog = 50
gen-vel = yes
gen-seed = 1
ld-seed = 1
"""
DECOMPOSE = """FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains %d;
method simple;
simpleCoeffs { n (%d %d 1); delta 0.001; }
"""
GPAW = """from ase import Atoms
from gpaw import GPAW, Mixer
water = Atoms("OHH", [(0, 0, 0.12), (0, 0.76, -0.47), (0, -0.76, -0.47)])
water.center(vacuum=2.5)
water.calc = GPAW(mode="fd", h=0.22, xc="PBE", mixer=Mixer(0.3, 5, 50.0), txt=None, convergence={"density": 1e-5})
energy, forces = water.get_potential_energy(), water.get_forces()
if water.calc.wfs.world.rank == 0:
    print(f"result {energy:.4f} {forces[0][2]:.3f}")
"""
FFT = """import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray
transform = PFFT(MPI.COMM_WORLD, (64, 64, 64), axes=(0, 1, 2), dtype=float)
values = newDistArray(transform, False)
first = numpy.array(transform.local_slice(False)[0].start)
values[:] = numpy.cos(0.01 * (first + 1) + numpy.arange(values.size).reshape(values.shape) % 97)
start = values.copy()
for index in range(600):
    spectrum = transform.forward(values)
    values = transform.backward(spectrum, values)
sums = MPI.COMM_WORLD.allreduce(numpy.array([numpy.sum(abs(spectrum)), numpy.max(abs(values - start))]))
if MPI.COMM_WORLD.rank == 0:
    print(f"result {sums[0]:.10e} {sums[1] < 1e-10}")
"""
H5PY = """import h5py, numpy
from mpi4py import MPI
comm, size = MPI.COMM_WORLD, 1 << 14
total = 0.0
for index in range(120):
    with h5py.File("values.h5", "w", driver="mpio", comm=comm) as file:
        for name in range(10):
            data = file.create_dataset(f"group{name}/data", (comm.size * size,), dtype="d")
            with data.collective:
                data[comm.rank * size:(comm.rank + 1) * size] = numpy.arange(size) * (comm.rank + 1.0) + name + index
    with h5py.File("values.h5", "r", driver="mpio", comm=comm) as file:
        other = (comm.rank + 1) % comm.size
        for name in range(10):
            data = file[f"group{name}/data"]
            with data.collective:
                total += data[other * size:(other + 1) * size].sum()
total = comm.allreduce(total)
if comm.rank == 0:
    print(f"result {total:.12e} {h5py.get_config().mpi}")
"""


class Missing(Exception):
    pass


class Failed(Exception):
    def __init__(self, has_door, text):
        super().__init__(f"failed {'with' if has_door else 'without'} the door: {text}")
        self.has_door = has_door


class Folder:
    """An empty folder for one run, and where the programs are."""

    def __init__(self, directory, given, abi, ranks):
        self.directory, self.abi, self.ranks = directory, abi, ranks
        self.root, self.built = given.root or "", given.built or ""

    def variables(self):
        found = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
                 "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                 "OMPI_MCA_btl_base_warn_component_unused": "0", "HOME": self.directory, "KOLO_DEBUG": "",
                 "WM_PROJECT_DIR": f"{self.root}/usr/share/openfoam", "GPAW_SETUP_PATH": f"{self.root}/usr/share/gpaw-setups"}
        if self.root:
            found["LD_LIBRARY_PATH"] = ":".join(self.root + each for each in (LIBRARIES, LIBRARIES + "/openmpi/lib", "/usr/lib"))
            found["CP2K_DATA_DIR"] = f"{self.root}/usr/share/cp2k/data"
            found["PYTHONPATH"] = f"{self.root}/usr/lib/python3/dist-packages"
        return found

    def make(self, *command):
        """Runs what makes a program's input."""
        done = subprocess.run(command, cwd=self.directory, env=self.variables(), text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: exit {done.returncode}: {done.stdout[-600:]}")

    def own(self, name, file):
        path = f"{self.built}/{self.abi}/{name}/{file}"
        if not self.built or not os.path.exists(path):
            raise Missing(f"{name}/{file}")
        return path

    def grid(self, dimensions=3):
        """The ranks as a grid, even in as many dimensions as can be."""
        sides, rest = [1] * dimensions, self.ranks
        for index in itertools.cycle(range(dimensions)):
            if rest == 1:
                return [str(side) for side in sides]
            factor = next(each for each in range(2, rest + 1) if rest % each == 0)
            sides[index] *= factor
            rest //= factor

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


def netpipe(folder):
    return [folder.find("/usr/bin/NPopenmpi"), "-u", "100000", "-n", "50", "-o", os.path.join(folder.directory, "np.out")]


def npb(name):
    return lambda folder: [folder.own("NPB", name)]


def amg(folder):
    return [folder.own("AMG", "amg"), "-P", *folder.grid(), "-n", "60", "60", "60"]


def hpcg(folder):
    return [folder.own("HPCG", "xhpcg"), "--nx=40", "--rt=0"]


def minife(folder):
    return [folder.own("miniFE", "miniFE.x"), "-nx", "80", "-ny", "80", "-nz", "80", "-verify_solution", "1"]


def miniamr(folder):
    sides = itertools.chain(*zip(("--npx", "--npy", "--npz"), folder.grid()))
    sphere = "--num_objects 1 --object 2 0 0.2 0.2 0.2 0.02 0.02 0.02 0.2 0.2 0.2 0 0 0"
    return [folder.own("miniAMR", "miniAMR.x"), *sides, *f"--nx 8 --ny 8 --nz 8 --num_vars 10 --num_tsteps 20 --num_refine 3 "
            f"--max_blocks 4000 --checksum_freq 1 --report_diffusion {sphere}".split()]


def lulesh(folder):
    return [folder.own("LULESH", "lulesh2.0"), "-s", "12", "-i", "300"]


def comd(folder):
    sides = itertools.chain(*zip(("-i", "-j", "-k"), folder.grid()))
    return [folder.own("CoMD", "CoMD-mpi"), "-e", "-d", folder.own("CoMD", "pots"), *sides, *"-x 16 -y 16 -z 16 -N 50".split()]


def graph500(folder):
    return [folder.own("Graph500", "graph500_reference_bfs"), "14"]


def gromacs(folder):
    program, gmx = folder.find("/usr/bin/gmx_mpi"), folder.find("/usr/bin/gmx")
    folder.write("topol.top", GROMACS_TOPOLOGY)
    folder.write("grompp.mdp", GROMACS_STEPS)
    folder.make(gmx, "solvate", "-cs", "spc216.gro", "-box", "3", "3", "3", "-p", "topol.top", "-o", "conf.gro")
    folder.make(gmx, "grompp", "-maxwarn", "2")
    return [program, "mdrun", "-ntomp", "1", "-pin", "off", "-reprod", "-g", "md.log"]


def openfoam(folder):
    program = folder.find("/usr/bin/icoFoam")
    case = folder.find("/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity")
    shutil.copytree(case, folder.directory, dirs_exist_ok=True)
    folder.edit("system/blockMeshDict", r"\(20 20 1\)", "(80 80 1)")
    folder.edit("system/controlDict", r"^deltaT .*", "deltaT 0.001;")
    folder.edit("system/controlDict", r"^endTime .*", "endTime 0.2;")
    folder.write("system/decomposeParDict", DECOMPOSE % (folder.ranks, *map(int, folder.grid(2))))
    folder.make(folder.find("/usr/bin/blockMesh"))
    folder.make(folder.find("/usr/bin/decomposePar"))
    return [program, "-parallel"]


def mumps(folder):
    """The equations of a grid of 30 x 30 x 30 points."""
    program, side = folder.find("/usr/lib/mumps/dsimpletest"), 30
    points = range(side ** 3)
    entries = [f"{point + 1} {point + 1} 7.0" for point in points]
    for stride in (1, side, side * side):
        for point in points:
            if point // stride % side + 1 < side:
                entries += [f"{point + 1} {point + stride + 1} -1.0", f"{point + stride + 1} {point + 1} -1.0"]
    values = [f"{point % 17 + 1}.0" for point in points]
    folder.write("input", "\n".join([str(len(points)), str(len(entries)), *entries, *values, ""]))
    return ["/bin/sh", "-c", f"exec {program} < input"]


def petsc(folder):
    """Flow in a driven cavity, compiled from PETSc's examples."""
    home = folder.find("/usr/lib/petscdir/petsc3.18") + f"/{os.uname().machine}-linux-gnu-real"
    source = folder.find("/usr/share/petsc/3.18/share/petsc/examples/src/snes/tutorials/ex19.c")
    library = folder.find(f"{LIBRARIES}/libpetsc_real.so.3.18")
    folder.make(f"mpicc.{folder.abi}", "-O1", "-w", f"-I{home}/include", source, "-o", "ex19", library, "-lm",
                "-Wl,--allow-shlib-undefined", f"-Wl,-rpath-link,{os.path.dirname(library)}")
    return ["./ex19", *"-da_grid_x 5 -da_grid_y 5 -da_refine 5 -lidvelocity 10 -grashof 100 -snes_rtol 1e-10 -snes_monitor_short "
            "-ksp_type gmres -pc_type bjacobi".split()]


def python(package, text):
    def prepare(folder):
        folder.find(f"/usr/lib/python3/dist-packages/{package}")
        return ["/usr/bin/python3", folder.write("program.py", text)]
    return prepare


class Program(typing.NamedTuple):
    abis: tuple
    prepare: typing.Callable
    result: str = ""  # a pattern for the lines that must be there, and be the same with the door
    file: str = ""  # a pattern for the names of files that hold results, too
    tolerance: float = 1e-6
    ranks: tuple = ()  # the only ones that it runs on


BOTH, OPEN = ("openmpi", "mpich"), ("openmpi",)
# ScaLAPACK's testers that end by themselves with both libraries on two and on four ranks.
TESTERS = ("xdlu", "xdqr", "xdllt", "xdinv", "xdls", "xdbrd", "xdhrd", "xdtrd", "xdnep", "xdgblu", "xdpbllt", "xdptllt", "xddblu",
           "xclu")
NPB = r"^ (?:Class|Size|Iterations|Verification) +=.*"
THERMO = r"^ +\d+(?: +-?[\d.e+-]+){5}.*"
PROGRAMS = {
    "LAMMPS melt": Program(OPEN, lammps("melt", 300), THERMO, tolerance=1e-4),
    "LAMMPS peptide": Program(OPEN, lammps("peptide", 150), r"^(?:TotEng|PotEng|E_vdwl).*", tolerance=1e-4),
    "LAMMPS rigid": Program(OPEN, lammps("rigid", 2000), THERMO, tolerance=1e-3),
    "HPCC": Program(OPEN, hpcc, r"^Success=1$|PASSED", "hpccoutf.txt"), "mpi4py": Program(OPEN, mpi4py),
    "NWChem": Program(OPEN, nwchem, r"Total SCF energy.*"),
    "CP2K": Program(OPEN, cp2k, r"^ MD\| Potential energy.*|ENERGY\| Total.*"),
    "Quantum ESPRESSO": Program(OPEN, espresso, r"^! +total energy.*"), "MrBayes": Program(OPEN, mrbayes),
    "NetPIPE": Program(OPEN, netpipe, ranks=(2,)),
    "GROMACS": Program(OPEN, gromacs, r"^.* Potential .*\n.*", "md.log", 1e-3),
    "OpenFOAM": Program(OPEN, openfoam, r"^Courant Number mean.*", tolerance=1e-4),
    "GPAW": Program(OPEN, python("gpaw", GPAW), r"^result .*"),
    "MUMPS": Program(OPEN, mumps, r"Solution is[-+.\sE\d]*"),
    "PETSc": Program(OPEN, petsc, r"^Number of SNES iterations.*|SNES Function norm.*", tolerance=1e-3),
    "h5py": Program(OPEN, python("h5py", H5PY), r"^result .*True"),
    "mpi4py-fft": Program(OPEN, python("mpi4py_fft", FFT), r"^result .*True"),
    "AMG": Program(BOTH, amg, r"Iterations = .*|Final Relative Residual Norm = .*"),
    "HPCG": Program(BOTH, hpcg, r"HPCG result is VALID|Scaled residual.*|^Global Problem Dimensions.*", "HPCG-Benchmark*"),
    "miniFE": Program(BOTH, minife, r"^Iteration = .*|^Final Resid Norm: .*|^solution matches.*", tolerance=1e-3),
    "miniAMR": Program(BOTH, miniamr, r"^\d+ var \d+ sum [\d.]+|max_blocks .*"),
    "LULESH": Program(BOTH, lulesh, r"(?:Iteration count|Final Origin Energy) .*", ranks=(8,)),
    "CoMD": Program(BOTH, comd, r"^ +Final energy.*"),
    "Graph500": Program(BOTH, graph500, r"^(?:SCALE|NBFS|min_nedge|mean_nedge|max_nedge):.*"),
    **{f"NPB {name[:2].upper()}": Program(BOTH, npb(name), NPB)
       for name in ("is.A.x", "cg.A.x", "ft.A.x", "mg.A.x", "lu.W.x", "ep.A.x")},
    **{f"NPB {name[:2].upper()}": Program(BOTH, npb(name), NPB, ranks=(4,)) for name in ("bt.W.x", "sp.W.x")},
    **{f"ScaLAPACK {name}": Program(BOTH, scalapack(name), r"^ *\d+ tests completed.*") for name in TESTERS},
}


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


NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"


def is_same(found, expected, tolerance):
    """Whether texts agree, and their numbers nearly."""
    parts, others = ([part.strip() for part in re.split(NUMBER, "\n".join(lines))] for lines in (found, expected))
    return len(parts) == len(others) and all(
        part == other or index % 2 and math.isclose(float(part), float(other), rel_tol=tolerance)
        for index, (part, other) in enumerate(zip(parts, others)))


def results(program, output, directory):
    """The lines that tell a program's results."""
    if not program.result:
        return []
    for path in sorted(glob.glob(os.path.join(directory, program.file))) if program.file else []:
        with open(path, errors="replace") as file:
            output += file.read()
    found = re.findall(program.result, output, flags=re.MULTILINE)
    if not found:
        raise RuntimeError(f"no result: {output[-600:]}")
    return found


def run(given, abi, ranks, program, has_door):
    """Wall time, processor time, and results."""
    with tempfile.TemporaryDirectory(prefix="programs-of-mpi-") as directory:
        folder = Folder(directory, given, abi, ranks)
        command = program.prepare(folder)
        variables = folder.variables() | preloaded(abi, ranks, directory)
        launch = [os.path.join(given.build, "bin/kolo"), "preload", "--"] if has_door else []
        start, used = time.monotonic(), processor_time()
        done = subprocess.run([*launch, f"mpirun.{abi}", "-n", str(ranks), *command], cwd=directory, env=variables, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=given.seconds)
        taken = time.monotonic() - start, processor_time() - used
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stdout[-600:]}")
        return *taken, results(program, done.stdout, directory)


def in_turns(given, abi, ranks, program):
    """Wall times and processor times, without and with the door."""
    times, expected, has_door = {False: [], True: []}, None, False
    try:
        for index in range(given.rounds):
            for has_door in (False, True) if index % 2 == 0 else (True, False):
                *taken, found = run(given, abi, ranks, program, has_door)
                times[has_door].append(taken)
                expected = expected or found
                if not is_same(found, expected, program.tolerance):
                    raise RuntimeError(f"other results: {found}, not {expected}")
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Failed(has_door, " ".join(str(error).split())[:300]) from error
    return [list(zip(*times[each])) for each in (False, True)]


def spread(times):
    return f"{statistics.median(times):.2f} [{min(times):.2f}-{max(times):.2f}]"


def is_slower(door, alone):
    return door > 1.03 * alone and door > alone + 0.02


def row(name, abi, ranks, alone, door):
    """A line of the table, and whether the program is slower."""
    (walls, processors), (door_walls, door_processors) = alone, door
    wall, door_wall, work, door_work = map(statistics.median, (walls, door_walls, processors, door_processors))
    print(f"| {name} | {abi} | {ranks} | {spread(walls)} | {spread(door_walls)} | {door_wall / wall:.2f} | "
          f"{'slower' if is_slower(door_wall, wall) else ''} | {work:.2f} | {door_work:.2f} | "
          f"{door_work / work:.2f} | {'more' if is_slower(door_work, work) else ''} |", flush=True)
    return is_slower(door_wall, wall)


def line(given, name, abi, ranks):
    """Measures, and says whether the door is slower or wrong."""
    try:
        return row(name, abi, ranks, *in_turns(given, abi, ranks, PROGRAMS[name]))
    except Missing as missing:
        print(f"| {name} | {abi} | {ranks} | not here: {missing} | | | | | | | |", flush=True)
    except Failed as failed:
        print(f"| {name} | {abi} | {ranks} | {failed} | | | | | | | |", flush=True)
        return failed.has_door
    return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--mpi", default="openmpi,mpich")
    parser.add_argument("--root", type=os.path.abspath)
    parser.add_argument("--built", type=os.path.abspath)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("programs", nargs="*")
    given = parser.parse_intermixed_args()
    print("| program | MPI | ranks | alone | with the door | ratio | | processor time alone | with the door | ratio | |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    isSlower = False
    for name, program in PROGRAMS.items():
        if given.programs and name not in given.programs:
            continue
        for abi in [abi for abi in program.abis if abi in given.mpi.split(",")]:
            for ranks in program.ranks or map(int, given.ranks.split(",")):
                isSlower |= line(given, name, abi, ranks)
    return 1 if isSlower else 0


if __name__ == "__main__":
    sys.exit(main())
