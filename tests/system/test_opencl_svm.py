# SPDX-License-Identifier: Apache-2.0
"""Shared virtual memory of OpenCL programs: where the device works on host memory, application and proxy map it at
the same addresses, so that pointers within it stay valid, also after a restore; elsewhere it is refused by name."""
import json
import pathlib
import re
import subprocess

import pytest

from conftest import BUILD, wait_for
from test_opencl import Programs, assert_no_driver, bed_environment, devices, finished, wait_until_computing  # noqa: F401
from test_opencl_width import EXTRA_OPTIONS
from test_remote import Server
from tiers import parametrize

PROXY = str(BUILD / "libckpt-ocl" / "ckpt-ocl-proxy")
ADDRESSES = range(0x2000_0000_0000, 0x4000_0000_0000)


@pytest.fixture
def ocl(ckpt, devices):  # noqa: F811 (a fixture)
    return Programs(ckpt, *devices)


def blocks(pid):
    """The blocks of shared virtual memory in a process, as (begin, end)."""
    text = pathlib.Path(f"/proc/{pid}/maps").read_text()
    found = [tuple(int(n, 16) for n in m.groups()) for m in re.finditer(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .*memfd:opencl-memory", text, re.M)]
    return [b for b in found if b[0] in ADDRESSES]


def kept_open(job):
    links = [f.readlink() for f in pathlib.Path(f"/proc/{job.program()}/fd").iterdir()]
    return [link for link in links if "opencl-memory" in str(link)]


@parametrize("device", ["pocl", "basic", "rusticl"], quick=1)
def test_calls_answer_as_the_specification_says(ocl, device):
    finished(ocl.start("svm_calls", device=device))


@parametrize("device", ["pocl", "basic", "rusticl"], quick=1)
@pytest.mark.parametrize("seed", [1, 2])
def test_program_and_kernels_share_pointers(ocl, device, seed):
    """Only PoCL has shared virtual memory natively."""
    native = ocl.native("svm", str(seed), "200") if seed == 1 and device == "pocl" else None
    finished(ocl.start("svm", seed, 300, device=device))
    assert native is None or native.returncode == 0, native.stdout


@parametrize("moves", [("pocl", "rusticl", "pocl"), ("rusticl", "basic"), ("pocl", "pocl")], quick=1)
def test_a_history_goes_on_at_the_same_addresses(ocl, moves):
    job = ocl.start("svm", 11, 0, device=moves[0])
    job.wait_text("READY")
    assert_no_driver(job)
    for n, device in enumerate(moves[1:]):
        wait_for(lambda: blocks(job.program()), "shared virtual memory")
        ocl.ckpt.dump(job.pid, f"alive{n}", "--leave-running")
        wait_for(lambda: not kept_open(job), "the end of the dump")
        ocl.ckpt.dump(job.pid, f"image{n}")
        assert job.wait() == 85
        job = ocl.restore(f"image{n}", device)
        wait_until_computing(job)
        wait_for(lambda: blocks(job.program()) and not kept_open(job), "shared virtual memory")
        assert_no_driver(job)
    ocl.go()
    finished(job)


def test_a_history_goes_on_after_a_suspend(ocl):
    def tool(name, *arguments):
        r = subprocess.run([ocl.ckpt.tool(name), *arguments], env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr

    job = ocl.start("svm", 31, 0, device="pocl")
    job.wait_text("READY")
    for device in ("rusticl", "pocl"):
        wait_for(lambda: blocks(job.program()), "shared virtual memory")
        tool("ckpt-dump", "--suspend", str(job.pid))
        tool("ckpt-restore", "--resume", str(job.pid), "--device", ocl.device(device))
    ocl.go()
    finished(job)


def test_increments_hold_it(ocl):
    job = ocl.start("svm", 41, 0, device="pocl")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "first", "--leave-running")
    ocl.ckpt.dump(job.pid, "second", "--parent", "first")
    assert job.wait() == 85
    job = ocl.restore("second", "pocl")
    wait_until_computing(job)
    ocl.go()
    finished(job)


def test_it_is_refused_by_name_where_the_device_has_its_own_memory(ocl):
    """A device that is no CPU counts as one with memory of its own (CKPT_TEST_ACCELERATOR)."""
    ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_ACCELERATOR="1")
    job = ocl.start("svm_calls", "absent", device="pocl")
    finished(job)
    for function in ("clSVMAlloc", "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clEnqueueSVMMap", "clEnqueueSVMMemcpy"):
        assert f"{function} is not supported here" in job.error_text


@parametrize("target", ["pocl", "rusticl"], quick=1)
def test_a_restore_without_it_is_refused_before_anything_is_touched(ocl, target):
    job = ocl.start("svm", 51, 0, device="pocl")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_ACCELERATOR="1")
    refused = ocl.restore("image", target)
    assert refused.wait() != 0 and refused.text == ""
    assert "uses shared virtual memory" in refused.error_text, refused.error_text
    assert "does not work at the program's addresses" in refused.error_text
    del ocl.ckpt.env["LD_PRELOAD"]
    job = ocl.restore("image", "pocl")
    wait_until_computing(job)
    ocl.go()
    finished(job)


@pytest.mark.parametrize("svm,words", [
    ([[0x1000, 4096]], "addresses that ckpt does not use"),
    ([[0x4000_0000_0000, 4096]], "addresses that ckpt does not use"),
    ([["x"]], "addresses that ckpt does not use"),
    ([[0x3000_0000_0000, 1 << 40]], "cannot be mapped"),
])
def test_the_check_looks_at_the_addresses(ocl, svm, words):
    """Also for the device that the program has come from. A process may be short of addresses (ulimit -v)."""
    listed = subprocess.run([ocl.ckpt.tool("ckpt-run"), "--list-devices", "--json"], env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
    here = next(d for d in json.loads(listed.stdout) if f"ocl:{d['name']}" == ocl.device("pocl"))
    devices = [{"number": 1, "platform": here["platform"], "name": here["name"], "nth": 0, "used": True, "svm": svm}]
    command = ["prlimit", "--as=300000000000", PROXY, "--check", "--device", here["id"]]
    r = subprocess.run(command, input=json.dumps({"needs": {"devices": devices}}), env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and words in r.stdout, r.stdout + r.stderr


def test_a_device_of_another_node_has_none(ocl):
    server = Server(ocl)
    job = ocl.start("svm_calls", "absent", device=server.device(host=server.unix))
    finished(job)
    assert "clSVMAlloc is not supported here" in job.error_text
    job = ocl.start("svm", 71, 0, device="pocl")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    refused = ocl.restore("image", server.device(host=server.unix))
    assert refused.wait() != 0 and refused.text == ""
    assert "a device of another node cannot map" in refused.error_text, refused.error_text
    job = ocl.restore("image", "pocl")
    wait_until_computing(job)
    ocl.go()
    finished(job)
