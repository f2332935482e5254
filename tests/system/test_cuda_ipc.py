# SPDX-License-Identifier: Apache-2.0
"""Memory that the processes of a CUDA program share (cuIpc*), under ckpt-run on the software device. The
programs check it against a model."""
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import tree_of, wait_for
from test_cuda import BUILD, Cuda, cuda, make, pytestmark  # noqa: F401 (fixtures and marks)
from test_waits import state

SOURCE = "ipc_memory.cu"


def history(cuda, *arguments, **more):
    """The program has printed a line when all its processes run."""
    cuda.ckpt.env["CKPT_SOFTCUDA_DIRTY"] = "1"
    job = cuda.start(*arguments, source=SOURCE, paused=False, **more)
    job.wait_lines(1)
    return job


def device_handles(pid):
    """The software device's memory that a process has descriptors of."""
    links = [os.readlink(f) for f in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    return [link for link in links if "softcuda-" in link]


@pytest.mark.parametrize("arguments", [(300, 1, 1), (300, 3, 2), (600, 4, 3, "end")])
def test_processes_share_memory(cuda, arguments):
    job = history(cuda, *arguments)
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


def test_handles_follow_the_rules(cuda):
    job = cuda.start("rules", source=SOURCE, paused=False)
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


def test_a_handle_of_another_session_is_not_opened(cuda):
    job = cuda.start("held", "handle", source=SOURCE)
    other = cuda.start("foreign", "handle", source=SOURCE, paused=False)
    assert other.wait() == 0, other.error_text
    cuda.go_on()
    assert job.wait() == 0, job.error_text


@pytest.mark.parametrize("arguments", [(1500, 1, 4), (1500, 3, 5), (1500, 4, 6, "end")])
@pytest.mark.parametrize("after", [0.3, 1])
def test_dumped_killed_and_restored_on_another_device(cuda, arguments, after):
    job = history(cuda, *arguments, options=["--device", "cuda:0"])
    time.sleep(after)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.error_text
    for device in ("cuda:1", "cuda:0"):
        copy = cuda.ckpt.restore("image", "--device", device)
        assert copy.wait() == 0, copy.error_text
        assert "PASSED" in copy.text


def test_dumped_again_and_again_while_it_runs(cuda):
    """Then restored from the last image, and that copy dumped again."""
    job = history(cuda, 3000, 3, 7)
    for i in range(4):
        time.sleep(0.2)
        cuda.ckpt.dump(job.pid, f"image{i}", "--leave-running")
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text
    copy = cuda.ckpt.restore("image0", "--device", "cuda:1")
    time.sleep(0.5)
    cuda.ckpt.dump(copy.pid, "again")
    assert copy.wait() == 85, copy.error_text
    last = cuda.ckpt.restore("again", "--device", "cuda:0")
    assert last.wait() == 0, last.error_text
    assert "PASSED" in last.text


@pytest.mark.parametrize("depth", [[], ["--suspend=memory"]])
@pytest.mark.parametrize("arguments", [(1500, 3, 8), (1500, 4, 9, "end")])
def test_suspended_and_resumed(cuda, depth, arguments):
    job = history(cuda, *arguments)
    time.sleep(0.5)
    for _ in range(2):
        done = cuda.tool("ckpt-dump", str(job.program()), *(depth or ["--suspend"]))
        assert done.returncode == 0, done.stderr
        if not depth:
            wait_for(lambda: cuda.used_mib() == [0, 0], "free devices")
            assert not device_handles(job.pid), "the keeper keeps memory that all have given back"
        done = cuda.resume(job)
        assert done.returncode == 0, done.stderr
        time.sleep(0.3)
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


def test_memory_of_a_process_that_was_killed_goes_with_it(cuda):
    job = cuda.start("killed", source=SOURCE)
    wait_for(lambda: not device_handles(job.pid), "the keeper to give up memory that no process has")
    cuda.go_on()
    assert job.wait() == 0, job.error_text


def test_a_restored_exporter_ends_before_the_importers_have_the_memory(cuda):
    job = cuda.start("late", source=SOURCE)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.error_text
    cuda.go_on()
    for _ in range(4):
        copy = cuda.ckpt.restore("image")
        assert copy.wait() == 0, copy.error_text
        assert "PASSED" in copy.text


def test_a_resumed_exporter_ends_before_the_importers_have_the_memory(cuda):
    job = cuda.start("late", source=SOURCE)
    done = cuda.tool("ckpt-dump", str(job.program()), "--suspend")
    assert done.returncode == 0, done.stderr
    cuda.go_on()
    done = cuda.resume(job)
    assert done.returncode == 0, done.stderr
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


@pytest.mark.parametrize("step", ["check", "wake"])
def test_a_process_that_ends_during_the_resume_needs_no_devices(cuda, step):
    job = cuda.start("late", source=SOURCE)
    done = cuda.tool("ckpt-dump", str(job.program()), "--suspend")
    assert done.returncode == 0, done.stderr
    tool = subprocess.Popen([cuda.ckpt.tool("ckpt-restore"), "--resume", str(job.program())], stderr=subprocess.PIPE, text=True,
                            env=dict(cuda.ckpt.env, CKPT_TEST_HOLD_AT=step))
    wait_for(lambda: state(tool.pid) == "T", "the step")
    os.kill(max(tree_of(job.program())), signal.SIGKILL)  # the second importer
    os.kill(tool.pid, signal.SIGCONT)
    assert "has ended; the program goes on without it" in tool.communicate(timeout=60)[1]
    assert tool.returncode == 0
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


def test_a_dump_that_fails_leaves_the_memory_shared(cuda):
    """The tool ends itself at steps, and when it has told one process to unmap its memory (Lock)."""
    job = history(cuda, 1500, 3, 10)
    for point in ("save", "sent-67", "detach", "sent-67", "criu"):
        time.sleep(0.2)
        killed = subprocess.run([cuda.ckpt.tool("ckpt-dump"), "-o", f"image-{point}-{time.time()}", str(job.pid)], cwd=cuda.ckpt.folder,
                                env=dict(cuda.ckpt.env, CKPT_TEST_STOP_AT=point), capture_output=True, timeout=60)
        assert killed.returncode != 0
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text
