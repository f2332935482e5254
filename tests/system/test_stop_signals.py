"""A program does not see that it was stopped for a checkpoint: SIGCHLD of children that stop."""
import pytest

PARENT = """
import os, pathlib, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
stopped = os.fork()
if stopped == 0:
    time.sleep(1000)
if "stopped" in sys.argv:
    os.kill(stopped, signal.SIGSTOP)
other = os.fork()
if other == 0:
    while True:
        time.sleep(0.01)
print("begin", flush=True)
while not pathlib.Path("finish").exists():
    time.sleep(0.01)
info = signal.sigtimedwait([signal.SIGCHLD], 0)
print("none" if info is None else f"{info.si_code} {info.si_status} {info.si_pid == stopped}", flush=True)
for child in (stopped, other):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
CLD_CONTINUED = "6 18"  # siginfo's si_code, and SIGCONT


@pytest.mark.parametrize("copy", [False, True])
def test_a_parent_is_not_told_that_its_children_were_stopped(ckpt, copy):
    job = ckpt.run("/usr/bin/python3", "-c", PARENT)
    job.wait_lines(1)
    ckpt.dump(job.pid, "one", *([] if copy else ["--leave-running"]))
    job = ckpt.restore("one") if copy else job
    ckpt.finish()
    assert job.wait() == 0
    assert job.lines[-1] == "none" or job.lines[-1].startswith(CLD_CONTINUED), job.lines


def test_a_parent_is_told_of_a_child_that_its_user_has_stopped(ckpt):
    job = ckpt.run("/usr/bin/python3", "-c", PARENT, "stopped")
    job.wait_lines(1)
    ckpt.dump(job.pid, "one", "--leave-running")
    ckpt.finish()
    assert job.wait() == 0
    assert job.lines[-1] == "5 19 True"
