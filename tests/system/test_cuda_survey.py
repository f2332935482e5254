# SPDX-License-Identifier: Apache-2.0
"""A device looks at its memory before it is copied, so zeros and what the parent image has do not cross the bus. On the
software device, whose copies are counted by what the reports say and by the contents afterwards."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (fixture)
from test_cuda import Cuda
from test_kills import below, held, tool
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
MIB = 60
ZEROS = MIB // 3 << 20
READ = (MIB << 20) - ZEROS


class Chunks(Cuda):
    def __init__(self, ckpt, make):  # noqa: F811
        super().__init__(ckpt, make)
        ckpt.env["CKPT_SOFTCUDA_DIRTY"] = "1"  # so that zeros that are not loaded are noticed

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


def test_a_program_cannot_take_away_the_access_that_the_look_needs(chunks):
    """A kernel that reads memory without access ends its context. By the driver, memory of cuMemAlloc and of pools is no
    mapping of the program's."""
    native = subprocess.run([str(RUN), str(chunks.make("taken.cu"))], env=chunks.ckpt.env, cwd=chunks.ckpt.folder,
                            capture_output=True, text=True, timeout=60)
    assert native.stdout.splitlines()[-1] == "same", native.stderr
    job = chunks.start(source="taken.cu")
    assert job.lines[0] == native.stdout.splitlines()[0]
    report = chunks.ckpt.dump(job.pid, "image", "--leave-running")
    assert report["not_looked_at"] == []
    assert chunks.suspend(job).returncode == 0
    assert chunks.resume(job).returncode == 0
    chunks.ends_well(job)


# ---- the parent's chunks

CHANGED = 2 << 20
SAME = READ - CHANGED
STEPS = ["detach", "criu", "record", "check", "write"]


@pytest.fixture
def second(chunks):
    """A program with an image, which has changed two of its MiB since."""
    job = chunks.started()
    chunks.ckpt.dump(job.pid, "one", "--leave-running")
    chunks.change(job)
    return chunks, job


def no_reader_is_left(job):
    wait_for(lambda: not below(1, "--parent-reader"), "the end of the process that reads the parent")


def test_what_the_parent_has_is_not_read(second):
    chunks, job = second
    report = chunks.ckpt.dump(job.pid, "two", "--parent", "one")
    assert figures(report) == (ZEROS, SAME, CHANGED)
    assert job.wait() == 85
    no_reader_is_left(job)
    r = chunks.tool("ckpt-image", "verify", "two")
    assert r.returncode == 0, r.stderr
    chunks.ends_well(chunks.ckpt.restore("two"))


def test_a_dump_after_which_the_program_goes_on_leaves_out_zeros_only(second):
    chunks, job = second
    report = chunks.ckpt.dump(job.pid, "two", "--parent", "one", "--leave-running")
    assert figures(report) == (ZEROS, 0, READ)
    assert report["parent_bytes"] > 0
    chunks.ends_well(job)


@pytest.mark.parametrize("step", STEPS)
def test_a_dump_that_is_killed_after_chunks_were_left_out_loses_nothing(second, step):
    """The tool is gone, and the parent image is removed before the program reads from it."""
    chunks, job = second
    process = tool(chunks.ckpt, "ckpt-dump", job.pid, "-o", "two", "--parent", "one", CKPT_TEST_HOLD_AT=step)
    assert held(process), process.communicate()
    shutil.rmtree(chunks.ckpt.folder / "one")
    process.kill()
    process.communicate(timeout=60)
    chunks.ends_well(job)
    no_reader_is_left(job)


@pytest.mark.parametrize("step", ["detach", "criu"])
def test_a_dump_that_is_cancelled_loses_nothing(second, step):
    chunks, job = second
    process = tool(chunks.ckpt, "ckpt-dump", job.pid, "-o", "two", "--parent", "one", CKPT_TEST_HOLD_AT=step)
    assert held(process), process.communicate()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    chunks.ends_well(job)
    no_reader_is_left(job)


def test_without_the_process_that_reads_the_parent_the_program_is_told(second):
    chunks, job = second
    process = tool(chunks.ckpt, "ckpt-dump", job.pid, "-o", "two", "--parent", "one", CKPT_TEST_HOLD_AT="criu")
    assert held(process), process.communicate()
    [reader] = below(1, "--parent-reader")
    os.kill(reader, signal.SIGKILL)
    process.kill()
    process.communicate(timeout=60)
    chunks.go_on()
    assert job.wait() == 1
    assert "cannot read device memory from the parent image" in job.error_text
    assert "same" not in job.lines and "different" not in job.lines


def test_a_damaged_chunk_of_the_parent_is_read_again(second):
    chunks, job = second
    file = chunks.ckpt.folder / "one" / "chunks.ckpt"
    with open(file, "r+b") as f:
        f.seek(-1000, os.SEEK_END)  # device memory comes last
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    report = chunks.ckpt.dump(job.pid, "two", "--parent", "one", "--leave-running")
    assert report["unchanged_bytes"] == 0
    report = chunks.ckpt.dump(job.pid, "three", "--parent", "one")
    assert SAME - (2 << 20) <= report["unchanged_bytes"] < SAME


def test_another_image_is_no_parent_of_what_it_does_not_have(chunks):
    """A parent with another seed and another process: nothing is left out."""
    other = chunks.started(6)
    chunks.ckpt.dump(other.pid, "one", "--leave-running")
    job = chunks.started()
    report = chunks.ckpt.dump(job.pid, "two", "--parent", "one")
    assert figures(report) == (ZEROS, 0, READ)
    chunks.go_on()
    assert other.wait() == 0


def test_an_encrypted_parent_is_read_with_its_key(chunks):
    key = chunks.ckpt.folder / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    job = chunks.started()
    chunks.ckpt.dump(job.pid, "one", "--leave-running", "--key-file", str(key))
    process = tool(chunks.ckpt, "ckpt-dump", job.pid, "-o", "two", "--parent", "one", "--key-file", str(key),
                   CKPT_TEST_HOLD_AT="criu")
    assert held(process), process.communicate()
    [reader] = below(1, "--parent-reader")
    assert key.read_bytes().hex() not in pathlib.Path(f"/proc/{reader}/cmdline").read_bytes().hex()
    process.kill()
    process.communicate(timeout=60)
    chunks.ends_well(job)
