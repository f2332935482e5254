# SPDX-License-Identifier: Apache-2.0
"""System calls that CRIU interrupts: those that wait without a limit begin again."""
import os
import pathlib
import signal
import subprocess

from conftest import tree_of, wait_for
from criu_wrapper import criu_wrapper

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


def following(ckpt):
    """`tail -f`, beside a program with 32 MiB of memory."""
    (ckpt.folder / "log").write_text("first\n")
    script = f"tail -n +1 -f log & {ckpt.programs / 'counter'} 100000 7 32 >/dev/null; wait"
    job = ckpt.run("sh", "-c", script)
    job.wait_text("first")
    wait_for(lambda: any(resident(pid) >= 32 << 20 for pid in tree_of(job.pid)), "the memory")
    return job


def resident(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def follows(ckpt, job):
    with open(ckpt.folder / "log", "a") as f:
        f.write("second\n")
    job.wait_text("second")


def test_waits_go_on_after_a_dump_to_a_full_disk(ckpt):
    small = ckpt.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        job = following(ckpt)
        assert "No space left" in ckpt.dump_refused(job.pid, "small/one")
        follows(ckpt, job)
        assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_waits_go_on_after_a_dump_that_is_cancelled_while_criu_works(ckpt):
    job = following(ckpt)
    env = criu_wrapper(ckpt, "dump", 'kill -TERM $PPID; sleep 0.5; exec $criu "$@"')
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one"], env=env)
    assert dump.wait() == 128 + signal.SIGTERM and "cancelled by signal 15" in dump.error_text, dump.error_text
    follows(ckpt, job)
    assert not ckpt.partials()


# It fails when it has seen all processes: one has an open file without a name, for which it makes no room.
CRIU_FAILS = 'exec $criu "$@" --ghost-limit 1'


def test_waits_go_on_after_a_dump_in_which_criu_fails(ckpt):
    """The calls of a program, and `tail -f`. Twice, and a process that was stopped before stays so."""
    script = f"exec 5<>f; rm f; echo more >&5; sleep 1000 & kill -STOP $!; {ckpt.programs / 'waits'} & tail -n 0 -f log & echo $!; wait"
    (ckpt.folder / "log").touch()
    job = ckpt.run("bash", "-c", script)
    job.wait_text("waits\n")
    env = criu_wrapper(ckpt, "dump", CRIU_FAILS)
    for _ in range(2):
        tree = [job.program(), *tree_of(job.program())]
        wait_for(lambda: KERNEL_CALLS <= set().union(*(calls_of(p) for p in tree)), "all threads waiting")
        r = ckpt.dump_process(job.pid, "one", env=env)
        assert r.returncode == 1 and "CRIU cannot dump the program: Can't dump ghost file" in r.stderr, r.stderr
        assert sorted(state(p) for p in tree).count("T") == 1, [state(p) for p in tree]
    follows(ckpt, job)
    assert job.text.count("\n") == 3, job.text


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
