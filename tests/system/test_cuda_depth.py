# SPDX-License-Identifier: Apache-2.0
"""ckpt-dump --suspend=memory: the program gives back device memory alone, and later perhaps the rest (docs/CUDA.md,
"Suspend, resume, migrate")."""
import json
import signal
import subprocess

import pytest

from conftest import wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from test_cuda_strict import order  # noqa: F401 (order is a fixture)
from test_cuda_waits import finished
from test_cuda_waits import signal as set_flag
from test_kills import clean
from test_opencl import Programs, devices  # noqa: F401 (devices is a fixture)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

CONTEXT = 8
STAYS = CONTEXT + 2  # MiB: the context, and a granule with a device variable


@pytest.fixture
def depth(cuda):  # noqa: F811
    cuda.ckpt.env["CKPT_SOFTCUDA_CONTEXT"] = str(CONTEXT)
    return cuda


def to_memory(cuda, job, *options):  # noqa: F811
    r = cuda.tool("ckpt-dump", str(job.program()), "--suspend=memory", "--json", *options)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def listed(cuda, job):  # noqa: F811
    """The program in the list of ckpt-ps."""
    programs = json.loads(cuda.tool("ckpt-ps", "--json").stdout)
    return next(p for p in programs if p["pid"] == job.program())


def resumed(cuda, job, *options):  # noqa: F811
    r = cuda.resume(job, *options)
    assert r.returncode == 0, r.stderr


def ends_right(cuda, job, expected):  # noqa: F811
    if cuda.pause.exists():
        cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_memory_is_given_back_and_the_context_stays(depth):
    expected = depth.expected(6)
    job = depth.start(6, options=["--device", "cuda:0"])
    before = depth.used_mib()
    report = to_memory(depth, job)
    assert report["depth"] == "memory" and report["device_bytes"] > 0
    after = depth.used_mib()
    assert after == [STAYS, 0] and before[0] - after[0] >= report["device_bytes"] >> 20
    assert (listed(depth, job)["state"], listed(depth, job)["depth"]) == ("suspended", "memory")
    assert "suspended (memory)" in depth.tool("ckpt-ps").stdout
    depth.go_on()  # the program is suspended, so its next call waits
    resumed(depth, job)
    ends_right(depth, job, expected)


def test_the_report_names_the_depth(depth):
    job = depth.start(2)
    program = str(job.program())
    for depth_option, said in ("memory", "their memory is released, contexts stay"), ("full", "released; "):
        r = depth.tool("ckpt-dump", program, f"--suspend={depth_option}")
        assert r.returncode == 0 and f"suspended (depth {depth_option})" in r.stdout and said in r.stdout, r.stdout
    resumed(depth, job)
    assert json.loads(depth.suspend(job).stdout)["depth"] == "full"
    assert listed(depth, job)["depth"] == "full"
    resumed(depth, job)
    assert listed(depth, job)["depth"] is None
    depth.go_on()
    assert job.wait() == 0


def test_the_driver_is_not_checkpointed(depth, order):  # noqa: F811
    """Nor is it locked: its calls would fail here."""
    expected = depth.expected(6)
    job = depth.start(6)
    order("cuCheckpointProcessLock 999", "cuCheckpointProcessCheckpoint 999", "cuCheckpointProcessRestore 999")
    for _ in range(3):
        to_memory(depth, job)
        resumed(depth, job)
    order()
    ends_right(depth, job, expected)


def test_the_rest_is_given_back_later(depth):
    expected = depth.expected(6)
    job = depth.start(6, options=["--device", "cuda:0"])
    kept = to_memory(depth, job)["device_bytes"]
    again = depth.tool("ckpt-dump", str(job.program()), "--suspend=memory")
    assert again.returncode == 1 and "suspended already, at depth memory" in again.stderr
    moved = depth.tool("ckpt-dump", str(job.program()), "--suspend", "--to", str(depth.ckpt.folder))
    assert moved.returncode == 1 and "leave out --to" in moved.stderr
    assert depth.used_mib() == [STAYS, 0]  # neither has touched it
    report = json.loads(depth.suspend(job).stdout)
    assert (report["depth"], report["device_bytes"]) == ("full", kept)
    assert depth.used_mib() == [0, 0]
    r = depth.suspend(job)
    assert r.returncode == 1 and "suspended already, at depth full" in r.stderr
    resumed(depth, job)
    ends_right(depth, job, expected)


def test_a_program_is_moved_from_depth_memory(depth):
    """Contents are on disk meanwhile."""
    expected = depth.expected(6)
    job = depth.start(6, options=["--device", "cuda:0"])
    to_memory(depth, job, "--to", str(depth.ckpt.folder))
    resumed(depth, job, "--device", "cuda:1")
    used = depth.used_mib()
    assert used[0] == 0 and used[1] > STAYS
    to_memory(depth, job)
    resumed(depth, job, "--device", "cuda:1")
    depth.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    depth.go_on()
    copy = depth.ckpt.restore("image", "--device", "cuda:0")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


def test_what_cannot_be_given_back_stays(depth, order):  # noqa: F811
    """A driver that refuses Lock or Checkpoint leaves the program at depth memory, and it resumes from there."""
    expected = depth.expected(6)
    job = depth.start(6, options=["--device", "cuda:0"])
    for call in "Lock", "Checkpoint":
        to_memory(depth, job)
        order(f"cuCheckpointProcess{call} 999")
        r = depth.suspend(job)
        assert r.returncode == 1 and "cuda cannot leave its devices" in r.stderr, r.stderr
        order()
        assert depth.used_mib() == [STAYS, 0] and listed(depth, job)["depth"] == "memory"
        resumed(depth, job)
    ends_right(depth, job, expected)


def test_memory_that_cannot_be_given_back_is_the_programs_again(depth, order):  # noqa: F811
    expected = depth.expected(6)
    job = depth.start(6)
    assert depth.tool("ckpt-dump", str(job.program()), "--suspend=memory", "--to", "/no/such/folder").returncode == 1
    order("cuMemUnmap 999")
    r = depth.tool("ckpt-dump", str(job.program()), "--suspend=memory")
    assert r.returncode == 1 and "cannot unmap" in r.stderr, r.stderr
    order()
    assert listed(depth, job)["state"] == "running"
    to_memory(depth, job)
    resumed(depth, job)
    ends_right(depth, job, expected)


def test_a_resume_without_room_leaves_the_program_suspended(depth):
    job = depth.start(2, 16 << 20, options=["--device", "cuda:0"])  # 64 MiB
    to_memory(depth, job)
    hog = subprocess.Popen([str(RUN), str(depth.make("driver.cc")), "--hold", "200"], env=depth.ckpt.env,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hog.stdout.readline().strip() == "held"
    held = depth.used_mib()[0]
    assert depth.resume(job).returncode == 1
    assert depth.used_mib()[0] == held
    assert listed(depth, job)["depth"] == "memory"
    hog.communicate("")
    depth.go_on()
    wait_for(lambda: depth.resume(job).returncode == 0, "room on the device")
    assert job.wait() == 0, job.error_text


@pytest.mark.parametrize("step", ["resolve", "preflight", "prepare", "quiesce", "suspend", "end"])
def test_a_killed_suspend_loses_nothing(depth, step):
    expected = depth.expected(6)
    job = depth.start(6)
    r = subprocess.run([depth.ckpt.tool("ckpt-dump"), str(job.program()), "--suspend=memory"], capture_output=True,
                       env=depth.ckpt.env | {"CKPT_TEST_STOP_AT": step}, timeout=60)
    assert r.returncode == -signal.SIGKILL
    depth.resume(job)  # where it was suspended already
    ends_right(depth, job, expected)
    clean(depth.ckpt)


@pytest.mark.parametrize("step", ["resolve", "preflight", "deepen", "end"])
def test_a_killed_deepening_loses_nothing(depth, step):
    expected = depth.expected(6)
    job = depth.start(6)
    to_memory(depth, job)
    r = subprocess.run([depth.ckpt.tool("ckpt-dump"), str(job.program()), "--suspend"], capture_output=True,
                       env=depth.ckpt.env | {"CKPT_TEST_STOP_AT": step}, timeout=60)
    assert r.returncode == -signal.SIGKILL
    assert listed(depth, job)["state"] == "suspended"
    resumed(depth, job)
    ends_right(depth, job, expected)
    clean(depth.ckpt)


def test_all_processes_are_locked_before_the_first_gives_the_rest_back(depth):
    """As in a suspend (test_cuda_waits.py). Threads call at any time, also while the program is suspended."""
    depth.ckpt.env["CKPT_SOFTCUDA_TOGETHER"] = "1"
    program = depth.make("waiting.cu")
    job = depth.ckpt.start("ckpt-run", ["--", "sh", "-c", f"'{program}' threads & '{program}' threads & wait"])
    job.wait_lines(2)
    to_memory(depth, job)
    assert sum(depth.used_mib()) == 2 * CONTEXT
    r = depth.suspend(job)
    assert r.returncode == 0 and json.loads(r.stdout)["depth"] == "full", r.stderr
    assert sum(depth.used_mib()) == 0
    resumed(depth, job)
    to_memory(depth, job)
    resumed(depth, job)
    set_flag(depth, "stop")
    wait_for(lambda: job.lines.count("right") == 2, "the ends of both processes")
    assert job.wait() == 0, job.text


def test_a_suspended_program_that_calls_exit_ends_after_the_resume(depth):
    job = depth.start("exit", source="waiting.cu", paused=False)
    job.wait_lines(1)
    to_memory(depth, job)
    set_flag(depth, "end")
    job.wait_lines(2)
    resumed(depth, job)
    finished(job, 7)


def test_a_program_whose_keeper_is_killed_returns_to_its_memory(depth):
    expected = depth.expected(6)
    job = depth.start(6)
    to_memory(depth, job)
    depth.go_on()
    job.process.kill()
    for reader in job.readers:
        reader.join(60)
    assert job.lines[-2:] == expected, job.error_text


def test_opencl_has_one_depth(ckpt, devices):  # noqa: F811
    programs = Programs(ckpt, *devices)
    job = programs.start("objects")
    job.wait_text("READY")
    r = subprocess.run([ckpt.tool("ckpt-dump"), str(job.program()), "--suspend=memory", "--json"], env=ckpt.env,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and json.loads(r.stdout)["depth"] == "full", r.stderr
    assert subprocess.run([ckpt.tool("ckpt-restore"), "--resume", str(job.program())], env=ckpt.env, timeout=60).returncode == 0
    programs.go()
    assert job.wait() == 0 and job.lines[-1] == "OK", job.error_text
