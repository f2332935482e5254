# SPDX-License-Identifier: Apache-2.0
"""bench/remote: each script runs, with small sizes. Its figures are not looked at."""
import re
import subprocess

import pytest

from conftest import BUILD, ROOT
from cuda_programs import NVCC, RUN
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.full, pytest.mark.no_criu, pytest.mark.alone,
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


def bench(script, *options):
    r = subprocess.run([ROOT / "bench" / "remote" / script, "--build", BUILD, "--rounds", "1", *options], capture_output=True,
                       text=True, timeout=500)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


def test_run():
    out = bench("run", "--only", "oneway")
    assert "oneway" in out and "launch_us" in out


def test_link():
    assert out_rows(bench("link", "--rates", "10gbit", "--mib", "8")) == 4


@pytest.mark.parametrize("api, rows", [((), 3), (("--cuda",), 6)])
def test_moves(api, rows):
    assert out_rows(bench("link", "--rates", "10gbit", "--move", "16", *api)) == rows


def test_steps():
    out = bench("steps", "--stdout", "--steps", "10", "--delay", "0.2")
    waits = [float(m) for m in re.findall(r"cuda:.* (\d+\.\d) % \| [^|]* \|\n", out)]
    assert len(waits) == 2 * 5 or len(waits) == 5, out


@pytest.mark.parametrize("link", [("--delay", "0.2"), ("--rate", "10gbit")])
def test_overheads(link):
    out = bench("overheads", "--stdout", *link, "--steps", "10", "--mib", "4", "--scale", "0.1")
    assert "| record |" in out and "| R, remote throughout |" in out


def out_rows(text):
    """The number of rows of the last table."""
    return len(re.findall(r"^\|.*\|$", text, re.M)) - 2
