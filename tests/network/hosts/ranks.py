"""Ranks of RankProgram.cpp on hosts, for the tests of faults."""
import collections
import os
import pathlib
import select
import subprocess

# What a rank says at its end: a StatusCode, the rank at fault, the time of CLOCK_MONOTONIC, and why.
Said = collections.namedtuple("Said", "code culprit time message")


class Launch:
    """`per_host` ranks on each host, each of which has joined."""

    def __init__(self, made, per_host, words, environment):
        self.made, self.size = made, made.number * per_host
        self.hosts = [rank // per_host for rank in range(self.size)]
        self.ranks = []
        for rank in range(self.size):
            variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.size), "MASTER_ADDR": made.address(0),
                         "LOCAL_RANK": str(rank % per_host), "MASTER_PORT": "29520", "LC_ALL": "C", **environment}
            self.ranks.append(made.start(self.hosts[rank], words, env=variables, bufsize=0, stdout=subprocess.PIPE))
        try:
            for rank in range(self.size):
                if (line := self.line(rank)) != "joined\n":
                    raise RuntimeError(f"rank {rank}: {line}")
        except BaseException:
            self.end()
            raise

    def line(self, rank, seconds=30):
        """The next line of a rank; "": it ended without one."""
        if not self.has_spoken(rank, seconds):
            raise AssertionError(f"rank {rank} says nothing for {seconds} s")
        return self.ranks[rank].stdout.readline().decode()

    def has_spoken(self, rank, seconds=0):
        return bool(select.select([self.ranks[rank].stdout], [], [], seconds)[0])

    def hear(self, rank):
        line = self.line(rank)
        fields = line.rstrip("\n").split(" ", 3)
        if len(fields) != 4:
            raise AssertionError(f"rank {rank} ended, or said: {line}")
        return Said(fields[0], int(fields[1]), float(fields[2]), fields[3])

    def names_host(self, said):
        """Whether the message names the host of the rank at fault."""
        return said.culprit >= 0 and f"host {self.made.name}{self.hosts[said.culprit]}" in said.message

    def pid(self, rank):
        """Of the program, which nsenter waits for."""
        nsenter = self.ranks[rank].pid
        return int(pathlib.Path(f"/proc/{nsenter}/task/{nsenter}/children").read_text(encoding="ascii").split()[0])

    def signal(self, ranks, number):
        for pid in [self.pid(rank) for rank in ranks]:  # all at once
            os.kill(pid, number)

    def end(self):
        for process in self.ranks:
            process.kill()
            process.wait()
            process.stdout.close()
