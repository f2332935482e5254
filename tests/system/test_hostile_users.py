# SPDX-License-Identifier: Apache-2.0
"""Root's tools on programs of a hostile user: what the user's files and environment say gains nothing. docs/SECURITY.md
lists the promises; each test plays the user against one of them."""
import json
import os
import pathlib
import socket
import stat
import subprocess

import pytest

from conftest import BUILD, wait_for
from hostile_user import UID, criu_for_users, other, user, victim  # noqa: F401


def root_program(session):
    return int((session / "program").read_text())


def ended(process):
    return process.poll() is not None


# ---- B1: which process is the program


@pytest.mark.parametrize("trick", ["file", "link", "strangers"])
def test_a_foreign_process_is_never_the_program(ckpt, user, victim, trick):
    keeper, session = user.keeper("sleep", "1000")
    (session / "program").unlink()
    if trick == "link":
        user.file("pid", f"{victim.pid}\n")
        (session / "program").symlink_to(user.folder / "pid")
    else:
        (session / "program").write_text(f"{victim.pid}\n")
    (session / "foreign-children").write_text(f"{victim.pid}\n{keeper.pid}\n")
    process = subprocess.Popen([ckpt.tool("ckpt-dump"), str(keeper.pid), "-o", ckpt.folder / "image"],
                               env=ckpt.env, stderr=subprocess.PIPE, text=True)
    # The tool waits for a session that is still being started. Ending the keeper ends the wait.
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/fd").exists(), "ckpt-dump")
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        keeper.terminate()
    assert process.wait() == 1, process.stderr.read()
    assert victim.poll() is None and not (ckpt.folder / "image").exists()


@pytest.mark.parametrize("name", ["program", "foreign-children"])
def test_files_that_would_hang_the_tool(ckpt, user, name):
    """A FIFO without a writer, and a file without an end."""
    keeper, session = user.keeper("sleep", "1000")
    if name == "program":
        pid = root_program(session)
        (session / name).unlink()
        (session / name).write_text(f"{pid}\n")
        os.truncate(session / name, 1 << 40)
    else:
        (session / name).unlink()
        os.mkfifo(session / name)
        os.chown(session / name, UID, UID)
    done = subprocess.run([ckpt.tool("ckpt-dump"), "--suspend", str(keeper.pid)], env=ckpt.env, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "uses no device" in done.stderr, done.stderr


def fake_keeper(user, path, child=("sleep", "1000"), extra=""):
    """A process that looks like a keeper, with a child, and listens at `path`. `extra` runs in it afterwards."""
    code = f"""
import os, socket, subprocess, sys, time
path = {str(path)!r}
os.makedirs(os.path.dirname(path), exist_ok=True)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(0)
child = subprocess.Popen({list(child)!r})
open(os.path.dirname(path) + "/program", "w").write(str(child.pid))
{extra}
open({str(user.folder / "ready")!r}, "w")
time.sleep(1000)
"""
    python = user.folder / "ckpt-run"
    if not (user.folder / "lib").exists():
        python.unlink()
        subprocess.run(["cp", os.path.realpath("/usr/bin/python3"), python], check=True)
    process = user.start([python, "-c", code])
    wait_for(lambda: (user.folder / "ready").exists() or ended(process), "the keeper")
    assert not ended(process)
    return process


def test_a_socket_of_another_user_is_not_the_keeper_s(ckpt, user, other):
    """The user's socket is replaced by a link to another user's session. That user's keeper must not hear of a dump:
    it would end the other user's program."""
    theirs, session = other.keeper("sleep", "1000")
    path = user.folder / "s" / "session.sock"
    mine = fake_keeper(user, path, extra=f"os.unlink(path); os.symlink({str(session / 'session.sock')!r}, path)")
    done = ckpt.dump_process(mine.pid, "image")
    assert done.returncode == 1 and "listens on" in done.stdout + done.stderr, done.stdout + done.stderr
    assert not ended(theirs) and not (session / "dump-under-way").exists()


def test_a_socket_that_accepts_nothing(ckpt, user):
    path = user.folder / "s" / "session.sock"
    fill = "c = [socket.socket(socket.AF_UNIX) for _ in range(2)]\nfor x in c: x.setblocking(False); x.connect_ex(path)"
    mine = fake_keeper(user, path, extra=fill)
    done = ckpt.dump_process(mine.pid, "image")
    assert done.returncode == 1 and "accepted no connection" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_setuid_program_is_not_the_user_s(ckpt, user, tmp_path):
    """sleep with another uid, as su and sudo start programs."""
    sleep = user.folder / "sleep"
    subprocess.run(["cp", "/bin/sleep", sleep], check=True)
    sleep.chmod(0o4755)
    keeper, session = user.keeper("sh", "-c", f"{sleep} 1000 & wait")
    pid = wait_for(lambda: [p for p in os.listdir("/proc") if p.isdigit() and exe(p) == str(sleep)], "sleep")[0]
    text = ckpt.dump_refused(keeper.pid, "image") + ckpt.dump_process(keeper.pid, "image").stdout
    assert "has the rights of uid 0 and 61234" in text and "root's ckpt-run" in text, text
    assert os.path.exists(f"/proc/{pid}") and not ended(keeper)
    os.kill(int(pid), 9)


def exe(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None
