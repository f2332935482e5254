# SPDX-License-Identifier: Apache-2.0
"""Memory that an OpenCL program and its device share: on devices that work on host memory themselves, application
and proxy map the same pages; elsewhere bytes are copied. What a program computes is the same."""
import pathlib
import subprocess

import pytest

from conftest import wait_for
from test_opencl import Programs, assert_no_driver, bed_environment, devices, finished, wait_until_computing  # noqa: F401
from test_opencl_width import EXTRA_OPTIONS
from tiers import parametrize

MEMORY = "/memfd:opencl-memory"


@pytest.fixture
def ocl(ckpt, devices):  # noqa: F811 (a fixture)
    return Programs(ckpt, *devices)


def shared_mappings(job):
    text = pathlib.Path(f"/proc/{job.program()}/maps").read_text()
    return [line for line in text.splitlines() if MEMORY in line]


def open_files(job):
    links = [f.readlink() for f in pathlib.Path(f"/proc/{job.program()}/fd").iterdir()]
    return [str(link) for link in links if MEMORY in str(link)]


@pytest.mark.parametrize("device", ["pocl", "basic", "rusticl"])
@parametrize("seed", [1, 2, 3], quick=1)
def test_the_program_and_kernels_work_on_the_same_memory(ocl, device, seed):
    """With "direct", the program expects what it finds natively on such devices."""
    vendor = "rusticl" if device == "rusticl" else "pocl"
    native = ocl.native("shared", str(seed), "200", "direct", vendor=vendor) if seed == 1 else None
    job = ocl.start("shared", seed, 400, "direct", device=device)
    finished(job)
    assert native is None or native.returncode == 0, native.stdout


# The second takes more than half a minute, because rusticl is slow.
@pytest.mark.parametrize("moves", [("pocl", "rusticl", "pocl"), pytest.param(("rusticl", "basic", "basic"), marks=pytest.mark.full), ("pocl", "pocl", "rusticl")])
@parametrize("seed", [11, 12], quick=1)
def test_a_history_goes_on_on_other_devices_that_share(ocl, seed, moves):
    job = ocl.start("shared", seed, 0, "direct", device=moves[0])
    job.wait_text("READY")
    assert_no_driver(job)
    for n, device in enumerate(moves[1:]):
        wait_for(lambda: shared_mappings(job), "shared memory")
        ocl.ckpt.dump(job.pid, f"alive{n}", "--leave-running")
        wait_for(lambda: shared_mappings(job), "shared memory")
        ocl.ckpt.dump(job.pid, f"image{n}")
        assert job.wait() == 85
        job = ocl.restore(f"image{n}", device)
        wait_until_computing(job)
        wait_for(lambda: shared_mappings(job) and not open_files(job), "shared memory")
    ocl.go()
    finished(job)


def test_a_move_that_fails_leaves_the_memory_shared(ocl):
    """The new device has memory of its own, and its first write fails."""
    fails = ocl.ckpt.folder / "fails"
    ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_FAILS=str(fails))
    job = ocl.start("objects", device="pocl")
    job.wait_text("READY")
    fails.touch()
    move = ocl.ckpt.start("ckpt-restore", ["--device", ocl.device("rusticl"), "--resume", str(job.pid)])
    assert move.wait() == 1 and not fails.exists()
    assert "the program runs on with the devices that it had" in move.error_text
    ocl.go()
    finished(job)
    assert "memory of its own" not in job.error_text


@parametrize("seed", [21, 22, 23], quick=1)
def test_a_history_goes_on_where_memory_is_copied(ocl, seed):
    """Every other device has memory of its own (CKPT_TEST_ACCELERATOR): maps stay valid there, and on the way back."""
    job = ocl.start("shared", seed, 0, device="pocl")
    job.wait_text("READY")
    ocl.ckpt.env["LD_PRELOAD"] = EXTRA_OPTIONS
    for n, device in enumerate(["rusticl", "pocl", "basic", "basic"]):
        ocl.ckpt.dump(job.pid, f"image{n}")
        assert job.wait() == 85
        copies = n % 2 == 0
        ocl.ckpt.env.update(CKPT_TEST_ACCELERATOR="1") if copies else ocl.ckpt.env.pop("CKPT_TEST_ACCELERATOR")
        job = ocl.restore(f"image{n}", device)
        wait_until_computing(job)
        if n == 0:
            wait_for(lambda: "memory of its own" in job.error_text, "the warning")
    ocl.go()
    finished(job)


def test_a_history_goes_on_after_a_suspend(ocl):
    def tool(name, *arguments):
        r = subprocess.run([ocl.ckpt.tool(name), *arguments], env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr

    job = ocl.start("shared", 31, 0, "direct", device="pocl")
    job.wait_text("READY")
    for device in ("rusticl", "pocl"):
        wait_for(lambda: shared_mappings(job), "shared memory")
        tool("ckpt-dump", "--suspend", str(job.pid))
        tool("ckpt-restore", "--resume", str(job.pid), "--device", ocl.device(device))
    ocl.go()
    finished(job)
