# SPDX-License-Identifier: Apache-2.0
"""Random histories of objects that are released at any time, while the program is suspended, resumed, dumped,
restored and moved. The programs check what they compute, and that everything is gone in the end."""
import subprocess

import pytest

from cuda_programs import NVCC, make  # noqa: F401 (fixture)
from test_cuda import cuda  # noqa: F401 (fixture)
from test_opencl import devices, finished, ocl  # noqa: F401 (fixtures)
from toolkit import WHY_NOT


def in_place(programs, job, device):
    for tool, *options in (["ckpt-dump", "--suspend", str(job.pid)],
                           ["ckpt-restore", "--resume", str(job.pid), "--device", device]):
        r = subprocess.run([programs.ckpt.tool(tool), *options], env=programs.ckpt.env, capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr


def lives_through(programs, job, devices, rounds):  # noqa: F811
    """`rounds` times in place to each device, and by an image; returns the last copy."""
    for n in range(rounds):
        for device in devices:
            in_place(programs, job, device)
        programs.ckpt.dump(job.pid, f"kept-{n}", "--leave-running")
        programs.ckpt.dump(job.pid, f"image-{n}")
        assert job.wait() == 85
        job = programs.ckpt.restore(f"image-{n}", "--device", devices[n % len(devices)])
        job.wait_text("STEPPING")
    return job


def released_opencl(ocl, seed, rounds):  # noqa: F811
    job = ocl.start("history", str(seed))
    job.wait_text("STEPPING")
    job = lives_through(ocl, job, [ocl.device(d) for d in ("basic", "pocl")], rounds)
    ocl.go()
    finished(job)


def test_released_objects_of_opencl(ocl):  # noqa: F811
    released_opencl(ocl, 1, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 22))
def test_released_objects_of_opencl_at_length(ocl, seed):  # noqa: F811
    released_opencl(ocl, seed, 3)


@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
def test_released_objects_of_cuda(cuda):  # noqa: F811
    released_cuda(cuda, 1, 1)


def released_cuda(cuda, seed, rounds):  # noqa: F811
    job = cuda.start(seed, source="history.cu")
    job.wait_text("STEPPING")
    job = lives_through(cuda, job, ["cuda:1,cuda:0", "cuda:0,cuda:1"], rounds)
    cuda.go_on()
    assert job.wait() == 0 and "PASSED" in job.text, job.text + job.error_text


@pytest.mark.full
@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
@pytest.mark.parametrize("seed", range(2, 22))
def test_released_objects_of_cuda_at_length(cuda, seed):  # noqa: F811
    released_cuda(cuda, seed, 3)
