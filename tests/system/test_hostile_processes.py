# SPDX-License-Identifier: Apache-2.0
"""Processes of a hostile user that change while root's tool works on them: they end and leave their PIDs to others, make
mounts, cannot be read, hold locks."""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import criu_with, process_exists, tree_of, wait_for
from hostile_user import UID, criu_for_users, user  # noqa: F401


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_pid_that_another_process_has_got_is_left_alone(ckpt, blocker):
    """While CRIU has stopped the program, it is killed, and its PID goes to a process that root has stopped. Undoing the
    dump must not continue that one."""
    job = ckpt.run("sleep", "1000")
    pid = job.program()
    os.mkfifo(ckpt.folder / "go-on")
    # While it waits, it starts no process, which could get the PID.
    env = criu_with(ckpt, after_dump="touch hooked; read -r line <go-on")
    dump = subprocess.Popen([ckpt.tool("ckpt-dump"), str(job.pid), "-o", "image", "--json"], env=dict(ckpt.env, **env),
                            cwd=ckpt.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((ckpt.folder / "hooked").exists, "CRIU's end")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process_exists(pid), "the program's end")
    blocker.take(pid)
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state(pid) == "T", "the stop")
    (ckpt.folder / "go-on").write_text("\n")
    out, _ = dump.communicate(timeout=60)
    assert dump.returncode == 1 and "ended during the checkpoint" in out, out
    assert state(pid) == "T" and not (ckpt.folder / "image").exists()


@pytest.mark.parametrize("options", [(), ("--leave-running",)], ids=["stop", "leave running"])
def test_a_program_that_cannot_be_read(ckpt, user, options):
    """PR_SET_DUMPABLE 0: its files in /proc belong to root. Its image is root's, or there is none."""
    code = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0)\nopen('named', 'w')\ntime.sleep(1000)"
    keeper, _ = user.keeper("/usr/bin/python3", "-c", code)
    wait_for((user.folder / "named").exists, "the program")
    program = next(p for p in tree_of(keeper.pid))
    assert os.stat(f"/proc/{program}/environ").st_uid == 0
    done = ckpt.dump_process(keeper.pid, "image", *options)
    image = ckpt.folder / "image"
    assert image.exists() == (done.returncode == 0), done.stdout
    if image.exists():
        assert image.stat().st_uid == 0 and image.stat().st_mode & 0o777 == 0o700
    assert process_exists(program) == (done.returncode != 0 or bool(options)), done.stdout
    wait_for(lambda: not process_exists(program) or state(program) == "S", "the program to go on")


# Waits until the dump makes its image beside the final name, which is after all its checks. It opens nothing
# meanwhile that these could see. Then CRIU's name leads to the user's program.
MOUNTS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
images, mine, criu = sys.argv[1:]
made = os.stat(images).st_mtime_ns
open("named", "w")
while os.stat(images).st_mtime_ns == made: pass
uid = os.getuid()
assert libc.unshare(0x10000000 | 0x20000) == 0  # CLONE_NEWUSER | CLONE_NEWNS
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
assert libc.mount(mine.encode(), criu.encode(), None, 4096, None) == 0  # MS_BIND
libc.capset((0x20080522).to_bytes(4, "little") + bytes(4), bytes(24))  # of the namespace; else they are a reason
open("mounted", "w")
time.sleep(1000)
"""


@pytest.mark.parametrize("way", ["of root's keeper", "of a user's keeper"])
def test_mounts_that_a_program_makes_during_its_dump_are_not_entered(ckpt, user, blocker, criu_for_users, way):
    """Else root's CRIU, or one with the user's uid and root's capabilities, would be the user's program."""
    criu = os.path.realpath(os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu")
    mine = user.file("criu", f"#!/bin/sh\ngrep -e Uid -e CapEff /proc/self/status >{user.folder}/entered\nexit 1\n")
    mine.chmod(0o755)
    if user.run("unshare", "-Urm", "true").returncode != 0:
        pytest.skip("ordinary users cannot make namespaces here")
    images = user.folder / "images"
    images.mkdir()
    images.chmod(0o755)
    script = user.file("mounts.py", MOUNTS)
    command = ["/usr/bin/python3", str(script), str(images), str(mine), criu]
    if way == "of root's keeper":
        job = ckpt.run("setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "env", "-C", user.folder, *command)
        pid = job.pid
    else:
        keeper, _ = user.keeper(*command)
        pid = keeper.pid
    wait_for((user.folder / "named").exists, "the program")
    if way == "of a user's keeper":
        # With its PID taken, root restores it into PID and mount namespaces, which later dumps enter.
        program = next(p for p in tree_of(pid))
        assert ckpt.dump_process(pid, "first").returncode == 0
        wait_for(lambda: not process_exists(program), "the program's end")
        blocker.take(program)
        pid = ckpt.restore_detached("first", "--output", user.file("out"))
    done = ckpt.dump_process(pid, images / "image", env={"CKPT_CRIU": criu_for_users} if way == "of root's keeper" else {})
    assert not (user.folder / "entered").exists(), (user.folder / "entered").read_text()
    assert (user.folder / "mounted").exists(), done.stdout
    assert done.returncode == 1, done.stdout
    assert not (images / "image").exists() and "namespace" in json.loads(done.stdout)["error"]["what"], done.stdout


def test_a_lock_that_a_user_holds_delays_root_only_until_it_interrupts(ckpt, user):
    """The file on which dumps of one program wait for each other is the user's."""
    keeper, session = user.keeper("sleep", "1000")
    code = f"import fcntl, time\nf = open({str(session / 'program')!r})\nfcntl.flock(f, fcntl.LOCK_EX)\nopen('named', 'w')\n" \
           "time.sleep(1000)"
    user.start(["/usr/bin/python3", "-c", code])
    wait_for((user.folder / "named").exists, "the lock")
    dump = subprocess.Popen([ckpt.tool("ckpt-dump"), str(keeper.pid), "-o", ckpt.folder / "image"], env=ckpt.env,
                            stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(os.path.realpath(f"/proc/{dump.pid}/fd/{fd}") == str(session / "program")
                         for fd in os.listdir(f"/proc/{dump.pid}/fd")), "the wait")
    dump.send_signal(signal.SIGINT)
    _, error = dump.communicate(timeout=30)
    assert dump.returncode == 128 + signal.SIGINT and "cancelled" in error, error


def seconds_of_processor(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("said", ["", "x"], ids=["silent", "half-a-message"])
def test_silent_connections_leave_a_keeper_the_descriptors_that_it_needs(ckpt, said):
    """The program makes twice as many connections as its keeper may have descriptors. Those that have begun a message take
    them; then the keeper says so once, and does not spin."""
    code = ("import os, resource, socket, time\npath = os.environ['CKPT_SESSION']\nall = []\n"
            f"for i in range(80):\n s = socket.socket(socket.AF_UNIX); s.connect(path); s.send(b'{said}'); all.append(s)\n"
            "open('named', 'w')\nwhile not os.path.exists('go-on'): time.sleep(0.02)\ndel all, s\ntime.sleep(1000)")
    script = ckpt.folder / "connect.py"
    script.write_text(code)
    job = ckpt.start_shell(f"ulimit -Hn 200; ulimit -Sn 40; exec {ckpt.tool('ckpt-run')} "
                           f"bash -c 'ulimit -Sn 200; exec /usr/bin/python3 {script}'")
    wait_for((ckpt.folder / "named").exists, "the connections")
    before = seconds_of_processor(job.pid)
    message = "accepts no connection for now"
    if said:
        wait_for(lambda: message in job.error_text, "the keeper's message")
    for _ in range(20):
        subprocess.run(["sleep", "0.1"], check=True)
    assert seconds_of_processor(job.pid) - before < 1, "of two seconds"
    assert job.error_text.count(message) == (1 if said else 0), job.error_text
    (ckpt.folder / "go-on").touch()
    done = ckpt.dump_process(job.pid, "image")
    assert done.returncode == 0, done.stdout
