# SPDX-License-Identifier: Apache-2.0
"""A device looks at its memory before it is copied, so zeros and what the parent image has do not cross the bus. On the
software device, whose copies are counted by what the reports say and by the contents afterwards."""

import pytest

from cuda_programs import NVCC, RUN, make  # noqa: F401 (fixture)
from test_cuda import Cuda
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
MIB = 60
ZEROS = MIB // 3 << 20
READ = (MIB << 20) - ZEROS


class Chunks(Cuda):
    def started(self, mib=MIB):
        job = self.start(mib, source="chunks.cu")
        job.wait_text("ready")
        return job

    def change(self, job):
        lines = len(job.lines)
        (self.ckpt.folder / "change").touch()
        job.wait_lines(lines + 1)

    def ends_well(self, job):
        self.go_on()
        assert job.wait() == 0, job.error_text
        assert "same" in job.lines


@pytest.fixture
def chunks(ckpt, make):  # noqa: F811
    return Chunks(ckpt, make)


def figures(report):
    return report["device_zero_bytes"], report["unchanged_bytes"], report["device_read_bytes"]


# ---- zeros

def test_zeros_are_not_read_and_come_back(chunks):
    job = chunks.started()
    report = chunks.ckpt.dump(job.pid, "image", "--leave-running")
    assert figures(report) == (ZEROS, 0, READ)
    assert report["not_looked_at"] == []
    report = chunks.ckpt.dump(job.pid, "image-2")
    assert figures(report) == (ZEROS, 0, READ)
    assert job.wait() == 85
    copy = chunks.ckpt.restore("image-2", "--device", "cuda:1")
    chunks.ends_well(copy)


def test_zeros_come_back_after_a_suspend_to_memory_and_to_a_disk(chunks):
    job = chunks.started()
    for options in ((), ("--to", str(chunks.ckpt.folder))):
        assert chunks.suspend(job, *options).returncode == 0
        assert chunks.resume(job).returncode == 0
    chunks.ends_well(job)


def test_the_text_report_says_what_was_not_read(chunks):
    job = chunks.started()
    r = chunks.tool("ckpt-dump", str(job.program()), "-o", "image", "--leave-running")
    assert r.returncode == 0, r.stderr
    assert f"zeros    {ZEROS >> 20}.0 MiB of device memory were not read" in r.stdout
    chunks.ends_well(job)


def test_all_is_read_where_a_device_cannot_look(chunks):
    """There is neither code nor PTX for devices before 7.5."""
    chunks.ckpt.env["CKPT_SOFTCUDA_SM"] = "70"
    job = chunks.started()
    report = chunks.ckpt.dump(job.pid, "image", "--leave-running")
    assert figures(report) == (0, 0, MIB << 20)
    assert "cannot load the kernel that looks at device memory" in report["not_looked_at"][0]
    assert chunks.suspend(job).returncode == 0
    assert chunks.resume(job).returncode == 0
    chunks.ends_well(job)
