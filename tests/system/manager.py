# SPDX-License-Identifier: Apache-2.0
"""A node for the tests: ckptd and managed programs on the software device, and ckptd's protocol by hand.

The test program "tenant" takes a name and sizes in MiB, allocates them one after the other, and prints "have SIZE" for
each, or "denied SIZE". Before the N-th size it waits while the file NAME-N exists, and before its end while NAME-end
does: `pause` creates these files, and `go_on` removes them.
"""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess

import pytest

from conftest import BUILD, receive_exactly, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from deadline import fair_share
from toolkit import WHY_NOT

# The marks of tests that need a node.
NEEDS = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
    pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists(), reason="ckptd is not built"),
]

VERSION = 4
# common/managed/messages.api
CONNECT, CUDA_MALLOC, QUERY, JOIN, STATUS_WANTED = 1, 2, 8, 20, 22
WELCOME, REFUSED, STATUS, REPORT = 20, 23, 24, 50


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


def join(version=VERSION, name="by hand", pid=os.getpid()):
    return (struct.pack("<II", version, pid) + text(name) + struct.pack("<iB", 0, 0) + text("") +
            struct.pack("<QQQBBQBQ", 0, 0, 0, 0, 0, 0, 0, 0))


def frame(number, body=b"", fds=0):
    return struct.pack("<IHH", len(body), number, fds) + body


class Peer:
    """A connection to ckptd."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20 / fair_share())
        self.socket.connect(str(path))

    def send(self, number, body=b""):
        self.socket.sendall(frame(number, body))

    def send_raw(self, data):
        self.socket.sendall(data)

    def receive(self, reports=False):
        """(number, body), or None at the end. ReportProgress is skipped, unless `reports` asks for it."""
        header = receive_exactly(self.socket, 8)
        if header is None:
            return None
        size, number, _ = struct.unpack("<IHH", header)
        body = receive_exactly(self.socket, size)
        return (number, body) if reports or number != REPORT else self.receive()

    def refusal(self):
        """The reason of a refusal, which ends the connection."""
        number, body = self.receive()
        assert number == REFUSED, number
        n, = struct.unpack_from("<I", body)
        assert self.receive() is None
        return body[4:4 + n].decode()

    def close(self):
        self.socket.close()


class Node:
    """ckptd and programs under `ckpt-run --managed`."""

    def __init__(self, ckpt, make, devices, context_mib=10):
        self.ckpt = ckpt
        self.make = make
        self.socket = ckpt.runtime / "ckptd.sock"
        self.journal = ckpt.folder / "journal"
        ckpt.env.update(CKPT_SOFTCUDA=devices, CKPT_SOFTCUDA_CONTEXT=str(context_mib), CUDA_MODULE_LOADING="LAZY",
                        CKPTD_SOCKET=str(self.socket))
        self.daemon = None

    def start(self, *options, reconnect=20, startup=0, opencl="none"):
        self.daemon = self.ckpt.start("ckptd", ["--journal", self.journal, "--min-residency", "0",
                                                "--reconnect-timeout", str(reconnect), "--startup-delay", str(startup), "--opencl-devices", opencl, *options])
        self.daemon.wait_text("listening on")
        return self

    def kill_daemon(self):
        os.kill(self.daemon.pid, signal.SIGKILL)
        self.daemon.wait()

    def stop_daemon(self):
        os.kill(self.daemon.pid, signal.SIGTERM)
        self.daemon.wait()

    def run(self, name, *mib, program=("tenant.cu",), pause=(), options=(), **more):
        """Starts the program NAME with sizes in MiB, which waits at each place in `pause`."""
        return self.run_executable(self.make(*program), name, *mib, pause=pause, options=options, **more)

    def run_executable(self, path, name, *words, pause=(), options=(), **more):
        for place in pause:
            (self.ckpt.folder / f"{name}-{place}").touch()
        return self.ckpt.start("ckpt-run", ["--managed", *options, "--", str(path), name, *map(str, words)], **more)

    def go_on(self, name, *places):
        for place in places:
            (self.ckpt.folder / f"{name}-{place}").unlink()

    def top(self, *options):
        """The output of ckpt-top."""
        r = subprocess.run([self.ckpt.tool("ckpt-top"), *options], env=self.ckpt.env, capture_output=True, text=True, timeout=30)
        assert r.returncode == 0, r.stderr
        return r.stdout

    def status(self):
        peer = Peer(self.socket)
        peer.send(STATUS_WANTED, struct.pack("<I", VERSION))
        number, body = peer.receive()
        peer.close()
        assert number == STATUS
        return json.loads(body[4:])

    def program(self, job):
        """The status of a program, or None."""
        pid = job.program()
        return next((p for p in self.status()["programs"] if p["pid"] == pid), None)

    def wait_state(self, job, state):
        def is_so():
            p = self.program(job)
            return p is not None and p["state"] == state and p

        return wait_for(is_so, f"{state}: {self.status()} {job.error_text}")

    def gpu_of(self, job):
        """The index of its GPU, or None."""
        uuids = [g["uuid"] for g in self.status()["gpus"]]
        gpu = self.program(job)["gpu"]
        return None if gpu is None else uuids.index(gpu)

    def free_mib(self):
        return [g["free_bytes"] >> 20 for g in self.status()["gpus"]]

    def events(self, job_or_pid=None):
        """The lines of the journal, without the messages that are sent at any time."""
        pid = job_or_pid if isinstance(job_or_pid, int) or job_or_pid is None else job_or_pid.program()
        # The last line may be incomplete.
        events = [json.loads(line) for line in self.journal.read_text().split("\n")[:-1]]
        return [e for e in events if e.get("from") not in ("Uses", "Workload", "Progress") and (pid is None or e.get("pid") == pid)]

    def messages(self, job_or_pid=None):
        """The messages in order: "Join" from a program, "> GoAhead" to it, "gone"."""
        return [e["from"] if "from" in e else "> " + e["to"] if "to" in e else "gone" for e in self.events(job_or_pid)]

    def evictions(self):
        """How often a program has left its GPU."""
        return sum(e.get("from") in ("SuspendDone", "Evicted") and e["state"] == "evicting" for e in self.events())

    def alive(self):
        assert self.daemon.process.poll() is None, self.daemon.error_text
        self.status()


def as_user_nobody(code, *arguments):
    """Runs Python code as another user."""
    user = shutil.which("setpriv")
    command = [user, "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


@pytest.fixture
def node(ckpt, make):  # noqa: F811
    def start(devices="1x256M", *options, **more):
        return Node(ckpt, make, devices).start(*options, **more)

    return start


def finished(*jobs):
    for job in jobs:
        assert job.wait() == 0, job.error_text
        assert job.lines[-1] == "PASSED", job.text
