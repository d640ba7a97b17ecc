"""Systems that allow less than usual: each is named as the cause. As root, in namespaces of their own."""
import os
import shutil
import subprocess
import unittest

from tool import KOLO, ToolTest


@unittest.skipIf(os.geteuid() != 0, "only root can make such systems")
class Systems(ToolTest):
    def inside(self, namespaces, setup, *command, **changes):
        """The command after `setup` in a shell, in new namespaces."""
        done = subprocess.run(["unshare", *namespaces, "sh", "-ec", setup + '\nexec "$@"', "sh", *command], cwd=self.directory,
                              env=self.environment(**changes), text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_a_program_with_more_rights_than_its_caller_reads_no_variable(self):
        os.mkdir(self.file("bin"))
        os.symlink(os.path.join(os.path.dirname(os.path.dirname(KOLO)), "share"), self.file("share"))
        program = shutil.copy(KOLO, self.file("bin/kolo"))
        shutil.copy(KOLO + "-compiler", self.file("bin/kolo-compiler"))
        os.chmod(self.directory, 0o755)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o6755)
        variables = {"KOLO_PLUGIN_PATH": "/nowhere.so", "KOLO_DEBUG": "wrong"}
        for path, is_heard in ((program, False), (KOLO, True)):
            done = subprocess.run([path, "doctor"], env=self.environment(**variables), text=True, capture_output=True, timeout=60)
            [line] = [line for line in done.stdout.splitlines() if line.startswith("plugin  ")]
            self.assertEqual("KOLO_DEBUG='wrong'" in line, is_heard, done.stdout + done.stderr)

    def test_no_code_in_memory_files(self):
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=2", "-o", "x.so")
        command = [KOLO, "run", "x.so", "--mesh", "rank=2", "--bytes", "1M"]
        for value, wanted in (("1", 0), ("2", 2)):
            code, said = self.inside(["--pid", "--fork", "--mount-proc"], f"echo {value} > /proc/sys/vm/memfd_noexec", *command)
            if "nonexistent" in said or "No such file" in said:
                self.skipTest("this kernel has no vm.memfd_noexec")
            self.assertEqual(code, wanted, said)
            self.assertIn("every byte is right" if wanted == 0 else "set vm.memfd_noexec to 0 or 1", said)

    def test_no_code_in_the_temporary_folder(self):
        self.copy("two.cpp")
        code, said = self.inside(["--mount"], f"mount -t tmpfs -o noexec none {self.temporary}", KOLO, "compile", "two.cpp", "--mesh",
                                 "rank=4")
        self.assertEqual(code, 2, said)
        self.assertIn("mounted noexec: set TMPDIR", said)
        self.assertNotIn("two.cpp:1", said)

    def group(self, name, **files):
        folder = self.file(name)
        os.makedirs(folder, exist_ok=True)
        for key, value in files.items():
            with open(os.path.join(folder, "memory." + key), "w") as file:
                file.write(value)

    def test_limits_of_control_groups(self):
        """Files stand for the groups of the process: /proc/self and the mounts say where they are."""
        self.succeeds("compile", "ringAllReduce", "--mesh", "rank=2", "-o", "x.so")
        unlimited, small, held = "9223372036854771712\n", f"{250 << 20}\n", f"{50 << 20}\n"
        first = {"usage_in_bytes": held, "stat": "inactive_file 0\ntotal_inactive_file 1048576\n"}
        second = {"current": held, "stat": "inactive_file 1048576\n"}
        cases = {
            "version 1": ("9:cpu,memory:/jobs/a\n0::/\n", "/", first, ("limit_in_bytes", unlimited, small)),
            "version 1, in the group above": ("9:memory:/jobs/a/b\n", "/", first, ("limit_in_bytes", unlimited, small)),
            "version 1, in a container": ("9:memory:/docker/jobs/a\n", "/docker", first, ("limit_in_bytes", unlimited, small)),
            "version 2": ("0::/jobs/a\n", "/", second, ("max", "max\n", small)),
            "version 2, in a container": ("0::/docker/jobs/a\n", "/docker", second, ("max", "max\n", small)),
        }
        for name, (own, root, used, (limit, none, some)) in cases.items():
            for value in (some, none):
                with self.subTest(name=name, limit=value):
                    shutil.rmtree(self.file("groups"), ignore_errors=True)
                    self.group("groups", **used, **{limit: none})
                    self.group("groups/jobs", **used, **{limit: none})
                    self.group("groups/jobs/a", **used, **{limit: value})
                    self.group("groups/jobs/a/b", **used, **{limit: none})
                    self.write("own", own)
                    kind = "cgroup2 none rw" if used is second else "cgroup none rw,memory"
                    self.write("mounts", f"30 20 0:26 {root} {self.file('groups')} rw,nosuid shared:9 - {kind}\n")
                    setup = "mount --bind own /proc/$$/cgroup; mount --bind mounts /proc/$$/mountinfo"
                    code, said = self.inside(["--mount"], setup, KOLO, "run", "x.so", "--mesh", "rank=2", "--bytes", "200M",
                                             "--ranks-as", "threads")
                    self.assertEqual(code, 3 if value == some else 0, said)
                    self.assertIn("cannot allocate" if value == some else "every byte is right", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
