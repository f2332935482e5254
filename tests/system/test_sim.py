"""ckpt-sim: the scheduling of jobs that can be moved, on synthetic jobs and on logs."""

import csv
import json
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.no_criu

# Not the defaults: the definition of the sweeps over the load.
SWEEP = ("--load-of", "fastest", "--mix", "equal")

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
    for run in runs(sim("--json", "--jobs", 3000, "--load", "0.8,1.1", "--sizes", "1-16", *SWEEP)).values():
        parts = run["execution"] + run["migration"] + run["wait_a"] + run["wait_b"]
        assert parts == pytest.approx(run["turnaround"], rel=1e-9)
        assert run["jobs"] == 3000 and run["impossible"] == 0


def test_the_same_seed_gives_the_same_results(sim):
    options = ("--json", "--jobs", 500, "--policy", "MCTBM")
    assert sim(*options, "--seed", 4) == sim(*options, "--seed", 4) != sim(*options, "--seed", 5)


def test_large_jobs_profit_from_backfill(sim):
    r = runs(sim("--json", "--jobs", 3000, "--sizes", "64-512", *SWEEP))
    assert r[0.9, "MCT"]["to_mct"] == 1 and r[0.9, "MCT"]["moves"] == 0
    assert r[0.9, "MCTB"]["to_mct"] < 0.9
    assert r[0.9, "WMCT"]["to_mct"] < r[0.9, "MCTBM"]["to_mct"] < 0.9


def test_costs_and_storage_count(sim):
    def migration(*options):
        return runs(sim("--json", "--jobs", 2000, "--load", 1.1, "--sizes", "1-16", *SWEEP, "--policy", "MCTM", *options))[1.1, "MCTM"]
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


def test_jobs_of_comma_separated_values(sim, tmp_path):
    (tmp_path / "jobs.csv").write_text("submit,seconds,nodes\n0,60,2\n10,30,4\n10,0,1\n")
    table = runs(sim("--json", "--csv", "jobs.csv", "--classes", "only:4", "--policy", "MCT"))
    assert (table[None, "MCT"]["jobs"], table[None, "MCT"]["left_out"]) == (2, 1)
    assert table[None, "MCT"]["turnaround"] == (60 + 80) / 2


def test_readings_of_the_paper(sim):
    def mean(policy, *options, mix="equal"):
        return runs(sim("--json", "--jobs", 2000, "--sizes", "64-512", "--load-of", "fastest", "--mix", mix, "--policy", policy,
                        *options))[0.9, policy]["turnaround"]
    assert mean("MCTM", "--regions", "bounded") == mean("MCT")  # nothing is left to migrate to
    assert mean("MCTBM", "--free-final-restore") < mean("MCTBM")
    assert mean("MCTB", "--whole-last-region") != mean("MCTB")
    assert len({mean("MCT", mix=mix) for mix in ("equal", "small", "large")}) == 3
    # At 0.9, the printed formula is that of 1 / 0.9.
    assert mean("MCT", "--arrivals", "printed") > mean("MCT")


def test_the_default_has_the_papers_order_for_small_and_for_large_jobs(sim):
    """KS: backfill does nothing for small jobs and helps large ones; migration the other way round."""
    def gains(mix):
        return {p: r["to_mct"] for (_, p), r in runs(sim("--json", "--jobs", 20000, "--mix", mix)).items()}
    small, large = gains("small"), gains("large")
    assert small["MCTB"] > 0.95 and small["MCTM"] < 0.85 and small["MCTBM"] < 0.85
    assert large["MCTB"] < 0.85 and large["MCTM"] > 0.95 and large["MCTBM"] < 0.9


def test_definitions_of_the_load_and_of_arrivals(sim):
    """The less capacity a load of 0.9 is a share of, the fewer jobs come and the less they wait."""
    def waiting(*options, mix="large"):
        r = runs(sim("--json", "--jobs", 5000, "--mix", mix, "--policy", "MCT", *options))[0.9, "MCT"]
        return r["wait_a"] + r["wait_b"]
    all_, fastest, mean, slowest = (waiting("--load-of", of) for of in ("all", "fastest", "mean", "slowest"))
    assert all_ > fastest > mean > slowest
    assert waiting("--intervals", "uniform") < all_
    # With a ratio of 1 all numbers of nodes are equally likely; the larger it is, the rarer the large jobs of this mix.
    assert waiting("--mix-ratio", 1, mix="small") > waiting("--mix-ratio", 2, mix="small") > waiting("--mix-ratio", 8, mix="small")


def test_contention(sim, tmp_path):
    results = json.loads(sim("--task-sets", "3", "--task-count", 160, "--json"))
    assert [r["policy"] for r in results] == ["ECT", "contention-ECT"]
    assert results[1]["makespan"] < results[0]["makespan"]
    assert results[1]["modelled_kwh"] < results[0]["modelled_kwh"]
    (tmp_path / "tasks.csv").write_text("name,seconds,memory_gb,host_to_device_gb,device_to_host_gb\n"
                                        "cbmat,12.75,68.729,11.1977,10.4532\nEP,4.14,0.0014,0,0\n")
    pairs = {(p["task"], p["beside"]): p["slowdown"] for p in json.loads(sim("--tasks", "tasks.csv", "--json"))}
    assert pairs["cbmat", "EP"] < 1.01 < pairs["cbmat", "cbmat"]
    node = {"bandwidths": {"core": 50, "cpu": 1000, "memory": 1000, "link": 1000, "copy": 25}}
    (tmp_path / "node.json").write_text(json.dumps(node))
    pairs = {(p["task"], p["beside"]): p["slowdown"]
             for p in json.loads(sim("--tasks", "tasks.csv", "--node", "node.json", "--json"))}
    assert pairs["cbmat", "cbmat"] == 1


def test_the_outcome_of_each_job(sim, tmp_path):
    """Two jobs for one node. With --compile the move of the second one from the slow node costs more."""
    (tmp_path / "jobs.csv").write_text("submit,seconds,megabytes\n5,60,1024\n5,60,1024\n")

    def outcome(*words):
        sim("--csv", "jobs.csv", "--classes", "fast:1,slow:1:0.2", "--cost", 2, "--policy", "MCT,MCTM", "--outcome", "o.csv", *words)
        return {(r["policy"], r["job"]): r for r in csv.DictReader((tmp_path / "o.csv").read_text().splitlines())}
    jobs = outcome()
    for r in jobs.values():
        assert float(r["end"]) - float(r["submit"]) == pytest.approx(sum(float(r[k]) for k in ("execution", "migration", "wait_a", "wait_b")))
    assert jobs["MCT", "1"]["start"] == "0.000" and jobs["MCT", "2"]["start"] == "60.000" and jobs["MCT", "2"]["end"] == "120.000"
    assert jobs["MCTM", "2"]["start"] == "0.000" and jobs["MCTM", "2"]["moves"] == "1" and len(jobs) == 4
    for longer in ("--compile", "--wait"):
        assert float(outcome(longer, 3)["MCTM", "2"]["migration"]) > float(jobs["MCTM", "2"]["migration"]) + 2


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
    (("--load", "nan"), "--load"),
    (("--load", "1e-17"), "10^7 years"),
    (("--csv", "far.csv", "--classes", "only:4:1e-12"), "job 1: with this job"),
    (("--csv", "empty.csv"), "has no job that can be simulated"),
    (("--swf", "empty.csv"), "has no job that can be simulated"),
    (("--csv", "half.csv"), "half.csv: line 3: 1.5 nodes"),
    (("--gavel", "bad.csv"), "bad.csv: line 1: 1 columns instead of 7, 10 or 11"),
    (("--pods", "bad.csv"), "bad.csv: line 1: there is no column num_gpu"),
    (("--sizes", "3-7"), "powers of two"),
    (("--classes", "a:1"), "two classes"),
    (("--classes", "a:x,b:1"), "--classes"),
    (("--classes", "a:1.5,b:1"), "not a whole number"),
    (("--classes", "a:1,a:1"), "a is there twice"),
    (("--jobs", 0), "--jobs"),
    (("--swf", "missing.swf"), "cannot read missing.swf"),
    (("--swf", "bad.swf"), "bad.swf: line 2: 3 columns instead of 18"),
    (("--csv", "bad.csv"), "bad.csv: line 2: column seconds is not a number"),
    (("--tasks", "bad.csv"), "bad.csv: line 1: there is no column name"),
    (("--tasks", "bad.csv", "--node", "bad.csv"), "not the output of ckpt-node-bench"),
    (("--task-sets", "4"), "they are 1, 2 and 3"),
    (("--task-sets", "1", "--watts", "1,2"), "--watts"),
    (("--min-speedup", 20), "--min-speedup"),
    (("--swf", "bad.swf", "--gavel", "bad.swf"), "only one of"),
    (("--jobs", 30000, "--gantt", "g.svg", "--policy", "MCT"), "use fewer --jobs"),
    (("--jobs", 10, "--sweep", "/nonexistent/s.svg"), "cannot write /nonexistent/s.svg"),
])
def test_wrong_input_is_explained(sim, tmp_path, options, words):
    (tmp_path / "bad.csv").write_text("submit,seconds\n1,x\n")
    (tmp_path / "bad.swf").write_text("; comment\n1 2 3\n")
    (tmp_path / "far.csv").write_text("submit,seconds\n0,1e9\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "half.csv").write_text("submit,seconds,nodes\n0,1,1\n0,1,1.5\n")
    assert words in sim(*options, status=1)


def test_wrong_arguments_have_their_own_exit_status(sim):
    assert "--charge" in sim("--charge", "free", status=125)


LOADS = "0.5,0.7,0.8,0.85,0.9,0.95,1.0,1.08,1.2"


@pytest.mark.full
@pytest.mark.parametrize("sizes", ["1-16", "64-512"])
@pytest.mark.parametrize("load_of", ["fastest", "all"])
def test_our_policy_at_each_point_of_the_published_sweep(sim, sizes, load_of):
    """bench/sched/README.md, with fewer jobs: WMCT is never above MCT, and below MCTBM where that gains."""
    table = runs(sim("--json", "--jobs", 20000, "--policy", "MCT,MCTBM,WMCT", "--load", LOADS, "--load-of", load_of, "--sizes", sizes, "--mix", "equal"))
    for load in map(float, LOADS.split(",")):
        ours, theirs = (table[load, policy]["to_mct"] for policy in ("WMCT", "MCTBM"))
        assert ours <= 1 and (theirs >= 1 or ours <= theirs), (load, ours, theirs)
