# SPDX-License-Identifier: Apache-2.0
"""Events that the processes of a CUDA program share (cuIpc*EventHandle), under ckpt-run on the software device."""
import subprocess
import time

import pytest

from conftest import wait_for
from test_cuda import Cuda, cuda, make, pytestmark  # noqa: F401 (fixtures and marks)
from test_cuda_ipc import device_handles

SOURCE = "ipc_events.cu"


def start(cuda, *arguments, paused=False, **more):
    """The program has printed a line when all its processes run."""
    cuda.ckpt.env["CKPT_SOFTCUDA_DIRTY"] = "1"
    job = cuda.start(*arguments, source=SOURCE, paused=paused, **more)
    if not paused:
        job.wait_lines(1)
    return job


def passes(job):
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


@pytest.mark.parametrize("consumers", [1, 3])
def test_tensors_are_sent_as_by_pytorch(cuda, consumers):
    passes(start(cuda, "tensors", 200, consumers, 1))


def test_events_follow_the_rules(cuda):
    job = cuda.start("rules", source=SOURCE, paused=False)
    passes(job)
    assert "an event that processes share cannot be in a graph" in job.error_text


def test_a_handle_of_another_session_is_not_opened(cuda):
    job = start(cuda, "held", "handle", paused=True)
    other = cuda.start("foreign", "handle", source=SOURCE, paused=False)
    assert other.wait() == 0, other.error_text
    cuda.go_on()
    passes(job)


def test_tensors_are_sent_through_dumps_and_restores(cuda):
    """Five times in a row, each time from the last image, on another device."""
    job = start(cuda, "tensors", 1200, 3, 2, options=["--device", "cuda:0"])
    for i in range(5):
        time.sleep(0.5)
        cuda.ckpt.dump(job.pid, f"image{i}")
        assert job.wait() == 85, job.error_text
        job = cuda.ckpt.restore(f"image{i}", "--device", f"cuda:{(i + 1) % 2}")
    passes(job)


def test_tensors_are_sent_through_dumps_that_leave_the_program_running(cuda):
    job = start(cuda, "tensors", 800, 2, 3)
    for i in range(3):
        time.sleep(0.3)
        cuda.ckpt.dump(job.pid, f"image{i}", "--leave-running")
    passes(job)
    passes(cuda.ckpt.restore("image1", "--device", "cuda:1"))


@pytest.mark.parametrize("depth", [[], ["--suspend=memory"]])
def test_tensors_are_sent_through_suspends(cuda, depth):
    job = start(cuda, "tensors", 800, 3, 4)
    for _ in range(3):
        time.sleep(0.3)
        done = cuda.tool("ckpt-dump", str(job.program()), *(depth or ["--suspend"]))
        assert done.returncode == 0, done.stderr
        if not depth:
            wait_for(lambda: cuda.used_mib() == [0, 0], "free devices")
            assert not device_handles(job.pid)
        done = cuda.resume(job)
        assert done.returncode == 0, done.stderr
    passes(job)


def test_tensors_are_sent_through_dumps_that_fail(cuda):
    """The tool ends itself at steps, and when one process has left its devices (Lock)."""
    job = start(cuda, "tensors", 1000, 3, 5)
    for point in ("save", "sent-67", "detach", "criu"):
        time.sleep(0.2)
        killed = subprocess.run([cuda.ckpt.tool("ckpt-dump"), "-o", f"image-{point}", str(job.pid)], cwd=cuda.ckpt.folder,
                                env=dict(cuda.ckpt.env, CKPT_TEST_STOP_AT=point), capture_output=True, timeout=60)
        assert killed.returncode != 0
    passes(job)


def test_each_state_is_kept_by_a_dump(cuda):
    """The dump waits for the pending event. The processes use different devices, and exchange them at the restore."""
    job = start(cuda, "states", paused=True)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.error_text
    cuda.go_on()
    for device in ("cuda:0,cuda:1", "cuda:1,cuda:0"):
        passes(cuda.ckpt.restore("image", "--device", device))


@pytest.mark.parametrize("depth", [[], ["--suspend=memory"]])
def test_each_state_is_kept_by_a_suspend(cuda, depth):
    job = start(cuda, "states", paused=True)
    done = cuda.tool("ckpt-dump", str(job.program()), *(depth or ["--suspend"]))
    assert done.returncode == 0, done.stderr
    cuda.go_on()
    done = cuda.resume(job)
    assert done.returncode == 0, done.stderr
    passes(job)


@pytest.mark.parametrize("victim", ["exporter", "importer"])
def test_nothing_waits_for_a_process_that_was_killed(cuda, victim):
    """Its recording counts as complete. The rest of the program is dumped and restored."""
    job = start(cuda, "killed", victim, paused=True)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.error_text
    cuda.go_on()
    passes(cuda.ckpt.restore("image", "--device", "cuda:1"))


@pytest.mark.parametrize("victim", ["exporter", "importer"])
def test_a_process_that_is_killed_after_a_restore_is_noticed(cuda, victim):
    """The keeper of the copy is another one than that of the original."""
    job = start(cuda, "killed-later", victim, paused=True)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.error_text
    cuda.go_on()
    passes(cuda.ckpt.restore("image", "--device", "cuda:1"))
