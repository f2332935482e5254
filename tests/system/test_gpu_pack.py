# SPDX-License-Identifier: Apache-2.0
"""The tests that users run on a GPU (tests/gpu/run), here on the software device: the table is complete and in time,
whatever the driver does."""
import json
import subprocess
import sys

import pytest

from cuda_programs import BUILD, HOME, NVCC, ROOT, RUN, make  # noqa: F401 (make is a fixture)
from toolkit import WHY_NOT
from workers import make_once, shared_folder

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
GPU = ROOT / "tests" / "gpu"


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    program = shared_folder(tmp_path_factory, "gpu") / "probe"
    sources = sorted(GPU.glob("probe*.cc"))
    make_once(program, lambda: subprocess.run(["c++", "-std=c++20", "-isystem", f"{HOME}/include", "-o", program, *sources, "-ldl"], check=True))
    return program


@pytest.fixture
def pack(ckpt, make, probe, tmp_path):  # noqa: F811
    """pack(options…): runs a folder like that of tests/gpu/pack, with few programs; returns exit code, rows, text."""
    programs = tmp_path / "programs" / "580"
    programs.mkdir(parents=True)
    (tmp_path / "build").symlink_to(BUILD)
    (programs / "probe").symlink_to(probe)
    (programs / "steps-shared").symlink_to(make("steps.cu"))
    for name in "job.py", "speed.py", "train.py":
        (tmp_path / name).symlink_to(GPU / name)
    ckpt.env["CKPT_SOFTCUDA"] = "2x512M"

    def run(*options):
        r = subprocess.run([sys.executable, GPU / "run", "--folder", tmp_path, "--software", RUN, *options],
                           env=ckpt.env, capture_output=True, text=True, timeout=300)
        report = json.loads((tmp_path / "report.json").read_text())
        text = (tmp_path / "report.txt").read_text()
        assert all(row["name"] in text for row in report["rows"]) and report["software"]
        assert r.stdout.strip().splitlines()[-1] == report["sum"], r.stderr
        return r.returncode, {row["name"]: row for row in report["rows"]}, text

    run.faults = tmp_path / "faults"
    ckpt.env["CKPT_SOFTCUDA_FAULTS"] = str(run.faults)
    run.private = [str(tmp_path), ckpt.env.get("HOME", "/root") + "/"]
    return run


def test_the_report_of_a_sound_device_has_no_failed_row(pack):
    code, rows, text = pack("--only", "two GPUs swapped")
    assert code == 0, text
    assert rows["driver: restore with two GPUs swapped"]["outcome"] == "ok"
    code, rows, text = pack("--only", "suspend, resume, shared runtime")
    assert code == 0, text
    assert rows["ckpt: suspend, resume, shared runtime, binary for 580"]["summary"] == "same result as an uninterrupted run"
    assert not any(name in text for name in pack.private)


def test_the_manager_s_row_is_skipped_without_nvidia_smi(pack, ckpt, tmp_path):
    ckpt.env["PATH"] = str(tmp_path)
    _, rows, text = pack("--only", "the Manager")
    assert [row["summary"] for row in rows.values()] == ["nvidia-smi is not installed here"], text


def test_a_row_that_hangs_is_ended_and_the_table_continues(pack):
    pack.faults.write_text("cuCheckpointProcessCheckpoint hang")
    code, rows, text = pack("--only", "re", "--row-seconds", "1.5", "--seconds", "4")
    outcomes = [row["outcome"] for row in rows.values()]
    assert code == 1 and "TIME-OUT" in outcomes and outcomes[-1] in ("NOT RUN", "skipped"), text


@pytest.mark.full
@pytest.mark.parametrize("fault, outcome", [("cuCheckpointProcessCheckpoint hang", "TIME-OUT"),
                                            ("cuCheckpointProcessRestore crash", "CRASHED"),
                                            ("cuCheckpointProcessLock 801", "FAILED")])
def test_calls_that_hang_or_crash_cost_their_rows_only(pack, fault, outcome):
    pack.faults.write_text(fault)
    code, rows, text = pack("--only", "driver: ", "--row-seconds", "2", "--seconds", "20")
    assert code == 1
    assert len(rows) == 20, text
    assert rows["driver: restore without a map"]["outcome"] == outcome, text
    assert rows["driver: an address is reserved again"]["outcome"] == "ok", text
    assert outcome != "FAILED" or "NOT_SUPPORTED" in rows["driver: restore without a map"]["summary"]


def test_rows_for_which_no_time_is_left_are_in_the_report_and_fail(pack):
    code, rows, text = pack("--only", "driver: ", "--seconds", "0.3")
    assert code == 1
    assert {row["outcome"] for row in rows.values()} <= {"NOT RUN", "skipped"} and len(rows) == 20, text
