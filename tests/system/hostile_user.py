# SPDX-License-Identifier: Apache-2.0
"""A user of the machine that is hostile to root and to other users: a real uid, with a folder of its own."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import BUILD, PROGRAMS, wait_for

UID, OTHER_UID = 61234, 61235


class User:
    """start(command)   runs a command as this user; all of them are killed at the end
    keeper(command)     the same below ckpt-run, and waits for the session
    file(name, text)    a file of this user"""

    def __init__(self, uid):
        self.uid = uid
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="user-"))
        self.folder.chmod(0o755)
        os.chown(self.folder, uid, uid)
        self.started = []
        shutil.copy(BUILD / "tools" / "ckpt-run", self.folder)

    def environment(self):
        keep = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        return dict(keep, HOME=str(self.folder), CKPT_RUNTIME_DIR=str(self.folder))

    def start(self, command, env=None, **options):
        process = subprocess.Popen(
            [str(c) for c in command], user=self.uid, group=self.uid, extra_groups=[], cwd=self.folder,
            env=dict(self.environment(), **(env or {})), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=options.pop("stdout", subprocess.DEVNULL), stderr=subprocess.DEVNULL, **options)
        self.started.append(process)
        return process

    def run(self, *command):
        return subprocess.run([str(c) for c in command], user=self.uid, group=self.uid, extra_groups=[],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True)

    def keeper(self, *command, env=None):
        before = set(self.sessions())
        process = self.start([self.folder / "ckpt-run", *command], env=env)
        session = wait_for(lambda: [s for s in self.sessions() if s not in before and (s / "program").exists()
                                    and (s / "program").read_text().strip()], "the session")[0]
        return process, session

    def sessions(self):
        return [p for p in self.folder.glob(f"ckpt-{self.uid}-*") if p.is_dir() and not p.is_symlink()]

    def file(self, name, text=""):
        path = self.folder / name
        path.write_text(text)
        os.chown(path, self.uid, self.uid)
        return path

    def close(self):
        for process in self.started:
            for pid in [process.pid] + [int(p) for p in os.listdir("/proc") if p.isdigit() and self.owns(p)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def owns(self, pid):
        try:
            return os.stat(f"/proc/{pid}").st_uid == self.uid
        except OSError:
            return False


@pytest.fixture
def user():
    u = User(UID)
    yield u
    u.close()


@pytest.fixture
def other():
    u = User(OTHER_UID)
    yield u
    u.close()


@pytest.fixture
def victim():
    """A process of root that only root may end."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    assert process.poll() is None, "root's process was ended"
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def criu_for_users(tmp_path_factory):
    """CRIU as root, for programs of other users: where CAP_SYS_RESOURCE is missing, with what reads limits."""
    capabilities = int(next(line for line in open("/proc/self/status") if line.startswith("CapEff")).split()[1], 16)
    criu = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    if capabilities >> 24 & 1:
        return criu
    folder = tmp_path_factory.mktemp("criu")
    library, wrapper = folder / "read_limits.so", folder / "criu"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, PROGRAMS / "hostile" / "read_limits.c", "-ldl"], check=True)
    wrapper.write_text(f"#!/bin/sh\nLD_PRELOAD={library} exec {criu} \"$@\"\n")
    wrapper.chmod(0o755)
    return str(wrapper)


@contextlib.contextmanager
def folder_of_all(mode):
    """A folder that every user may write to. Its name is short, because of the sockets in it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(mode)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def precious(tmp_path):
    """A file of root."""
    path = tmp_path / "precious"
    path.write_text("precious\n" * 100)
    yield path
    assert path.read_text() == "precious\n" * 100
