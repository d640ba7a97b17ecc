"""kolo preload and kolo doctor: what they find, and what they say when they find nothing."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from tool import KOLO, ToolTest

LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(KOLO))), "lib")


def door(abi):
    return os.path.join(LIBRARIES, f"libkolo_mpi_{abi}.so")


class Preload(ToolTest):
    def test_finds_the_mpi_of_the_launcher(self):
        for abi in ("openmpi", "mpich"):
            launcher = f"mpirun.{abi}"
            if shutil.which(launcher) and os.path.exists(door(abi)):
                text = self.succeeds("preload", "--print", "--", launcher, "-n", "2", "true", LD_PRELOAD="")
                # The launcher itself does not load the door.
                option = f"-x LD_PRELOAD={door(abi)} " if abi == "openmpi" else f"-genv LD_PRELOAD {door(abi)} "
                self.assertRegex(text, rf"^{launcher} {option}.*-n 2 true\n$")

    def test_forwards_the_variables_by_the_options_of_the_launcher(self):
        if not os.path.exists(os.path.join(LIBRARIES, "libkolo_nccl.so")):
            self.skipTest("no door that is loaded without a program")
        environment = self.environment(KOLO_SECRET="a secret of the tests", KOLO_STATS="1")
        known = ["LD_PRELOAD", *sorted(name for name in environment if name.startswith("KOLO_"))]
        nccl = os.path.join(LIBRARIES, "libkolo_nccl.so")
        names, settings = ",".join(known), ",".join(known[1:])
        others = " ".join(f"-x {name}" for name in known[1:] if name != "KOLO_STATS")
        separate = f"-x LD_PRELOAD={nccl} " + " ".join(f"-x {name}" for name in known[1:])
        preload, hydra = f"LD_PRELOAD={nccl}", f"mpirun.mpich -genv LD_PRELOAD {nccl}"
        for command, variables, expected in (
                ("srun -n 2 app", {}, [preload]),
                ("srun -n 2 app", {"SLURM_EXPORT_ENV": "NONE"}, [preload, f"SLURM_EXPORT_ENV={names}"]),
                ("srun --export=ALL,A=1 app", {}, [preload]),
                ("srun --export=NONE app", {}, [preload, f"srun --export={names} app"]),
                ("srun --export=ALL,LD_PRELOAD=a.so app", {}, [preload, f"srun --export=ALL,LD_PRELOAD={nccl}:a.so app"]),
                ("srun -n 2 app", {"SLURM_EXPORT_ENV": "ALL"}, [preload]),
                ("srun --export LD_PRELOAD=a.so,B app", {},
                 [preload, f"srun --export LD_PRELOAD={nccl}:a.so,B,{names.removeprefix('LD_PRELOAD,')} app"]),
                ("srun --export A,B app", {}, [preload, f"srun --export A,B,{names} app"]),
                ("mpirun.openmpi -n 1 app : -n 1 app", {}, [f"mpirun.openmpi {separate} -n 1 app : {separate} -n 1 app"]),
                ("timeout 9 mpirun.openmpi app", {}, [f"timeout 9 mpirun.openmpi {separate} app"]),
                ("mpirun.openmpi -x LD_PRELOAD=/x -x KOLO_STATS app", {},
                 [f"mpirun.openmpi {others} -x LD_PRELOAD={nccl}:/x -x KOLO_STATS app"]),
                ("mpirun.openmpi -x LD_PRELOAD -x KOLO_STATS app", {"LD_PRELOAD": "libm.so.6"},
                 [f"mpirun.openmpi {others} -x LD_PRELOAD={nccl}:libm.so.6 -x KOLO_STATS app"]),
                ("mpirun.openmpi --mca mca_base_env_list A app", {},
                 [preload, f"mpirun.openmpi --mca mca_base_env_list A;{names.replace(',', ';')} app"]),
                ("mpirun.openmpi app", {"OMPI_MCA_mca_base_env_list": "A"},
                 [preload, f"OMPI_MCA_mca_base_env_list=A;{names.replace(',', ';')}"]),
                ("mpirun.mpich -n 1 app", {}, [f"{hydra} -n 1 app"]),
                ("mpirun.mpich -n 1 app", {"LD_PRELOAD": "libm.so.6"}, [f"{hydra}:libm.so.6 -n 1 app"]),
                ("mpirun.mpich -genvnone -n 1 app : -envlist A app", {},
                 ["KOLO_LAST_VARIABLE=1", f"{hydra} -genvlist {settings} -n 1 app : -envlist A,{settings} app"]),
                ("mpirun.mpich -genv LD_PRELOAD /x app", {}, [f"mpirun.mpich -genv LD_PRELOAD {nccl}:/x app"])):
            launcher = next(word for word in command.split() if word.startswith(("mpirun", "srun")))
            if launcher != "srun" and not shutil.which(launcher):
                continue
            given = {"LD_PRELOAD": "", "KOLO_STATS": "1", "KOLO_SECRET": "a secret of the tests", **variables}
            text = self.succeeds("preload", "--nccl", "--print", "--", *command.split(), **given)
            read = [shlex.split(line) for line in text.splitlines()]  # as a shell reads it, to which a user gives it
            self.assertEqual(read, [line.split() for line in expected], command)

    def test_what_it_prints_is_quoted_for_a_shell(self):
        if not shutil.which("mpirun.mpich") or not os.path.exists(door("mpich")):
            self.skipTest("no door for MPICH (Debian: libmpich-dev mpich)")
        words = ["sh", "-c", "echo 'a b'; exit", "", "$HOME"]
        text = self.succeeds("preload", "--print", "--", "mpirun.mpich", "-n", "2", *words, LD_PRELOAD="")
        self.assertEqual(shlex.split(text.splitlines()[-1])[-len(words):], words)

    def test_runs_the_command_with_the_library(self):
        if not shutil.which("mpirun.openmpi") or not os.path.exists(door("openmpi")):
            self.skipTest("no door for Open MPI (Debian: libopenmpi-dev openmpi-bin)")
        text = self.succeeds("preload", "--", "mpirun.openmpi", "--allow-run-as-root", "-n", "1", "printenv",
                             "LD_PRELOAD", LD_PRELOAD="")
        self.assertEqual(text.strip(), door("openmpi"))

    def test_prints_and_runs_nothing(self):
        self.write("app", "#!/bin/sh\ntouch ran\n")
        self.write("start", "#!/bin/sh\n# as some mpirun: exec mpiexec.hydra\ntouch ran\n")
        for name in ("app", "start"):
            os.chmod(self.file(name), 0o755)
        self.refuses(2, "preload", "--print", "--", "./app", says="no word of './app' loads an MPI")
        self.refuses(2, "preload", "--", "./app", says="no word of './app' loads an MPI")
        self.assertFalse(os.path.exists(self.file("ran")))
        if os.path.exists(door("mpich")):
            for word, path in (("./start", os.environ["PATH"]), ("start", ":" + os.environ["PATH"])):
                text = self.succeeds("preload", "--print", "--", word, "./app", LD_PRELOAD="", PATH=path)
                self.assertEqual(text, f"LD_PRELOAD={door('mpich')}\n")
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_runs_no_loader_that_anybody_may_have_put_there(self):
        self.write("loader", f"#!/bin/sh\ntouch {self.file('ran')}\n")
        os.chmod(self.file("loader"), 0o755)
        with open(shutil.which("true"), "rb") as file:
            executable = file.read()
        at = executable.index(b"/ld-linux-")
        start, end = executable.rindex(b"\0", 0, at) + 1, executable.index(b"\0", at)
        link = tempfile.mktemp(prefix="/tmp/", dir="")  # as short as the path of the loader
        os.symlink(self.file("loader"), link)
        self.addCleanup(os.remove, link)
        named = executable[:start] + link.encode().ljust(end - start, b"\0") + executable[end:]
        with open(self.file("app"), "wb") as file:
            file.write(named)
        os.chmod(self.file("app"), 0o755)
        self.assertLessEqual(len(link), end - start)
        self.refuses(2, "preload", "--print", "--", "./app", says="no word of './app' loads an MPI")
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_finds_libraries_without_a_program_of_path(self):
        self.write("ldd", f"#!/bin/sh\ntouch {self.file('ran')}\n")
        os.chmod(self.file("ldd"), 0o755)
        path = self.directory + ":" + os.environ["PATH"]
        self.refuses(2, "preload", "--print", "--", "true", says="no word of 'true' loads an MPI", PATH=path)
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_a_folder_of_path_that_may_not_be_read(self):
        os.mkdir(self.file("shut"), 0)
        self.write("as_nobody", "import os, sys\nos.setgid(65534) or os.setuid(65534)\nos.execv(sys.argv[1], sys.argv[1:])\n")
        command = [KOLO, "preload", "--print", "--", "mpirun.openmpi", "true"]
        if os.geteuid() == 0:
            command = [sys.executable, self.file("as_nobody"), *command]
            os.chmod(self.directory, 0o755)
        path = f"{self.file('shut')}:/proc/1/root/bin:{os.environ['PATH']}"
        variables = {name: value for name, value in self.environment(PATH=path, LD_PRELOAD="").items()
                     if not name.startswith("KOLO_")}  # which are forwarded
        done = subprocess.run(command, env=variables, text=True, capture_output=True, timeout=60)
        if shutil.which("mpirun.openmpi") and os.path.exists(door("openmpi")):
            expected = f"mpirun.openmpi -x LD_PRELOAD={door('openmpi')} true\n"
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, expected, ""))
        else:
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_command_without_mpi(self):
        self.refuses(2, "preload", "--", "true", says=["preload: no word of 'true' loads an MPI", "LD_PRELOAD"])

    def test_no_command(self):
        self.refuses(2, "preload", says="command")


class Doctor(ToolTest):
    def test_shows_every_part_on_one_screen(self):
        text = self.succeeds("doctor")
        for word in ("kolo", "LLVM", "CUDA", "HIP", "NCCL", "RCCL", "Open MPI", "MPICH", "MPI 5 ABI", "libfabric", "PyTorch",
                     "this machine", "own table", "shipped table", "plugin", "for 2, 3, 4,", "a call", "KOLO_STATS=1"):
            self.assertIn(word, text)
        self.assertLess(len(text.splitlines()), 25)

    def test_says_who_may_join_a_world(self):
        self.assertRegex(self.succeeds("doctor"), "rendezvous +open: whoever reaches rank 0's port may join")
        self.assertRegex(self.succeeds("doctor", KOLO_SECRET="short"), "rendezvous +none can start: .*KOLO_SECRET")
        said = self.succeeds("doctor", KOLO_SECRET="a secret of the tests")
        self.assertRegex(said, "rendezvous +(closed: every rank proves|none can start: .* without libsodium)")
        self.assertNotIn("of the tests", said)

    def test_says_how_many_ranks_the_descriptors_allow(self):
        command = ["sh", "-c", 'ulimit -Sn 100; ulimit -Hn 264; exec "$0" doctor', KOLO]
        text = subprocess.run(command, cwd=self.directory, env=self.environment(), capture_output=True, text=True).stdout
        self.assertRegex(text, "descriptors +264 by `ulimit -Hn`: .* about 200 ranks.* about 100 ranks")

    def test_shows_what_a_call_would_use(self):
        call = ("doctor", "--collective", "broadcast", "--bytes", "65536", "--ranks")
        self.assertRegex(self.succeeds(*call, "4"), r"broadcast of 65536 bytes on 4 ranks, ordinary memory: \S*Broadcast")
        self.assertIn("forwarded", self.succeeds(*call, "17"))

    def test_a_bad_plugin_is_shown_and_the_rest_too(self):
        text = self.succeeds("doctor", KOLO_PLUGIN_PATH="/nowhere.so")
        self.assertIn("none: KOLO_PLUGIN_PATH: /nowhere.so", text)
        self.assertIn("to set", text)

    def test_wrong_words(self):
        self.refuses(2, "doctor", "--collective", "reduce_all", says="--collective 'reduce_all'")
        self.refuses(2, "doctor", "--memory", "fast", says="--memory 'fast'")


if __name__ == "__main__":
    unittest.main(verbosity=2)
