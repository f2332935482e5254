# SPDX-License-Identifier: Apache-2.0
"""Children of programs with CUDA, and programs that only use NVML. The strict software device leaves its mappings and
descriptors in a forked child, as NVIDIA's driver does."""
import subprocess
import sys

import pytest

from conftest import wait_for
from cuda_programs import BUILD, NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]

NVML_IS_OPEN = "it uses NVML. Let it call nvmlShutdown() before a checkpoint, for example in a callback"


def start(cuda, mode, lines=2):  # noqa: F811
    """Starts forked.cc, which waits with its child while the file `pause` exists."""
    cuda.pause.touch()
    job = cuda.start(mode, source="forked.cc", paused=False)
    job.wait_lines(lines)
    return job


def restored(cuda, job):  # noqa: F811
    """Dumps the program and restores it; its text after that."""
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.text + copy.error_text
    return copy.text


def refusal(cuda, job):  # noqa: F811
    r = cuda.tool("ckpt-dump", str(job.pid), "-o", "image")
    assert r.returncode == 1, r.stderr
    cuda.go_on()
    return r.stderr


def test_a_child_of_the_bare_driver_keeps_its_mappings_and_descriptors(cuda):  # noqa: F811
    r = subprocess.run([str(RUN), str(cuda.make("forked.cc")), "kept"], env=cuda.ckpt.env, cwd=cuda.ckpt.folder,
                       capture_output=True, text=True, timeout=60)
    assert "child: 6 mappings, 2 descriptors" in r.stdout and "PASSED" in r.stdout, r.stdout + r.stderr


@pytest.mark.parametrize("mode", ["fork", "grandchild", "spawn", "nvml-parent", "nvml-closed"])
def test_children_are_dumped_and_restored(cuda, mode):  # noqa: F811
    job = start(cuda, mode)
    has = "spawned" if mode in ("spawn", "nvml-parent") else "0 mappings, 0 descriptors"
    assert job.lines == ["ready", f"child: {has}"], job.text
    assert "PASSED" in restored(cuda, job)


def test_a_program_with_children_is_suspended_and_dumped_again(cuda):  # noqa: F811
    job = start(cuda, "fork")
    for _ in range(2):
        assert cuda.suspend(job).returncode == 0
        assert cuda.resume(job).returncode == 0
    cuda.ckpt.dump(job.pid, "one", "--leave-running")
    assert "PASSED" in restored(cuda, job)


def test_a_child_that_is_forked_while_its_parent_is_suspended_gets_answers(cuda):  # noqa: F811
    """Each entry answers by itself: the driver would wait, or refuse."""
    job = start(cuda, "later", lines=1)
    assert cuda.suspend(job).returncode == 0
    (cuda.ckpt.folder / "fork").touch()
    wait_for(lambda: "child:" in job.text, "the child to have called every entry", 30)
    cuda.go_on()
    assert cuda.resume(job).returncode == 0
    assert job.wait() == 0 and "PASSED" in job.text, job.text + job.error_text


@pytest.mark.parametrize("mode", ["_Fork", "clone"])
def test_children_that_ckpt_does_not_notice_are_refused_by_name(cuda, mode):  # noqa: F811
    job = start(cuda, mode)
    assert job.lines[-1] == "child: 6 mappings, 2 descriptors"
    assert "was forked by _Fork() or clone() from a process with a device" in refusal(cuda, job)
    job.kill()


# ---- NVML

@pytest.mark.parametrize("mode", ["nvml-before", "nvml-inside"])
def test_nvml_that_is_open_in_a_child_is_refused_by_name(cuda, mode):  # noqa: F811
    job = start(cuda, mode)
    assert job.lines[-1] == "child: 0 mappings, 1 descriptors"
    assert NVML_IS_OPEN in refusal(cuda, job)
    if mode == "nvml-before":
        return job.kill()
    assert job.wait() == 0 and "PASSED" in job.text, job.text + job.error_text


def test_a_program_that_only_uses_nvml_is_refused_by_name(cuda):  # noqa: F811
    job = start(cuda, "nvml", lines=1)
    assert NVML_IS_OPEN in refusal(cuda, job)
    assert job.wait() == 0 and "PASSED" in job.text, job.text


CALLBACKS = """
import ctypes, os, time
nvml, ckpt = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.CDLL("libckpt.so.1")
Before, After = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p), ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
reopened = []
before, after = Before(lambda *_: CLOSE), After(lambda *_: reopened.append(nvml.nvmlInit_v2()))
assert nvml.nvmlInit_v2() == 0 and ckpt.ckpt_on_checkpoint(before, after, None) > 0
print("open", flush=True)
while not reopened: time.sleep(0.01)
print(reopened[0], nvml.nvmlShutdown(), flush=True)
"""


@pytest.mark.parametrize("closes", [True, False])
def test_a_callback_closes_nvml(cuda, closes):  # noqa: F811
    cuda.pause.touch()
    script = CALLBACKS.replace("CLOSE", "nvml.nvmlShutdown()" if closes else "0")
    environment = {"LD_LIBRARY_PATH": f"{BUILD}/softcuda/nvml:{BUILD}/libckpt"}
    cuda.ckpt.env.update(environment)
    job = cuda.ckpt.run(sys.executable, "-c", script)
    job.wait_lines(1)
    if not closes:
        assert NVML_IS_OPEN in refusal(cuda, job)
        return job.kill()
    assert restored(cuda, job).split() == ["0", "0"]


# ---- Python

WORKERS = """
import ctypes, multiprocessing, os, subprocess, sys, time
def work(n):
    open(f"working-{os.getpid()}", "w").close()
    while os.path.exists("pause"): time.sleep(0.01)
    return n * n
if __name__ == "__main__":
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(memory), 4 << 20) == 0
    assert cuda.cuMemsetD8_v2(memory, 3, 4 << 20) == 0
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        result = pool.map_async(work, range(4), chunksize=1)
        while sum(f.startswith("working-") for f in os.listdir()) < 2: time.sleep(0.01)
        waits = subprocess.Popen(["sh", "-c", "while [ -e pause ]; do sleep 0.01; done"])
        print("ready", flush=True)
        print(sum(result.get()), waits.wait(), flush=True)
    host = (ctypes.c_ubyte * (4 << 20))()
    assert cuda.cuMemcpyDtoH_v2(host, memory, 4 << 20) == 0
    print("PASSED" if set(bytes(host)) == {3} else "wrong contents", flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_s_multiprocessing_and_subprocess(cuda, method):  # noqa: F811
    cuda.pause.touch()
    (cuda.ckpt.folder / "workers.py").write_text(WORKERS)
    job = cuda.ckpt.run(sys.executable, "workers.py", method)
    job.wait_lines(1)
    assert restored(cuda, job).split()[-3:] == ["14", "0", "PASSED"]
