# SPDX-License-Identifier: Apache-2.0
"""Callers that mean ckpt-helper ill, and tools and workers that are killed. Everything runs as a real other user."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
import xxhash

from conftest import Job, tree_of, wait_for
from rootless import (OTHER, UID, Helper, User, answers, as_user, ask, dump_request, frame, helper, needs_helper,  # noqa: F401
                      refused, status, user)

pytestmark = needs_helper


def test_garbage_is_refused_and_does_no_harm(user, helper):
    job, (*ports, pid) = user.server()
    restore = (7).to_bytes(4, "little") * 2
    for data, fds in [(os.urandom(200), 0), (b"\xff" * 64, 0), (frame(9, b""), 0), (frame(2, b""), 0),
                      (frame(2, b"\1\0\0\0\0", 1), 1), (frame(3, restore + b"\xff" + bytes(8), 1), 1),
                      (frame(3, restore + b"\0" + (5).to_bytes(4, "little") + b"a/../" + bytes(4), 1), 1),
                      (frame(2, b"x" * 5000, 0), 0)]:
        what, _ = ask(helper, data, UID, fds)
        assert isinstance(what, str) and what, data
    user.dump(job.pid, "a.img", "--leave-running")
    answers(ports)
    assert helper.process.poll() is None


@pytest.mark.parametrize("said", ["", "x"], ids=["silent", "half-a-request"])
def test_callers_that_ask_nothing_do_not_delay_others(user, helper, said):
    """More connections than one user may have: another user is served. Silent ones get no worker."""
    job, (*ports, _) = user.server()
    script = "import socket, sys, time\n" \
             "all = [socket.socket(socket.AF_UNIX) for _ in range(40)]\n" \
             f"for s in all: s.connect(sys.argv[1]); s.send(b'{said}')\n" \
             "print(flush=True); time.sleep(1000)"
    crowd = Job([*as_user(OTHER), "/usr/bin/python3", "-c", script, helper.socket])
    try:
        crowd.wait_text("\n")
        if said:
            wait_for(lambda: len(helper.workers()) == 6, "as many workers as one user may have")
            assert "too many requests" in ask(helper, dump_request(2), OTHER)[0]
        else:
            assert "too many requests" not in ask(helper, dump_request(2), OTHER)[0]
            wait_for(lambda: not helper.workers(), "the end of the worker that has answered")
        user.dump(job.pid, "a.img", "--leave-running")
        answers(ports)
    finally:
        crowd.kill()
    wait_for(lambda: not helper.workers(), "the end of the workers")


@pytest.mark.parametrize("victim", ["ckpt-dump", "worker"])
def test_a_dump_whose_parts_are_killed_leaves_the_program_running(user, helper, victim):
    job, (*ports, _) = user.server()
    user.env["CKPT_TEST_HOLD_AT"] = "record"  # CRIU has ended: the tree is stopped
    dump = user.start("ckpt-dump", job.pid, "-o", "a.img")
    program = next(p for p in tree_of(job.pid) if status(p)["Name"] == ["python3"])
    if victim == "worker":
        # At any moment: the worker lives as long as CRIU.
        worker = wait_for(lambda: helper.workers() or dump.process.poll() is not None, "a worker")
        if worker is not True:
            try:
                os.kill(worker[0], signal.SIGKILL)
            except ProcessLookupError:
                pass
    wait_for(lambda: status(dump.pid)["State"][0] == "T" or dump.process.poll() is not None, "the step")
    dump.kill()
    user.env.pop("CKPT_TEST_HOLD_AT")
    wait_for(lambda: status(program)["State"][0] != "T", "the program to run on")
    assert answers(ports)
    assert not (user.folder / "a.img").exists()
    user.dump(job.pid, "b.img", "--leave-running")


def test_callers_in_a_sandbox_are_refused(user, helper):
    request = dump_request(os.getpid())
    assert "sandbox" in ask(helper, request, UID, 1, "setpriv", "--no-new-privs")[0]
    assert "another mnt namespace" in ask(helper, request, UID, 1, "unshare", "--mount")[0]
    assert "another ipc namespace" in ask(helper, request, UID, 1, "unshare", "--ipc")[0]


def test_a_program_in_a_foreign_namespace_is_refused(user, helper):
    """CRIU is not started among mounts that the helper has not made."""
    job = Job(["unshare", "--pid", "--fork", "--mount-proc", *as_user(), "sleep", "1000"])
    try:
        sleeper = wait_for(lambda: [p for p in tree_of(job.pid) if status(p)["Name"] == ["sleep"]], "sleep")[0]
        what, _ = ask(helper, dump_request(sleeper), UID)
        assert "has not made" in what
    finally:
        job.kill()


# ---- killed in the middle


def criu_below(helper, verb):
    """The process of CRIU that does it, which the helper has started."""
    for pid in helper.workers():
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if verb in command and "--unprivileged" in command:
            return pid
    return None


def stop_in_the_middle(helper, tool, verb):
    """Stops the tool while CRIU works, which then waits for it. Returns CRIU's PID."""
    criu = wait_for(lambda: criu_below(helper, verb) or tool.process.poll() is not None, "CRIU")
    os.kill(tool.pid, signal.SIGSTOP)
    assert criu is not True and tool.process.poll() is None, tool.error_text
    return criu


def worker_of(helper, pid):
    """The child of the helper above this process."""
    while int(status(pid)["PPid"][0]) != helper.process.pid:
        pid = int(status(pid)["PPid"][0])
    return pid


def helpers_besides(helper):
    """Processes of this helper that are no longer below it."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            command = pathlib.Path(f"/proc/{entry}/cmdline").read_text() if entry.isdigit() else ""
        except OSError:
            continue
        if helper.socket in command and "ckpt-helper\0" in command and int(entry) != helper.process.pid:
            found.append(int(entry))
    return found


def kill(pid):
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["ckpt-dump", "worker"])
def test_killed_in_the_middle_of_a_dump(user, helper, victim):
    job = user.large()
    program = next(p for p in tree_of(job.pid) if status(p)["Name"] == ["python3"])
    dump = user.start("ckpt-dump", job.pid, "-o", "a.img")
    criu = stop_in_the_middle(helper, dump, "dump")
    kill(dump.pid if victim == "ckpt-dump" else worker_of(helper, criu))
    if victim == "worker":
        os.kill(dump.pid, signal.SIGCONT)
        assert dump.wait() == 1, dump.error_text
    wait_for(lambda: not os.path.exists(f"/proc/{criu}"), "the end of CRIU")
    wait_for(lambda: status(program)["State"][0] in "SR", "the program to run on")
    assert job.process.poll() is None and not (user.folder / "a.img").exists()
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    wait_for(lambda: not helper.workers(), "the end of the helper's processes")
    wait_for(lambda: not left_over(helper), "the end of the helper's files")


@pytest.mark.parametrize("victim", ["ckpt-restore", "worker", "ckpt-stem", "criu"])
def test_killed_in_the_middle_of_a_restore(user, helper, victim):
    job = user.large()
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    copy = user.start("ckpt-restore", "a.img")
    criu = stop_in_the_middle(helper, copy, "restore")
    kill({"ckpt-restore": copy.pid, "worker": worker_of(helper, criu), "ckpt-stem": int(status(criu)["PPid"][0]),
          "criu": criu}[victim])
    if victim != "ckpt-restore":
        os.kill(copy.pid, signal.SIGCONT)
        assert copy.wait() == 1 and "ckpt-restore: error" in copy.error_text, copy.error_text
    wait_for(lambda: not [*helper.workers(), *helpers_besides(helper)] and not os.path.exists(f"/proc/{criu}"),
             "the end of the helper's processes")
    wait_for(lambda: not left_over(helper), "the end of the helper's files")
    user.restore("a.img")


def left_over(helper):
    return sorted(p.name for p in (helper.folder / "run").iterdir())


# ---- limits and control groups


def limits_of(pid):
    """Hard limits."""
    lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:].split()[1] for line in lines}


def test_a_restored_program_has_no_higher_limits_than_its_caller(user, helper):
    """The caller has lower ones than the program had, also of open files, of which CRIU needs more."""
    job, _ = user.server()
    user.dump(job.pid, "a.img")
    assert job.wait() == 85
    lower = {"nofile": ("Max open files", 64), "cpu": ("Max cpu time", 1000), "nproc": ("Max processes", 500),
             "fsize": ("Max file size", 1 << 30), "core": ("Max core file size", 0)}
    command = ["prlimit", *(f"--{option}={value}" for option, (_, value) in lower.items()),
               *user.command("ckpt-restore", "--detach", "a.img")]
    r = subprocess.run(command, env=user.env, cwd=user.folder, capture_output=True, text=True, timeout=90,
                       stdin=subprocess.DEVNULL)
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    for pid in [int(r.stdout), *tree_of(int(r.stdout))]:
        limits = limits_of(pid)
        assert {name: limits[name] for name, _ in lower.values()} == {name: str(value) for name, value in lower.values()}


def test_a_limit_that_the_helper_cannot_take_over_is_an_error(user):
    """The caller has higher ones than the helper."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    low = Helper(folder, "prlimit", "--nproc=1000")
    user.env["CKPT_HELPER"] = low.socket
    try:
        job, (*ports, _) = user.server()
        said = refused(user.tool("ckpt-dump", job.pid, "-o", "a.img"))
        assert 'cannot take over the caller\'s limit "Max processes"' in said and "LimitNPROC=infinity" in said, said
        answers(ports)
    finally:
        low.close()
        shutil.rmtree(folder)


def control_group():
    """A new one of version 2, which belongs to the user as systemd's user@UID.service does; none here: None."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind != "cgroup2" or not os.access(point, os.W_OK):
            continue
        folder = pathlib.Path(point, f"ckpt-test-{os.getpid()}")
        try:
            (folder / "app").mkdir(parents=True)
        except OSError:
            return None
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, UID, UID)
        return folder
    return None


def test_a_caller_in_a_control_group_of_its_own_is_served(user, helper):
    group = control_group()
    if not group:
        pytest.skip("control groups of version 2 cannot be made here")
    try:
        job, _ = user.server()
        user.dump(job.pid, "a.img")
        assert job.wait() == 85
        enter = f"echo $$ >{group}/app/cgroup.procs && exec \"$@\""
        r = subprocess.run(["sh", "-c", enter, "sh", *user.command("ckpt-restore", "--detach", "a.img")], env=user.env,
                           cwd=user.folder, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)
        assert r.returncode == 0, r.stderr
        pid = int(r.stdout)
        user.programs.append(pid)
        assert f"0::/{group.name}/app\n" in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    finally:
        user.close()
        wait_for(lambda: not helper.workers(), "the end of the workers")
        for folder in (group / "app", group):
            folder.rmdir()


# ---- processes of others


ENDED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t read(int fd, void *into, size_t size) {
  char link[64], target[128] = "", ended[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  snprintf(ended, sizeof ended, "/proc/%s/", getenv("ENDED"));
  if (readlink(link, target, sizeof target - 1) > 0 && !strncmp(target, ended, strlen(ended))) {
    errno = ESRCH;
    return -1;
  }
  return ((ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, into, size);
}
"""


def test_a_process_of_another_user_that_ends_meanwhile_does_no_harm(user):
    """The kernel answers ESRCH to whoever has opened a file of /proc before its process ended."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-helper-"))
    folder.chmod(0o755)
    (folder / "ended.c").write_text(ENDED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "ended.so", folder / "ended.c", "-ldl"], check=True)
    other = subprocess.Popen(["sleep", "1000"])
    h = Helper(folder, "env", f"LD_PRELOAD={folder}/ended.so", f"ENDED={other.pid}")
    user.env["CKPT_HELPER"] = h.socket
    try:
        job, (*ports, _) = user.server()
        user.dump(job.pid, "a.img", "--leave-running")
        answers(ports)
    finally:
        h.close()
        other.kill()
        other.wait()
        shutil.rmtree(folder)


# ---- forged images


def change_manifest(image, old, new):
    """Of the same length, so that only the checksum of the index changes too."""
    index = image / "index.ckpt"
    data = index.read_bytes()[:-8].replace(old, new)
    index.write_bytes(data + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little"))


def test_an_image_that_names_a_wrong_owner_gives_no_rights(user, helper):
    """Another user's image with the own uid as owner in the manifest: CRIU, as the caller, cannot make the process."""
    job, _ = user.server()
    user.dump(job.pid, "a.img")
    other = User(OTHER)
    other.env["CKPT_HELPER"] = helper.socket
    try:
        image = other.folder / "a.img"
        shutil.copytree(user.folder / "a.img", image)
        change_manifest(image, str(UID).encode(), str(OTHER).encode())
        subprocess.run(["chown", "-R", str(OTHER), image], check=True)
        said = refused(other.tool("ckpt-restore", "a.img"))
        assert f"names uid {OTHER} as its owner, but its processes belong to uid {UID}" in said, said
        wait_for(lambda: not helper.workers(), "the end of the helper's processes")
    finally:
        other.close()
