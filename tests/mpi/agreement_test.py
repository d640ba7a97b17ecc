"""Ranks that differ: in whether they have the door, in its settings, in the host, in when they register a callback. Results
are those of MPI, nothing hangs, and one line says what the door left to MPI.

usage: agreement_test.py CLASS...; the environment as for mpi_test.py.
"""
import os
import re
import shutil
import subprocess
import unittest

from mpi_test import ABI, BUILD, DOOR, OPEN_MPI, SETTINGS, MpiTest, skip

KOLO = os.path.join(BUILD, "bin", "kolo")
LACK = "these lack the door: "


class AgreementTest(MpiTest):
    def setUp(self):
        super().setUp()
        self.cases, self.corners = self.build("cases.c", name="cases"), self.build("corners.c", name="corners")

    def launch(self, *words, launcher=(os.environ["KOLO_MPI_RUN"],), seconds=60, **variables):
        """Returns the output, both streams, of a launcher that must succeed."""
        environment = {**os.environ, **OPEN_MPI, **SETTINGS, "XDG_CACHE_HOME": self.directory, **variables}
        try:
            done = subprocess.run([*launcher, *words], env=environment, cwd=self.directory, text=True, errors="replace",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        except subprocess.TimeoutExpired as expired:
            self.fail(f"{words} did not end in {seconds} s: {expired.output}")
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def partly(self, have, *command, settings=None, **options):
        """One line of programs. `have`: for each rank whether it has the door; `settings`: more variables of some ranks."""
        words = []
        for rank, has in enumerate(have):
            preload = [f"LD_PRELOAD={DOOR}"] if has else ["-u", "LD_PRELOAD"]
            words += [":"] * (rank > 0) + ["-n", "1", "env", *preload, *(settings or {}).get(rank, []), *command]
        return self.launch(*words, **options)


class Agreement(AgreementTest):
    def test_ranks_without_the_door(self):
        hashes = re.compile(r"^rank \d+: \w{16}$", re.MULTILINE)
        for have, lack in (((1, 0), "1"), ((0, 1), "0"), ((0, 1, 1, 1), "0"), ((1, 0, 0, 1), "1 to 2"), ((1, 0, 1, 0), "1 and 3")):
            for case in ("in-place", "alike", "forwarded") if have == (0, 1) else ("in-place",):
                output = self.partly(have, self.cases, case)
                self.assertEqual(re.findall(LACK + r"(.*?)\. LD_PRELOAD", output), [lack], output)
                self.assertIn(f"of {len(have)} ranks", output)
                self.assertRegex(output, r" 0 carried .*\d+ ranks without the door")
        alone, under = (self.partly(have, self.cases, "random") for have in ((0, 0), (1, 0)))
        self.assertEqual(len(hashes.findall(alone)), 2, alone)
        self.assertEqual(sorted(hashes.findall(alone)), sorted(hashes.findall(under)))

    def test_nobody_lacks_it(self):
        for ranks in (2, 4):
            output = self.partly([1] * ranks, self.cases, "in-place")
            self.assertNotIn(LACK, output)
            self.assertGreaterEqual(self.counts(output)[0], 10)

    def test_communicators_of_ranks_that_have_it_are_carried(self):
        for have in ((1, 1, 0, 0), (0, 0, 1, 1)):
            output = self.partly(have, self.corners, "halves")
            self.assertRegex(output, r" 37 carried .*37 ranks without the door")

    def test_ranks_that_would_begin_at_other_calls(self):
        output = self.partly((1, 1), self.cases, "in-place", settings={1: ["KOLO_MPI_CARRY_FROM=2"]})
        self.assertEqual(output.count("another KOLO_MPI_CARRY_FROM: 1."), 1, output)
        self.assertRegex(output, r" 0 carried .*\d+ ranks with another door")

    def test_a_program_that_initialises_mpi_past_the_door(self):
        output = self.partly((1, 1), self.corners, "past")
        self.assertEqual(output.count("was initialised past the door"), 1, output)
        self.assertRegex(output, r" 0 carried .*MPI_Init that the door did not see")

    def test_a_launcher_without_a_store(self):
        if ABI == "openmpi":
            self.skipTest("Open MPI itself needs PMIx")
        hidden = ["PMI_JOBID=1"]  # as Slurm's processes have
        output = self.partly((1, 1), self.cases, "in-place", settings={0: hidden, 1: hidden})
        self.assertEqual(output.count("calls are forwarded: the launcher offers no PMI of version 1"), 1, output)
        self.assertRegex(output, r" 0 carried .*launcher that does not say which ranks have the door")
        output = self.partly((1, 1), self.cases, "in-place", settings={1: hidden})
        self.assertIn(LACK + "1.", output)

    def test_ranks_of_another_world(self):
        if ABI != "openmpi":
            self.skipTest("Debian's MPICH cannot spawn")
        output = self.partly((1, 1), self.corners, "spawned", LD_PRELOAD=DOOR)
        self.assertRegex(output, r" 37 carried .*37 ranks of another MPI_COMM_WORLD")

    def test_callbacks_of_finalize(self):
        for ranks in (2, 4):
            output = self.partly([1] * ranks, self.corners, "finalize")
            self.assertRegex(output, r"64 calls: 58 carried .*, 6 forwarded \(6 first calls\)")


class Corners(AgreementTest):
    """What a rank passes, and how it finds MPI."""

    def test_absolute_addresses(self):
        for ranks, carried in ((2, 13), (4, 19)):
            output = self.partly([1] * ranks, self.corners, "bottom")
            self.assertEqual(self.counts(output)[0], carried)

    def test_wrong_buffers_are_an_error_as_in_mpi(self):
        for number in range(25):
            code, output = self.mpirun(2, self.corners, "misplaced", str(number), seconds=20)
            self.assertNotEqual(code, 0, (number, output))
            self.assertNotRegex(output, "(?i)signal 11|segmentation|went on", (number, output))

    def test_a_program_that_opens_mpi_while_it_runs(self):
        library, other = "libmpi.so.40", "libmpich.so.12"
        if ABI == "mpich":
            library, other = other, library
        past = self.build("past.c", compiler="cc", name="past")
        output = self.partly((1, 1), past, library)
        self.assertEqual(output.count("nothing was carried: this program finds the functions of MPI by dlopen"), 1, output)
        self.assertEqual(self.partly((0, 0), past, library), "")
        done = subprocess.run([past, other], env={**os.environ, **OPEN_MPI, "LD_PRELOAD": DOOR}, capture_output=True,
                              text=True, timeout=60)
        if done.returncode == 0:  # the other one is there, and runs a rank alone
            self.assertRegex(done.stderr, rf"nothing was carried: this program finds the functions of \S*{other}\S* by dlopen")


class Hosts(AgreementTest):
    """Hosts that this machine plays: the launcher reaches them by a command that clears the environment, as ssh does."""

    def setUp(self):
        super().setUp()
        if not os.path.exists(KOLO):
            skip("this build has no kolo, whose preload is tested")
        agent = os.path.join(self.directory, "agent")
        with open(agent, "w") as file:
            kept = " ".join(f"{name}={value}" for name, value in OPEN_MPI.items() if "ALLOW" in name)
            file.write(f'#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nshift\n'
                       f'exec env -i PATH="$PATH" HOME="$HOME" {kept} bash -c "$*"\n')
        os.chmod(agent, 0o755)
        here = os.uname().nodename
        self.hosts = (["--mca", "plm_rsh_agent", agent, "-H", f"{here}:1,other:1"] if ABI == "openmpi" else
                      ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", f"{here},other"])

    def preloaded(self, *words, **variables):
        launcher = (KOLO, "preload", "--", os.environ["KOLO_MPI_RUN"])
        return self.launch(*self.hosts, *words, launcher=launcher, LD_PRELOAD="", **variables)

    def expectCarriedByBoth(self, output):
        self.assertNotIn(LACK, output)
        self.assertGreaterEqual(self.counts(output)[0], 10)

    def test_preload_reaches_the_other_host(self):
        self.expectCarriedByBoth(self.preloaded("-n", "2", self.cases, "in-place"))
        self.expectCarriedByBoth(self.preloaded("-n", "1", self.cases, "in-place", ":", "-n", "1", self.cases, "in-place"))
        # The other host must have the settings too, or ranks would begin at other calls.
        self.expectCarriedByBoth(self.preloaded("-n", "2", self.cases, "in-place", KOLO_MPI_CARRY_FROM="2"))

    def test_preload_beside_what_the_user_forwards(self):
        tail = ("-n", "1", self.cases, "in-place", ":", "-n", "1", self.cases, "in-place")
        if ABI == "openmpi":
            self.expectCarriedByBoth(self.preloaded("-x", "HOME", *tail))
            self.expectCarriedByBoth(self.preloaded("--mca", "mca_base_env_list", "HOME", *tail))
            self.expectCarriedByBoth(self.preloaded(*tail, OMPI_MCA_mca_base_env_list="HOME"))
        else:
            for option in (["-genvnone"], ["-genvlist", "HOME"], ["-envnone"], ["-envlist", "HOME"]):
                self.expectCarriedByBoth(self.preloaded(*option, *tail))

    def test_a_launcher_that_does_not_forward(self):
        only = [] if ABI == "openmpi" else ["-genvnone"]
        output = self.launch(*self.hosts, *only, "-n", "2", self.cases, "in-place", LD_PRELOAD=DOOR)
        self.assertIn(LACK + "1.", output)
        self.assertRegex(output, r" 0 carried .*\d+ ranks without the door")


class Fortran08(MpiTest):
    def test_collectives_of_the_module_mpi_f08(self):
        compiler = shutil.which(f"mpif90.{ABI}")
        if not compiler or not shutil.which("gfortran"):
            skip(f"no gfortran for {ABI}")
        self.assertEqual(self.counts(self.expectCarried(15, 2, self.build("fortran08.f90", compiler))), (15, 3))


if __name__ == "__main__":
    unittest.main(verbosity=2)
