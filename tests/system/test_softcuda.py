# SPDX-License-Identifier: Apache-2.0
"""Programs compiled by nvcc on the software CUDA device. Skipped where there is no CUDA toolkit."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import wait_for
from cuda_programs import BUILD, NVCC, ROOT, RUN, make, numba  # noqa: F401 (fixtures)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.no_criu,
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="softcuda-run is not built"),
]

@pytest.fixture
def soft(tmp_path):
    """soft(program, args…) runs a program on the software device."""
    env = dict(os.environ, CKPT_RUNTIME_DIR=str(tmp_path), CKPT_SOFTCUDA="2x256M")

    def run(program, *args, expect=0, **more):
        r = subprocess.run([str(RUN), str(program), *args], env=dict(env, **more), capture_output=True, text=True,
                           timeout=60)
        assert r.returncode == expect, r.stdout + r.stderr
        return r

    run.env = env
    yield run
    # The broker exits by itself when no program uses it.
    end = time.monotonic() + 20
    while list(tmp_path.glob("*.sock")) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize("source", ["vector_add.cu", "kernels.cu", "language.cu", "streams.cu", "textures.cu", "mipmaps.cu",
                                    "differential.cu", "driver.cc", "checkpoint.cc", "hopper.cu", "matrices.cu",
                                    "accesses.cu", "entries.cu", "linking.cc", "video.cc", "launches.cu", "partitions.cu",
                                    "two_devices.cu", "grid_calls.cu", "softcuda_graphs.cu", "published.cu", "graph_calls.cu", "ipc.cu",
                                    pytest.param("barriers.cu", marks=pytest.mark.full)])
def test_programs_check_themselves(make, soft, source):
    assert "PASSED" in soft(make(source)).stdout


def test_code_without_ptx_for_the_device_leads_to_its_remedy(make, soft):
    """For a program of one's own, for numba and for cuRAND; and for PTX of newer devices."""
    said = soft(make("vector_add.cu", "-gencode", "arch=compute_90,code=sm_90"), expect=1).stderr
    assert "holds no PTX" in said and "-gencode arch=compute_75,code=compute_75" in said, said
    assert "numba-cuda 0.19.1" in said and "cuRAND" in said and "CKPT_SOFTCUDA_SM=91" in said
    newer = soft(make("vector_add.cu", "-gencode", "arch=compute_90,code=compute_90"), expect=1, CKPT_SOFTCUDA_SM="75").stderr
    assert "requires a newer device than sm_75" in newer, newer


@pytest.mark.full
def test_the_libraries_of_the_toolkit(make, soft):
    assert "PASSED" in soft(make("libraries.cu", "-std=c++17", "-arch=sm_75")).stdout


@pytest.mark.full
def test_numba(soft, numba):  # noqa: F811
    command, environment = numba
    assert "software device 0 PASSED" in soft(*command, **environment).stdout


def test_printf_of_kernels(make, soft):
    lines = soft(make("language.cu")).stdout.splitlines()
    assert lines.count("device 42  1.50 x 1234567890123 ff") == 2


def test_one_core_suffices(make, soft):
    assert "PASSED" in soft(make("streams.cu"), CKPT_SOFTCUDA_CORES="1").stdout


def test_a_processor_without_avx2_suffices(make, soft):
    for source in ("differential.cu", "kernels.cu"):
        assert "PASSED" in soft(make(source), CKPT_SOFTCUDA_ISA="baseline").stdout


def test_separate_compilation(make, soft):
    assert "PASSED" in soft(make("language.cu", "-rdc=true")).stdout


def test_per_thread_default_stream(make, soft):
    assert "PASSED" in soft(make("kernels.cu", "-default-stream=per-thread")).stdout


def test_programs_linked_without_nvccs_runtime(make, soft):
    """nvcc -cudart none."""
    runtime = make("vector_add.cu", f"-L{BUILD}/softcuda/runtime", "-lcudart", runtime="none")
    assert "PASSED" in soft(runtime).stdout
    assert "PASSED" in soft(make("driver.cc", runtime="none")).stdout


def test_the_static_runtime_is_refused_with_advice(make, soft):
    r = soft(make("vector_add.cu", runtime="static"), expect=127)
    assert "static CUDA runtime" in r.stderr and "-cudart shared" in r.stderr


def test_our_own_tools_are_not_taken_for_cuda_programs(make, soft):
    """They search for a text of the static runtime, which must not be found in themselves."""
    assert "PASSED" in soft(BUILD / "tools" / "ckpt-run", "--", make("vector_add.cu")).stdout
    for tool in ("tools/ckpt-run", "tools/ckpt-fatbin", "softcuda/softcuda-run"):
        r = subprocess.run([BUILD / "tools" / "ckpt-fatbin", "--json", BUILD / tool], capture_output=True, text=True)
        assert json.loads(r.stdout)["runtime"]["kind"] == "none", r.stdout


def test_a_loaded_library_with_the_static_runtime_is_named(make, soft):
    """softcuda-run cannot see it when the program starts."""
    def load(plugin):
        return soft(sys.executable, "-c", f"import ctypes; print('probe', ctypes.CDLL({str(plugin)!r}).probe())")

    static = make("plugin.cu", runtime="static")
    r = load(static)
    assert "probe 0" not in r.stdout
    assert r.stderr.count(f"{static} contains NVIDIA's static CUDA runtime") == 1
    r = load(make("plugin.cu"))
    assert "probe 0" in r.stdout and r.stderr == ""


def test_nvrtc_compiles_for_a_real_architecture(make, soft):
    assert "PASSED" in soft(make("nvrtc.cc")).stdout


def test_the_list_of_refused_functions_is_up_to_date():
    r = subprocess.run([ROOT / "scripts" / "softcuda-table", "--check", str(BUILD)], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_a_refused_function_is_named_once(make, soft):
    r = soft(make("refusals.cu"))
    assert "PASSED" in r.stdout
    assert r.stderr == "softcuda: cudaGraphConditionalHandleCreate is not supported by the software device\n"


def test_arrays_that_are_refused_are_named(make, soft):
    r = soft(make("mipmaps.cu"))
    assert r.stderr.splitlines() == [f"softcuda: {what} is not supported by the software device" for what in (
        "an array with the flags 0x40", "an array of the format 0xb0", "a resource view of compressed blocks")]


def test_a_program_without_ptx_is_refused(make, soft):
    r = soft(make("vector_add.cu", "-gencode=arch=compute_75,code=sm_75"), expect=1)
    assert "holds no PTX" in r.stderr


@pytest.mark.parametrize("what, text", [("bounds", "invalid write of 4 bytes"), ("pageable", "invalid write"),
                                        ("misaligned", "misaligned write"), ("shared", "invalid write of 1 bytes"), ("assert", "Assertion `n < 3` failed"),
                                        ("trap", "trap"), ("recursion", "cudaLimitStackSize"),
                                        ("deadlock", "no other thread can run"), ("values", ""),
                                        ("stale", "is not the handle of a texture or surface"), ("reset", "")])
def test_errors(make, soft, what, text):
    r = soft(make("errors.cu"), what)
    assert "PASSED" in r.stdout
    assert text in r.stderr


def test_a_launch_of_a_kernel_that_is_too_large_is_reported(make, soft):
    r = soft(make("launches.cu"), "too large")
    assert "PASSED" in r.stdout
    assert "a kernel cannot be launched: error 1 for a grid of 1 blocks of 2000 threads" in r.stderr


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("pattern", ["same", "consecutive", "halves", "mixed"])
def test_one_lane_out_of_bounds(make, soft, space, pattern):
    r = soft(make("accesses.cu"), space, pattern)
    assert "PASSED" in r.stdout
    assert "invalid read of 4 bytes" in r.stderr


def test_kernels_on_shared_memory_are_not_far_slower_than_the_host(make, soft):
    """The bound is generous: 7 to 10 are measured, and above 100 without the short cuts for warps."""
    rows = soft(make("../../../bench/softcuda/against_host.cu", "-O2"), CKPT_SOFTCUDA_CORES="1").stdout.splitlines()
    assert len(rows) == 7 and "WRONG" not in "".join(rows)
    for row in rows:
        if row.startswith("matmul"):
            assert float(row.split()[-2]) < 40, row


def test_the_host_cannot_touch_device_memory(make, soft):
    soft(make("errors.cu"), "host", expect=-signal.SIGSEGV)


def test_a_race_between_streams_is_visible(make, soft):
    for _ in range(10):
        lost = soft(make("errors.cu"), "race").stdout.split()[0] != "2000000"
        if lost:
            return
    pytest.fail("two streams never ran at the same time")


def hold(soft, program, mib, **more):
    p = subprocess.Popen([str(RUN), str(program), "--hold", str(mib)], env=soft.env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
    return p, p.stdout.readline().strip()


def test_processes_share_memory_and_a_killed_one_frees_it(make, soft):
    program = make("driver.cc")
    first, answer = hold(soft, program, 200)
    assert answer == "held"
    second, answer = hold(soft, program, 100, stderr=subprocess.PIPE)
    assert answer == "out of memory"
    _, message = second.communicate("")
    assert "too little free memory for 100 MiB" in message and "CKPT_SOFTCUDA" in message
    assert f"have 200 of its 256 MiB: process {first.pid} (200 MiB)" in message
    first.kill()
    first.wait()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        third, answer = hold(soft, program, 100)
        third.communicate("")
        if answer == "held":
            return
    pytest.fail("the memory of a killed process was not freed")


@pytest.mark.parametrize("devices", [("0,1", "0,1"), ("1", "0")])
def test_two_programs_share_memory_and_events(make, soft, devices):
    """Also memory of a device that the other program does not see."""
    program, pipes = make("ipc.cu"), [os.pipe(), os.pipe()]
    ends = {"export": (pipes[0][0], pipes[1][1]), "import": (pipes[1][0], pipes[0][1])}
    programs = [subprocess.Popen([str(RUN), str(program), role, *map(str, ends[role])], pass_fds=ends[role],
                                 env=dict(soft.env, CUDA_VISIBLE_DEVICES=seen), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for role, seen in zip(ends, devices)]
    for fd in sum(pipes, ()):
        os.close(fd)
    (said, _), (complained, _) = [p.communicate(timeout=60) for p in programs]
    assert "PASSED" in said, said + complained
    assert [p.returncode for p in programs] == [0, -signal.SIGKILL], complained  # the first one kills the second


def test_a_process_checkpoints_another_one(make, soft):
    program = make("driver.cc")
    held, answer = hold(soft, program, 100)
    assert answer == "held"
    assert "PASSED" in soft(program, "--order", str(held.pid)).stdout
    held.communicate("")
    assert held.returncode == 0


def criu():
    path = os.environ.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    if os.geteuid() != 0 or not shutil.which(path):
        pytest.skip("CRIU is missing, or this is not run by root")
    return path


def test_a_checkpointed_process_survives_criu(make, soft, tmp_path):
    program, images, out = make("driver.cc"), tmp_path / "images", tmp_path / "out"
    images.mkdir()
    with open(out, "w") as stdout:
        p = subprocess.Popen([str(RUN), str(program), "--hold", "100", str(tmp_path / "finish")], env=soft.env,
                             stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True)
    end = time.monotonic() + 20
    while out.read_text() != "held\n" and time.monotonic() < end:
        time.sleep(0.02)
    assert "PASSED" in soft(program, "--order", str(p.pid), "down").stdout
    r = subprocess.run([criu(), "dump", "-t", str(p.pid), "-D", str(images)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stdout + r.stderr
    assert p.wait(20) == -signal.SIGKILL
    r = subprocess.run([criu(), "restore", "-d", "-D", str(images)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "PASSED" in soft(program, "--order", str(p.pid), "up").stdout
    (tmp_path / "finish").touch()
    end = time.monotonic() + 20
    while "as before" not in out.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    assert out.read_text() == "held\nas before\n"


def test_a_model_sets_the_speed_of_the_device(make, soft, tmp_path):
    model = tmp_path / "model"
    model.write_text("compute 2e6  # instructions a second\ncopy 40e6\nlaunch 1e-3\n")
    kernel, copy = map(float, soft(make("clock.cu"), CKPT_SOFTCUDA_MODEL=str(model)).stdout.split()[:2])
    # 100 threads run 1000 rounds of a loop with one addition; the copy has 8 MiB.
    assert 51 < kernel < 400
    assert 209 < copy < 400
    # In the model's time kernels follow each other without a gap, however late threads wake up. A copy
    # waits for the kernel that uses the bus.
    model.write_text(model.read_text() + "mapped 1\nmemory 400e6\n")
    words = soft(make("clock.cu"), "4", CKPT_SOFTCUDA_MODEL=str(model)).stdout.split()
    kernel, copy, row, beside, within = map(float, words[:5])
    assert abs(row - 4 * kernel) < 1e-3 * row  # where threads wake up late, gaps of them would be more
    assert beside > copy + kernel / 10
    assert 41 < within < copy / 2  # each byte is read and written, at the rate of the device's memory
    # Two processes share one device: at 2e5 instructions a second each takes ten times as long as before,
    # and both together twice that.
    model.write_text("compute 2e5\n")
    begin = time.monotonic()
    two = [subprocess.Popen([str(RUN), str(make("clock.cu"))], env=dict(soft.env, CKPT_SOFTCUDA_MODEL=str(model)),
                            stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [p.wait() for p in two] == [0, 0]
    assert time.monotonic() - begin > 2 * 9 * kernel / 1000


def test_an_invalid_model_is_reported_with_its_line(make, soft, tmp_path):
    model = tmp_path / "model"
    model.write_text("speed 3\n")
    assert "model:1: 'speed 3' is invalid" in soft(make("clock.cu"), expect=1, CKPT_SOFTCUDA_MODEL=str(model)).stderr


def test_nvml_reports_the_power_of_a_model(make, soft, tmp_path):
    """Its energy is the idle power and what kernels and copies add."""
    model = tmp_path / "model"
    model.write_text("compute 2e5\nidle 10\nactive 90\ncopying 5\n")
    environment = {"CKPT_SOFTCUDA_MODEL": str(model)}
    assert "power" not in soft(make("nvml.cc")).stdout

    def power():
        line = next(line for line in soft(make("nvml.cc"), **environment).stdout.splitlines() if line.startswith("power"))
        return int(line.split()[1]), int(line.split()[3])

    milliwatts, millijoules = power()
    assert milliwatts == 10_000 and millijoules >= 1990
    busy = subprocess.Popen([str(RUN), str(make("clock.cu")), "8"], env=dict(soft.env, **environment), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: power()[0] == 100_000, "a kernel")
        assert any(power()[1] > 15_000 for _ in range(20))
    finally:
        busy.kill()
        busy.wait()


def test_nvml_reports_how_busy_a_device_with_a_model_is(make, soft, tmp_path):
    model = tmp_path / "model"
    model.write_text("compute 2e5\n")
    environment = {"CKPT_SOFTCUDA_MODEL": str(model)}
    assert "busy" not in soft(make("nvml.cc")).stdout

    def percent():
        line = next(line for line in soft(make("nvml.cc"), **environment).stdout.splitlines() if line.startswith("busy"))
        return int(line.split()[1])

    assert percent() == 0
    busy = subprocess.Popen([str(RUN), str(make("clock.cu")), "8"], env=dict(soft.env, **environment), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: percent() > 50, "a kernel")
    finally:
        busy.kill()
        busy.wait()


def test_nvml_reports_the_memory_of_each_process(make, soft):
    held, answer = hold(soft, make("driver.cc"), 100)
    assert answer == "held"
    lines = soft(make("nvml.cc")).stdout.splitlines()
    held.communicate("")
    assert [line.split()[-3:] for line in lines if line.startswith("device")] == [["256", "100", "1"], ["256", "0", "1"]]
    assert [line for line in lines if line.startswith("process")] == [f"process {held.pid} 100"]


def test_criu_refuses_a_process_that_uses_the_device(make, soft, tmp_path):
    path = criu()
    held, answer = hold(soft, make("driver.cc"), 10)
    assert answer == "held"
    images = tmp_path / "images"
    images.mkdir()
    r = subprocess.run([path, "dump", "-t", str(held.pid), "-D", str(images), "--shell-job"], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode != 0 and "socket" in r.stdout + r.stderr
    held.communicate("")
    assert held.returncode == 0
