# SPDX-License-Identifier: Apache-2.0
"""System calls that CRIU interrupts: those that wait without a limit begin again."""
import os
import pathlib
import signal
import subprocess

from conftest import wait_for

KERNEL_CALLS = {"7", "232", "220", "202", "128"}  # poll, epoll_wait, semtimedop, futex, rt_sigtimedwait


def calls_of(pid):
    calls = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        calls.add((task / "syscall").read_text().split()[0])
    return calls


def waiting(ckpt):
    job = ckpt.run("waits")
    job.wait_lines(1)
    wait_for(lambda: KERNEL_CALLS <= calls_of(job.program()), "all threads waiting")
    return job


def test_waits_go_on_after_a_dump_and_in_a_copy(ckpt):
    job = waiting(ckpt)
    for image in ("one", "two"):
        ckpt.dump(job.pid, image, "--leave-running")
    ckpt.dump(job.pid, "three")
    copy = ckpt.restore("three")
    wait_for(lambda: KERNEL_CALLS <= calls_of(copy.program()), "all threads waiting")
    ckpt.finish()
    assert copy.wait() == 0, copy.text
    assert job.text == "waits\n" and copy.text == ""


def test_a_signal_during_a_dump_still_interrupts(ckpt):
    """Its handler runs when the program continues."""
    job = waiting(ckpt)
    dump = subprocess.Popen([ckpt.tool("ckpt-dump"), str(job.pid), "-o", "one", "--leave-running"], cwd=ckpt.folder,
                            env=dict(ckpt.env, CKPT_TEST_HOLD_AT="record"), stdout=subprocess.DEVNULL)
    wait_for(lambda: pathlib.Path(f"/proc/{dump.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "the step")
    os.kill(job.program(), signal.SIGUSR2)
    os.kill(dump.pid, signal.SIGCONT)
    assert dump.wait(120) == 0
    job.wait_text("poll 4\n")
    assert job.text == "waits\npoll 4\n"


def test_tail_follows_its_file_after_a_dump(ckpt):
    log = ckpt.folder / "log"
    log.write_text("first\n")
    job = ckpt.run("tail", "-n", "+1", "-f", "log")
    job.wait_text("first")
    ckpt.dump(job.pid, "one", "--leave-running")
    with open(log, "a") as f:
        f.write("second\n")
    job.wait_text("second")
