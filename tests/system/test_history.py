# SPDX-License-Identifier: Apache-2.0
"""ckpt-history, and the lines that ckpt-dump and ckpt-restore append."""
import json
import os
import pwd
import subprocess
from xml.etree import ElementTree

import pytest

from conftest import BUILD, wait_for
from test_opencl import bed_environment, devices  # noqa: F401 (a fixture)


@pytest.fixture
def history(ckpt):
    """The file of this test, which does not exist yet."""
    path = ckpt.folder / "state" / "history.jsonl"
    ckpt.env["CKPT_HISTORY"] = str(path)
    return path


def events(ckpt, *options):
    r = subprocess.run([ckpt.tool("ckpt-history"), "--json", *options], env=ckpt.env, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_dumps_and_restores_are_recorded(ckpt, history):
    ckpt.env["SLURM_JOB_ID"] = "4711"
    job = ckpt.run("counter", 100)
    job.wait_lines(3)
    report = ckpt.dump(job.pid, "a.img")
    assert job.wait() == 85
    ckpt.dump_refused(1, "b.img")
    copy = ckpt.restore("a.img")
    copy.wait_lines(3)
    copy.kill()
    dump, failed, restore = events(ckpt)
    assert (dump["event"], dump["result"], dump["job"], dump["uid"]) == ("dump", "ok", "4711", 0)
    assert dump["image"] == str(ckpt.folder / "a.img") and dump["program"].endswith("/counter")
    assert dump["bytes"] == report["bytes"] and dump["seconds"] == report["seconds"]
    # The whole: not less than its pause, nor than the sum of its steps (which are rounded nowhere).
    assert dump["seconds"] >= max(report["pause_seconds"], report["durable_seconds"], sum(dump["phases"].values()) - 1e-6)
    assert dump["pause_seconds"] == report["pause_seconds"] > 0 and dump["seconds"] > 0
    assert dump["phases"]["criu"] > 0 and dump["devices"] == []
    assert (failed["event"], failed["result"], failed["pid"]) == ("dump", "failed", 1) and failed["why"]
    assert (restore["event"], restore["result"], restore["bytes"]) == ("restore", "ok", dump["bytes"])
    assert restore["image"] == dump["image"] and restore["seconds"] > restore["phases"]["criu"] > 0
    assert history.stat().st_mode & 0o777 == 0o600 and history.parent.stat().st_mode & 0o777 == 0o700
    assert events(ckpt, "--last", "1") == [restore]
    assert events(ckpt, "--job", "1") == [] and len(events(ckpt, "--user", "root")) == 3
    text = subprocess.run([ckpt.tool("ckpt-history")], env=ckpt.env, capture_output=True, text=True).stdout
    assert [line.split()[2] for line in text.splitlines()[1:]] == ["dump", "dump", "restore"]
    assert dump["storage"] == restore["storage"] != ""
    fit = subprocess.run([ckpt.tool("ckpt-history"), "--fit", "--json"], env=ckpt.env, capture_output=True, text=True)
    fit = json.loads(fit.stdout)
    assert fit["checkpoint"]["samples"] == fit["restore"]["samples"] == 1  # not the one that failed
    assert fit["checkpoint"]["seconds"] == pytest.approx(dump["seconds"] - dump.get("waited_seconds", 0))
    assert abs(fit["restore"]["errors"][0]) < 1e-9


def test_a_trace_of_the_steps(ckpt, history):
    job = ckpt.run("counter", 100)
    job.wait_lines(3)
    report = ckpt.dump(job.pid, "a.img", "--leave-running")
    ckpt.dump_refused(1, "b.img")
    words = [ckpt.tool("ckpt-history"), "--chrome-trace"]
    assert subprocess.run([*words, "trace.json"], env=ckpt.env, cwd=ckpt.folder).returncode == 0
    trace = json.loads((ckpt.folder / "trace.json").read_text())
    printed = subprocess.run([*words, "-"], env=ckpt.env, capture_output=True, text=True).stdout
    assert json.loads(printed) == trace
    head, whole, *steps, failed = trace["traceEvents"]
    assert head == {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "root"}}
    assert whole["name"] == "dump counter" and whole["args"]["image"] == str(ckpt.folder / "a.img")
    assert whole["dur"] == pytest.approx(report["seconds"] * 1e6) and whole["ts"] > 1.7e15
    assert whole["ts"] + whole["dur"] == pytest.approx(events(ckpt)[0]["time"] * 1e6, abs=1)  # when it ended
    assert {s["name"] for s in steps} == {p["name"] for p in report["phases"]}
    criu, said = (next(x for x in all_ if x["name"] == "criu") for all_ in (steps, report["phases"]))
    assert criu["ts"] - whole["ts"] == pytest.approx(said["start"] * 1e6, abs=1) and criu["dur"] == pytest.approx(said["seconds"] * 1e6)
    assert failed["args"]["result"] == "failed" and failed["dur"] == 0
    for more in (["--json"], ["--fit"], ["--prometheus", "-"]):
        assert subprocess.run([*words, "-", *more], env=ckpt.env, capture_output=True).returncode == 125


def test_a_picture_of_the_steps(ckpt, history):
    job = ckpt.run("counter", 100)
    job.wait_lines(3)
    report = ckpt.dump(job.pid, "a.img", "--leave-running")
    ckpt.dump_refused(1, "b.img")
    words = [ckpt.tool("ckpt-history"), "--svg"]
    assert subprocess.run([*words, "steps.svg"], env=ckpt.env, cwd=ckpt.folder).returncode == 0
    printed = subprocess.run([*words, "-"], env=ckpt.env, capture_output=True, text=True).stdout
    assert printed == (ckpt.folder / "steps.svg").read_text()
    boxes, texts = drawn(printed)
    titles = [t.rsplit(":", 1)[0] for _, _, t in boxes if t]
    assert sorted(titles) == sorted(p["name"] for p in report["phases"])
    assert [t for t in texts if t.endswith("dump counter")] and [t for t in texts if t.endswith("(failed)")]
    criu = next(b for b in boxes if b[2].startswith("criu: "))
    said = next(p for p in report["phases"] if p["name"] == "criu")
    whole = max(p["start"] + p["seconds"] for p in report["phases"] if p["name"] in titles)
    assert criu[1] == pytest.approx(680 * said["seconds"] / max(whole, report["seconds"]), abs=1)
    for more in (["--json"], ["--fit"], ["--prometheus", "-"], ["--chrome-trace", "-"]):
        assert subprocess.run([*words, "-", *more], env=ckpt.env, capture_output=True).returncode == 125


def drawn(text):
    """The boxes (x, width, title) and the words of a picture, which is valid XML."""
    picture = ElementTree.fromstring(text)
    boxes = [(float(r.get("x")), float(r.get("width")), r.findtext("{*}title", "")) for r in picture.iter("{http://www.w3.org/2000/svg}rect")
             if r.get("x")]
    return boxes, [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.no_criu
def test_a_picture_of_any_lines(ckpt, history):
    """Steps that overlap, too many of them and of the lines, and names that are markup or longer than the room."""
    history.parent.mkdir(exist_ok=True)
    events = [{"time": 1e300, "event": "<b>&\u001b[31m", "program": "/x/" + "ü" * 100, "starts": {str(i): 0 for i in range(300)},
               "phases": {"1": -5, "2": 1e300, "3": "x"}}, {"starts": [1]}, {"phases": 3, "starts": {"a": "b"}}, {}]
    lines = [json.dumps({"event": "older"})] * 300 + [json.dumps(e) for e in events]
    history.write_text("".join(line + "\n" for line in lines))
    boxes, texts = drawn(subprocess.run([ckpt.tool("ckpt-history"), "--svg", "-"], env=ckpt.env, capture_output=True, text=True, check=True).stdout)
    assert len([b for b in boxes if b[2]]) == 100 and "104 older ones are left out" in texts[0]
    assert [t for t in texts if "<b>&\\x1b[31m" in t] and max(len(t) for t in texts) < 100
    assert max(x + width for x, width, _ in boxes) <= 1000.01


@pytest.mark.parametrize("obstacle", ["folder", "link", "none"])
def test_a_history_that_cannot_be_written_harms_no_dump(ckpt, history, obstacle):
    history.parent.mkdir()
    if obstacle == "folder":
        history.mkdir()
    elif obstacle == "link":
        (ckpt.folder / "other").touch()
        os.chown(ckpt.folder / "other", 1, 1)
        history.symlink_to(ckpt.folder / "other")
    else:
        ckpt.env["CKPT_HISTORY"] = ""
    job = ckpt.run("counter", 100)
    job.wait_lines(3)
    ckpt.dump(job.pid, "a.img", "--leave-running")
    assert obstacle != "link" or (ckpt.folder / "other").read_text() == ""


def test_its_size_is_bounded(ckpt, history):
    history.parent.mkdir()
    line = json.dumps({"event": "dump", "padding": "x" * 1000}) + "\n"
    history.write_text(line * 4200)
    ckpt.dump_refused(1, "a.img")
    assert len(history.read_text().splitlines()) == 1
    assert len(events(ckpt)) == 4201
    history.write_text(line * 4200)
    ckpt.dump_refused(1, "a.img")
    assert sorted(p.name for p in history.parent.iterdir()) == ["history.jsonl", "history.jsonl.1"]


def test_lines_of_any_content(ckpt, history):
    history.parent.mkdir()
    history.write_text('{"event": 1, "time": "x", "bytes": -1, "seconds": [], "devices": {}}\n[1]\nno json\n{"event": "du\n'
                       '{"event": "a\\u001b[2J", "time": 1e300, "bytes": 1e300, "devices": [1]}\n' + "[" * 20000 + "\n")
    assert len(events(ckpt)) == 2
    r = subprocess.run([ckpt.tool("ckpt-history")], env=ckpt.env, capture_output=True, text=True)
    assert r.returncode == 0 and len(r.stdout.splitlines()) == 3 and "\x1b" not in r.stdout
    assert f"{history}: line 2 is not a JSON object and is left out, and so are 3 more" in r.stderr
    r = subprocess.run([ckpt.tool("ckpt-history"), "--file=/nonexistent"], env=ckpt.env, capture_output=True, text=True)
    assert r.returncode == 1 and "cannot read the history /nonexistent" in r.stderr


HEAT = BUILD / "examples" / "heat"


@pytest.mark.skipif(not HEAT.exists(), reason="the examples are not built")
def test_the_contents_of_devices_and_the_time_to_compile_kernels(ckpt, history, devices):  # noqa: F811
    env, here = devices
    ckpt.env.update({k: env[k] for k in bed_environment()})
    job = ckpt.run(HEAT, "--n", "512", "--steps", "1000000", "--report", "1", options=["--device", here["pocl"]])
    job.wait_lines(3)
    ckpt.dump(job.pid, "a.img")
    copy = ckpt.restore("a.img")
    copy.wait_lines(1)
    wait_for(lambda: len(events(ckpt)) == 2, "the line of the restore")
    copy.kill()
    dump, restore = events(ckpt)
    assert dump["device_bytes"] == restore["device_bytes"] == 2 * 512 * 512 * 4
    assert 0 < restore["compile_seconds"] < restore["phases"]["devices"]
    text = subprocess.run([ckpt.tool("ckpt-history"), "--fit"], env=ckpt.env, capture_output=True, text=True).stdout
    assert f"{restore['compile_seconds']:.3f} s to compile the kernels of {HEAT}" in text, text
    assert [line.split()[:4] for line in text.splitlines()[1:3]] == [["ocl", dump["storage"], what, "1"] for what in ("checkpoint", "restore")]


def test_root_reads_where_another_user_s_history_is(ckpt, history):
    """Each user's tools write a file of their own, in which root finds what is not in root's."""
    def said(user):
        return subprocess.run([ckpt.tool("ckpt-history"), "--user", user], env=ckpt.env, capture_output=True, text=True).stdout

    home = pwd.getpwnam("daemon").pw_dir
    assert f"in {history}; this user's own dumps are in --file={home}/.local/state/ckpt/history.jsonl, and --all-users reads those of all users\n" in said("daemon")
    assert said("root").endswith(f"in {history}\n")
