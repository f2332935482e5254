# SPDX-License-Identifier: Apache-2.0
"""OpenCL kernels in slices: equal results, checkpoints inside a kernel, guests, and what runs whole."""
import pathlib
import re
import subprocess

import pytest

from test_opencl import devices, ocl  # noqa: F401 (fixtures)
from test_random import moves
from tiers import parametrize

LONG = 20000  # groups of long_grid: about three seconds on two cores


@pytest.fixture(autouse=True)
def own_cache(ckpt, tmp_path):
    """The file of kernels that run whole is the test's own."""
    ckpt.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")


def output(ocl, name, *arguments, options=(), device="pocl", debug=False):  # noqa: F811
    """What the program prints under ckpt-run, and its log."""
    if debug:
        ocl.ckpt.env["CKPT_LOG"] = "debug"
    job = ocl.start(name, *arguments, device=device, options=options, env={"CKPT_TEST_GO": "/"})
    assert job.wait() == 0, job.text + job.error_text
    return job.text, job.error_text


def slices(log):
    """The numbers of blocks and of slices of each kernel's first launch, as the log tells."""
    found = {}
    for name, blocks, parts in re.findall(r"kernel (\S+): (\d+) blocks in (\d+) slices", log):
        found.setdefault(name, (int(blocks), int(parts)))
    return found


@parametrize("device", ["pocl", "rusticl", "oclgrind", "basic"], quick=1)
@pytest.mark.parametrize("size", ["1", "7", "2ms"])
def test_a_program_cannot_tell_slices_from_the_whole(ocl, device, size):  # noqa: F811
    expected, _ = output(ocl, "slices", device=device)
    sliced, log = output(ocl, "slices", device=device, options=[f"--slice={size}"], debug=True)
    assert sliced == expected
    found = slices(log)
    if size == "7":
        # 5 x 7 x 3 groups in boxes within rows; rows of one plane; and a row that is cut.
        # The first launch of from_ten has an offset.
        assert found["place"] == (105, 21) and found["from_ten"] == (16, 3)
        assert device == "rusticl" or found["look_back"] == (100, 15)
    assert log.count("kernel own_macro runs whole, not in slices: its program does not compile for slices") == 1
    assert "kernel from_ten runs whole" not in log


@parametrize("device", ["pocl", "rusticl", "oclgrind", "basic"], quick=1)
@pytest.mark.parametrize("size", ["1", "3"])
def test_launches_with_a_global_offset_run_in_slices(ocl, device, size):  # noqa: F811
    """The program checks every number that a work-item can ask for. The first launch of each kernel has an offset."""
    expected, _ = output(ocl, "global_offsets", device=device)
    sliced, log = output(ocl, "global_offsets", device=device, options=[f"--slice={size}"], debug=True)
    assert sliced == expected and expected.endswith("OK\n")
    # 12 groups; 6 x 10; 4 x 5 x 4; 4 x 8.
    parts = {"1": (12, 60, 80, 80, 32), "3": (4, 20, 40, 40, 16)}[size]
    blocks = {"line": 12, "plane": 60, "cube": 80, "far_cube": 80, "fixed_groups": 32}
    found = slices(log)
    assert {name: found[name] for name in blocks} == {
        name: (n, part) for (name, n), part in zip(blocks.items(), parts)}
    assert log.count("runs whole") == 1
    assert "kernel offset_free runs whole, not in slices: it has too many work-items, or its global offset is too large" in log


SOURCES = pathlib.Path(__file__).parents[1] / "programs" / "opencl"
# What a program needs to run to its end by itself; none if it is not listed.
ARGUMENTS = {"image_requirements": ["limit"], "long_kernel": ["1000"], "shared": ["1", "20", "direct"], "svm": ["1", "20"],
             "tenant": ["few", "1", "s1", "h1"], "tenants": ["2", "3", "4", "1"]}
# Programs that no test below runs, and why.
LEFT_OUT = {name: why for why, names in {
    "it needs a file with the source of a kernel": ["build"],
    "it is a library": ["extra_options"],
    "it waits for the loss of its devices": ["lost"],
    "it needs a device that refuses commands": ["refused"],
    "its launches have too many groups for small slices": ["torn"],
    "its programs are SPIR-V: see test_slicing_spirv.py": ["il"],
    "a test of its own runs it in slices": ["barrier_by_hand", "long_grid", "random", "slices"],
}.items() for name in names}
PROGRAMS = sorted({p.stem for p in SOURCES.glob("*.cc")} - set(LEFT_OUT))


def verdict_in_slices(ocl, program, sizes):  # noqa: F811
    """What a test program prints is the same as without slices; several processes print in any order."""
    arguments = ARGUMENTS.get(program, [])
    expected = sorted(output(ocl, program, *arguments)[0].splitlines())
    for size in sizes:
        assert sorted(output(ocl, program, *arguments, options=[f"--slice={size}"])[0].splitlines()) == expected


@parametrize("program", PROGRAMS, quick=6)
def test_every_program_in_slices(ocl, program):  # noqa: F811
    verdict_in_slices(ocl, program, ["7"])


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_in_slices_of_other_sizes(ocl, program):  # noqa: F811
    verdict_in_slices(ocl, program, ["1", "3", "25%", "1000000", "1ms"])


@pytest.mark.full
@pytest.mark.parametrize("size", ["1", "3", "1000000", "1ms"])
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_move_in_slices(ocl, first, size):  # noqa: F811
    for seed in range(first, first + 10):
        moves(ocl, seed, f"--slice={size}")


def test_a_guest_computes_the_same(ocl):  # noqa: F811
    expected, _ = output(ocl, "slices")
    text, log = output(ocl, "slices", options=["--guest", "--fps=120"], debug=True)
    assert text == expected and "turn: periodic" in log


@pytest.mark.full
def test_a_short_kernel_runs_whole_and_a_long_one_in_slices_of_its_time(ocl):  # noqa: F811
    """3000 groups take about 0.4 s. The first launches are for the search."""
    _, log = output(ocl, "long_grid", "3000", "20", options=["--slice=20ms"], debug=True)
    launches = [int(n) for n in re.findall(r"kernel mix_numbers: 3000 blocks in (\d+) slices", log)]
    assert len(launches) == 20 and all(2 < n < 400 for n in launches[5:])
    _, log = output(ocl, "long_grid", "8", "200", "100", options=["--slice=20ms"], debug=True)
    assert log.count("kernel mix_numbers") < 150


def test_a_barrier_made_by_hand_loses_nothing_and_is_remembered(ocl, tmp_path):  # noqa: F811
    # On a busy machine, a slice of its other kernel, too, may make no progress for so short a time.
    options = ["--slice=1", "--guest-tuning=patience=300"]
    text, log = output(ocl, "barrier_by_hand", options=options)
    assert text.endswith("OK\n") and log.count("kernel meet runs whole") == 1
    kept = tmp_path / "cache" / "ckpt" / "whole-kernels"
    assert 1 <= len(kept.read_text().splitlines()) <= 2
    text, log = output(ocl, "barrier_by_hand", options=options, debug=True)
    assert text.endswith("OK\n") and "meet" not in slices(log)


@parametrize("target", ["pocl", "rusticl"], quick=1)
def test_a_checkpoint_inside_a_kernel(ocl, target):  # noqa: F811
    """With slices it does not wait for the end of the kernel, and the copy continues with the next slice, also on
    another device."""
    options = ["--slice=10ms"]
    expected, _ = output(ocl, "long_grid", str(LONG), options=options)
    job = ocl.start("long_grid", str(LONG), options=options)
    job.wait_lines(1)
    report = ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85 and "hash" not in job.text
    # The launch takes some 300 slices, and the dump waits for two.
    whole = float(re.search(r"seconds ([\d.]+)", expected)[1])
    assert report["quiesce_seconds"] < whole / 4
    copy = ocl.restore("image", target)
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected.splitlines()[-2:]


def test_a_checkpoint_inside_a_kernel_with_a_global_offset(ocl):  # noqa: F811
    """The kernel's form for launches with an offset is made again, too."""
    arguments = [str(LONG // 4), "1", "5000", "12345"]
    expected, _ = output(ocl, "long_grid", *arguments)
    job = ocl.start("long_grid", *arguments, options=["--slice=10ms"])
    job.wait_lines(1)
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85 and "hash" not in job.text
    copy = ocl.restore("image", "rusticl")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected.splitlines()[-2:]


def test_suspends_inside_a_kernel(ocl):  # noqa: F811
    """Also of a guest that pauses for most of the time."""
    expected, _ = output(ocl, "long_grid", str(LONG // 4))
    options = ["--guest", "--fps=20", "--guest-tuning=frame=0.8,lows=1000000"]
    job = ocl.start("long_grid", str(LONG // 4), options=options)
    job.wait_lines(1)
    for _ in range(3):
        for arguments in (["ckpt-dump", "--suspend"], ["ckpt-restore", "--resume"]):
            r = subprocess.run([ocl.ckpt.tool(arguments[0]), *arguments[1:], str(job.pid)], env=ocl.ckpt.env,
                               capture_output=True, text=True, timeout=100)
            assert r.returncode == 0, r.stderr
        assert job.process.poll() is None
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected.splitlines()[-2:]
