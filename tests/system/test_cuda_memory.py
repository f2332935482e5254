# SPDX-License-Identifier: Apache-2.0
"""The program's own virtual memory (cuMemCreate, cuMemMap) and pools (cuMemAllocAsync) on the software device: saved,
given back and made anew by ckpt, with random histories against a model."""
import re
import subprocess

import pytest

from conftest import image_manifest
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


def suspended_times(job):
    assert job.wait() == 0, job.text
    assert job.lines[-1] == "PASSED"
    return int(re.search(r"suspended (\d+) times", job.text)[1])


# ---- random histories against a model

@pytest.mark.parametrize("seed, count", [(1, 30)] + [
    pytest.param(seed, 1500, marks=pytest.mark.full) for seed in (10_000, 20_000, 30_000, 40_000)])
def test_random_histories_with_suspends_in_between(cuda, seed, count):  # noqa: F811
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "2x512M"
    job = cuda.start(seed, count, 5, source="histories.cc", paused=False)
    assert suspended_times(job) > count / 5


@pytest.mark.parametrize("count, moves", [(60, 3), pytest.param(800, 40, marks=pytest.mark.full)])
def test_random_histories_that_are_moved_and_dumped(cuda, count, moves):  # noqa: F811
    """At any moment, by tools: the program goes from one device to the other, and through an image."""
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "2x512M"
    job = cuda.start(5, count, source="histories.cc", paused=False)
    job.wait_lines(1)
    for n in range(moves):
        r = cuda.resume(job, "--device", f"cuda:{(n + 1) % 2}")
        assert r.returncode == 0, r.stderr
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.text
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.text
    assert copy.lines[-1] == "PASSED"


# ---- the allocators of PyTorch and JAX

def test_segments_are_dumped_killed_and_restored_on_another_device(cuda):  # noqa: F811
    expected = cuda.expected(5, source="segments.cu")
    job = cuda.start(5, source="segments.cu", options=["--device", "cuda:0"])
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    participant = image_manifest(cuda.ckpt.folder / "image")["manifest"]["participants"][0]
    served = [d["bytes"] >> 20 for d in participant["needs"]["devices"]]
    assert 4 * 2 + 2 * 20 + 3 <= max(served) < 80, served  # by ckpt, not by the driver
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.text
    assert copy.lines[-2:] == expected


def test_segments_are_suspended_moved_and_resumed(cuda):  # noqa: F811
    """While the program is suspended, it uses no memory of any device."""
    expected = cuda.expected(5, source="segments.cu")
    job = cuda.start(5, source="segments.cu", options=["--device", "cuda:0"])
    for place in "cuda:1", "cuda:0":
        assert cuda.suspend(job).returncode == 0
        assert cuda.used_mib() == [0, 0]
        r = cuda.resume(job, "--device", place)
        assert r.returncode == 0, r.stderr
    cuda.go_on()
    assert job.wait() == 0, job.text
    assert job.lines[-2:] == expected


# ---- what the driver refuses

@pytest.mark.parametrize("placeholders", [False, True], ids=["holes", "placeholders"])
def test_the_strict_device_treats_memory_of_others_as_the_driver_does(cuda, placeholders):  # noqa: F811
    """Imported memory that is mapped makes Restore fail, managed memory Checkpoint; the device's mappings fault."""
    env = cuda.ckpt.env | ({"CKPT_SOFTCUDA_PLACEHOLDERS": "1"} if placeholders else {})
    r = subprocess.run([str(RUN), str(cuda.make("shared_physical.cc"))], env=env, capture_output=True, text=True, timeout=100)
    assert r.returncode == 0 and "PASSED" in r.stdout, r.stdout + r.stderr
