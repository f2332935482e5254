# SPDX-License-Identifier: Apache-2.0
"""Root's tools on programs of a hostile user: the user's files and environment gain no rights. docs/SECURITY.md
lists the guarantees; each test plays the user against one of them."""
import os
import pathlib
import stat
import subprocess

import pytest

import crafted
from conftest import tree_of, wait_for
from hostile_user import UID, criu_for_users, folder_of_all, other, precious, user, victim  # noqa: F401


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


def fake_keeper(user, path, child=("sleep", "1000"), extra="", below=()):
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
    process = user.start([*below, python, "-c", code])
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


@pytest.mark.full
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


def test_mounts_of_a_user_namespace_are_not_entered(ckpt, user):
    """The user mounts a program of its own over CRIU, where root's tool would run it."""
    criu = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    mine = user.file("criu", f"#!/bin/sh\ntouch {user.folder}/entered\nexit 1\n")
    mine.chmod(0o755)
    if user.run("unshare", "-Urpfm", "--mount-proc", "mount", "--bind", mine, criu).returncode != 0:
        pytest.skip("ordinary users cannot make namespaces here")
    answer = """
import struct, threading
def serve():
    kept = []
    while True:
        c = s.accept()[0]; c.recv(4096); c.send(struct.pack("<IHH", 0, 1, 0)); kept.append(c)
threading.Thread(target=serve, daemon=True).start()
"""
    inside = fake_keeper(user, user.folder / "s" / "session.sock", extra=answer,
                         below=["unshare", "-Urpfm", "--mount-proc", "sh", "-c",
                                f'mount --bind {mine} {criu}; exec "$@"', "sh"])
    pid = wait_for(lambda: [p for p in tree_of(inside.pid) if os.path.basename(exe(p) or "") == "sleep"], "a program")[0]
    done = ckpt.dump_process(pid, "image")
    assert done.returncode == 1 and "user namespace" in done.stdout, done.stdout
    assert os.path.exists(f"/proc/{pid}") and not (user.folder / "entered").exists()


# ---- B2: the name of a session in the program's environment


@pytest.mark.parametrize("trick", ["folder", "free name", "link"])
def test_the_environment_removes_and_creates_nothing(ckpt, user, criu_for_users, trick):
    """$CKPT_SESSION names root's folder, or a place of root where there is nothing, as the user's program says."""
    precious = ckpt.folder / "place" / "ckpt-0-abcdef"
    precious.parent.mkdir(mode=0o755)
    if trick == "folder":
        precious.mkdir()
        (precious / "data").write_text("precious")
    place = precious
    if trick == "link":
        (user.folder / "way").symlink_to(precious.parent)
        place = user.folder / "way" / "ckpt-0-abcdef"
    env = dict(ckpt.env, CKPT_CRIU=criu_for_users)
    job = ckpt.run("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "env", "-C", user.folder,
                   f"CKPT_SESSION={place}/session.sock", "sleep", "1000")
    wait_for(lambda: os.path.basename(exe(job.program()) or "") == "sleep", "the program")
    done = ckpt.dump_process(job.pid, "image", env=env)
    assert done.returncode == 0, done.stdout
    job.wait()
    restored = ckpt.restore("image", "--as-root", env=env)
    wait_for(lambda: list(ckpt.runtime.glob("ckpt-*/program")) or ended(restored.process), "the restore")
    assert not ended(restored.process), restored.error_text
    assert not precious.is_symlink() and precious.exists() == (trick == "folder")
    restored.kill()
    if trick == "folder":
        assert (precious / "data").read_text() == "precious"


@pytest.mark.no_criu
@pytest.mark.parametrize("folder", ["ckpt-x", "ckpt-0-abcdef"])
def test_an_image_s_session_folder_removes_nothing(ckpt, folder):
    """As an earlier version recorded it. CRIU finds nothing to restore; the folder is prepared before."""
    precious = ckpt.folder / folder
    precious.mkdir()
    (precious / "data").write_text("precious")
    crafted.write(ckpt.folder / "image", manifest=dict(crafted.MANIFEST, session_dir=str(precious)))
    job = ckpt.restore("image", "--as-root")
    assert job.wait() == 1, job.error_text
    assert (precious / "data").read_text() == "precious"


# ---- B3, B4, and their sisters: files at names that others know


def failing_criu(folder):
    """A CRIU that fails, with a log."""
    criu = folder / "failing-criu"
    criu.write_text('#!/bin/sh\ncase "$*" in *--version*) echo Version: 4.2.1; exit 0;; esac\n'
                    'd=.; while [ $# -gt 0 ]; do case "$1" in -D) d=$2;; -o) o=$2;; esac; shift; done\n'
                    'echo "(00.1) Error (a.c:1): no" > "$d/$o"; exit 1\n')
    criu.chmod(0o755)
    return str(criu)


@pytest.fixture
def shared():
    """A folder like /tmp."""
    with folder_of_all(0o1777) as folder:
        yield folder


def test_the_log_of_a_failed_dump_overwrites_nothing(ckpt, user, shared, precious):
    assert user.run("ln", "-s", precious, shared / "image.criu.log").returncode == 0
    job = ckpt.run("sleep", "1000")
    job.program()
    done = ckpt.dump_process(job.pid, shared / "image", env={"CKPT_CRIU": failing_criu(ckpt.folder)})
    assert done.returncode == 1 and "its log is" in done.stdout, done.stdout
    log = shared / "image.criu.log"
    assert not log.is_symlink() and "no" in log.read_text() and stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_log_of_a_failed_restore_has_an_unpredictable_name(ckpt, user, shared, precious):
    crafted.write(ckpt.folder / "image")
    last = int(open("/proc/sys/kernel/ns_last_pid").read())
    for pid in range(last, last + 3000):
        (shared / f"ckpt-restore-{pid}.log").symlink_to(precious)
        os.chown(shared / f"ckpt-restore-{pid}.log", UID, UID, follow_symlinks=False)
    job = ckpt.restore("image", "--as-root", env={"CKPT_CRIU": failing_criu(ckpt.folder), "CKPT_RUNTIME_DIR": str(shared)})
    assert job.wait() == 1
    assert "its log is " in job.error_text, job.error_text
    log = pathlib.Path(job.error_text.split("its log is ")[1].split("\n")[0])
    assert not log.is_symlink() and "no" in log.read_text()


@pytest.mark.parametrize("what", ["link", "hard link", "file", "fifo"])
@pytest.mark.parametrize("option", ["--output", "--json-report"])
def test_output_is_not_written_to_a_file_of_another_user(ckpt, user, shared, precious, what, option):
    """Where the program's output, or a report, would go in a folder that others may write to."""
    name = shared / "out"
    if what == "link":
        assert user.run("ln", "-s", precious, name).returncode == 0
    elif what == "hard link":  # where protected_hardlinks is 0, any user can make one
        os.link(precious, name)
    elif what == "file":
        assert user.run("touch", name).returncode == 0
    else:
        assert user.run("mkfifo", name).returncode == 0
    job = ckpt.run("counter", "1000", stdout="pipe")
    job.wait_lines(2)
    ckpt.dump(job.pid, "image")
    job.wait()
    r = subprocess.run([ckpt.tool("ckpt-restore"), "--detach", option, name, "image"], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if r.returncode == 0 and r.stdout.strip():
        ckpt.detached.append(int(r.stdout))
    assert r.returncode == 1 and ("another user" in r.stderr or "No such device" in r.stderr), r.stderr
    if what == "file":
        assert name.read_text() == ""
