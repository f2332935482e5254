# SPDX-License-Identifier: Apache-2.0
"""Failures for programs: --json, and --json-report of ckpt-run and ckpt-restore."""
import json
import os
import subprocess

import pytest

from conftest import wait_for

FIELDS = {"what", "hint", "reasons", "kind", "code"}


def error_in(text):
    error = json.loads(text)["error"]
    assert set(error) == FIELDS
    return error


def tool(ckpt, name, *words):
    return subprocess.run([ckpt.tool(name), *map(str, words)], cwd=ckpt.folder, env=ckpt.env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=100)


def test_a_dump_that_is_refused_has_every_reason(ckpt):
    (ckpt.folder / "there").mkdir()
    (ckpt.folder / "there/file").touch()
    job = ckpt.run(ckpt.programs / "counter")
    job.wait_lines(1)
    r = ckpt.dump_process(job.pid, "there", "--parent", "nothing")
    error = error_in(r.stdout)
    assert r.returncode == error["code"] == 1
    assert error["kind"] == "refused" and len(error["reasons"]) >= 1, error
    assert any("there exists already" in reason for reason in error["reasons"])
    assert all(f"\n  - {reason}" in error["what"] for reason in error["reasons"]) and "not touched" in error["hint"]
    r = ckpt.dump_process(job.pid, "there", "--check")
    assert r.returncode == 1 and json.loads(r.stdout)["reasons"] == error["reasons"]


def test_other_failures_have_a_kind(ckpt):
    r = ckpt.dump_process(os.getpid(), "one")
    error = error_in(r.stdout)
    assert (error["kind"], error["code"], error["reasons"]) == ("failed", 1, []) and error["what"] in r.stderr
    r = ckpt.dump_process(1, "one", "--suspend")
    error = error_in(r.stdout)
    assert r.returncode == error["code"] == 125 and error["kind"] == "usage" and "--suspend" in error["what"]


def test_a_cancelled_dump(ckpt):
    job = ckpt.run("library")
    job.wait_lines(1)
    (ckpt.folder / "hold").touch()
    (ckpt.folder / "stay").touch()
    dump = ckpt.start("ckpt-dump", [str(job.pid), "-o", "one", "--json"])
    job.wait_text("before")
    wait_for(lambda: len(os.listdir(f"/proc/{dump.pid}/task")) > 1, "its thread for signals")
    dump.process.send_signal(15)
    (ckpt.folder / "hold").unlink()
    assert dump.wait() == 143
    error = error_in(dump.text)
    assert (error["kind"], error["code"]) == ("cancelled", 143)


def test_a_restore_that_fails(ckpt):
    r = tool(ckpt, "ckpt-restore", "--json-report", "report", "nothing.img")
    error = error_in((ckpt.folder / "report").read_text())
    assert r.returncode == error["code"] == 1 and error["kind"] == "failed" and "nothing.img" in error["what"]
    r = tool(ckpt, "ckpt-restore", "--json-report", "report")
    error = error_in((ckpt.folder / "report").read_text())
    assert r.returncode == error["code"] == 125 and error["kind"] == "usage"
    r = tool(ckpt, "ckpt-restore", "--detach", "--json-report", "report", "nothing.img")
    assert r.returncode == 1 and error_in((ckpt.folder / "report").read_text())["kind"] == "failed"


def test_a_restore_that_is_refused_has_every_reason(ckpt):
    (ckpt.folder / "a").write_text("a")
    (ckpt.folder / "b").write_text("b")
    job = ckpt.run("sh", "-c", "exec 7<a 8<b; echo ready; while :; do sleep 0.01; done")
    job.wait_text("ready")
    ckpt.dump(job.pid, "one")
    for name in ("a", "b"):
        (ckpt.folder / name).unlink()
    r = tool(ckpt, "ckpt-restore", "--json-report", "report", "one")
    error = error_in((ckpt.folder / "report").read_text())
    assert r.returncode == error["code"] == 1 and error["kind"] == "refused"
    assert [r for r in error["reasons"] if "/a" in r] and [r for r in error["reasons"] if "/b" in r], error


def test_a_start_and_a_start_that_fails(ckpt):
    job = ckpt.run("counter", options=["--json-report", "report"])
    job.wait_lines(1)
    assert json.loads((ckpt.folder / "report").read_text()) == {"pid": job.program(), "keeper": job.pid}
    for words, code, kind in ((["--", "nothing-of-that-name"], 127, "failed"), (["--", "/etc/passwd"], 126, "failed"),
                              (["--device", "ocl:nothing", "true"], 125, "failed"), ([], 125, "usage"),
                              (["--on-signal", "TERM", "true"], 125, "usage")):
        r = tool(ckpt, "ckpt-run", "--json-report", "report", *words)
        error = error_in((ckpt.folder / "report").read_text())
        assert r.returncode == error["code"] == code and error["kind"] == kind, (words, error)


def test_a_series_that_is_continued_reports_too(ckpt):
    options = ["--image", "series", "--json-report", "report"]
    job = ckpt.run("counter", options=options)
    job.wait_lines(1)
    job.process.send_signal(10)
    assert job.wait() == 85
    (ckpt.folder / "report").unlink()
    copy = ckpt.run("counter", options=options)
    copy.wait_lines(1)
    wait_for(lambda: (ckpt.folder / "report").exists(), "the report of ckpt-restore")
    assert json.loads((ckpt.folder / "report").read_text())["image"].endswith("0001.img")


@pytest.mark.no_criu
@pytest.mark.parametrize("words, said", [
    (("ckpt-image", "show", "nothing"), "nothing"), (("ckpt-image", "list", "nothing"), "nothing"), (("ckpt-image", "diff", "a", "b"), "a"),
    (("ckpt-image", "prune", "--keep", "1", "nothing"), "nothing"), (("ckpt-ps", "--user", "no-user"), "no-user"),
    (("ckpt-history", "--user", "no-user"), "no-user"), (("ckpt-history", "--file", "nothing"), "nothing"),
    (("ckpt-top", "--socket", "/nothing"), "ckptd"), (("ckpt-start", "nothing"), "nothing"),
    (("ckpt-fatbin", "nothing"), "nothing"), (("ckpt-sim", "--jobs", "10", "--swf", "nothing"), "nothing"),
])
def test_tools_that_report_as_json_fail_as_json(ckpt, words, said):
    r = tool(ckpt, *words, "--json")
    error = error_in(r.stdout)
    assert r.returncode == error["code"] == (2 if words[0] == "ckpt-fatbin" or "diff" in words else 1) and said in error["what"], error
    assert error["kind"] == "failed" and error["what"] in r.stderr and error["hint"] in r.stderr
    assert tool(ckpt, *words).stdout == ""


@pytest.mark.no_criu
def test_an_image_that_cannot_be_opened_is_not_ok(ckpt):
    (ckpt.folder / "a.img").mkdir()
    (ckpt.folder / "a.img/index.ckpt").write_text("x")
    r = tool(ckpt, "ckpt-image", "verify", "--json", "a.img")
    report = json.loads(r.stdout)
    assert r.returncode == report["error"]["code"] == 1 and report["image"] == "a.img" and report["ok"] is False
    assert report["damages"] == [report["error"]["what"]]


@pytest.mark.no_criu
def test_a_report_that_cannot_be_written_is_a_warning(ckpt):
    r = tool(ckpt, "ckpt-run", "--json-report", "/nowhere/report", "--", "nothing-of-that-name")
    assert r.returncode == 127 and "the report was not written" in r.stderr
