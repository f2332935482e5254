# SPDX-License-Identifier: Apache-2.0
"""Dumps at random moments of a program's first second, in which it starts its driver, or several programs."""
import random
import subprocess
import time

import pytest

from conftest import BUILD, DEADLINE
from cuda_programs import make  # noqa: F401 (a fixture)
from deadline import fair_share
from test_cuda import cuda  # noqa: F401 (a fixture)
from test_opencl import OPENCL, devices, finished, ocl  # noqa: F401

KERNEL = "kernel void k(global int *a) { a[get_global_id(0)] = 4; }\n"


def dumped_at_once(ckpt, command, moment, **streams):
    """Starts a program, dumps it `moment` seconds later, and lets it end: the dump works, and the program is right.

    The programs wait for the file "go", or until there is no file "pause"."""
    (ckpt.folder / "go").unlink(missing_ok=True)
    (ckpt.folder / "pause").touch()
    job = ckpt.run(*command, **streams)
    time.sleep(moment)  # no condition: the moment is what is tested
    r = subprocess.run([ckpt.tool("ckpt-dump"), str(job.pid), "-o", "image", "--overwrite", "--leave-running"],
                       env=ckpt.env, cwd=ckpt.folder, capture_output=True, text=True, timeout=DEADLINE / fair_share())
    (ckpt.folder / "go").touch()
    (ckpt.folder / "pause").unlink()
    assert r.returncode == 0, f"{moment:.3f} s after the start: {r.stderr}"
    assert job.wait(120) == 0, job.text + job.error_text
    return job


def rounds(request, some):
    return 70 if request.config.getoption("--full") else some


@pytest.mark.full
def test_dumps_while_an_opencl_driver_starts(ocl, request):
    (ocl.ckpt.folder / "kernel.cl").write_text(KERNEL)
    for _ in range(rounds(request, 4)):
        job = dumped_at_once(ocl.ckpt, [OPENCL / "ocl-build", "kernel.cl", ""], random.random(),
                             options=["--device", ocl.device("pocl")])
        assert "wrote 4" in job.text


@pytest.mark.full
def test_dumps_while_a_script_starts_programs(ocl, request):
    (ocl.ckpt.folder / "kernel.cl").write_text(KERNEL)
    script = f"for i in 1 2 3; do {OPENCL}/ocl-build kernel.cl '' & sleep 0.1; done; /bin/true; wait"
    for _ in range(rounds(request, 2)):
        job = dumped_at_once(ocl.ckpt, ["sh", "-c", script], random.random(), options=["--device", ocl.device("pocl")])
        assert job.text.count("wrote 4") == 3


def test_dumps_while_a_cuda_driver_starts(cuda, request):
    program, expected = cuda.make("steps.cu"), cuda.expected(4, 100000)
    for _ in range(rounds(request, 4)):
        job = dumped_at_once(cuda.ckpt, [program, 4, 100000], random.random())
        assert job.lines[-2:] == expected
