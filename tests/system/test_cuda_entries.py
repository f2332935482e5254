# SPDX-License-Identifier: Apache-2.0
"""The table of the driver's entries is brought up to a newer cuda.h in one step (scripts/cuda-entries)."""
import pathlib
import re
import shutil
import subprocess

import pytest

from cuda_programs import HOME, NVCC, ROOT
from toolkit import WHY_NOT

pytestmark = [pytest.mark.skipif(not NVCC, reason=WHY_NOT), pytest.mark.no_criu]
TABLE = "common/api/cuda_entries.api"


@pytest.fixture
def entries(tmp_path):
    """entries(headers, options…) runs the script in a copy of what it needs."""
    for file in "scripts/cuda-entries", TABLE:
        (tmp_path / file).parent.mkdir(parents=True)
        shutil.copy(ROOT / file, tmp_path / file)

    def run(headers, *options):
        return subprocess.run([tmp_path / "scripts/cuda-entries", *options, headers], capture_output=True, text=True)

    run.table = tmp_path / TABLE
    return run


@pytest.fixture
def newer(tmp_path):
    """Headers with a new entry, and a new form of a known one."""
    folder = tmp_path / "newer"
    folder.mkdir()
    for name, lines in (("cuda.h", "CUresult CUDAAPI cuFutureLaunch(int);\nCUresult CUDAAPI cuCtxGetId_v2(int);\n"),
                        ("cudaTypedefs.h", "typedef CUresult (CUDAAPI *PFN_cuFutureLaunch_v99000)(int);\n"
                                           "typedef CUresult (CUDAAPI *PFN_cuFutureLaunch_v99000_ptsz)(int);\n"
                                           "typedef CUresult (CUDAAPI *PFN_cuCtxGetId_v99000)(int);\n")):
        (folder / name).write_text((pathlib.Path(HOME) / "include" / name).read_text() + lines)
    return folder


def test_the_table_has_all_entries_of_the_installed_toolkit(entries):
    r = entries(f"{HOME}/include", "--check")
    assert r.returncode == 0 and r.stdout == "0 new entries\n", r.stdout + r.stderr


def test_entries_and_forms_of_newer_headers_are_added_in_one_step(entries, newer):
    before = entries.table.read_text()
    r = entries(newer, "--check")
    assert r.returncode == 1 and "lacks these entries" in r.stderr
    assert entries.table.read_text() == before
    r = entries(newer)
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines() == ["  cuCtxGetId 99000 cuCtxGetId_v2", "* cuFutureLaunch 99000 cuFutureLaunch",
                                     "* cuFutureLaunch 99000 cuFutureLaunch_ptsz", "3 new entries"]
    added = set(entries.table.read_text().splitlines()) - set(before.splitlines())
    assert added == {"CU_ENTRY(cuCtxGetId, 99000, cuCtxGetId_v2, false)", "CU_ENTRY(cuFutureLaunch, 99000, cuFutureLaunch, false)",
                     "CU_ENTRY(cuFutureLaunch, 99000, cuFutureLaunch_ptsz, true)"}
    assert set(before.splitlines()) < set(entries.table.read_text().splitlines())
    assert entries(newer, "--check").returncode == 0


def test_no_entry_has_more_arguments_on_the_stack_than_are_passed_on():
    """Thunks copy STACK_BYTES (libckpt-cuda/entry/held_calls.cc). Six words of arguments are in registers."""
    copied = int(re.search(r"#define STACK_BYTES (\d+)", (ROOT / "libckpt-cuda/entry/held_calls.cc").read_text())[1]) // 8
    by_value = {"CUipcMemHandle": 8, "CUipcEventHandle": 8, "CUmemLocation": 2, "CUstreamUpdateCaptureDependencies": 1}
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", (pathlib.Path(HOME) / "include/cuda.h").read_text(), flags=re.S)
    found = re.findall(r"^CUresult CUDAAPI (\w+)\(([^;]*)\);", header, re.M)
    assert len(found) > 350
    for name, parameters in found:
        words = sum(by_value.get(p.split()[0], 1) if "*" not in p else 1 for p in parameters.split(",") if p.strip())
        assert words - 6 <= copied and words <= copied + 6, name
