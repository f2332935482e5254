# SPDX-License-Identifier: Apache-2.0
"""ckpt-node-bench: what a program needs of its node, and what a node has."""
import csv
import json
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import BUILD, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (fixture)
from toolkit import WHY_NOT

pytestmark = pytest.mark.no_criu
COUNTS = ("host_to_device_gb", "device_to_host_gb")


@pytest.fixture
def bench(ckpt):
    def run(*command, status=0):
        r = subprocess.run([ckpt.tool("ckpt-node-bench"), *map(str, command)], cwd=ckpt.folder, env=ckpt.env,
                           capture_output=True, text=True, timeout=300)
        assert r.returncode == status, r.stderr
        return r
    return run


def counted(run):
    """What ckpt has counted, and what the program says."""
    said = next(line.split()[1:] for line in run.stderr.splitlines() if line.startswith("copied"))
    task = json.loads(run.stdout)["task"]
    return [round(task[c] * 1e9) for c in COUNTS], [int(n) for n in said]


def test_copies_of_an_opencl_program(bench):
    by_ckpt, by_program = counted(bench("--memory-gb=3", "--", BUILD / "tests" / "programs" / "opencl" / "ocl-copies"))
    assert by_ckpt == by_program


@pytest.mark.full
@pytest.mark.skipif(not NVCC, reason=WHY_NOT)
@pytest.mark.skipif(not RUN.exists(), reason="the software device is not built")
def test_copies_of_a_cuda_program(ckpt, bench, make):  # noqa: F811
    ckpt.env["CKPT_SOFTCUDA"] = "1x256M"
    by_ckpt, by_program = counted(bench("--memory-gb=3", "--", make("counted.cu")))
    assert by_ckpt == [float(f"{n:.6g}") for n in by_program]  # six digits are printed


def test_a_task_for_the_simulator_and_for_slurm(ckpt, bench):
    """The row is what ckpt-sim reads, and the words of the comment are those of ckpt-schedd."""
    r = bench("--memory-gb=2.5", "--name=nap", "--csv", "--", "sh", "-c", "sleep 1; echo to the user")
    row, = csv.DictReader(r.stdout.splitlines())
    assert row["name"] == "nap" and row["memory_gb"] == "2.5" and all(row[c] == "0" for c in COUNTS)
    assert 1 <= float(row["seconds"]) < 60 and "to the user" in r.stderr
    (ckpt.folder / "tasks.csv").write_text(r.stdout)
    subprocess.run([ckpt.tool("ckpt-sim"), "--tasks", "tasks.csv"], cwd=ckpt.folder, env=ckpt.env, check=True,
                   capture_output=True, timeout=60)
    said = json.loads(bench("--memory-gb=2.5", "--", "true").stdout)
    assert said["task"]["name"] == "true" and said["memory"] == {"counter": "given"}
    assert said["comment"] == f"ckpt:seconds={said['task']['seconds']},memory_gb=2.5,host_to_device_gb=0,device_to_host_gb=0"


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_simulated_misses(bench, programs):
    """A program that writes 64 MiB through a cache of 1 MiB, and one that writes 64 MiB more."""
    def missed(megabytes):
        said = json.loads(bench("--counter=cachegrind", "--cache=1M", "--", programs / "touch_memory", megabytes).stdout)
        assert said["memory"]["counter"] == "cachegrind"
        assert said["task"]["memory_gb"] == said["memory"]["missed_gb"]
        return said["memory"]["missed_gb"] * 1e9
    assert missed(128) - missed(64) == pytest.approx(64 << 20, rel=0.02)


def test_a_signal_reaches_the_program_and_ends_the_measurement(ckpt):
    job = ckpt.start("ckpt-node-bench", ["--memory-gb=1", "--", "sh", "-c", "echo $$ > pid; exec sleep 300"])
    pid = ckpt.folder / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), "the program's start")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() == 1 and "interrupted by signal 15" in job.error_text
    assert "task" not in job.text
    wait_for(lambda: not pathlib.Path("/proc", pid.read_text().strip()).exists(), "the program's end")


@pytest.mark.parametrize("arguments, status, words", [
    (["--memory-gb=1", "--", "false"], 1, "ended with exit code 1, so nothing was measured"),
    (["--memory-gb=1", "--", "sh", "-c", "kill -9 $$"], 1, "so nothing was measured"),
    (["--memory-gb=1", "--", "./missing"], 1, "exit code 127"),
    (["--memory-gb=1", "--name=a,b", "--", "true"], 1, "cannot be a task's name"),
    (["--memory-gb=-1", "--", "true"], 125, "--memory-gb"),
    (["--memory-gb=1", "--counter=perf", "--", "true"], 125, "--counter"),
    (["--counter=papi", "--", "true"], 125, "perf"),
    (["--csv"], 125, "PROGRAM"),
])
def test_mistakes(bench, arguments, status, words):
    assert words in bench(*arguments, status=status).stderr


def test_without_any_counter_nothing_is_run(ckpt, bench):
    """A PATH without valgrind, on a machine whose processors do not count, or with a counter that must not be used."""
    ckpt.env["PATH"] = "/nonexistent"
    r = subprocess.run([ckpt.tool("ckpt-node-bench"), "--counter=cachegrind", "--", "/bin/sh", "-c", "> ran"],
                       cwd=ckpt.folder, env=ckpt.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "install valgrind" in r.stderr
    assert not (ckpt.folder / "ran").exists()
