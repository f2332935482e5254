# SPDX-License-Identifier: Apache-2.0
"""ckpt-dump --check: every reason against a dump at once, what a restore would need, and nothing changed."""
import json
import os
import signal
import subprocess

import pytest

from conftest import wait_for
from test_kills import state
from test_opencl import Programs, devices  # noqa: F401 (devices is a fixture)

LOOP = "while :; do echo x; sleep 0.05; done"
# A POSIX message queue, an eventfd in semaphore mode and a pipe in packet mode: three refusals of the preflight.
REFUSED = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.eventfd(0, 1)
os.pipe2(os.O_DIRECT)
while True:
    print("x", flush=True)
    time.sleep(0.05)
"""


def check(ckpt, pid, *options):
    r = subprocess.run([ckpt.tool("ckpt-dump"), "--check", str(pid), *options], env=ckpt.env, cwd=ckpt.folder,
                       capture_output=True, text=True, timeout=120)
    return r


def report(ckpt, pid, *options):
    r = check(ckpt, pid, "--json", *options)
    assert r.stdout, r.stderr
    return r.returncode, json.loads(r.stdout)


def test_a_program_that_can_be_dumped_is_left_alone(ckpt):
    (ckpt.folder / "table").write_text("text")
    job = ckpt.run("sh", "-c", f"exec 5<table 6>log; {LOOP}")
    job.wait_lines(2)
    before = sorted(p.name for p in ckpt.folder.iterdir())
    code, said = report(ckpt, job.pid)
    assert (code, said["possible"], said["reasons"]) == (0, True, []), said
    assert said["pid"] == job.program() and said["program"] == "sh"
    needs = said["needs"]
    assert {str(ckpt.folder / "table"), str(ckpt.folder / "log")} <= set(needs["files"])
    assert any("libc" in path for path in needs["mapped_files"]) and needs["memory_bytes"] > 0
    assert sorted(p.name for p in ckpt.folder.iterdir()) == before
    job.wait_lines(len(job.lines) + 3)
    text = check(ckpt, job.pid)
    assert text.returncode == 0 and "possible now" in text.stdout and "open and" in text.stdout, text.stdout
    # The report is right.
    ckpt.dump(job.pid, "one")


def test_every_reason_is_named_at_once_also_of_a_stopped_program(ckpt):
    job = ckpt.run("/usr/bin/python3", "-c", REFUSED)
    job.wait_lines(2)
    code, said = report(ckpt, job.pid)
    assert (code, said["possible"], len(said["reasons"])) == (1, False, 2), said
    assert "semaphore mode" in " ".join(said["reasons"]) and "packet mode" in " ".join(said["reasons"])
    refused = ckpt.dump_refused(job.pid, "one")
    assert all(reason in refused for reason in said["reasons"]), refused
    (ckpt.folder / "one").mkdir()
    r = check(ckpt, job.pid, "-o", "one")
    assert r.returncode == 1 and "would be refused" in r.stdout, r.stdout
    assert "semaphore mode" in r.stderr and "one exists already" in r.stderr and "was not touched" in r.stderr, r.stderr
    job.wait_lines(len(job.lines) + 3)


def test_what_a_restore_would_refuse_is_known_before(ckpt):
    """A rule of the table of restores that needs no image. What the program writes itself is no obstacle."""
    log = ckpt.folder / "log"
    job = ckpt.run("sh", "-c", "exec 5>log; while :; do echo x >&5; : >log; echo x; done")
    job.wait_lines(2)
    for _ in range(3):
        code, said = report(ckpt, job.pid)
        assert code == 0 and str(log) in said["needs"]["files"], str(said["reasons"])
    huge = ckpt.run("/usr/bin/python3", "-c", "import mmap, time\n"
                    "m = [mmap.mmap(-1, 31 << 40, flags=0x4022) for i in range(2)]\n"  # MAP_PRIVATE, ANONYMOUS, NORESERVE
                    "print('x', flush=True); time.sleep(1000)")
    huge.wait_lines(1)
    code, said = report(ckpt, huge.pid)
    assert code == 1 and "has reserved more private memory than CRIU can restore (60 TiB)" in said["reasons"][0], said


def test_a_program_with_a_device_is_asked_and_a_stopped_one_is_named(ckpt, devices):  # noqa: F811
    opencl = Programs(ckpt, *devices)
    job = opencl.start("objects")
    job.wait_text("READY")
    code, said = report(ckpt, job.pid)
    assert code == 0 and said["needs"]["devices"], said
    os.kill(job.program(), signal.SIGSTOP)
    # Its ckpt-run stops as well, as a shell's job does.
    wait_for(lambda: state(job.program()) == state(job.pid) == "T", "the job to stop")
    code, said = report(ckpt, job.pid)
    assert code == 1 and "is stopped: continue it first" in said["reasons"][0], said
    os.kill(job.pid, signal.SIGCONT)
    wait_for(lambda: "T" not in (state(job.program()), state(job.pid)), "the job to go on")
    ckpt.dump(job.pid, "one", "--leave-running")


def test_options_that_do_not_fit(ckpt):
    for options in (["--suspend", "--check", "1"], ["--all", "--check", "-o", "."], ["--job", ".", "--check"]):
        r = subprocess.run([ckpt.tool("ckpt-dump"), *options], env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True)
        assert r.returncode == 125 and "--check" in r.stderr, r.stderr
    r = check(ckpt, os.getpid(), "--json")
    assert r.returncode == 1 and json.loads(r.stdout)["error"]["what"]


# PR_SET_NO_NEW_PRIVS; and whether the kernel has Landlock (LANDLOCK_CREATE_RULESET_VERSION).
GIVES_UP = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
print(libc.syscall(444, None, 0, 1) > 0, flush=True)
time.sleep(1000)
"""


def test_a_program_that_may_use_landlock_is_remarked_on(ckpt):
    job = ckpt.run("/usr/bin/python3", "-c", GIVES_UP)
    job.wait_lines(1)
    for remarks in (report(ckpt, job.pid)[1]["remarks"], ckpt.dump(job.pid, "one", "--leave-running")["remarks"]):
        assert any("Landlock" in remark for remark in remarks) == (job.lines[0] == "True"), remarks
    other = ckpt.run("sh", "-c", LOOP)
    other.wait_lines(1)
    assert report(ckpt, other.pid)[1]["remarks"] == []


def test_a_scheduling_policy_that_criu_cannot_set_again_is_named(ckpt):
    deadline = ["chrt", "--deadline", "--sched-runtime", "1000000", "--sched-deadline", "10000000", "--sched-period", "10000000", "0"]
    if subprocess.run([*deadline, "true"], capture_output=True).returncode != 0:
        pytest.skip("SCHED_DEADLINE is not permitted here")
    job = ckpt.run(*deadline, "sleep", "1000")
    wait_for(lambda: "SCHED_DEADLINE" in str(report(ckpt, job.pid)[1].get("reasons")), "the reason")
    assert "chrt --other --pid 0" in ckpt.dump_refused(job.pid, "one")
