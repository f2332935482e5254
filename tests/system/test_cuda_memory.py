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
    pytest.param(seed, 2500, marks=pytest.mark.full) for seed in (10_000, 20_000, 30_000, 40_000)])
def test_random_histories_with_suspends_in_between(cuda, seed, count):  # noqa: F811
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "2x512M"
    job = cuda.start(seed, count, 5, source="histories.cc", paused=False)
    assert suspended_times(job) > count / 5


@pytest.mark.parametrize("count, moves", [(20, 3), pytest.param(400, 40, marks=pytest.mark.full)])
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
