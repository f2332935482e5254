# SPDX-License-Identifier: Apache-2.0
"""Callers that mean ckpt-helper ill, and tools and workers that are killed. Everything runs as a real other user."""
import os
import signal

import pytest

from conftest import Job, tree_of, wait_for
from rootless import (OTHER, UID, answers, as_user, ask, dump_request, frame, helper, needs_helper, status,  # noqa: F401
                      user)

pytestmark = needs_helper


def test_garbage_is_refused_and_harms_nobody(user, helper):
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


def test_silent_callers_hold_up_nobody_else(user, helper):
    """More connections than one user may have: another user is served."""
    job, (*ports, _) = user.server()
    script = "import socket, sys, time\n" \
             "all = [socket.socket(socket.AF_UNIX) for _ in range(40)]\n" \
             "for s in all: s.connect(sys.argv[1])\n" \
             "print(flush=True); time.sleep(1000)"
    crowd = Job([*as_user(OTHER), "/usr/bin/python3", "-c", script, helper.socket])
    try:
        crowd.wait_text("\n")
        wait_for(lambda: len(helper.workers()) == 6, "as many workers as one user may have")
        assert "too many requests" in ask(helper, dump_request(2), OTHER)[0]
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
