# SPDX-License-Identifier: Apache-2.0
"""tests/conformance/compare: what passes natively passes under ckpt-run; with --full also what piglit,
where it is installed, has for OpenCL."""
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT
from test_opencl import OPENCL, bed_environment

COMPARE = ROOT / "tests" / "conformance" / "compare"
PIGLIT = pathlib.Path("/usr/lib/x86_64-linux-gnu/piglit")


@pytest.fixture
def compare(tmp_path):
    env = dict(os.environ, **bed_environment())
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    shutil.copy(BUILD / "testbed" / "vendors" / "pocl.icd", vendors)
    env.update(OCL_ICD_VENDORS=f"{vendors}/", POCL_DEVICES="pthread")

    def run(folder, *options, limit=120):
        command = [COMPARE, "--ckpt-run", BUILD / "tools" / "ckpt-run", "--device", "ocl:Portable", *options, folder]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
    return run


def test_our_own_programs(compare, tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("calls", "long_kernel", "threads"):
        (folder / name).symlink_to(OPENCL / f"ocl-{name}")
    r = compare(folder, "--write-native", tmp_path / "list")
    assert r.returncode == 0 and "native   3 pass" in r.stdout and "ckpt-run 3 pass" in r.stdout, r.stdout + r.stderr
    assert (tmp_path / "list").read_text() == "pass calls\npass long_kernel\npass threads\n"


def test_verdicts_of_every_kind_of_program(compare, tmp_path):
    """A CTS program's file, piglit's lines, exit codes, a crash; and what ckpt-run alone loses."""
    folder = tmp_path / "tests"
    folder.mkdir()
    scripts = {
        "cts": """echo '{"cmd": "x", "results": {"a": "pass", "b": "skip", "c": "fail"}}' > "$CL_CONFORMANCE_RESULTS_FILENAME"; exit 1""",
        "piglit": """echo 'PIGLIT: {"subtest": {"s" : "pass"}}'; echo 'PIGLIT: {"result": "warn" }'""",
        "skips": "exit 77",
        "crashes": "kill -SEGV $$",
        "lost": "! grep -q ckpt-run /proc/$PPID/comm",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    r = compare(folder, "--write-native", tmp_path / "list")
    assert (tmp_path / "list").read_text().splitlines() == [
        "crash crashes", "pass cts/a", "skip cts/b", "fail cts/c", "pass lost", "warn piglit", "pass piglit/s",
        "skip skips"]
    assert r.returncode == 1 and "fail     lost: passes natively" in r.stdout and "1 pass natively only" in r.stdout
    r = compare(folder, "--native", tmp_path / "list", "--match", "l*")
    assert "missing  cts/a" in r.stdout


@pytest.mark.full
@pytest.mark.skipif(not PIGLIT.exists(), reason="piglit is not installed (apt install piglit)")
@pytest.mark.parametrize("match,least", [(["cl-api-*", "cl-custom-*"], 80), (["tests/cl/*.cl"], 1000)])
def test_piglit(compare, tmp_path, match, least):
    options = [o for m in match for o in ("--match", m)]
    r = compare(PIGLIT, *options, "--timeout", "60", "--write-native", tmp_path / "list", limit=1500)
    assert r.returncode == 0, r.stdout
    assert (tmp_path / "list").read_text().count("pass ") >= least
