# SPDX-License-Identifier: Apache-2.0
"""How the contents of CUDA memory are copied: in few copies, by no core, and right if memory is short or the tool is
killed. On the software device."""
import json
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from conftest import wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (fixture)
from test_cuda import Cuda
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
MIB = 192
BYTES = MIB << 20


class Copies(Cuda):
    def __init__(self, ckpt, make):  # noqa: F811
        super().__init__(ckpt, make)
        self.counter = ckpt.folder / "calls"
        ckpt.env["CKPT_SOFTCUDA_CALLS"] = str(self.counter)

    def calls(self):
        return int.from_bytes(self.counter.read_bytes(), "little")

    def started(self, *arguments):
        job = self.start(MIB, *arguments, source="moved.cu")
        job.wait_text("ready")
        return job

    def ends_well(self, job):
        self.go_on()
        assert job.wait() == 0, job.error_text
        assert "same" in job.lines


@pytest.fixture
def copies(ckpt, make):  # noqa: F811
    return Copies(ckpt, make)


def bytes_by_calls(job):
    """Bytes that the program's threads have read and written by system calls, which a core copies."""
    lines = pathlib.Path(f"/proc/{job.program()}/io").read_text().split()
    return int(lines[1]) + int(lines[3])


def test_contents_are_moved_in_few_copies_and_by_no_core(copies):
    job = copies.started()
    for move in (copies.suspend, copies.resume):
        calls, moved = copies.calls(), bytes_by_calls(job)
        r = move(job)
        assert r.returncode == 0, r.stderr
        # A copy takes about eight calls; 64 copies in a GiB are 12 here.
        assert copies.calls() - calls < 12 * 8 + 60
        assert bytes_by_calls(job) - moved < BYTES / 20
    calls, moved = copies.calls(), bytes_by_calls(job)
    copies.ckpt.dump(job.pid, "image", "--leave-running")
    assert copies.calls() - calls < 2 * 12 * 8 + 120
    assert bytes_by_calls(job) - moved < BYTES / 20
    copies.ends_well(job)


def test_the_pause_of_a_suspend_is_reported(copies):
    job = copies.started()
    report = json.loads(copies.suspend(job, "--prepare", "0").stdout)
    assert 0 < report["pause_seconds"] <= report["seconds"]
    assert copies.resume(job).returncode == 0
    copies.ends_well(job)


def test_contents_are_right_where_the_memory_for_direct_copies_is_refused(copies):
    """A file of their size exceeds the program's limit, so they go in small pieces to several files."""
    job = copies.started()
    before = resource.prlimit(job.program(), resource.RLIMIT_FSIZE)
    resource.prlimit(job.program(), resource.RLIMIT_FSIZE, (64 << 20, before[1]))
    moved = bytes_by_calls(job)
    assert copies.suspend(job).returncode == 0
    assert bytes_by_calls(job) - moved > BYTES / 2
    resource.prlimit(job.program(), resource.RLIMIT_FSIZE, before)
    assert copies.resume(job).returncode == 0
    copies.ends_well(job)


def test_a_dump_from_the_agents_memory_is_restored(copies):
    job = copies.started()
    copies.ckpt.dump(job.pid, "first", "--leave-running")
    copies.ckpt.dump(job.pid, "second")
    assert job.wait() == 85
    copies.go_on()
    for image in ("first", "second"):
        copy = copies.ckpt.restore(image)
        assert copy.wait() == 0, copy.error_text
        assert "same" in copy.lines


# ---- a restore

NOT_ZERO = BYTES - (MIB // 3 << 20)


def restored(copies, threads, file_size_limit=None):
    """A copy that runs, the report of its restore, and the driver's calls that it took. The machine has `threads` idle
    cores, it seems."""
    copies.ckpt.env["CKPT_SOFTCUDA_DIRTY"] = "1"  # so that zeros that are not loaded are noticed
    copies.ckpt.env["CKPT_TEST_AHEAD"] = str(threads)
    job = copies.started()
    copies.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    calls = copies.calls()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_limit or before[0], before[1]))
    try:
        copy = copies.ckpt.restore("image", "--json-report", "report.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    report = copies.ckpt.folder / "report.json"
    wait_for(lambda: report.exists() and report.read_text().endswith("}\n"), "the report of the restore")
    return copy, json.loads(report.read_text())["device_times"], copies.calls() - calls


def test_a_restore_decompresses_ahead_and_copies_large_pieces(copies):
    copy, times, calls = restored(copies, 2)
    assert times["ahead_bytes"] == NOT_ZERO
    assert min(times[k] for k in ("ahead_seconds", "connect_seconds", "attach_seconds", "load_seconds")) > 0
    assert calls < NOT_ZERO / (8 << 20) * 8 + 250
    wait_for(lambda: shared_kib(copy.pid) < 4096, "the end of the tool's file of contents")
    copies.ends_well(copy)


@pytest.mark.parametrize("threads, limit", [(0, None), (2, NOT_ZERO - 1)], ids=["no idle core", "no file"])
def test_a_restore_without_contents_ahead_goes_through_slots(copies, threads, limit):
    """The limit is above the staging memory's size."""
    copy, times, calls = restored(copies, threads, limit)
    assert times["ahead_bytes"] == 0
    assert calls > NOT_ZERO / (1 << 20) * 5
    copies.ends_well(copy)


def shared_kib(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssShmem"))


def test_a_suspend_that_is_killed_anywhere_loses_nothing(copies):
    job = copies.started()
    for seconds in (0.02, 0.1, 0.3, 0.6):
        tool = subprocess.Popen([copies.ckpt.tool("ckpt-dump"), str(job.program()), "--suspend"], env=copies.ckpt.env,
                                cwd=copies.ckpt.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        tool.send_signal(signal.SIGKILL)
        tool.wait()
        r = copies.resume(job)
        assert r.returncode == 0 or "is not suspended" in r.stderr, r.stderr
    copies.ends_well(job)


def test_a_loop_of_allocations_costs_few_calls_and_no_memory(copies):
    """A device of 256 MiB keeps at most 4 MiB, so larger allocations show what a loop costs otherwise."""
    loops, calls = 200, {}
    for mib in (3, 7):
        before = copies.calls() if copies.counter.exists() else 0
        job = copies.start(1, loops, mib, source="moved.cu", paused=False)
        assert job.wait() == 0, job.error_text
        assert job.lines[-1] == "free again"
        calls[mib] = copies.calls() - before
    assert calls[7] - calls[3] > 4 * loops
