# SPDX-License-Identifier: Apache-2.0
"""bench/mobile: the paper's programs check their results, and the experiment runs."""
import collections
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from conftest import BUILD, ROOT
from tiers import parametrize
from toolkit import NVCC, WHY_NOT
from workers import locked

BENCH = ROOT / "bench" / "mobile"
sys.path.insert(0, str(BENCH))
import experiment  # noqa: E402
import gantt  # noqa: E402
import mix  # noqa: E402
import node  # noqa: E402
import paper  # noqa: E402

RUN = BUILD / "softcuda" / "softcuda-run"
CKPTD = BUILD / "tools" / "ckptd"

# The schedules depend on how long programs take.
pytestmark = [pytest.mark.no_criu, pytest.mark.alone]
needs_device = pytest.mark.skipif(not NVCC or not RUN.exists(),
                                  reason=WHY_NOT if not NVCC else "the software device is not built")
needs_manager = pytest.mark.skipif(not CKPTD.exists(), reason="ckptd is not built")


@pytest.fixture(scope="module")
def made():
    folder = ROOT / "build" / "mobile"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        return node.compile_programs(folder)


def run_bench(*options, limit=60):
    r = subprocess.run([BENCH / "run", "--build", BUILD, *map(str, options)], capture_output=True, text=True, timeout=limit)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


# ---- the replay


@pytest.mark.skipif(not (BUILD / "bench" / "mobile" / "mobile-replayer").exists(), reason="mobile-replayer is not built")
@pytest.mark.parametrize("gpus, least", [(1, 88), (4, 88)])
def test_a_replay_of_the_policy_reaches_most_of_the_least_possible_gain(gpus, least):
    command = [BENCH / "replay", "--build", BUILD, "--gpus", str(gpus), "--seeds", "3"]
    first, again = (subprocess.run(command, capture_output=True, text=True, timeout=120) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    assert float(re.search(r"([\d.]+) % of that gain", first.stdout)[1]) > least


# ---- the model


@parametrize("name", paper.PROGRAMS, quick=4)
def test_a_program_takes_the_seconds_of_the_paper(name):
    seconds, gb, _ = paper.PROGRAMS[name]
    for scale in (0.05, 1):
        p = mix.program(name, scale)
        assert p.seconds / scale == pytest.approx(seconds, rel=0.02)
    assert p.mib == pytest.approx(gb * mix.MIB_PER_GB, abs=1)


def test_a_rate_can_be_changed_by_name():
    model = mix.read_model()
    assert mix.changed(model, ["compute=+25%"])["compute"] == pytest.approx(1.25 * model["compute"])
    assert mix.changed(model, ["copy=-25%"])["copy"] == pytest.approx(0.75 * model["copy"])
    for bad in ("speed=+25%", "compute=25", "compute"):
        with pytest.raises(ValueError):
            mix.changed(model, [bad])


def test_an_order_depends_on_its_seed_and_has_all_programs_equally_often():
    names = [[p.name for p in experiment.order(20, seed, 0.1)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert set(names[0]) == set(paper.PROGRAMS)


def test_spans_are_read_from_the_journal():
    run = node.Run(mix.program("map", 0.1), begun=0, ended=9, pid=7, moments={"started": 0, "checked": 9})
    messages = [(0.5, "from", "Connect", "unassigned", -1), (1, "to", "Connect", "running", 0),
                (2, "to", "SuspendMemory", "evicting", 0), (3, "from", "Evicted", "evicting", 0),
                (4, "to", "Deepen", "evicted", -1), (4, "from", "Evicted", "evicted", -1),
                (5, "to", "Migrate", "resuming", 1), (6, "from", "MigDone", "resuming", 1),
                (7, "from", "CudaMalloc", "running", 1), (8, "from", "Fin", "running", 1),
                (8, "to", "GoAhead", "running", 1)]
    journal = [json.dumps({"us": at * 1e6, "pid": 7, way: message, "state": state, "gpu": gpu})
               for at, way, message, state, gpu in messages]
    experiment.add_spans([run], journal)
    assert [s for s in run.spans if s[2] < s[3]] == [
        ("pending", -1, 0.5, 1), ("running", 0, 1, 2), ("evicting", 0, 2, 3), ("evicted", 0, 3, 5), ("resuming", 1, 5, 6),
        ("running", 1, 6, 8)]
    assert run.evictions == 1
    svg = xml.etree.ElementTree.fromstring(gantt.draw([("a & b", [run])], 2, 0.1))
    titles = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}title") if t.text]
    assert "map: running on GPU 1, 20.0 s" in titles and "map: evicted, 20.0 s" in titles


def test_the_program_that_runs_longer_was_alone_for_the_rest():
    a = {"begin": 0, "end": 10, "alone": 5}  # half as fast all the time
    b = {"begin": 0, "end": 14, "alone": 9}  # alone for the last 4: did 5 of its work in 10
    assert experiment.rate_beside(a, b) == 2
    assert experiment.rate_beside(b, a) == 2


def test_by_the_matrix_of_the_paper_many_programs_gain_and_one_does_not():
    def gains(programs, passes):
        out = subprocess.run([BENCH / "predict", "--programs", str(programs), "--seeds", "2", "--passes", str(passes)],
                             capture_output=True, text=True, check=True).stdout
        return [float(line.split(": ")[1].split()[0]) for line in out.splitlines() if ": " in line]

    assert gains(1, 0) == gains(1, 4) == [0, 0, 0, 0]
    first_fit, chosen = gains(100, 0), gains(100, 4)
    assert all(-25 < c < f < -5 for f, c in zip(first_fit, chosen))


# ---- the programs


@needs_device
@parametrize("name", paper.PROGRAMS, quick=4)
def test_programs_check_their_results(made, tmp_path, name):
    program = mix.program(name, 0.01)
    env = dict(os.environ, CKPT_RUNTIME_DIR=str(tmp_path), CKPT_SOFTCUDA=f"1x{mix.GPU_MIB}M")
    r = subprocess.run([RUN, made[mix.SOURCE[program.kind]], *program.arguments()], env=env, capture_output=True, text=True,
                       timeout=60)
    assert r.returncode == 0 and r.stdout.splitlines()[-1] == "PASSED", r.stdout + r.stderr


@pytest.mark.full
@pytest.mark.parametrize("source", ["band_width", "matrix_mul", "pcie"])
def test_opencl_versions_check_their_results(tmp_path, source):
    target = tmp_path / source
    subprocess.run(["c++", "-O2", "-std=c++17", "-o", target, BENCH / "programs" / f"{source}_cl.cc", "-lOpenCL"], check=True)
    env = dict(os.environ, OCL_ICD_VENDORS="/etc/OpenCL/vendors/pocl.icd")
    r = subprocess.run([target, "--mib", "30", "--work", "300", "--steps", "50"], env=env, capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0 and r.stdout.splitlines()[-1] == "PASSED", r.stdout + r.stderr


# ---- the experiment


@pytest.mark.full
@needs_device
def test_one_program_per_gpu(made, tmp_path):
    out = run_bench("--without-manager", "--programs", 3, "--gpus", 2, "--scale", 0.005, "--rates", "compute=+25%",
                    "--json", tmp_path / "out.json", "--svg", tmp_path / "out.svg")
    facts = json.loads((tmp_path / "out.json").read_text())
    seed, = facts["seeds"]
    runs = seed["simple"]["runs"]
    assert len(runs) == 3 and seed["simple"]["failed"] == 0 and "managed" not in seed
    # Never two on a GPU at the same time, and none faster than by the model.
    for gpu in (0, 1):
        spans = sorted(span[2:] for r in runs for span in r["spans"] if span[1] == gpu)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))
    assert all(r["own_seconds"] >= r["model_seconds"] * 0.8 for r in runs)
    assert "compute=+25%" in out and "<svg" in (tmp_path / "out.svg").read_text()


@needs_device
@needs_manager
@pytest.mark.parametrize("count,scale", [(12, 0.005), pytest.param(24, 0.02, marks=pytest.mark.full)])
def test_all_at_once_under_the_manager(made, tmp_path, count, scale):
    run_bench("--programs", count, "--gpus", 2, "--scale", scale, "--json", tmp_path / "out.json", limit=300)
    seed, = json.loads((tmp_path / "out.json").read_text())["seeds"]
    assert seed["managed"]["failed"] == 0 and len(seed["managed"]["runs"]) == count
    assert seed["managed"]["evictions"] > 0
    assert all(s["since_first_assignment"] >= 0.999 * s["on_a_gpu"] > 0 for s in seed["slowdowns"].values())
    spans = [(r["program"], *span) for r in seed["managed"]["runs"] for span in r["spans"]]
    # Both GPUs were used, and the exclusive program was alone on its GPU.
    assert {gpu for _, state, gpu, _, _ in spans if state == "running"} == {0, 1}
    on_gpu = [s for s in spans if s[1] in ("running", "resuming")]
    for name, _, gpu, begin, end in on_gpu:
        if name == "malloc_in_kernel":
            assert not [s for s in on_gpu if s[0] != name and s[2] == gpu and s[3] < end and begin < s[4]]


@needs_device
@needs_manager
@pytest.mark.full
def test_the_matrix_of_pairs_and_the_overhead_are_measured(made, tmp_path):
    run_bench("--matrix", "--scale", 0.01, "--json", tmp_path / "out.json", limit=300)
    facts = json.loads((tmp_path / "out.json").read_text())
    assert len(facts["slowdown"]) == 25 and len(facts["rule"]) == 15
    # However busy the machine is: two programs that need only one engine cannot both have it.
    assert facts["slowdown"]["bandWidth beside bandWidth"] > 1.5
    assert "map" in run_bench("--overhead", 1, "--only", "map", "--scale", 0.01)


def time_shared(runs):
    """The fraction of the time in which two or more programs were running."""
    moments = sorted((at, step) for r in runs for state, _, begin, end in r.spans if state == "running"
                     for at, step in ((begin, 1), (end, -1)))
    running, shared, alone = 0, 0.0, 0.0
    for (at, step), (then, _) in zip(moments, moments[1:]):
        running += step
        shared += (then - at) * (running > 1)
        alone += (then - at) * (running == 1)
    return shared / (shared + alone)


@pytest.mark.full
@needs_device
@needs_manager
def test_interference_separates_programs_that_slow_each_other_down(made):
    # A switch between processes costs more than half of a kernel.
    model = mix.changed(mix.read_model(), ["switch=+5000%"])
    programs = [mix.program("bandWidth", 0.01) for _ in range(6)]
    tries = []
    for _ in range(3):  # what a kernel costs is measured, which other programs of the machine disturb
        shares = {}
        for placement in ("first-fit", "interference"):
            runs, _ = experiment.managed(BUILD, 1, 0.01, model, programs,
                                         ["--placement", placement, "--progress-interval", "0.03"])
            assert not [r.failure for r in runs if r.failure]
            shares[placement] = time_shared(runs)
        tries.append(shares)
        if shares["interference"] < 0.6 * shares["first-fit"]:
            return
    raise AssertionError(tries)


def time_with_equals(runs):
    """The fraction of the time with two running programs in which both were of one kind."""
    moments = sorted((at, step, r.program.kind) for r in runs for state, _, begin, end in r.spans if state == "running"
                     for at, step in ((begin, 1), (end, -1)))
    running, shared, same = collections.Counter(), 0.0, 0.0
    for (at, step, kind), (then, _, _) in zip(moments, moments[1:]):
        running[kind] += step
        shared += (then - at) * (running.total() > 1)
        same += (then - at) * (max(running.values()) > 1)
    return same / shared


@pytest.mark.full
@needs_device
@needs_manager
def test_demand_pairs_programs_that_copy_with_programs_that_compute(made):
    programs = [mix.program(name, 0.01) for name in ["bandWidth"] * 8 + ["pcie"] * 8]
    shares = {}
    for placement in ("first-fit", "demand"):
        runs, _ = experiment.managed(BUILD, 1, 0.01, mix.read_model(), programs,
                                     ["--placement", placement, "--progress-interval", "0.03"])
        assert not [r.failure for r in runs if r.failure]
        shares[placement] = time_with_equals(runs)
    # Without the pairing both are the same; a busy machine brings them closer.
    assert shares["demand"] < 0.9 * shares["first-fit"], shares


@pytest.mark.full
@needs_device
@needs_manager
def test_on_gpu_runs_on_the_software_device(made):
    r = subprocess.run([BENCH / "on_gpu", BUILD / "tools", ROOT / "build" / "mobile", "--programs", "6", "--mib-per-gb", "15",
                        "--scale", "0.01", "--work", "4096", "--software", BUILD], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "quota 108 MiB: 68 for data" in r.stdout and "6 programs, seed 1: one after the other" in r.stdout
