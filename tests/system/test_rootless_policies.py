# SPDX-License-Identifier: Apache-2.0
"""How the kernel runs a user's program: what the user may choose is the same after a restore by ckpt-helper, and a
warning names what only root may give."""
import os
import re
import subprocess

import pytest

from conftest import Job, wait_for
from rootless import helper, needs_helper, root, user  # noqa: F401

pytestmark = needs_helper

SCRIPT = """
import os, threading, time
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
print("ready", flush=True)
while True:
    open("count", "w").write(str(time.monotonic()))
    time.sleep(0.02)
"""


def restored(user, tool, image):
    r = tool("ckpt-restore", "--detach", image)
    assert r.returncode == 0, r.stderr
    user.programs.append(int(r.stdout))
    (user.folder / "count").unlink(missing_ok=True)
    wait_for((user.folder / "count").exists, "the program to go on")
    return int(r.stdout), r.stderr


def threads(pid):
    return [int(t) for t in os.listdir(f"/proc/{pid}/task")]


def started(user, *prefix):
    command = user.command("ckpt-run", "--", "/usr/bin/python3", "-c", SCRIPT)
    job = Job([*prefix, *command], env=user.env, cwd=user.folder)
    user.jobs.append(job)
    job.wait_lines(1)
    return job


def nice_of(thread):
    return os.getpriority(os.PRIO_PROCESS, thread)


@pytest.mark.parametrize("by_root", [False, True], ids=["user", "root"])
def test_a_nice_value_below_0_that_cannot_be_set_again_is_named(user, helper, root, by_root):
    job = started(user, "nice", "-n", "-5")
    tool = root if by_root else user.tool
    assert tool("ckpt-dump", job.pid, "-o", "a.img").returncode == 0
    pid, said = restored(user, tool, "a.img")
    assert {nice_of(t) for t in threads(pid)} == {0}
    assert "nice value -5, which root can set: renice -n -5 -p" in said and "may run slower" in said, said
    # The command that the message names works, and the next dump of the program keeps the value.
    for thread in threads(pid):
        subprocess.run(["renice", "-n", "-5", "-p", str(thread)], check=True, stdout=subprocess.DEVNULL)
    assert tool("ckpt-dump", pid, "-o", "b.img").returncode == 0
    assert "nice value -5" in restored(user, tool, "b.img")[1]


@pytest.mark.parametrize("policy", ["fifo", "rr"])
def test_a_real_time_policy_that_cannot_be_set_again_is_named(user, helper, policy):
    job = started(user)
    thread = max(threads(job.program()))
    subprocess.run(["chrt", f"--{policy}", "--pid", "7", str(thread)], check=True)
    user.dump(job.pid, "a.img")
    pid, said = restored(user, user.tool, "a.img")
    assert {os.sched_getscheduler(t) for t in threads(pid)} == {os.SCHED_OTHER}
    command = re.search(rf"real-time policy, which root can set: (chrt --{policy} --pid 7 (\d+))", said)
    assert command and int(command[2]) in threads(pid), said
    subprocess.run(command[1].split(), check=True)


def test_what_the_user_may_choose_is_kept(user, helper):
    job = started(user)
    program = job.program()
    os.setpriority(os.PRIO_PROCESS, program, 7)
    subprocess.run(["chrt", "--batch", "--pid", "0", str(max(threads(program)))], check=True)
    user.dump(job.pid, "a.img")
    pid, said = restored(user, user.tool, "a.img")
    assert nice_of(pid) == 7 and os.sched_getscheduler(max(threads(pid))) == os.SCHED_BATCH
    assert "policy" not in said, said
