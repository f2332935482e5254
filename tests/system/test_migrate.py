# SPDX-License-Identifier: Apache-2.0
"""ckpt-migrate between two machines: PID, network, mount and UTS namespaces of their own on this one. Whatever is killed, and
whenever the connection ends, the program never runs on both; on none only after it was given away, and this is said.

The program appends a line to a file for each step, and each line names the machine: what ran where, and in which order, is there.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import process_exists, tree_of, wait_for

# Instead of ssh: HOST COMMAND…, through a process that a test can kill or stop, as a network can be cut or hang.
RSH = """
import os, subprocess, sys, threading
folder = "@FOLDER@"
open(folder + "/rsh.pid", "w").write(str(os.getpid()))
shell = open(folder + "/machine.pid").read().strip()
command = ["nsenter", "--target=" + shell, "--pid", "--net", "--uts", "--mount", "--", "sh", "-c", 'cd "$0" && exec "$@"', folder]
child = subprocess.Popen(command + sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env=dict(os.environ, XDG_STATE_HOME=folder + "/there", **eval(open(folder + "/there.env").read())))
def pump(source, target):
    while piece := os.read(source, 65536):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view):]
    os.close(target)
threading.Thread(target=pump, args=(0, child.stdin.fileno()), daemon=True).start()
try:
    pump(child.stdout.fileno(), 1)
except OSError:
    pass
"""

COUNTER = """
import os, socket, time
ballast = bytearray(os.urandom(4 << 20))
for i in range(100000):
    if os.path.exists("finish"):
        break
    ballast[i % len(ballast)] ^= 1
    with open("steps", "a") as out:
        out.write(f"{i} {socket.gethostname()}\\n")
    time.sleep(0.02)
print("ended", flush=True)
"""


class Machines:
    """This one, and `there`. Each has its own processes, session folders, /dev/shm and state folder, and the same files."""

    def __init__(self, ckpt):
        self.ckpt, self.folder = ckpt, ckpt.folder
        (self.folder / "there.env").write_text("{}")
        script = (f"hostname there; ip link set lo up; mount -t tmpfs shm /dev/shm; mount -t tmpfs run {ckpt.runtime}; "
                  "echo ready; sleep infinity; :")
        self.shell = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--net", "--uts",
                                       "sh", "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ckpt.env)
        assert self.shell.stdout.readline() == b"ready\n"
        self.init = tree_of(self.shell.pid)[0]
        (self.folder / "machine.pid").write_text(str(self.init))
        self.rsh = self.folder / "rsh"
        self.rsh.write_text(f"#!{sys.executable}" + RSH.replace("@FOLDER@", str(self.folder)))
        self.rsh.chmod(0o755)
        ckpt.env["XDG_STATE_HOME"] = str(self.folder / "here")

    def close(self):
        self.shell.kill()
        self.shell.wait()
        wait_for(lambda: not process_exists(self.init), "the end of the other machine")

    def set_there(self, **env):
        (self.folder / "there.env").write_text(repr(env))

    def options(self):
        return ["--rsh", str(self.rsh), "--tool-there", self.ckpt.tool("ckpt-migrate"), "--link-timeout", "20"]

    def migrate(self, *arguments, env=None):
        return subprocess.run([self.ckpt.tool("ckpt-migrate"), *self.options(), *map(str, arguments)],
                              env=dict(self.ckpt.env, **(env or {})), cwd=self.folder, capture_output=True, text=True, timeout=120)

    def start(self, *arguments, env=None):
        return self.ckpt.start("ckpt-migrate", [*self.options(), *map(str, arguments)], env=env or {})

    def rsh_pid(self):
        return int((self.folder / "rsh.pid").read_text())

    def counter(self):
        job = self.ckpt.start("ckpt-run", ["--", sys.executable, "-c", COUNTER])
        wait_for(lambda: len(self.steps()) > 3, "steps")
        return job

    def steps(self):
        try:
            return (self.folder / "steps").read_text().splitlines()
        except FileNotFoundError:
            return []

    def hosts(self):
        return [line.split()[1] for line in self.steps()]

    def left_there(self):
        """Programs and tools of the other machine."""
        return [p for p in tree_of(self.init) if "sleep" not in pathlib.Path(f"/proc/{p}/cmdline").read_text()]

    def records(self, where):
        folder = self.folder / where / "ckpt" / "migrations"
        return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def machines(ckpt):
    m = Machines(ckpt)
    yield m
    m.close()


def in_order(steps):
    """Each step was made once, on one machine after the other."""
    assert [int(s.split()[0]) for s in steps] == list(range(len(steps))), steps


def runs_there(m):
    before = len(m.steps())
    wait_for(lambda: len(m.steps()) > before + 3, "steps there")
    assert m.hosts()[-1] == "there"


def runs_here(m, job):
    before = len(m.steps())
    wait_for(lambda: len(m.steps()) > before + 3, "steps here")
    assert m.hosts()[-1] != "there" and job.process.poll() is None


def test_a_program_goes_on_on_the_other_machine(machines):
    m = machines
    job = m.counter()
    r = m.migrate(job.pid, "there", "--json")
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    assert report["downtime_seconds"] > 0 and report["predicted_downtime_seconds"] > 0
    assert len(report["rounds"]) >= 3 and report["rounds"][-1]["stopped"]
    assert report["rounds"][1]["sent_bytes"] < report["rounds"][0]["sent_bytes"] / 2
    assert job.wait() == 87 and "moved to there" in job.error_text
    runs_there(m)
    m.ckpt.finish()
    wait_for(lambda: not m.left_there(), "the end of the program there")
    in_order(m.steps())
    assert not m.records("here") and not m.records("there")
