# SPDX-License-Identifier: Apache-2.0
"""Two nodes on one machine, for the benchmarks of devices of other nodes: network namespaces that a link joins.

The link has either a rate (a virtual cable with tc-tbf(8)) or a delay (TAP devices, and a process that forwards
frames late, bench/remote/delay.cc), never both. Needs root. Nothing here is a measurement of a real network.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "opencl"))
from side_by_side import testbed  # noqa: E402

FAR, NEAR, PORT = "10.79.0.1", "10.79.0.2", 7667
# What a link lets through at once after a pause, in ms of its rate: a real one does not, but tc needs some.
BURST_MS = 1


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, **options)


def inside(node, *words):
    return ["ip", "netns", "exec", node, *map(str, words)]


@contextlib.contextmanager
def two_nodes(build, delay_ms=None):
    """The names of the namespaces: the node with the devices, and that of the program."""
    names = [f"ckpt-{side}-{os.getpid()}" for side in ("far", "near")]
    forwarder = None
    try:
        for name in names:
            run("ip", "netns", "add", name)
        if delay_ms is None:
            run("ip", "-n", names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", names[1])
        else:
            forwarder = subprocess.Popen([build / "bench/remote/delay", *names, "eth0", str(delay_ms)],
                                         stdout=subprocess.PIPE, text=True)
            if forwarder.stdout.readline() != "up\n":
                raise SystemExit("the link with a delay does not start")
        for name, address in zip(names, (FAR, NEAR)):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        if forwarder:
            forwarder.terminate()
            forwarder.wait()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def limit(names, rate):
    """`rate`: as "2.5gbit"; None: not limited."""
    for name in names:
        subprocess.run(inside(name, "tc", "qdisc", "del", "dev", "eth0", "root"), check=False, stderr=subprocess.DEVNULL)
        if rate:
            burst = int(float(rate.removesuffix("gbit")) * 1e9 / 8 * BURST_MS / 1000)
            run(*inside(name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", burst, "latency",
                        "20ms"))


def describe(build, names):
    """What the link itself does: the round trip of 64 bytes in ms, and the bulk of one TCP connection in GB/s."""
    wire = build / "bench/remote/wire"
    server = subprocess.Popen(inside(names[0], wire, "--serve", f"{FAR}:7999"), stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    out = run(*inside(names[1], wire, "--connect", f"{FAR}:7999"), capture_output=True, text=True).stdout
    server.wait()
    row = json.loads(out)
    return row["round_trip_us"] / 1000, row["bulk_gb_s"]


class Server:
    """The certificates of both nodes, and a ckpt-devd on the node with the devices."""

    def __init__(self, build, folder, names, softcuda="4x4G"):
        self.build, self.folder, (self.far, self.near) = build, folder, names
        self.env = dict(testbed(build), POCL_DEVICES="pthread", CKPT_SOFTCUDA=softcuda, CKPT_SOFTCUDA_QUIET="1",
                        CUDA_MODULE_LOADING="LAZY")
        self.tool("ckpt-devd", "--make-ca", folder / "ca")
        self.certificates = self.tool("ckpt-devd", "--ca", folder / "ca", "--make-node", FAR)
        self.env["CKPT_CERTIFICATES"] = self.tool("ckpt-devd", "--ca", folder / "ca", "--make-user", "root")

    def tool(self, name, *arguments, node=None, env=()):
        words = [self.build / "tools" / name, *arguments]
        return run(*(inside(node, *words) if node else words), env=dict(self.env, **dict(env)), capture_output=True,
                   text=True).stdout.strip()

    @contextlib.contextmanager
    def serving(self, environment=()):
        devd = subprocess.Popen(
            inside(self.far, self.build / "tools" / "ckpt-devd", "--socket", "none", "--listen", f"{FAR}:{PORT}", "--allow",
                   "*", "--certificates", self.certificates, "--account", "root"),
            env=dict(self.env, **dict(environment)), stdout=subprocess.PIPE)
        try:
            devd.stdout.readline()
            yield
        finally:
            devd.terminate()
            devd.wait()

    def device(self, name):
        return f"remote:{FAR}:{PORT}/{name}"

    def start(self, device, *program, env=(), cwd=None):
        return Job(subprocess.Popen(inside(self.near, self.build / "tools" / "ckpt-run", "--device", device, "--", *program),
                                    env=dict(self.env, **dict(env)), cwd=cwd, stdout=subprocess.PIPE, text=True))

    def timed(self, name, *arguments):
        """Seconds that a tool takes on the program's node."""
        begin = time.monotonic()
        self.tool(name, *arguments, node=self.near)
        return time.monotonic() - begin


class Job:
    """A program under ckpt-run, whose lines are read as they come."""

    def __init__(self, process):
        self.process, self.begun, self.lines = process, time.monotonic(), []

    @property
    def pid(self):
        return self.process.pid

    def line(self):
        """The next line, or ""; lines has (its moment, it)."""
        text = self.process.stdout.readline()
        if text:
            self.lines.append((time.monotonic(), text.rstrip("\n")))
        return text.rstrip("\n")

    def wait_for(self, begins):
        while True:
            before = len(self.lines)
            text = self.line()
            if text.startswith(begins):
                return
            if len(self.lines) == before:
                self.end()
                raise SystemExit(f"the program ended before the line {begins!r}")

    def finish(self):
        """The whole output of a program that succeeds."""
        while self.process.poll() is None or len(self.lines) == 0:
            before = len(self.lines)
            self.line()
            if len(self.lines) == before:
                break
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args} failed")
        return [text for _, text in self.lines]

    def end(self):
        self.process.terminate()
        self.process.wait()
