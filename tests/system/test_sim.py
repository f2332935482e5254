"""ckpt-sim: the scheduling of jobs that can be moved, on synthetic jobs and on logs."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.no_criu

SWF = "; Version: 2.2\n" + "".join(
    f"{i} {10 * i} 0 {60 + i} {1 + i % 8} -1 -1 {1 + i % 8} 90 1000 1 1 1 -1 -1 1 -1 -1\n" for i in range(200)
)


@pytest.fixture
def sim(ckpt, tmp_path):
    def run(*options, status=0):
        r = subprocess.run([ckpt.tool("ckpt-sim"), *map(str, options)], cwd=tmp_path, env=ckpt.env,
                           capture_output=True, text=True, timeout=120)
        assert r.returncode == status, r.stderr
        return r.stdout if status == 0 else r.stderr
    return run


def runs(text):
    return {(r.get("load"), r["policy"]): r for r in json.loads(text)["runs"]}


def test_the_parts_of_a_turnaround_add_up(sim):
    for run in runs(sim("--json", "--jobs", 3000, "--load", "0.8,1.1")).values():
        parts = run["execution"] + run["migration"] + run["wait_a"] + run["wait_b"]
        assert parts == pytest.approx(run["turnaround"], rel=1e-9)
        assert run["jobs"] == 3000 and run["impossible"] == 0


def test_the_same_seed_gives_the_same_results(sim):
    options = ("--json", "--jobs", 500, "--policy", "MCTBM")
    assert sim(*options, "--seed", 4) == sim(*options, "--seed", 4) != sim(*options, "--seed", 5)


def test_large_jobs_profit_from_backfill(sim):
    r = runs(sim("--json", "--jobs", 3000, "--sizes", "64-512"))
    assert r[0.9, "MCT"]["to_mct"] == 1 and r[0.9, "MCT"]["moves"] == 0
    assert r[0.9, "MCTB"]["to_mct"] < 0.9
    assert r[0.9, "WMCT"]["to_mct"] < r[0.9, "MCTBM"]["to_mct"] < 0.9


def test_costs_and_storage_count(sim):
    def migration(*options):
        return runs(sim("--json", "--jobs", 2000, "--load", 1.1, "--policy", "MCTM", *options))[1.1, "MCTM"]
    cheap, dear = migration("--cost", 5), migration("--cost", 50)
    assert 0 < cheap["migration"] < dear["migration"]
    assert migration("--storage", "per-node")["migration"] < migration()["migration"]
    # Planned three times too high, and charged what it really is.
    assert migration("--overestimate", 3)["migration"] / migration("--overestimate", 3)["moves"] < \
        2 * migration()["migration"] / migration()["moves"]


def test_a_log_in_the_standard_workload_format(sim, tmp_path):
    (tmp_path / "log.swf").write_text(SWF)
    out = sim("--swf", "log.swf", "--classes", "a:8,b:8:0.5", "--policy", "MCT,MCTBM")
    assert "MCTBM" in out and "load" not in out
    table = runs(sim("--json", "--swf", "log.swf", "--classes", "only:4", "--policy", "MCT"))
    assert table[None, "MCT"]["impossible"] == 100  # those of 5 to 8 nodes


def test_pictures(sim, tmp_path):
    sim("--jobs", 50, "--sizes", "1-4", "--classes", "fast<:8,slow:8", "--gantt", "g.svg", "--policy", "MCTBM")
    picture = ElementTree.parse(tmp_path / "g.svg").getroot()
    assert len(picture.findall(".//{*}title")) >= 50
    sim("--jobs", 300, "--load", "0.8,0.9", "--policy", "MCT,MCTB", "--sweep", "s.svg")
    lines = ElementTree.parse(tmp_path / "s.svg").getroot().findall("{*}polyline")
    assert [len(line.get("points").split()) for line in lines] == [2, 2]


@pytest.mark.parametrize("options, words", [
    (("--policy", "FIFO"), "there is no policy"),
    (("--load", "0"), "--load"),
    (("--sizes", "3-7"), "powers of two"),
    (("--classes", "a:1"), "two classes"),
    (("--classes", "a:x,b:1"), "--classes"),
    (("--jobs", 0), "--jobs"),
    (("--swf", "missing.swf"), "cannot read missing.swf"),
    (("--swf", "bad.swf"), "bad.swf: line 2: 3 columns instead of 18"),
    (("--swf", "bad.swf", "--gavel", "bad.swf"), "only one of"),
    (("--jobs", 30000, "--gantt", "g.svg", "--policy", "MCT"), "use fewer --jobs"),
    (("--jobs", 10, "--sweep", "/nonexistent/s.svg"), "cannot write /nonexistent/s.svg"),
])
def test_wrong_input_is_explained(sim, tmp_path, options, words):
    (tmp_path / "bad.swf").write_text("; comment\n1 2 3\n")
    assert words in sim(*options, status=1)


def test_wrong_arguments_have_their_own_exit_status(sim):
    assert "--charge" in sim("--charge", "free", status=125)
