# SPDX-License-Identifier: Apache-2.0
"""CUDA's managed memory on the software device that a checkpoint keeps (ckpt-run --managed-memory=kept): each function
of managed.cu, which is right without ckpt, too; dumps while host or device hold the memory; random histories."""
import re
import subprocess

import pytest

from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from tiers import parametrize
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

KEPT = ["--managed-memory=kept"]


def start(cuda, *arguments, paused=False, options=()):  # noqa: F811
    return cuda.start(*arguments, source="managed.cu", paused=paused, options=[*KEPT, *options])


@pytest.mark.parametrize("way", ["kept", "native"])
@pytest.mark.parametrize("function", ["held", "without_a_wait", "streams", "copies", "graphs", "host_functions", "threads",
                                      "attributes", "handlers", "forks", "two_devices", "calls"])
def test_managed_memory_is_right(cuda, way, function):  # noqa: F811
    if way == "native" and function in ("handlers", "forks"):
        pytest.skip("the software device's own managed memory is memory of the host")
    if way == "kept":
        job = start(cuda, function)
        assert job.wait() == 0 and job.lines[-1] == "PASSED", job.text
        return
    r = subprocess.run([str(RUN), str(cuda.make("managed.cu")), function], env=cuda.ckpt.env, cwd=cuda.ckpt.folder,
                       capture_output=True, text=True, timeout=100)
    assert r.returncode == 0, r.stdout + r.stderr


@parametrize("placeholders", [False, True], ids=["holes", "placeholders"], quick=1)
@pytest.mark.parametrize("options", [[], ["--device-owner"]], ids=["copies", "owner"])
def test_a_dump_keeps_what_host_and_device_hold(cuda, options, placeholders):  # noqa: F811
    """Once while the program goes on, then for another device, and from there again."""
    if placeholders:
        cuda.ckpt.env["CKPT_SOFTCUDA_PLACEHOLDERS"] = "1"
    job = start(cuda, "held", paused=True, options=["--device", "cuda:0", *options])
    cuda.ckpt.dump(job.pid, "running", "--leave-running")
    report = cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.text
    saved = report["device_read_bytes"] + report["device_zero_bytes"]
    assert 20 << 20 <= saved <= 24 << 20, report  # of 34 MiB: not what the host holds
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    cuda.ckpt.dump(copy.pid, "second")
    assert copy.wait() == 85, copy.text
    cuda.go_on()
    for image, device in ("second", "cuda:0"), ("running", "cuda:1"):
        last = cuda.ckpt.restore(image, "--device", device)
        assert last.wait() == 0 and last.lines[-1] == "PASSED", last.text


def test_a_suspended_program_has_no_memory_on_a_device_and_moves(cuda):  # noqa: F811
    job = start(cuda, "held", paused=True, options=["--device", "cuda:0"])
    for place in "cuda:1", "cuda:0":
        assert cuda.suspend(job).returncode == 0
        assert cuda.used_mib() == [0, 0]
        assert cuda.resume(job, "--device", place).returncode == 0
    cuda.go_on()
    assert job.wait() == 0, job.text


@pytest.mark.parametrize("seed, count, suspends", [(1, 20, 0), (2, 20, 8)] + [
    pytest.param(seed, 600, 4, marks=pytest.mark.full) for seed in (10_000, 20_000)])
def test_random_histories(cuda, seed, count, suspends):  # noqa: F811
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "2x512M"
    job = start(cuda, "history", seed, count, suspends)
    assert job.wait() == 0 and job.lines[-1] == "PASSED", job.text
    assert int(re.search(r"suspended (\d+) times", job.text)[1]) >= count / 2 * (suspends > 0)


@pytest.mark.parametrize("moves", [3, pytest.param(30, marks=pytest.mark.full)])
def test_random_histories_that_are_moved_and_dumped(cuda, moves):  # noqa: F811
    """At any moment, by tools."""
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "2x512M"
    job = start(cuda, "history", 5, 12 * moves)
    job.wait_lines(1)
    for n in range(moves):
        r = cuda.resume(job, "--device", f"cuda:{(n + 1) % 2}")
        assert r.returncode == 0, r.stderr
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85, job.text
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0 and copy.lines[-1] == "PASSED", copy.text


def test_managed_memory_by_the_program_s_examples(cuda):  # noqa: F811
    """Programs that were written for devices of other nodes, and for refusals."""
    job = cuda.start("managed", source="refused.cu", options=KEPT)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0 and "PASSED" in copy.text, copy.error_text


def test_managed_variables_are_refused_by_name(cuda):  # noqa: F811
    (cuda.ckpt.folder / "steps").write_text("1")
    job = cuda.start(6, source="remote_shared.cu", paused=False, options=KEPT)
    job.wait_lines(1)
    r = cuda.ckpt.dump_process(job.pid, "image")
    assert r.returncode == 1 and "managed variable" in r.stderr, r.stderr
    job.kill()


def test_kept_managed_memory_and_slices_exclude_each_other(cuda):  # noqa: F811
    r = cuda.tool("ckpt-run", *KEPT, "--slice", "auto", "--", "true")
    assert r.returncode == 125 and "--managed-memory=kept cannot be combined" in r.stderr
