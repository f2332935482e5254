# SPDX-License-Identifier: Apache-2.0
"""The tests that users run on a GPU (tests/gpu/run), here on the software device: the table is complete and in time,
whatever the driver does."""
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from cuda_programs import BUILD, HOME, NVCC, ROOT, RUN, SOURCES, make  # noqa: F401 (make is a fixture)
from toolkit import WHY_NOT
from workers import make_once, shared_folder

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]
GPU = ROOT / "tests" / "gpu"


def all_rows(folder, **facts):
    if str(GPU) not in sys.path:
        sys.path.insert(0, str(GPU))
    return importlib.import_module("rows").all_rows(folder, **facts)


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    program = shared_folder(tmp_path_factory, "gpu") / "probe"
    sources = sorted(GPU.glob("probe*.cc"))
    make_once(program, lambda: subprocess.run(["c++", "-std=c++20", "-isystem", f"{HOME}/include", f"-I{ROOT}", "-o", program, *sources, "-ldl"], check=True))
    return program


@pytest.fixture(scope="session")
def for_570(tmp_path_factory):
    """for_570("steps.cu", runtime) compiles a program as tests/gpu/pack does for driver 570."""
    wheels = pathlib.Path(os.environ.get("CKPT_CUDA_570_PREFIX", "/opt/ckpt/cuda-570")) / "static" / "complete"
    if not wheels.exists() and "CKPT_CUDA_570" not in os.environ:
        pytest.skip("there is no toolkit for driver 570 (tests/gpu/toolkit-570 fetches one)")
    folder = shared_folder(tmp_path_factory, "570")

    def compile(source, runtime):
        program = folder / f"{source.split('.')[0]}-{runtime}"

        def build():
            toolkit = subprocess.run([GPU / "toolkit-570"], check=True, capture_output=True, text=True).stdout.strip()
            subprocess.run([f"{toolkit}/bin/nvcc", "-w", "-std=c++20", "-arch=sm_75", "-nodlink", "--no-compress", "-cudart", runtime,
                            "-o", program, SOURCES / source], check=True)

        return make_once(program, build)

    return compile


def copy_tools(to, tools=None):
    """What tests/gpu/pack takes from the build folder. The software device is not beside it, as in the archive. With
    `tools`, only these, as files of their own that may be changed."""
    for pattern in "tools/ckpt*", "libckpt/*.so*", "libckpt-ocl/ckpt-ocl-proxy", "libckpt-ocl/*.so", "libckpt-ocl/vendors/*", \
            "libckpt-cuda/ckpt-cuda-proxy", "libckpt-cuda/*.so*":
        for file in filter(pathlib.Path.is_file, BUILD.glob(pattern)):
            if tools and pattern.startswith("tools/") and file.name not in tools:
                continue
            target = to / file.relative_to(BUILD)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                if not tools:
                    target.hardlink_to(file)
            except OSError:  # another file system
                pass
            if not target.exists():
                shutil.copy2(file, target)


@pytest.fixture
def pack(ckpt, make, probe, tmp_path):  # noqa: F811
    """pack(options…): runs a folder like that of tests/gpu/pack, with few programs; returns exit code, rows, text."""
    programs = tmp_path / "programs" / "580"
    programs.mkdir(parents=True)
    copy_tools(tmp_path / "build")
    (programs / "probe").symlink_to(probe)
    (programs / "steps-shared").symlink_to(make("steps.cu"))
    for name in "job.py", "speed.py", "train.py", "opencl.py":
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

    run.folder, run.programs, run.env = tmp_path, programs, ckpt.env
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
    assert rows["ckpt: suspend, resume, shared runtime, binary for 580"]["summary"] == "same result as without ckpt"
    assert not any(name in text for name in pack.private)


def test_the_probe_of_calls_on_a_checkpointed_driver_names_what_each_does(pack):
    """On the software device, which is as strict as a driver is supposed to be."""
    code, rows, text = pack("--only", "calls while it is checkpointed")
    assert code == 0, text
    summary = rows["driver: calls while it is checkpointed"]["summary"]
    assert "functions, with zeros / with pointers:" in summary and "block" not in summary, text
    probed = subprocess.run([RUN, pack.programs / "probe", "calls-away"], capture_output=True, text=True, timeout=100,
                            env=os.environ | {"CKPT_SOFTCUDA_STRICT": "1"}).stdout
    refused = next(line for line in probed.splitlines() if line.startswith("46:")).split()
    assert {"cuCtxGetCurrent", "cuCtxSetCurrent", "cuStreamQuery", "cuMemGetInfo_v2"} <= set(refused), probed


def test_the_manager_s_row_is_skipped_without_nvidia_smi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all_rows(tmp_path)[-1].missing() == "nvidia-smi is not installed here"


def test_a_row_that_hangs_is_ended_and_the_table_continues(pack):
    pack.faults.write_text("cuCheckpointProcessCheckpoint hang")
    code, rows, text = pack("--only", "re", "--row-seconds", "1.5", "--seconds", "4")
    outcomes = [row["outcome"] for row in rows.values()]
    assert code == 1 and "TIME-OUT" in outcomes and outcomes[-1] in ("NOT RUN", "skipped"), text


@pytest.mark.full
def test_a_row_that_hangs_ends_with_the_stacks_of_its_processes(pack):
    pack.faults.write_text("cuCheckpointProcessCheckpoint hang")
    code, rows, text = pack("--only", "suspend, resume, shared runtime", "--row-seconds", "8")
    row = rows["ckpt: suspend, resume, shared runtime, binary for 580"]
    assert code == 1 and row["outcome"] == "TIME-OUT", text
    names = [line.split(": ", 1)[1].split()[0].rsplit("/", 1)[-1] for line in row["stacks"] if line.startswith("process ")]
    assert {"ckpt-run", "ckpt-dump", "steps-shared"} <= set(names) or {"ckpt-run", "steps-shared"} < set(names), row["stacks"]
    assert any("ckpt-agent" in line and "system call" in line for line in row["stacks"]), row["stacks"]
    assert any(line.strip().startswith("user") and "libcuda.so" in line for line in row["stacks"]), row["stacks"]
    assert row["stacks"][0] in text and not any(name in text for name in pack.private)


def failing(pack, name, script):
    program = pack.programs / name
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_program_that_fails_without_ckpt_is_not_blamed_on_it(pack):
    failing(pack, "steps-shared", "echo broken >&2; exit 3")
    failing(pack, "kernels-shared", "sleep 100")
    code, rows, text = pack("--only", "shared runtime, binary for 580", "--row-seconds", "4")
    assert code == 0, text
    row = rows["ckpt: suspend, resume, shared runtime, binary for 580"]
    assert (row["outcome"], row["summary"]) == ("ALONE", "without ckpt, the program ends with 3: broken")
    row = rows["ckpt: kernels, shared runtime, binary for 580"]
    assert (row["outcome"], row["summary"]) == ("ALONE", "without ckpt, the program does not end within 2 s")
    assert "3 failed without ckpt" in text


@pytest.mark.full
def test_rows_run_at_the_same_time_and_those_that_measure_alone(pack):
    """Each program notes in a file when it begins and ends."""
    for name in "vector_add-shared", "kernels-shared", "overhead":
        failing(pack, name, f"echo begin {name} >>{pack.folder}/log; sleep 1; echo end {name} >>{pack.folder}/log; echo done")
    code, rows, text = pack("--only", "a", "--jobs", "9", "--row-seconds", "30")
    log = (pack.folder / "log").read_text().split("\n")
    assert rows["cost of a call, without ckpt"]["outcome"] == "ok", text
    first, last = log.index("begin overhead"), log.index("end overhead")
    assert last == first + 1 and not [line for line in log[last + 1:] if line and "overhead" not in line], log
    assert {line.split()[0] for line in log[:2]} == {"begin"}, log


def test_the_report_is_written_as_rows_end(pack):
    failing(pack, "vector_add-shared", "echo done")
    failing(pack, "kernels-shared", "sleep 100")
    command = [sys.executable, GPU / "run", "--folder", pack.folder, "--software", RUN, "--only", "shared runtime, binary for 580",
               "--row-seconds", "20", "--jobs", "1"]
    with subprocess.Popen(command, env=pack.env, stdout=subprocess.PIPE, text=True) as running:
        assert "vector_add" in running.stdout.readline()
        outcomes = {row["name"]: row["outcome"] for row in json.loads((pack.folder / "report.json").read_text())["rows"]}
        running.terminate()
    assert outcomes["ckpt: vector_add, shared runtime, binary for 580"] == "ok"
    assert outcomes["ckpt: kernels, shared runtime, binary for 580"] == "NOT RUN"


@pytest.mark.skipif(not shutil.which("patchelf"), reason="there is no patchelf (scripts/setup installs it)")
def test_the_tools_run_where_there_are_glibc_and_libstdcxx_alone(tmp_path):
    folder, root = tmp_path / "root/pack", tmp_path / "root"
    packed = re.search(r"copy tools/ckpt-{(.*?)} tools/ckptd", (GPU / "pack").read_text()).group(1).split(",")
    tools = ["ckptd"] + [f"ckpt-{name}" for name in packed]
    copy_tools(folder / "build", tools)
    subprocess.run([GPU / "bring-libraries", folder], check=True)
    for name in "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2":
        path = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for at in ("lib64",) if name.startswith("ld-") else ("lib", "lib/x86_64-linux-gnu"):
            (root / at).mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), root / at / name)
    (root / "proc").mkdir()  # the loader finds $ORIGIN there

    def inside(*command):
        script = 'mount --rbind /proc "$0/proc" && PATH= exec ' + shutil.which("chroot") + ' "$0" "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, root, *command], capture_output=True, text=True, timeout=60)

    for tool in tools:
        r = inside(f"/pack/build/tools/{tool}", "--version")
        assert r.returncode == 0 and r.stdout.strip(), (tool, r.stdout, r.stderr)
    for file in "libckpt/libckpt.so.1", "libckpt-ocl/libckpt-ocl.so", "libckpt-ocl/ckpt-ocl-proxy", "libckpt-cuda/libcuda.so.1", \
            "libckpt-cuda/ckpt-cuda-proxy":
        r = inside("/lib64/ld-linux-x86-64.so.2", "--list", f"/pack/build/{file}")
        assert r.returncode == 0 and "not found" not in r.stdout, (file, r.stdout, r.stderr)


def test_nvidia_s_tool_is_the_peer_if_there_is_one(pack, make):  # noqa: F811
    """A script in its place, since it is not free: it does the same with the calls of the driver."""
    (pack.programs / "hold").symlink_to(make("../../../bench/cuda/hold.cu"))
    (pack.programs / "driver").symlink_to(make("driver.cc"))
    name = "speed: cuda-checkpoint and CRIU, 128 MiB of smooth"
    assert pack("--only", name)[1][name]["summary"] == "cuda-checkpoint is not installed here"
    peer = pack.folder / "cuda-checkpoint"
    peer.write_text(f"""#!/bin/sh
if [ -e toggled ]; then rm toggled; way=up; else touch toggled; way=down; fi
exec {pack.programs}/driver --order "$3" $way
""")
    peer.chmod(0o755)
    code, rows, text = pack("--only", name)
    assert code == 0, text
    assert "GB/s out" in rows[name]["summary"] and "cuda-checkpoint alone" in rows[name]["summary"]


@pytest.mark.full
@pytest.mark.parametrize("fault, outcome", [("cuCheckpointProcessCheckpoint hang", "TIME-OUT"),
                                            ("cuCheckpointProcessRestore crash", "CRASHED"),
                                            ("cuCheckpointProcessLock 801", "FAILED")])
def test_calls_that_hang_or_crash_cost_their_rows_only(pack, fault, outcome):
    pack.faults.write_text(fault)
    code, rows, text = pack("--only", "driver: ", "--row-seconds", "2", "--seconds", "40", "--jobs", "4")
    assert code == 1
    assert len(rows) == 25, text
    assert rows["driver: restore without a map"]["outcome"] == outcome, text
    assert rows["driver: an address is reserved again"]["outcome"] == "ok", text
    assert outcome != "FAILED" or "NOT_SUPPORTED" in rows["driver: restore without a map"]["summary"]


def test_rows_for_which_no_time_is_left_are_in_the_report_and_fail(pack):
    code, rows, text = pack("--only", "driver: ", "--seconds", "0.3")
    assert code == 1
    assert {row["outcome"] for row in rows.values()} <= {"NOT RUN", "skipped"} and len(rows) == 25, text


def check_code(*programs):
    return subprocess.run([GPU / "check-code", BUILD / "tools" / "ckpt-fatbin", "8.7", "12.8", *programs], capture_output=True, text=True)


def test_programs_for_driver_570_have_the_code_of_cuda_12_8(for_570, make):  # noqa: F811
    programs = [for_570("steps.cu", runtime) for runtime in ("shared", "static")]
    r = check_code(*programs)
    assert r.returncode == 0, r.stderr
    needed = subprocess.run(["readelf", "-d", programs[0]], capture_output=True, text=True, check=True).stdout
    assert "libcudart.so.12" in needed and "libcudart.so.13" not in needed
    newer = check_code(make("steps.cu"))
    assert newer.returncode == 1 and "is of version 13" in newer.stderr and "ptx" in newer.stderr


def test_ptx_that_driver_570_lacks_is_not_compiled(for_570, tmp_path):
    """The front end is newer than ptxas, which has the last word."""
    toolkit = for_570("steps.cu", "shared") and subprocess.run([GPU / "toolkit-570"], capture_output=True, text=True).stdout.strip()
    source = tmp_path / "newer.cu"
    source.write_text('__global__ void f(int *p) { asm volatile("frobnicate.u32 %0, 3;" : "=r"(*p)); }')
    r = subprocess.run([f"{toolkit}/bin/nvcc", "-arch=sm_75", "-cubin", "-o", tmp_path / "newer.cubin", source], capture_output=True, text=True)
    assert r.returncode != 0 and "frobnicate" in r.stderr


def test_programs_for_driver_570_run_on_a_device_with_that_driver(pack, for_570):
    older = pack.folder / "programs" / "570"
    older.mkdir()
    for name in "vector_add", "steps":
        (older / f"{name}-shared").symlink_to(for_570(f"{name}.cu", "shared"))
    (older / "steps-static").symlink_to(for_570("steps.cu", "static"))
    code, rows, text = pack("--only", "binary for 570")
    assert code == 0, text
    done = {name.removeprefix("ckpt: ").removesuffix(", binary for 570") for name, row in rows.items() if row["outcome"] == "ok"}
    assert done == {"vector_add, shared runtime", "dump, kill, restore, shared runtime", "suspend, resume, shared runtime"}, text
    static = rows["ckpt: dump, kill, restore, static runtime, binary for 570"]["summary"]
    assert static == "NVIDIA's static runtime refuses the software device"


def test_without_the_index_the_missing_packages_are_named(tmp_path):
    r = subprocess.run([GPU / "toolkit-570"], capture_output=True, text=True,
                       env=os.environ | {"CKPT_CUDA_570_PREFIX": str(tmp_path / "prefix"), "PIP_NO_INDEX": "1"})
    assert r.returncode == 1 and "nvidia-cuda-nvcc-cu12" in r.stderr and "no programs for driver 570" in r.stderr


def test_a_row_that_fails_without_a_word_says_so(pack):
    program = pack.programs / "overhead"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    code, rows, text = pack("--only", "cost of a call, without ckpt")
    assert code == 1 and [row["summary"] for row in rows.values()] == ["it ended with exit code 3 and has printed nothing"], text


def test_programs_of_a_newer_driver_are_skipped_on_an_older_one():
    older = {row.name: row for row in all_rows(ROOT, cuda=12080)}
    assert "needs driver 580; this driver has CUDA 12.8" in older["ckpt: vector_add, static runtime, binary for 580"].missing()
    assert not older["ckpt: vector_add, static runtime, binary for 570"].skip
    assert "programs/570" in str(older["speed: suspend, resume, 4096 MiB of smooth"].command)
    newer = all_rows(ROOT, cuda=13000)
    assert not any(row.skip for row in newer) and [row.name for row in newer] == list(older)


@pytest.mark.parametrize("question", ["graphs use memory that was mapped anew", "textures use memory that was mapped anew",
                                      "copies between GPUs without peer access"])
def test_objects_use_memory_that_was_mapped_anew(pack, question):
    code, rows, text = pack("--only", question)
    assert code == 0 and rows[f"driver: {question}"]["outcome"] == "ok", text


def test_reports_become_lines_of_the_page(tmp_path):
    for name in "scripts/gpu-results", "docs/gpu-results.md":
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    report = {"software": False, "gpus": ["NVIDIA H100, 570.148.08, 81559 MiB, Enabled"], "date": "2026-11-25", "kernel": "6.1.0",
              "sum": "60 ok, 1 failed, 6 skipped", "rows": [{"name": "driver: a | b", "outcome": "TIME-OUT"}]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    subprocess.run([tmp_path / "scripts/gpu-results", tmp_path / "report.json"], check=True)
    page = (tmp_path / "docs/gpu-results.md").read_text().splitlines()
    assert page[-1] == "| 2026-11-25 | 1 x NVIDIA H100 | 570.148.08 | 6.1.0 | 60 ok, 1 failed, 6 skipped | driver: a  b (TIME-OUT) |"
    assert not any("not measured |" in line for line in page)
    (tmp_path / "report.json").write_text(json.dumps(report | {"software": True}))
    r = subprocess.run([tmp_path / "scripts/gpu-results", tmp_path / "report.json"], capture_output=True, text=True)
    assert r.returncode == 1 and "not of a GPU" in r.stderr
