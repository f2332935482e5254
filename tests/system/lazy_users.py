# SPDX-License-Identifier: Apache-2.0
"""The tools as an ordinary user runs them, with a ckpt-helper that lets users restore lazily; and what such a user may try:
the connection of a keeper with the helper, and processes that are none of its restore."""
import ctypes
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from conftest import Job, Tools, tree_of, wait_for
from rootless import UID, Helper, as_user, frame, status

USERFAULTFD, REFUSED = 5, 65
LIBC = ctypes.CDLL(None, use_errno=True)


class UsersJob(Job):
    """What the helper has restored is not below its keeper."""

    helper = None

    def program(self):
        def restored():
            pids = [p for p in self.helper.workers() if status(p)["Name"] == ["python3"]]
            return pids[0] if pids else None

        return wait_for(restored, lambda: f"the program: {self.error_text}")


class UsersTools(Tools):
    def __init__(self, folder, programs, helper):
        super().__init__(folder, programs)
        self.helper = helper
        self.prefix = as_user()
        for path in (folder, self.runtime):
            os.chown(path, UID, UID)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CKPT_RUNTIME_DIR": str(self.runtime),
                    "CKPT_HELPER": helper.socket}

    def start(self, tool, args, **streams):
        job = super().start(tool, args, **streams)
        job.__class__ = UsersJob
        job.helper = self.helper
        return job


@pytest.fixture
def lazy_helper():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    h = Helper(folder, options=["--lazy"])
    yield h
    h.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def users_tools(lazy_helper, programs):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-user-"))
    tools = UsersTools(folder, programs, lazy_helper)
    yield tools
    tools.close()
    lazy_helper.close()
    shutil.rmtree(folder, ignore_errors=True)


def descriptors(pid):
    """What its descriptors lead to."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return found


def holds_nothing(pid):
    return not [d for d in descriptors(pid) if "userfaultfd" in d]


def take_descriptor(pid, fd):
    process = os.pidfd_open(pid)
    try:
        return LIBC.syscall(438, process, fd, 0)  # pidfd_getfd
    finally:
        os.close(process)


def peer_of(s):
    try:
        return s.getpeername()
    except OSError:
        return None  # a socket that listens


class Connection:
    """That of a keeper with the helper: whoever has it asks in the keeper's name."""

    def __init__(self, keeper, helper):
        self.socket = None
        for name in os.listdir(f"/proc/{keeper}/fd"):
            if not os.readlink(f"/proc/{keeper}/fd/{name}").startswith("socket:"):
                continue
            s = socket.socket(fileno=take_descriptor(keeper, int(name)))
            if peer_of(s) == helper.socket:
                self.socket = s
        assert self.socket, "the keeper has no connection with the helper"

    def ask(self, pid, seconds=60):
        """A userfaultfd, the text of a refusal, or None if there is no answer in time."""
        self.socket.sendall(frame(USERFAULTFD, pid.to_bytes(4, "little", signed=True)))
        if not select.select([self.socket], [], [], seconds)[0]:  # no timeout of the socket, which the keeper would have, too
            return None
        header, fds, _, _ = socket.recv_fds(self.socket, 8, 4)
        size, kind = int.from_bytes(header[:4], "little"), int.from_bytes(header[4:6], "little")
        body = self.socket.recv(size, socket.MSG_WAITALL) if size else b""
        if kind == USERFAULTFD:
            assert len(fds) == 1
            return fds[0]
        assert kind == REFUSED, header
        return body[4:4 + int.from_bytes(body[:4], "little")].decode()


class Stopped:
    """Processes of a user that are stopped, as those of a restored program are."""

    def __init__(self):
        self.processes = []

    def start(self, uid, *command):
        process = subprocess.Popen([*as_user(uid), *command], start_new_session=True)
        self.processes.append(process)
        name = os.path.basename(command[0])[:15]  # as long as the kernel keeps it
        wait_for(lambda: status(process.pid)["Name"] == [name], "the program")
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: status(process.pid)["State"][0] == "T", "the stop")
        return process.pid

    def close(self):
        for process in self.processes:
            for pid in [process.pid, *tree_of(process.pid)]:
                os.kill(pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def stopped():
    s = Stopped()
    yield s
    s.close()
