"""first_light pack, where Kolo is built: plugins, and the programs that run them."""

import concurrent.futures
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile

from light.build import SOURCE, build_programs
from light.machine import ask
from light.plain import compile_plain

CODED = {"bulk": "coded", "ll": "coded-ll", "ll128": "coded-ll128"}  # by protocol: what it is called with codecs
SIZES = {1: [(2,), (4,), (8,)], 2: [(1, 2), (2, 2), (2, 4)], 3: [(1, 1, 2), (1, 2, 2), (2, 2, 2)],
         4: [(1, 1, 1, 2), (1, 1, 2, 2), (1, 2, 2, 2)]}


def algorithms(kolo):
    """Names and mesh dimensions of the shipped algorithms."""
    listed = subprocess.run([kolo, "list"], check=True, capture_output=True, text=True).stdout
    return [(line.split()[0], line.split()[-1].split(",")) for line in listed.splitlines()[1:]]


def compile_command(args, name, dims, protocol, output):
    meshes = [",".join(f"{dim}={size}" for dim, size in zip(dims, sizes)) for sizes in SIZES[len(dims)]]
    if args.stand_in:
        return [args.stand_in, name, protocol, output, *meshes]
    return [args.kolo, "compile", name, *(word for mesh in meshes for word in ("--mesh", mesh)), "--target",
            f"cpu,cuda:{args.architecture}", "--ptxas", args.ptxas, "--device-types", "all", "--device-ops", "all",
            "--protocol", protocol, "-o", output]


def has_codecs(args, plugin):
    manifest = subprocess.run([args.kolo, "inspect", plugin, "--json"], check=True, capture_output=True, text=True).stdout
    return any("granule" in program for program in json.loads(manifest)["programs"])


def pack_one(args, name, dims, protocol):
    """"NAME.PROTOCOL" of the packed plugin; nothing if the algorithm has no such protocol."""
    compiler = pathlib.Path(args.stand_in or args.kolo)
    for kind in (protocol, CODED[protocol]):
        packed = args.folder / f"{name}.{kind}.so.xz"
        if packed.exists() and packed.stat().st_mtime > compiler.stat().st_mtime:
            return f"{name}.{kind}"
    with tempfile.TemporaryDirectory() as folder:
        plugin = pathlib.Path(folder, "plugin.so")
        done = subprocess.run(compile_command(args, name, dims, protocol, plugin), capture_output=True, text=True,
                              check=False)
        if protocol != "bulk" and "this sends to slots" in done.stderr:
            return None
        if done.returncode != 0:
            sys.exit(f"first_light: {name}, {protocol}: {done.stderr.strip()}")
        kind = CODED[protocol] if has_codecs(args, plugin) else protocol
        packed = args.folder / f"{name}.{kind}.so.xz"
        part = packed.with_suffix(".part")
        part.write_bytes(lzma.compress(plugin.read_bytes()))
        part.replace(packed)
    return f"{name}.{kind}"


def write_manifest(args, plugins, plain=None):
    """Refuses a folder that is for another device: what it holds would be taken for this one's."""
    path, driver = args.folder / "pack.json", "stand-in" if args.stand_in else "cuda"
    before = json.loads(path.read_text()) if path.exists() else {"driver": driver, "architecture": args.architecture}
    if (before["driver"], before["architecture"]) != (driver, args.architecture):
        sys.exit(f"first_light: {args.folder} is for {before['architecture']} and the driver {before['driver']}; "
                 "choose another folder")
    commit = ask("git", "-C", str(SOURCE), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    manifest = {"driver": driver, "architecture": args.architecture, "commit": commit, "plain": plain, "plugins": plugins}
    path.write_text(json.dumps(manifest, indent=1) + "\n")


def pack(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    write_manifest(args, [])
    wanted = [(name, dims, protocol) for name, dims in algorithms(args.kolo) for protocol in CODED
              if not args.only or {f"{name}.{protocol}", f"{name}.{CODED[protocol]}"} & set(args.only)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        packed = [name for name in pool.map(lambda each: pack_one(args, *each), wanted) if name]
    if args.programs if args.programs is not None else not args.stand_in:
        build_programs(args.work, args.folder / "programs", args.jobs)
    plain = compile_plain(args.folder / "plain.image", args.architecture, args.stand_in)
    write_manifest(args, packed, plain)
    total = sum(path.stat().st_size for path in args.folder.rglob("*") if path.is_file())
    print(f"{len(packed)} plugins in {args.folder}, {total / 1e6:.1f} MB with the programs")
    return 0
