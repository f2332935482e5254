# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA programs at unusual moments of a checkpoint. A driver that is checkpointed refuses every call (docs/SOFTCUDA.md,
"As strict as a driver"), so they wait; but not earlier than necessary, because a kernel may wait for the thread that calls."""
import contextlib
import subprocess
import threading
import time

import pytest

from conftest import wait_for
from cuda_programs import BUILD, HOME, NVCC, RUN, SOURCES, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from toolkit import WHY_NOT
from workers import make_once, shared_folder

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


@pytest.fixture(scope="session")
def constructor(tmp_path_factory):
    library = shared_folder(tmp_path_factory, "cuda") / "constructor.so"
    make_once(library, lambda: subprocess.run(
        ["c++", "-shared", "-fPIC", "-isystem", f"{HOME}/include", "-o", library, SOURCES / "constructor.cc",
         "-lcuda", f"-L{BUILD}/softcuda/driver"], check=True))
    return library


@pytest.fixture
def start(cuda):  # noqa: F811
    def started(*arguments):
        job = cuda.start(*arguments, source="waiting.cu", paused=False)
        job.wait_lines(1)
        return job
    return started


def signal(cuda, name):  # noqa: F811
    (cuda.ckpt.folder / name).touch()


@contextlib.contextmanager
def stopped_soon(cuda):  # noqa: F811
    """The program may go on when the checkpoint has probably begun."""
    later = threading.Timer(1, signal, [cuda, "stop"])
    later.start()
    yield
    later.join()


def finished(job, code=0, last="right"):
    assert job.wait() == code and job.lines[-1] == last, job.text + job.error_text


@pytest.mark.parametrize("way", ["dump", "suspend"])
def test_a_kernel_that_waits_for_a_thread_with_questions_does_not_prevent_a_checkpoint(cuda, start, way):  # noqa: F811
    job = start("spin")
    if way == "suspend":
        with stopped_soon(cuda):
            assert (r := cuda.suspend(job)).returncode == 0, r.stderr
        assert (r := cuda.resume(job)).returncode == 0, r.stderr
    else:
        with stopped_soon(cuda):
            cuda.ckpt.dump(job.pid, "image", "--leave-running")
    signal(cuda, "end")
    finished(job)


def test_a_host_function_in_a_graph_that_waits_for_a_copy_does_not_prevent_a_checkpoint(cuda, start):  # noqa: F811
    job = start("graph")
    with stopped_soon(cuda):
        cuda.ckpt.dump(job.pid, "image", "--leave-running")
    signal(cuda, "end")
    finished(job)


def test_threads_may_call_at_any_time(cuda, start):  # noqa: F811
    job = start("threads")
    for _ in range(3):
        assert (r := cuda.suspend(job)).returncode == 0, r.stderr
        time.sleep(0.2)
        assert (r := cuda.resume(job)).returncode == 0, r.stderr
        cuda.ckpt.dump(job.pid, "first", "--leave-running", "--overwrite")
    cuda.ckpt.dump(job.pid, "second")
    assert job.wait() == 85, job.text
    copy = cuda.ckpt.restore("second")
    time.sleep(0.2)
    cuda.ckpt.dump(copy.pid, "third", "--leave-running")
    signal(cuda, "stop")
    finished(copy)


def test_a_library_whose_constructor_calls_the_driver_is_loaded_while_the_program_is_suspended(cuda, start, constructor):  # noqa: F811
    job = start("load", constructor)
    assert (r := cuda.suspend(job)).returncode == 0, r.stderr
    signal(cuda, "load")
    job.wait_lines(2)
    time.sleep(0.2)
    assert job.lines == ["ready", "loading"]
    assert (r := cuda.resume(job)).returncode == 0, r.stderr
    finished(job)
    assert "loaded" in job.lines


def test_a_suspended_program_that_calls_exit_ends_after_the_resume(cuda, start):  # noqa: F811
    job = start("exit")
    assert (r := cuda.suspend(job)).returncode == 0, r.stderr
    signal(cuda, "end")
    job.wait_lines(2)
    time.sleep(0.2)
    assert job.lines == ["ready", "exiting"]
    assert (r := cuda.resume(job)).returncode == 0, r.stderr
    finished(job, 7)


def test_threads_that_hold_pythons_lock_while_they_call(cuda):  # noqa: F811
    job = cuda.ckpt.start("ckpt-run", ["--", "/usr/bin/python3", str(SOURCES / "held_gil.py")])
    job.wait_lines(1)
    for _ in range(2):
        assert (r := cuda.suspend(job)).returncode == 0, r.stderr
        time.sleep(0.1)
        assert (r := cuda.resume(job)).returncode == 0, r.stderr
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.text
    copy = cuda.ckpt.restore("image")
    signal(cuda, "stop")
    finished(copy)


@pytest.mark.parametrize("way", ["dump", "suspend"])
def test_all_processes_are_locked_before_the_first_is_checkpointed(cuda, way):  # noqa: F811
    """NVIDIA's driver waits with the Lock of a process for another one that is checkpointed (NVIDIA/cuda-checkpoint#30)."""
    cuda.ckpt.env["CKPT_SOFTCUDA_TOGETHER"] = "1"
    program = cuda.make("waiting.cu")
    job = cuda.ckpt.start("ckpt-run", ["--", "sh", "-c", f"'{program}' threads & '{program}' threads & wait"])
    job.wait_lines(2)
    if way == "suspend":
        assert (r := cuda.suspend(job)).returncode == 0, r.stderr
        assert (r := cuda.resume(job)).returncode == 0, r.stderr
    else:
        cuda.ckpt.dump(job.pid, "image")
        assert job.wait() == 85, job.text
        job = cuda.ckpt.restore("image")
    signal(cuda, "stop")
    wait_for(lambda: job.lines.count("right") == 2, "the ends of both processes")
    assert job.wait() == 0, job.text
