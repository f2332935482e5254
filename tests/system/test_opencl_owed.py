# SPDX-License-Identifier: Apache-2.0
"""Checkpoints while the program runs: the proxy copies the contents of OpenCL memory after the pause. They belong to
the moment of the pause, whatever the program writes meanwhile."""
import os
import pathlib
import random
import signal
import time

import pytest

from conftest import tree_of, wait_for
from test_opencl import Programs, devices, finished, wait_until_computing  # noqa: F401
from test_opencl_width import EXTRA_OPTIONS
from tiers import parametrize


@pytest.fixture
def ocl(ckpt, devices):  # noqa: F811 (a fixture)
    ocl = Programs(ckpt, *devices)
    ckpt.env["CKPT_TEST_OWED"] = "150"  # milliseconds before each piece, so that the program comes first
    return ocl


def steps(job):
    return sum(line.startswith("step ") for line in job.lines)


def makes_steps(job, n):
    before = steps(job)
    wait_for(lambda: steps(job) >= before + n or job.process.poll() is not None, f"{n} steps")
    assert job.process.poll() is None, job.text + job.error_text


def started(ocl, device="pocl"):
    job = ocl.start("owed", device=device)
    makes_steps(job, 3)
    return job


def held_dump(ocl, job):
    """A dump that is stopped when the program runs again, before it has taken the contents."""
    dump = ocl.ckpt.start("ckpt-dump", [str(job.pid), "-o", "one", "--leave-running"], env={"CKPT_TEST_HOLD_AT": "drain"})
    wait_for(lambda: state_of(dump.pid) == "T", "the copies")
    return dump


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def ends_well_without_image(ocl, job, dump):
    assert dump.wait() != 0, dump.text
    assert not (ocl.ckpt.folder / "one").exists()
    makes_steps(job, 2)
    ocl.ckpt.dump(job.pid, "two", "--leave-running")
    ocl.go()
    finished(job)
    finished(ocl.restore("two", "pocl"))


@parametrize("device, own_memory", [("pocl", False), ("pocl", True), ("basic", False), ("rusticl", False)], quick=2)
def test_contents_are_those_of_the_pause(ocl, device, own_memory):
    """With memory of its own, as an accelerator has it, or with pages that program and driver share."""
    if own_memory:
        ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_ACCELERATOR="1")
    job = started(ocl, device)
    report = ocl.ckpt.dump(job.pid, "one", "--leave-running")
    assert "drain" in [p["name"] for p in report["phases"]]
    assert report["pause_seconds"] < report["durable_seconds"]
    second = ocl.ckpt.dump(job.pid, "two", "--leave-running", "--parent", "one")
    assert second["unchanged_bytes"] == 0
    ocl.ckpt.env.pop("CKPT_TEST_OWED")
    for image in ("one", "two"):
        copy = ocl.restore(image, device)
        makes_steps(copy, 2)
        wait_until_computing(copy)
        ocl.ckpt.dump(copy.pid, f"{image}-again")
        assert copy.wait() == 85
    ocl.go()
    finished(job)
    for image in ("one-again", "two-again"):
        finished(ocl.restore(image, device))


def test_an_increment_has_what_was_written_while_contents_were_owed(ocl):
    job = started(ocl)
    ocl.ckpt.dump(job.pid, "one", "--leave-running")
    ocl.ckpt.env.pop("CKPT_TEST_OWED")
    ocl.ckpt.dump(job.pid, "two", "--parent", "one")
    assert job.wait() == 85
    ocl.go()
    finished(ocl.restore("two", "pocl"))
    finished(ocl.restore("one", "pocl"))


def test_the_program_waits_with_stop_the_world(ocl):
    job = started(ocl)
    report = ocl.ckpt.dump(job.pid, "one", "--leave-running", "--stop-the-world")
    assert "drain" not in [p["name"] for p in report["phases"]]
    ocl.go()
    finished(job)
    finished(ocl.restore("one", "pocl"))


def test_a_program_that_ends_meanwhile_leaves_a_whole_image(ocl):
    job = started(ocl)
    dump = held_dump(ocl, job)
    ocl.go()
    finished(job)
    os.kill(dump.pid, signal.SIGCONT)
    assert dump.wait() == 0, dump.error_text
    finished(ocl.restore("one", "pocl"))


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_a_tool_that_ends_meanwhile_leaves_no_image_and_a_program_that_runs(ocl, signal_number):
    job = started(ocl)
    dump = held_dump(ocl, job)
    os.kill(dump.pid, signal_number)
    os.kill(dump.pid, signal.SIGCONT)
    ends_well_without_image(ocl, job, dump)


def test_a_proxy_that_is_killed_meanwhile_leaves_no_image(ocl):
    job = started(ocl)
    dump = held_dump(ocl, job)
    proxy = next(p for p in tree_of(job.pid) if os.readlink(f"/proc/{p}/exe").endswith("ckpt-ocl-proxy"))
    os.kill(proxy, signal.SIGKILL)
    os.kill(dump.pid, signal.SIGCONT)
    assert dump.wait() == 1 and not (ocl.ckpt.folder / "one").exists()
    assert "has ended before it had copied all of it" in dump.error_text
    assert job.wait() != 0


def history_in_images(ocl, dumps):
    """Random commands, subjects of dumps at random moments: every image ends as the program does."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    ocl.ckpt.env["CKPT_TEST_OWED"] = "20"
    job = ocl.start("history", str(seed))
    job.wait_text("STEPPING")
    for n in range(dumps):
        time.sleep(random.uniform(0, 0.2))
        ocl.ckpt.dump(job.pid, f"image-{n}", "--leave-running")
    ocl.go()
    finished(job)
    for n in range(dumps):
        finished(ocl.restore(f"image-{n}", "pocl"))


def test_a_random_history_has_whole_images(ocl):
    history_in_images(ocl, 5)


@pytest.mark.full
@pytest.mark.parametrize("run", range(20))
def test_random_histories_have_whole_images_at_length(ocl, run):
    history_in_images(ocl, 25)
