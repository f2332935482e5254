# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels in slices: the pass over PTX, equal results, and a checkpoint inside a kernel. On the
software device. Skipped where there is no CUDA toolkit."""
import json
import math
import pathlib
import re
import subprocess
import time
from random import Random

import pytest

from conftest import BUILD
from cuda_programs import NVCC, RUN, SOURCES, make  # noqa: F401 (fixture)
from test_cuda import Cuda
from tiers import parametrize
from toolkit import HOME, WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

REWRITE = BUILD / "tests" / "programs" / "slicing" / "rewrite-ptx"
LIBRARIES = ["libcurand.so.10", "libcublas.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12"]

# Programs that do not run to their end by themselves, and why.
LEFT_OUT = {name: why for why, names in {
    "it fails on purpose, in a way that an argument chooses": ["errors.cu", "refused.cu"],
    "it runs until there is a file": ["mapping.cu", "objects.cu", "queue.cu"],
    "it needs arguments, files or other programs": ["chunks.cu", "forked.cc", "future.cc", "grows.cu", "histories.cc", "hold.cu", "late.cc", "managed.cu", "moved.cu",
                                                   "ipc_events.cu", "ipc_memory.cu", "remote_unplaced.cu", "tenant.cu", "tenants.cu", "waiting.cu"],
    "it is for devices of other nodes": ["remote_graph_rules.cu", "remote_hints.cu", "remote_opaque.cu"],
    "it checks that it has no sockets, and ckpt-run gives it one": ["driver.cc"],
    "it checkpoints itself": ["away.cc"],
    "it checkpoints itself by the driver's calls": ["ipc.cu"],
    "it launches no kernel": ["counted.cu", "kept.cu", "nvml.cc", "rdma.cc", "taken.cu", "ways.cc"],
    "it is a library": ["constructor.cc", "plugin.cu"],
}.items() for name in names}


@pytest.fixture
def cuda(ckpt, make, tmp_path):  # noqa: F811
    ckpt.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return Cuda(ckpt, make)


def output(cuda, source, *options, arguments=(), debug=False):
    """What the program prints under ckpt-run, and its log."""
    if debug:
        cuda.ckpt.env["CKPT_LOG"] = "debug"
    job = cuda.start(*arguments, options=options, source=source, paused=False)
    assert job.wait() == 0, job.error_text
    return job.text, job.error_text


def slices(log):
    """The numbers of slices of each kernel's launches, as the log tells."""
    found = {}
    for name, n in re.findall(r"kernel (\S+): \d+ blocks in (\d+) slices", log):
        found.setdefault(name, []).append(int(n))
    return found


def rewrite(path, folder):
    """Rewrites the PTX of a file; returns the counts of modules, kernels and sliceable kernels."""
    folder.mkdir(exist_ok=True)
    r = subprocess.run([str(REWRITE), str(path), str(folder)], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    return [int(n) for n in r.stdout.splitlines()[-1].split()[1::2]]


def assembles(ptx, architecture):
    r = subprocess.run([f"{HOME}/bin/ptxas", "-O0", "-arch", architecture, str(ptx), "-o", "/dev/null"],
                       capture_output=True, text=True, timeout=120)
    return r.returncode == 0, r.stderr


def ptx_for_every_architecture(source, folder):
    """The names of the architectures and the files."""
    listed = subprocess.run([NVCC, "--list-gpu-code"], capture_output=True, text=True).stdout
    for code in listed.split():
        ptx = folder / f"{code}.ptx"
        subprocess.run([NVCC, "-w", "-ptx", f"-arch={code.replace('sm', 'compute')}", f"-I{SOURCES}", "-o", str(ptx),
                        str(SOURCES / source)], check=True, timeout=200)
        yield code, ptx


def check_assembly(folder, names):
    """What is printed assembles wherever the text before does, for its own target."""
    for before in names:
        target = re.search(r"^\.target (sm_\w+)", before.read_text(), re.M)[1]
        after = before.with_name(before.name.replace(".before.", ".after."))
        if assembles(before, target)[0]:
            fine, why = assembles(after, target)
            assert fine, f"{after}: {why}"


def check_sample(folder, most=6):
    """As check_assembly(), for some modules of all sizes."""
    all_sizes = sorted(folder.glob("*.before.ptx"), key=lambda p: p.stat().st_size)
    check_assembly(folder, all_sizes[::max(1, len(all_sizes) // most)][:most])


@pytest.fixture(params=LIBRARIES)
def toolkit_library(request):
    path = pathlib.Path(HOME) / "lib" / request.param
    if not path.exists():
        pytest.skip(f"{request.param} is not installed")
    return path


def test_rewritten_ptx_assembles(make, tmp_path):  # noqa: F811
    modules, kernels, sliceable = rewrite(make("slices.cu"), tmp_path / "out")
    assert modules == 1 and kernels == 10
    assert sliceable == kernels - 1  # one is cooperative
    check_assembly(tmp_path, list((tmp_path / "out").glob("*.before.ptx")))


@pytest.mark.full
def test_rewritten_ptx_assembles_for_every_architecture(tmp_path):
    for code, ptx in ptx_for_every_architecture("slices.cu", tmp_path):
        _, kernels, sliceable = rewrite(ptx, tmp_path / code)
        assert sliceable == kernels - 1 > 0
        check_assembly(tmp_path, list((tmp_path / code).glob("*.before.ptx")))


PLACES = [f"%{register}.{axis}" for register in ("ctaid", "nctaid", "tid") for axis in "xyz"]


def mutated(text, random):
    """The module with a few random changes: lines left out, doubled, exchanged, joined and split, other reads of the grid."""
    lines = text.splitlines()
    for _ in range(random.randint(1, 12)):
        n = random.choice([i for i, line in enumerate(lines) if line.startswith("\t") and line.endswith(";")])
        kind = random.randrange(6)
        if kind == 0:
            del lines[n]
        elif kind == 1:
            lines.insert(n, lines[n])
        elif kind == 2:
            lines[n - 1], lines[n] = lines[n], lines[n - 1]
        elif kind == 3:
            lines[n - 1:n + 1] = [f"{lines[n - 1]} /* , ; }} */ {lines[n]}"]
        elif kind == 4:
            lines[n] = lines[n].replace(",", "\n\t, // ;\n", 1)
        else:
            lines[n] = re.sub(r"(mov\.[ub]32\s+%r\d+,).*;", lambda m: f"{m[1]} {random.choice(PLACES)};", lines[n])
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("rounds", [6, pytest.param(300, marks=pytest.mark.full)])
def test_fuzzed_ptx_assembles(tmp_path, rounds):
    """Random changes to PTX, of any architecture of the toolkit: what the assembler takes before the pass it takes behind it."""
    random = Random(21)
    listed = subprocess.run([NVCC, "--list-gpu-code"], capture_output=True, text=True).stdout.split()
    oldest = next(text.read_text() for code, text in ptx_for_every_architecture("slices.cu", tmp_path))
    assembled = changed = 0
    for n in range(rounds):
        before = tmp_path / "fuzzed.ptx"
        target = random.choice(listed)
        before.write_text(mutated(re.sub(r"\.target sm_\w+", f".target {target}", oldest), random))
        rewrite(before, tmp_path / str(n))
        if not assembles(before, target)[0]:
            continue
        assembled += 1
        for after in (tmp_path / str(n)).glob("*.after.ptx"):
            fine, why = assembles(after, target)
            assert fine, f"round {n}, {target}: {why}"
            changed += after.read_text() != before.read_text()
    assert changed == assembled > rounds / 4


@pytest.mark.full
@pytest.mark.parametrize("source", sorted(p.name for p in SOURCES.glob("*.cu")))
def test_the_ptx_of_every_test_program(make, tmp_path, source):  # noqa: F811
    rewrite(make(source), tmp_path / "out")
    check_assembly(tmp_path, list((tmp_path / "out").glob("*.before.ptx")))


@pytest.mark.full
def test_the_ptx_of_the_toolkits_libraries(tmp_path, toolkit_library):
    modules, kernels, sliceable = rewrite(toolkit_library, tmp_path / "out")
    assert modules > 0 and sliceable > 0.99 * kernels
    check_sample(tmp_path / "out")


@pytest.mark.parametrize("size", ["7", "5ms"])
def test_a_program_cannot_tell_slices_from_the_whole(cuda, size):
    expected, _ = output(cuda, "slices.cu")
    sliced, log = output(cuda, "slices.cu", f"--slice={size}", debug=True)
    assert sliced == expected
    if size == "7":
        found = slices(log)
        assert found["_Z8all_axesPi"] == [21, 8, 8]  # 5x7x3 blocks, and twice 4x4x2 in a graph
        assert found["_Z9look_backPViS0_"] == [8]  # 50 blocks
        assert found["_Z6stridePii"] == [3, 2, 3]  # 16, 8 in a graph, 20; 3 in a graph are one launch
    assert "kernel _Z10whole_gridPi runs whole, not in slices: it reads %envreg" in log
    assert "a graph runs whole" not in log


@pytest.mark.full
@pytest.mark.parametrize("size", ["1", "7", "16", "25%", "1000000", "1ms"])
@pytest.mark.parametrize("source", sorted(p.name for p in SOURCES.glob("*.c[cu]") if p.name not in LEFT_OUT))
def test_every_program_in_slices(cuda, source, size):
    assert "PASSED" in output(cuda, source, f"--slice={size}")[0]


@pytest.mark.parametrize("source", ["kernels.cu", "language.cu", "launches.cu"])
def test_programs_in_slices(cuda, source):
    assert "PASSED" in output(cuda, source, "--slice=3")[0]


def test_kernels_on_textures_in_slices(cuda):
    text, log = output(cuda, "mipmaps.cu", "--slice=1", debug=True)
    assert "PASSED" in text
    found = slices(log)
    assert sum(found[name] == [3] * len(found[name]) for name in found if name.startswith("_Z3askI")) == 5
    assert set(found["_Z8ask_cubeyPK5QueryiPfb"]) == {4}


def test_a_guest_computes_the_same(cuda):
    expected, _ = output(cuda, "slices.cu")
    assert output(cuda, "slices.cu", "--guest", "--fps=120")[0] == expected


@pytest.mark.parametrize("size", [1000000, 12, 7, 1])
def test_graphs_in_slices(cuda, size):
    """All nodes of the graphs but those with memory of their own are launched one by one."""
    expected, _ = output(cuda, "graph_slices.cu")
    sliced, log = output(cuda, "graph_slices.cu", f"--slice={size}", debug=True)
    assert sliced == expected and "PASSED" in sliced
    assert log.count("a graph runs whole, not in slices: it allocates or frees memory") == 1
    assert "kernel _Z10whole_gridPi runs whole, not in slices: it reads %envreg" in log
    assert log.count("runs whole") == 2
    assert log.count("nodes one by one") >= 40
    if size < 50:
        found = slices(log)
        assert set(found["_Z3addPiPKi"]) == {math.ceil(blocks / size) for blocks in (50, 25)}  # only in graphs
        assert set(found["_Z3mixPiii"]) == {math.ceil(blocks / size) for blocks in (50, 30, 31)}


def test_graphs_of_a_guest(cuda):
    expected, _ = output(cuda, "graph_slices.cu")
    assert output(cuda, "graph_slices.cu", "--guest", "--fps=120")[0] == expected


@pytest.mark.parametrize("source", ["remote_graphs.cu", "remote_captures.cu", "softcuda_graphs.cu", "graph_calls.cu"])
def test_other_programs_with_graphs(cuda, source):
    expected, _ = output(cuda, source)
    sliced, log = output(cuda, source, "--slice=1", debug=True)
    assert sliced == expected and "PASSED" in sliced
    assert "nodes one by one" in log


@pytest.mark.parametrize("arguments", [[], ["graph"], ["managed"], ["mapped"]])
def test_a_barrier_made_by_hand_loses_nothing_and_is_remembered(cuda, arguments):
    options = ["--slice=1", "--guest-tuning=patience=300"]
    text, log = output(cuda, "barrier_by_hand.cu", *options, arguments=arguments)
    assert "PASSED" in text
    assert log.count("its blocks wait for later ones") == 1
    kept = pathlib.Path(cuda.ckpt.env["XDG_CACHE_HOME"]) / "ckpt" / "whole-kernels"
    assert len(kept.read_text().splitlines()) == 1
    text, log = output(cuda, "barrier_by_hand.cu", *options, arguments=arguments, debug=True)
    assert "PASSED" in text and not slices(log)


@parametrize("arguments", [[30000], [60, 500], [10000, 3, 5000, "graph"],
                           [60, 500, 5000, "graph"], [10, 3000, 5000, "graph"]], quick=2)
def test_a_checkpoint_inside_a_kernel(cuda, arguments):
    """With slices it does not wait for the end of the kernel, and the copy continues with the next slice. It does not wait
    for the end of many launches either, or of a graph, of long kernels, of two or three slices each, or of kernels shorter
    than a slice."""
    expected, _ = output(cuda, "long_kernel.cu", "--slice=10ms", arguments=arguments)
    job = cuda.start(*arguments, options=["--slice=10ms"], source="long_kernel.cu", paused=False)
    job.wait_lines(1)
    dumped = cuda.tool("ckpt-dump", "--json", "-o", "image", str(job.pid))
    assert dumped.returncode == 0, dumped.stderr
    assert job.wait() == 85
    # The launch takes some 300 slices, and the dump waits for two.
    whole = float(re.search(r"seconds ([\d.]+)", expected)[1])
    assert json.loads(dumped.stdout)["quiesce_seconds"] < whole / 4
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected.splitlines()[-2:]


def test_a_suspended_graph_continues_with_the_next_slice(cuda):
    arguments = [10000, 3, 5000, "graph"]
    expected, _ = output(cuda, "long_kernel.cu", "--slice=10ms", arguments=arguments)
    job = cuda.start(*arguments, options=["--slice=10ms"], source="long_kernel.cu", paused=False)
    job.wait_lines(1)
    suspended = cuda.suspend(job)
    assert suspended.returncode == 0, suspended.stderr
    # It stands still inside the graph, which would have ended by now.
    time.sleep(1.5 * float(re.search(r"seconds ([\d.]+)", expected)[1]))
    assert "hash" not in job.text
    resumed = cuda.resume(job)
    assert resumed.returncode == 0, resumed.stderr
    assert job.wait() == 0 and job.lines[-2:] == expected.splitlines()[-2:]


def test_a_checkpoint_of_a_guest(cuda):
    """In periodic mode, in which it pauses for most of the time (frame=0.9: a turn is a tenth of a frame). The copy goes
    on with the next slice."""
    blocks = 3000
    expected, _ = output(cuda, "long_kernel.cu", arguments=[blocks])
    options = ["--guest", "--fps=20", "--guest-tuning=frame=0.9,lows=1000000"]
    job = cuda.start(blocks, options=options, source="long_kernel.cu", paused=False)
    job.wait_lines(1)
    dumped = cuda.tool("ckpt-dump", "--json", "-o", "image", str(job.pid))
    assert dumped.returncode == 0, dumped.stderr
    assert job.wait() == 85 and "hash" not in job.text
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected.splitlines()[-2:]


def test_a_guest_has_the_lowest_priority_and_cannot_tell(cuda):
    """Lower numbers are higher priorities; the software device has 0 to -5."""
    expected, log = output(cuda, "priorities.cu", debug=True)
    assert "priority" not in log
    text, log = output(cuda, "priorities.cu", "--guest", debug=True)
    assert text == expected and "PASSED" in text
    assert "guest: stream priorities: 0 to -5, the lowest is used; green contexts:" in log
    # The driver's own answers, from behind ckpt.
    given = re.findall(r"a stream has the priority (-?\d+), (-?\d+) was asked for", log)
    assert {int(asked) for _, asked in given} == {-12, -5, -2, 0} and {real for real, _ in given} == {"0"}
    text, log = output(cuda, "priorities.cu", "--slice=1", debug=True)
    assert text == expected and "priority" not in log


def test_wrong_sizes_are_refused(cuda):
    for options in (["--slice=x"], ["--slice=0"], ["--slice=1.5"], ["--slice=auto"], ["--fps=60"],
                    ["--guest", "--fps=0"], ["--guest", "--guest-tuning=margin"],
                    ["--guest", "--guest-tuning=speed=3"]):
        r = cuda.tool("ckpt-run", *options, "true")
        assert r.returncode == 125, options
        assert "--" in r.stderr
