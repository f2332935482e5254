# SPDX-License-Identifier: Apache-2.0
"""Jobs of several programs of a user without root (docs/BATCH.md), as a real other user."""
import json
import shutil

import pytest

from conftest import BUILD
from nodes import wait_members
from rootless import helper, needs_helper, refused, user  # noqa: F401 (fixtures)

pytestmark = needs_helper

COUNTER = """
import time
n = 0
while True:
    print(n, flush=True); n += 1; time.sleep(0.05)
"""


def start(user, name, *program):
    job = user.run(*program, options=["--job=job", f"--member={name}"])
    job.wait_lines(1)
    return job


def program(user, programs, name):
    """A program of tests/system/programs where the user can reach it."""
    copy = user.folder / name
    if not copy.exists():
        shutil.copy(programs / name, copy)
        copy.chmod(0o755)
    return copy


def goes_on(job):
    job.wait_lines(len(job.lines) + 2)


def start_two(user):
    jobs = [start(user, name, "/usr/bin/python3", "-c", COUNTER) for name in ("a", "b")]
    wait_members(user.folder / "job", ["a", "b"])
    return jobs


def test_job_of_a_user(user, helper):
    """A checkpoint of all that runs on, one that stops them, and a restore."""
    jobs = start_two(user)
    r = user.tool("ckpt-dump", "--job=job", "--leave-running", "--json")
    assert r.returncode == 0, r.stdout + r.stderr
    assert set(json.loads(r.stdout)["members"]) == {"a", "b"}
    for job in jobs:
        goes_on(job)
    r = user.tool("ckpt-dump", "--job=job")
    assert r.returncode == 0, r.stdout + r.stderr
    assert [job.wait() for job in jobs] == [85, 85]
    restored = [user.start("ckpt-restore", "--job=job", f"--member={name}") for name in ("a", "b")]
    for old, new in zip(jobs, restored):
        new.wait_lines(2)
        assert int(new.lines[0]) in (int(old.lines[-1]), int(old.lines[-1]) + 1)


def test_job_of_a_user_without_the_helper(user):
    jobs = start_two(user)
    error = refused(user.tool("ckpt-dump", "--job=job"))
    assert "the program cannot be checkpointed now" in error, error
    assert "CRIU needs CAP_CHECKPOINT_RESTORE, and ckpt-helper does not listen" in error, error
    for job in jobs:
        goes_on(job)


def test_job_of_a_user_with_connections_is_refused(user, helper, programs):
    """Only root can stop their packets. Nothing is touched."""
    pair = program(user, programs, "pair")
    server = user.run(pair, "serve", "127.0.0.1", "7802", options=["--job=job", "--member=a"])
    server.wait_text("listening")
    client = start(user, "b", pair, "talk", "127.0.0.1", "7802")
    error = refused(user.tool("ckpt-dump", "--job=job"))
    assert "(pair) has TCP connections: their packets must be stopped during a dump, and only root may stop packets " \
           "(CAP_NET_ADMIN, which ckpt-helper does not give)" in error, error
    client.wait_lines(len(client.lines) + 1)
    (user.folder / "finish").touch()
    assert [job.wait() for job in (client, server)] == [0, 0]


@pytest.mark.skipif(not (BUILD / "libckpt" / "libckpt.so").exists(), reason="libckpt.so is not built")
def test_job_of_a_user_that_closes_its_connections(user, helper, programs):
    """In callbacks, so that no packets need be stopped."""
    closes = program(user, programs, "closes")
    server = user.run(closes, "accept", "7803", options=["--job=job", "--member=a"])
    server.wait_text("listening")
    client = start(user, "b", closes, "connect", "127.0.0.1", "7803")
    server.wait_text("open 1")
    r = user.tool("ckpt-dump", "--job=job", "--leave-running")
    assert r.returncode == 0, r.stderr
    for job in (server, client):
        job.wait_text("open 2")
    r = user.tool("ckpt-dump", "--job=job")
    assert r.returncode == 0, r.stderr
    assert [job.wait() for job in (server, client)] == [85, 85]
    copies = [user.start("ckpt-restore", "--job=job", f"--member={name}") for name in ("a", "b")]
    for copy in copies:
        copy.wait_text("open 3")
    (user.folder / "finish").touch()
    assert [copy.wait() for copy in copies] == [7, 7]
