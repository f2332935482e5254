# SPDX-License-Identifier: Apache-2.0
"""Programs with an agent but without a device: the life cycle over the agent's socket and the outcome pipe."""
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import BUILD, tree_of, wait_for

pytestmark = pytest.mark.skipif(not (BUILD / "libckpt" / "libckpt.so").exists(), reason="libckpt.so is not built")


@pytest.fixture
def stay(ckpt):
    """The program runs until this file is removed."""
    file = ckpt.folder / "stay"
    file.touch()
    return file


@pytest.mark.parametrize("blocked", [False, True])
def test_callbacks(ckpt, stay, blocker, blocked):
    job = ckpt.run("library")
    job.wait_lines(5)
    root = job.program()
    ckpt.dump(job.pid, "zero", "--leave-running")
    job.wait_text("after 0")
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    if blocked:
        blocker.take(root)
    copy = ckpt.restore("one")
    copy.wait_text("after 1")
    ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    last = ckpt.restore("two")
    last.wait_text("after 1")
    stay.unlink()
    assert last.wait() == 6
    numbers = [int(line) for line in job.lines + copy.lines + last.lines if line.isdigit()]
    assert len(numbers) >= 100 and numbers == list(range(len(numbers)))


def test_the_report_says_that_it_waited_for_a_callback(ckpt, stay):
    job = ckpt.run("library")
    job.wait_lines(5)
    (ckpt.folder / "hold").touch()
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one"])
    job.wait_text("before")
    time.sleep(0.3)  # no condition: the time is what is reported
    (ckpt.folder / "hold").unlink()
    assert dump.wait() == 0
    assert re.search(r"until callbacks had returned and devices were idle \(callbacks \d+\.\d+ s\)", dump.text), dump.text


def test_callback_refuses(ckpt, stay):
    job = ckpt.run("library")
    job.wait_lines(5)
    (ckpt.folder / "refuse").touch()
    assert "not today" in ckpt.dump_refused(job.pid, "one")
    job.wait_lines(len(job.lines) + 5)
    (ckpt.folder / "refuse").unlink()
    ckpt.dump(job.pid, "one")
    assert job.wait() == 85


def test_checkpoints_itself(ckpt):
    job = ckpt.run("library", "self")
    job.wait_text("checkpoint 0")
    assert (ckpt.folder / "self").exists()
    assert job.wait() == 6
    copy = ckpt.restore("self")
    assert copy.wait() == 6
    assert "checkpoint 1" in copy.text


def test_its_own_checkpoint_fails(ckpt):
    (ckpt.folder / "self").mkdir()
    job = ckpt.run("library", "self")
    job.wait_text("checkpoint -4")
    assert "exists already" in job.text
    assert job.wait() == 6


@pytest.mark.parametrize("phase", ["quiesce", "save", "detach", "criu", "record", "write"])
def test_dump_killed(ckpt, stay, phase):
    job = ckpt.run("library")
    job.wait_lines(5)
    ckpt.dump_process(job.pid, "one", env={"CKPT_TEST_STOP_AT": phase})
    job.wait_lines(len(job.lines) + 5)
    # The agent listens again once it has undone the checkpoint.
    wait_for(lambda: ckpt.dump_process(job.pid, "two").returncode == 0, "a dump after that")
    assert job.wait() == 85


def comms(root):
    """The names of the processes of a tree; those that have just ended are left out."""
    names = []
    for pid in tree_of(root):
        with suppress(OSError):
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


def test_an_agent_that_starts_during_a_checkpoint_waits_for_its_end(ckpt, stay):
    library = ckpt.programs / "library"
    job = ckpt.run("sh", "-c", f"{library} & until [ -e second ]; do sleep 0.01; done; {library}")
    job.wait_lines(5)
    (ckpt.folder / "hold").touch()
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one"])
    job.wait_text("before")
    (ckpt.folder / "second").touch()
    wait_for(lambda: comms(job.pid).count("library") == 2, "the second one")
    assert job.lines.count("0") == 1
    (ckpt.folder / "hold").unlink()
    assert dump.wait() == 0
    assert job.wait() == 85
    copy = ckpt.restore("one")
    copy.wait_text("after 1")
    wait_for(lambda: (job.lines + copy.lines).count("0") == 2, "the second one's first step")
    ckpt.dump(copy.pid, "two", "--leave-running")
    stay.unlink()
    assert copy.wait() == 6


def test_a_dump_that_waits_for_the_agents_of_another_can_be_interrupted(ckpt, stay):
    job = ckpt.run(ckpt.programs / "library")
    job.wait_lines(1)
    held = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one", "--leave-running"], env={"CKPT_TEST_HOLD_AT": "criu"})
    wait_for(lambda: Path(f"/proc/{held.pid}/stat").read_text().split()[2] == "T", "the step")
    waiting = ckpt.start("ckpt-dump", [str(job.pid), "-o", "two", "--leave-running"])
    wait_for(lambda: len(os.listdir(f"/proc/{waiting.pid}/task")) > 1, "its thread for signals")
    sent = time.monotonic()
    waiting.process.send_signal(signal.SIGINT)
    assert waiting.wait() == 130 and time.monotonic() - sent < 50, "it gives up by itself after 60 s"
    assert "cancelled by signal 2" in waiting.error_text
    os.kill(held.pid, signal.SIGCONT)
    assert held.wait() == 0, held.error_text


def test_an_agent_does_not_wait_for_a_dump_that_was_killed(ckpt, stay):
    """Nor for a keeper: its marker stays behind."""
    library = ckpt.programs / "library"
    job = ckpt.run("sh", "-c", f"{library} & until [ -e second ]; do sleep 0.01; done; exec {library}")
    job.wait_lines(5)
    program = job.program()
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one"], env={"CKPT_TEST_HOLD_AT": "quiesce"})
    wait_for(lambda: Path(f"/proc/{dump.pid}/stat").read_text().split()[2] == "T", "the step")
    marker = next(ckpt.runtime.glob("*/dump-under-way"))
    os.kill(job.pid, signal.SIGKILL)
    os.kill(dump.pid, signal.SIGKILL)
    (ckpt.folder / "second").touch()
    try:
        wait_for(lambda: job.lines.count("0") == 2, "the second one's first step")
        assert marker.exists()
    finally:
        for pid in [program, *tree_of(program)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_library_can_be_loaded_by_its_name(ckpt):
    """By a program that does not depend on it, such as a module of Python."""
    script = "import ctypes; f = ctypes.CDLL('libckpt.so.1').ckpt_version; f.restype = ctypes.c_char_p; print(f().decode())"
    version = subprocess.run([ckpt.tool("ckpt-run"), "--version"], capture_output=True, text=True).stdout.split()[1]
    job = ckpt.run("/usr/bin/python3", "-c", script)
    assert job.wait() == 0 and job.lines == [version], job.error_text
    job = ckpt.run("/usr/bin/python3", "-c", script, env={"LD_LIBRARY_PATH": "/nowhere"})
    assert job.wait() == 0 and job.lines == [version], job.error_text
