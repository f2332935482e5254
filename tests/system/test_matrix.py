# SPDX-License-Identifier: Apache-2.0
"""A matrix of the output's destination × whether the PID is free at the restore, each with dump → restore →
dump → restore. The output must contain every number once and the right sum."""
import os
import subprocess

import pytest

from conftest import BUILD, wait_for
from tiers import parametrize

STEPS = 1000
CODE = 42


class Output:
    """The output of a program over several jobs."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.path = folder / "out"
        self.jobs = []

    def streams(self):
        if self.kind in ("tty", "pipe"):
            return {"stdout": self.kind}
        return {"stdout": open(self.path, "w" if self.kind == "file" else "a")}

    def started(self, job):
        self.jobs.append(job)
        return job

    @property
    def lines(self):
        if self.kind in ("tty", "pipe"):
            return [line for job in self.jobs for line in job.lines if not line.startswith("ckpt-")]
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_more(self, n=5):
        have = len(self.lines)
        wait_for(lambda: len(self.lines) >= have + n, f"{n} more lines after {self.lines[-3:]}")


def check_complete(lines):
    numbers = [line for line in lines if not line.startswith("sum")]
    assert numbers == [str(i) for i in range(STEPS)]
    assert lines[-1].startswith("sum ")


@parametrize("pid", ["free", "taken", "mixed"], quick=2)
@pytest.mark.parametrize("kind", ["tty", "file", "append", "pipe"])
def test_dumped_and_restored_twice(ckpt, blocker, kind, pid):
    out = Output(kind, ckpt.folder)
    job = out.started(ckpt.run("counter", STEPS, CODE, **out.streams()))
    out.wait_more()
    root = job.program()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    if pid != "free":
        blocker.take(root)
    again = {"stdout": kind} if kind in ("tty", "pipe") else {"stdout": subprocess.DEVNULL}
    job = out.started(ckpt.restore("one", **again))
    out.wait_more()
    ckpt.dump(job.pid, "two")
    assert job.wait() == 85
    if pid == "mixed":
        blocker.free()
    job = out.started(ckpt.restore("two", **again))
    ckpt.finish()
    assert job.wait() == CODE
    check_complete(out.lines)


@pytest.mark.parametrize("pid", ["free", "taken"])
@pytest.mark.parametrize("kind", ["tty", "pipe", "file"])
def test_dumped_and_restored_detached_twice(ckpt, blocker, kind, pid):
    first = Output(kind, ckpt.folder)
    job = first.started(ckpt.run("counter", STEPS, CODE, **first.streams()))
    first.wait_more()
    root = job.program()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    if pid == "taken":
        blocker.take(root)
    later = Output("append" if kind != "file" else "file", ckpt.folder)
    options = ["--output", later.path] if kind != "file" else []
    for image, following in (("one", "two"), ("two", None)):
        program = ckpt.restore_detached(image, *options)
        assert (program == root) == (pid == "free")
        if following:
            later.wait_more()
            ckpt.dump(program, following)
            assert not os.path.exists(f"/proc/{program}")
    ckpt.finish()
    wait_for(lambda: any(line.startswith("sum") for line in later.lines), "the sum")
    check_complete(later.lines if kind == "file" else first.lines + later.lines)


def test_terminal_image_into_a_pipe(ckpt):
    """An image with a terminal, restored without one: the program gets a pseudo-terminal, and its output goes
    to the pipe."""
    job = ckpt.run("counter", STEPS, CODE, stdout="tty")
    job.wait_lines(5)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ckpt.finish()
    copy = ckpt.restore("one", stdout="pipe")
    assert copy.wait() == CODE
    assert b"\r" not in b"".join(copy.chunks)
    check_complete([line for line in job.lines + copy.lines if not line.startswith("ckpt-")])


def test_pipe_image_into_a_file_and_a_terminal(ckpt):
    job = ckpt.run("counter", STEPS, CODE, stdout="pipe")
    job.wait_lines(5)
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ckpt.finish()
    with open(ckpt.folder / "rest", "w") as rest:
        assert ckpt.restore("one", stdout=rest).wait() == CODE
    check_complete(job.lines + (ckpt.folder / "rest").read_text().splitlines())
    on_terminal = ckpt.restore("one", stdout="tty")
    assert on_terminal.wait() == CODE
    check_complete(job.lines + on_terminal.lines)


def test_a_pipeline_with_tee(ckpt):
    """A pipeline in a shell: ckpt-run app | tee log."""
    log = ckpt.folder / "log"
    script = f"{ckpt.tool('ckpt-run')} {ckpt.programs}/counter {STEPS} | tee {log}"
    shell = subprocess.Popen(["sh", "-c", script], env=ckpt.env, cwd=ckpt.folder, stdout=subprocess.DEVNULL)
    wait_for(lambda: log.exists() and len(log.read_text().splitlines()) >= 5, "lines")
    keeper = wait_for(lambda: [p for p in os.listdir("/proc") if p.isdigit() and _is(p, "ckpt-run", shell.pid)], "ckpt-run")[0]
    ckpt.dump(keeper, "one")
    shell.wait(30)
    ckpt.finish()
    script = f"{ckpt.tool('ckpt-restore')} one | tee -a {log}"
    subprocess.run(["sh", "-c", script], env=ckpt.env, cwd=ckpt.folder, stdout=subprocess.DEVNULL, timeout=60)
    check_complete(log.read_text().splitlines())


def test_session_leader_outside_of_the_pid_namespace(ckpt):
    """As after entering a container: the session leader has no PID in the namespace, so CRIU cannot keep it."""
    log = ckpt.folder / "log"
    tools = BUILD / "tools"
    script = f"""
        {tools}/ckpt-run {ckpt.programs}/counter {STEPS} | tee {log} &
        until [ "$(wc -l <{log})" -ge 5 ]; do sleep 0.05; done
        {tools}/ckpt-dump "$(pgrep -x ckpt-run)" -o one || exit 1
        touch finish
        wait
        {tools}/ckpt-restore one | tee -a {log}"""
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script], env=ckpt.env,
                          cwd=ckpt.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    check_complete(log.read_text().splitlines())


def _is(pid, name, parent):
    try:
        stat = open(f"/proc/{pid}/stat").read().rsplit(")", 1)
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name and int(stat[1].split()[1]) == parent
    except OSError:
        return False
