# SPDX-License-Identifier: Apache-2.0
"""Users without root, as real other users, and a ckpt-helper for them."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from conftest import BUILD, Job, tree_of, wait_for

HELPER = BUILD / "helper" / "ckpt-helper"
UID, OTHER = 61234, 61235

needs_helper = pytest.mark.skipif(not HELPER.exists(), reason="ckpt-helper is not built")

# Counts in a file; answers over TCP and UDP with the count.
SERVER = """
import os, socket, sys, threading, time
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); tcp.listen(5)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
count = 0
def serve_tcp():
    while True:
        c, _ = tcp.accept(); c.sendall(b"%d" % count); c.recv(1); c.close()  # the peer closes first
def serve_udp():
    while True:
        _, peer = udp.recvfrom(9); udp.sendto(b"%d" % count, peer)
for f in (serve_tcp, serve_udp):
    threading.Thread(target=f, daemon=True).start()
print(tcp.getsockname()[1], udp.getsockname()[1], os.getpid(), flush=True)
while True:
    count += 1; time.sleep(0.02)
"""


# So large that CRIU must wait for the tool, which writes or reads the image.
LARGE = """
import os, time
memory = os.urandom(64 << 20)
print("ready", flush=True)
while True:
    time.sleep(0.02)
"""


def as_user(uid=UID, capabilities=()):
    command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    names = ",".join(["-all", *(f"+{c}" for c in capabilities)])
    return [*command, f"--inh-caps={names}", *([f"--ambient-caps={names}"] if capabilities else [])]


class User:
    """A user with a folder, and the tools as this user runs them."""

    def __init__(self, uid=UID):
        self.uid = uid
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-user-"))
        os.chown(self.folder, uid, uid)
        self.jobs, self.programs = [], []
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "CKPT_RUNTIME_DIR": str(self.folder),
                    "CKPT_HELPER": "/nonexistent"}

    def command(self, tool, *args, capabilities=()):
        return [*as_user(self.uid, capabilities), str(BUILD / "tools" / tool), *map(str, args)]

    def start(self, tool, *args, capabilities=(), **more):
        job = Job(self.command(tool, *args, capabilities=capabilities), env=self.env, cwd=self.folder, **more)
        self.jobs.append(job)
        return job

    def tool(self, tool, *args, capabilities=()):
        return subprocess.run(self.command(tool, *args, capabilities=capabilities), env=self.env, cwd=self.folder,
                              capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)

    def run(self, *program, options=(), **more):
        return self.start("ckpt-run", *options, "--", *program, **more)

    def server(self):
        """Returns the job, and the ports and the PID that the program sees."""
        script = self.folder / "server.py"
        script.write_text(SERVER)
        job = self.run("/usr/bin/python3", script)
        job.wait_lines(1)
        return job, [int(n) for n in job.lines[0].split()]

    def large(self):
        """Returns the job of a program with much memory."""
        job = self.run("/usr/bin/python3", "-c", LARGE)
        job.wait_lines(1)
        return job

    def dump(self, pid, image, *options, **more):
        r = self.tool("ckpt-dump", pid, "-o", image, *options, **more)
        assert r.returncode == 0, r.stdout + r.stderr

    def restore(self, image, *options, **more):
        r = self.tool("ckpt-restore", "--detach", *options, image, **more)
        assert r.returncode == 0, r.stderr
        self.programs.append(int(r.stdout))
        return int(r.stdout)

    def close(self):
        for pid in self.programs:
            for p in [pid, *tree_of(pid)]:
                try:
                    os.kill(p, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for job in self.jobs:
            job.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def user():
    u = User()
    yield u
    u.close()


@pytest.fixture
def root(user):
    """Root's tools, in the same folder and environment."""

    def tool(name, *args):
        return subprocess.run([str(BUILD / "tools" / name), *map(str, args)], env=user.env, cwd=user.folder,
                              capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)

    return tool


class Helper:
    def __init__(self, folder, *command, options=()):
        self.socket = str(folder / "helper.sock")
        self.folder = folder
        self.log = folder / "helper.log"
        self.process = subprocess.Popen([*command, str(HELPER), "--socket", self.socket, "--folder", str(folder / "run"),
                                         "--per-user", "6", *options], stderr=self.log.open("w"), env={"CKPT_LOG": "info"})
        wait_for(lambda: os.path.exists(self.socket) or self.process.poll() is not None, "the helper's socket")

    def workers(self):
        return [p for p in tree_of(self.process.pid)]

    def close(self):
        for p in [self.process.pid, *tree_of(self.process.pid)]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def helper(user):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    h = Helper(folder)
    user.env["CKPT_HELPER"] = h.socket
    yield h
    h.close()
    shutil.rmtree(folder, ignore_errors=True)


def answers(ports):
    """The counts that the server says over TCP and UDP."""
    with socket.create_connection(("127.0.0.1", ports[0]), timeout=30) as c:
        tcp = int(c.recv(20))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(30)
        s.sendto(b"?", ("127.0.0.1", ports[1]))
        return tcp, int(s.recv(20))


def status(pid):
    """Of a process that may end meanwhile."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {"Name": [], "State": ["X"], "Uid": ["-1"] * 4}
    return {k: v.split() for k, _, v in (line.partition(":") for line in text.splitlines())}


def assert_is_users(pid, uid=UID):
    """It and its threads have the user's uid and nothing else."""
    for task in os.listdir(f"/proc/{pid}/task"):
        s = status(f"{pid}/task/{task}")
        assert set(s["Uid"] + s["Gid"]) == {str(uid)}
        assert all(int(s[c][0], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapAmb"))


def refused(r):
    assert r.returncode == 1, r.stdout + r.stderr
    return r.stderr


def frame(type_, body, fds=0):
    return len(body).to_bytes(4, "little") + type_.to_bytes(2, "little") + fds.to_bytes(2, "little") + body


def dump_request(pid):
    return frame(2, pid.to_bytes(4, "little") + b"\0", 1)


CALL = """
import json, os, socket, sys
data, fds = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
null = os.open("/dev/null", os.O_RDWR)
try: socket.send_fds(s, [data], [null] * fds)
except BrokenPipeError: pass  # a helper with too many requests answers before it is asked, and closes
s.settimeout(60)
answer = b""
while True:
    try: piece = s.recv(4096)
    except ConnectionResetError: break
    if not piece: break
    answer += piece
print(answer.hex())
"""


def ask(helper, data, uid, fds=1, *prefix):
    """What the helper says to these bytes: its refusal's text and hint."""
    r = subprocess.run([*prefix, *as_user(uid), "/usr/bin/python3", "-c", CALL, helper.socket, data.hex(), str(fds)],
                       capture_output=True, text=True, timeout=90, cwd="/")
    assert r.returncode == 0, r.stderr
    answer = bytes.fromhex(r.stdout.strip())
    if answer[4:6] != b"\x41\0":  # Refused
        return answer, ""
    n = int.from_bytes(answer[8:12], "little")
    return answer[12:12 + n].decode(), answer[16 + n:].decode()
