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
TABLE = "cuda/entries.api"


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


# ---- entries that take a handle of physical memory, or a pool

# The program holds handles of ours (libckpt-cuda/memory/program_memory.h): an entry that passes one on untranslated
# fails. A pool has memory of ours beside the driver's (memory/pools.h): an entry that changes it must change both.
TYPES = "CUmemGenericAllocationHandle", "CUmemoryPool"
# The driver's own entries that take one of these types, and why that is right.
MULTICAST = "takes a handle of a multicast object, and all of them are the driver's"
HANDLE_ONLY = "names a pool only, and a pool's handle is the driver's own"
ACCESS = "what was set for the driver's pool was set for ours"
SHARED = "a shared pool has no memory of ours"
RIGHT_AS_IT_IS = {
    "cuMulticastAddDevice": MULTICAST, "cuMulticastCreate": MULTICAST, "cuMulticastUnbind": MULTICAST,
    "cuMulticastBindAddr": MULTICAST, "cuMulticastBindAddr_v2": MULTICAST,
    "cuMemImportFromShareableHandle": "its result is the driver's, and checkpoints are refused from then on",
    "cuDeviceGetDefaultMemPool": HANDLE_ONLY, "cuDeviceGetMemPool": HANDLE_ONLY, "cuDeviceSetMemPool": HANDLE_ONLY,
    "cuMemGetDefaultMemPool": HANDLE_ONLY, "cuMemGetMemPool": HANDLE_ONLY, "cuMemSetMemPool": HANDLE_ONLY,
    "cuMemPoolGetAccess": ACCESS,
    "cuMemPoolExportToShareableHandle": SHARED, "cuMemPoolImportFromShareableHandle": SHARED,
    "cuMemPoolImportPointer": SHARED,
}
# Newer than the oldest toolkit that ckpt is built with, and in no header of ours. CUDA driver API, "Logical Endpoint".
WITHOUT_HANDLE = {f"cuLogicalEndpoint{what}" for what in (
    "AddDevice", "BindAddr", "Destroy", "Export", "GetLimits", "IdRelease", "IdReserve", "Query", "Unbind")}


def types_with_handles(header):
    """The types of this cuda.h that are, or contain, one of TYPES."""
    found = set(TYPES)
    for body, name in re.findall(r"typedef struct \w+\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}\s*(\w+?)(?:_v\d+)?;", header):
        code = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        if any(re.search(rf"\b{t}(_v\d+)?\b", code) for t in TYPES):
            found.add(name)
    return found


def declared_types():
    """The parameters of each form of an entry, by (name, version, per thread)."""
    typedefs = (pathlib.Path(HOME) / "include/cudaTypedefs.h").read_text()
    ours = (ROOT / "libckpt-cuda/entry/newer_types.h").read_text()
    forms = re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(([^;]*)\);", typedefs)
    forms += re.findall(r"PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)? =\s*CUresult \(\*\)\(([^;]*)\);", ours)
    return {(name, int(version), thread != ""): parameters for name, version, thread, parameters in forms}


def table_lines(path, kinds):
    return re.findall(rf"^({kinds})\((\w+)[,)]", (ROOT / path).read_text(), re.M)


def test_every_entry_with_a_handle_or_a_pool_is_served():
    handles = types_with_handles((pathlib.Path(HOME) / "include/cuda.h").read_text())
    assert handles >= {*TYPES, "CUarrayMapInfo"}, handles
    types = declared_types()
    served = {symbol for _, symbol in table_lines("libckpt-cuda/cuda.api", "OURS|REFUSED")}
    unserved, seen, untyped = [], set(), []
    for name, version, symbol, thread in re.findall(r"^CU_ENTRY\((\w+), (\d+), (\w+), (\w+)\)", (ROOT / TABLE).read_text(), re.M):
        parameters = types.get((name, int(version), thread == "true"))
        if parameters is None:
            untyped.append(symbol)
        elif any(re.search(rf"\b{t}(_v\d+)?\b", parameters) for t in handles):
            seen.add(symbol)
            if symbol not in served and symbol not in RIGHT_AS_IT_IS:
                unserved.append(symbol)
    assert not unserved, f"these take a handle or a pool, and cuda.api does not serve them: {unserved}"
    assert len(seen) >= 30 and set(RIGHT_AS_IT_IS) <= seen, set(RIGHT_AS_IT_IS) - seen
    suspect = {s for s in untyped if re.search("Mem[A-Z]|Pool|Multicast|Endpoint", s) and "Memcpy" not in s}
    known = suspect & (served | WITHOUT_HANDLE)
    assert suspect == known, f"their parameters are not known: {suspect - known}"


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
