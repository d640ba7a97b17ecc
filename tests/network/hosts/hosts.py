"""Several hosts on this machine, for tests and benchmarks: network namespaces joined by a bridge, links shaped by tc.

Each host has its own network, host name, IPC, process and mount namespaces and its own /dev/shm, so ranks of different
hosts see neither each other's processes nor each other's shared memory. Needs root, iproute2 and util-linux.

    with Hosts("k", 2, rate="2gbit") as hosts:
        process = hosts.start(0, ["hostname"], stdout=subprocess.PIPE)
        hosts.link(1, "down")
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def missing():
    """Why hosts cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "tc", "unshare", "nsenter", "ps", "ss"):
        if not shutil.which(tool):
            return f"needs {tool}"
    probe = f"kolo-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"cannot make a network namespace: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


class Hosts:
    """`number` hosts NAME0, NAME1, ... at 10.77.0.1, 10.77.0.2, ...; `rate` as tc writes it, each way; None: not shaped.

    `delay_us` from host to host, one way; `loss` and `reordered` in percent of the
    packets, on each of the two links from host to host. They need a C compiler. `congestion`: TCP's congestion control;
    None: this machine's. `own_address`: what each host takes its own name for, as Debian's 127.0.1.1.
    """

    def __init__(self, name, number, rate=None, mtu=1500, delay_us=0, loss=0, reordered=0, congestion=None,
                 own_address=None):
        self.name, self.number, self.rate, self.mtu = name, number, rate, mtu
        self.delay_us, self.loss, self.reordered, self.congestion = delay_us, loss, reordered, congestion
        self.own_address = own_address
        self.keepers, self.inits, self.wires = [], [], []

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def command(self, host, words):
        """The command that runs `words` on a host, in this folder."""
        return ["nsenter", "--target", str(self.inits[host]), "--net", "--uts", "--ipc", "--pid", "--mount",
                f"--wdns={os.getcwd()}", *words]

    def front_command(self, words):
        """The command that runs `words` beside the hosts, as on a cluster's front end, at 10.77.0.254."""
        return ["ip", "netns", "exec", self._switch(), "unshare", "--uts", "--mount", "sh", "-c",
                f'mount --bind {self.names} /etc/hosts; hostname {self.name}-front; exec "$@"', "sh", *words]

    def start(self, host, words, **options):
        return subprocess.Popen(self.command(host, words), **options)

    def expect_nothing_left(self, was_cut=False):
        """Waits some seconds until hosts have nothing beside the processes that keep their namespaces. `was_cut`: a link was down,
        so that kernels close connections of processes that have ended later."""
        until = time.monotonic() + 5
        while left := self._leftovers(was_cut):
            if time.monotonic() > until:
                raise AssertionError(f"left: {left}")
            time.sleep(0.1)

    def _leftovers(self, was_cut):
        left, ended = [], ("TIME-WAIT", *(("FIN-WAIT", "CLOSING", "LAST-ACK") if was_cut else ()))
        for host in range(self.number):
            run = lambda *words: subprocess.run(self.command(host, words), capture_output=True, text=True,
                                                check=True).stdout.split("\n")
            left += [line for line in run("ps", "-e", "-o", "comm=") if line.strip() not in ("sh", "sleep", "ps", "")]
            left += [line for line in run("ss", "-Htan") if line and not line.startswith(ended)]
            left += [line for line in run("ls", "/dev/shm") if line]
        return left

    def link(self, host, state):
        """`state`: down or up."""
        self._ip(self._switch(), "link", "set", f"port{host}", state)

    def reboot(self, host):
        """Ends a host without a word to the others, and starts it again: its connections are unknown there."""
        self._ip(self._switch(), "link", "del", f"port{host}")
        os.kill(self.inits[host], signal.SIGKILL)
        self.keepers[host].wait()
        subprocess.run(["ip", "netns", "del", self._space(host)], check=True)
        self._make_host(host)

    def _space(self, host):
        return f"{self.name}{host}"

    def _switch(self):
        return f"{self.name}-switch"

    def _ip(self, space, *words):
        subprocess.run(["ip", "-n", space, *words], check=True)

    def _make(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kolo-hosts-")
        self.names = os.path.join(self.folder.name, "hosts")
        with open(self.names, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost\n10.77.0.254 {self.name}-front\n")
            file.writelines(f"{self.address(host)} {self._space(host)}\n" for host in range(self.number))
        subprocess.run(["ip", "netns", "add", self._switch()], check=True)
        self._ip(self._switch(), "link", "add", "bridge", "mtu", str(self.mtu), "type", "bridge")
        self._ip(self._switch(), "link", "set", "bridge", "up")
        self._ip(self._switch(), "link", "set", "lo", "up")
        self._ip(self._switch(), "addr", "add", "10.77.0.254/24", "dev", "bridge")
        for host in range(self.number):
            self._make_host(host)

    def _make_host(self, host):
        space, port = self._space(host), f"port{host}"
        subprocess.run(["ip", "netns", "add", space], check=True)
        self._ip(space, "link", "set", "lo", "up")
        self._join(space, port)
        hardware = f"02:00:0a:4d:00:{host + 1:02x}"  # the same after a reboot
        self._ip(space, "link", "set", "eth0", "address", hardware, "mtu", str(self.mtu), "up")
        self._ip(self._switch(), "link", "set", port, "mtu", str(self.mtu), "master", "bridge", "up")
        self._ip(space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        self._shape(space, "eth0")
        if self.congestion:
            setting = f"net.ipv4.tcp_congestion_control={self.congestion}"
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", setting], check=True)
        if self.number > 2:  # of two hosts, neither receives more than the other can send
            self._shape(self._switch(), port)
        keeper = subprocess.Popen(
            ["ip", "netns", "exec", space, "unshare", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", f"mount -t tmpfs shm /dev/shm; mount --bind {self._names_of(host)} /etc/hosts; hostname {space}; sleep 86400 & wait $!"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.keepers[host:host + 1] = [keeper]
        self.inits[host:host + 1] = [self._find_init(keeper.pid, space)]

    def _names_of(self, host):
        """The file by which a host knows names."""
        if not self.own_address:
            return self.names
        path = f"{self.names}{host}"
        with open(self.names, encoding="ascii") as names, open(path, "w", encoding="ascii") as file:
            file.write(names.read().replace(self.address(host) + " ", self.own_address + " "))
        return path

    def _join(self, space, port):
        """Makes the host's link: by the kernel, or, where packets are to be late or lost, by `wire`."""
        if not (self.delay_us or self.loss or self.reordered):
            self._ip(space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._switch())
            return
        program = os.path.join(self.folder.name, "wire")
        if not os.path.exists(program):
            subprocess.run(["cc", "-O2", "-o", program, HERE / "wire.c"], check=True)
        self.wires.append(subprocess.Popen([program, space, "eth0", self._switch(), port, str(self.delay_us // 2),
                                            str(self.loss), str(self.reordered), str(len(self.wires) + 1)]))
        for _ in range(500):
            if subprocess.run(["ip", "-n", self._switch(), "link", "show", port], capture_output=True).returncode == 0:
                return
            time.sleep(0.01)
        raise RuntimeError(f"no link for {space}")

    def _shape(self, space, device):
        # The burst lets a sender use its whole rate; the queue holds what 16 ms of 2 Gbit/s bring, so nothing is dropped.
        if self.rate:
            subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", self.rate, "burst",
                            "256kb", "limit", "4mb"], check=True)

    def _find_init(self, keeper, space):
        for _ in range(500):
            try:
                with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as file:
                    children = file.read().split()
            except FileNotFoundError:
                children = []
            if children:
                named = subprocess.run(["nsenter", "--target", children[0], "--uts", "hostname"], capture_output=True,
                                       text=True)
                if named.stdout.strip() == space:
                    return int(children[0])
            time.sleep(0.01)
        raise RuntimeError(f"no namespaces for {space}")

    def _remove(self):
        for init in self.inits:  # with the init of a process namespace go all of its processes
            try:
                os.kill(init, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
        for wire in self.wires:
            wire.kill()
            wire.wait()
        for space in [self._space(host) for host in range(self.number)] + [self._switch()]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        self.inits, self.keepers, self.wires = [], [], []
        self.folder.cleanup()
