# SPDX-License-Identifier: Apache-2.0
"""Moves in a row: a program goes from one machine to the other and back, again and again, over a network.

The machines are namespaces (PID, mount, UTS and network) that a virtual cable joins; a server in each runs commands
for the other, as sshd does.
"""
import json
import shlex
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, tree_of, wait_for
from test_opencl import OPENCL, Programs, devices  # noqa: F401 (a fixture)

SERVER = """
import json, signal, socket, subprocess
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("@ADDRESS@", 7669))
print("ready", flush=True)
while True:
    connection = listener.accept()[0]
    name = b""
    while not name.endswith(b"\\n"):
        name += connection.recv(1)
    subprocess.Popen(json.loads(name), stdin=connection, stdout=connection)
    connection.close()
"""

RSH = """
import json, os, socket, sys, threading
connection = socket.create_connection((sys.argv[1], 7669))
connection.sendall(json.dumps(sys.argv[2:]).encode() + b"\\n")
def up():
    while piece := os.read(0, 1 << 20):
        connection.sendall(piece)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while piece := connection.recv(1 << 20):
    os.write(1, piece)
"""


class Machine:
    def __init__(self, ckpt, number):
        self.ckpt, self.address = ckpt, f"10.78.0.{number}"
        self.env = dict(ckpt.env, XDG_STATE_HOME=str(ckpt.folder / f"state-{number}"))
        self.process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--net", "--uts", "sh", "-c",
                                         f"ip link set lo up; mount -t tmpfs shm /dev/shm; mount -t tmpfs run {ckpt.runtime}; read go; "
                                         f"exec {sys.executable} {ckpt.folder}/server-{number}"],
                                        stdout=subprocess.PIPE, stdin=subprocess.PIPE, env=self.env, cwd=ckpt.folder)
        (ckpt.folder / f"server-{number}").write_text(SERVER.replace("@ADDRESS@", self.address))
        self.init = wait_for(lambda: tree_of(self.process.pid), "the machine")[0]

    def network(self, *words):
        subprocess.run(["nsenter", f"--target={self.init}", "--net", "ip", *map(str, words)], check=True)

    def serve(self):
        self.network("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.network("link", "set", "eth0", "up")
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ready\n"

    def inside(self, *words):
        return ["nsenter", f"--target={self.init}", "--pid", "--mount", "--net", "--uts", "sh", "-c", 'cd "$0" && exec "$@"',
                str(self.ckpt.folder), *map(str, words)]

    def run(self, *words):
        return subprocess.run(self.inside(*words), env=self.env, capture_output=True, text=True, timeout=300)

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def pair(ckpt, devices):  # noqa: F811
    ocl = Programs(ckpt, *devices)
    machines = [Machine(ckpt, 1), Machine(ckpt, 2)]
    machines[0].network("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", machines[1].init)
    for m in machines:
        m.serve()
    yield ocl, machines
    for m in machines:
        m.close()


def steps(output):
    return output.read_text().count("step ") if output.exists() else 0


@pytest.mark.parametrize("moves", [5, pytest.param(50, marks=pytest.mark.full)])
def test_an_opencl_program_moves_again_and_again(pair, moves):
    ocl, machines = pair
    folder, tool = ocl.ckpt.folder, ocl.ckpt.tool
    output, rsh = folder / "output", folder / "rsh"
    rsh.write_text(f"#!{sys.executable}{RSH}")
    rsh.chmod(0o755)
    device = ocl.device("pocl")
    first = machines[0]
    job = subprocess.Popen(first.inside("sh", "-c", f"exec {tool('ckpt-run')} --device {shlex.quote(device)} -- {OPENCL}/ocl-owed >>output 2>&1"), env=first.env)
    wait_for(lambda: steps(output) > 3, lambda: f"steps in {output.read_text() if output.exists() else None}")
    pid = first.run("pgrep", "-x", "ocl-owed").stdout.split()[0]
    for move in range(moves):
        here, there = machines[move % 2], machines[1 - move % 2]
        r = here.run(tool("ckpt-migrate"), "--json", "--rsh", rsh, "--tool-there", tool("ckpt-migrate"), "--device", device, "--rounds", 2,
                     pid, there.address)
        assert r.returncode == 0, f"move {move}: {r.stderr}\n{output.read_text()[-500:]}"
        pid = json.loads(r.stdout)["pid_there"]
        before = steps(output)
        wait_for(lambda: steps(output) > before + 2, f"steps after move {move}")
    assert job.wait() == 87
    ocl.go()
    wait_for(lambda: "OK" in output.read_text(), "the end of the program")


@pytest.mark.full
def test_the_example(ckpt):
    r = subprocess.run([ROOT / "examples" / "migrate", BUILD, ckpt.folder / "picture.svg"], capture_output=True, text=True, timeout=200)
    assert r.returncode == 0 and r.stdout.endswith("migrate: OK\n"), r.stdout + r.stderr
    assert "round 0" in r.stderr and (ckpt.folder / "picture.svg").read_text().startswith("<svg")
