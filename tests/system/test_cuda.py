# SPDX-License-Identifier: Apache-2.0
"""CUDA programs under ckpt-run, on the software device: dumped while they compute, restored on another
device, suspended, resumed and migrated in place. Skipped where there is no CUDA toolkit."""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BUILD, image_manifest, wait_for
from cuda_programs import NVCC, RUN, make, numba  # noqa: F401 (fixtures)
from deadline import fair_share
from test_opencl import bed_environment, devices  # noqa: F401 (devices is a fixture)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


class Cuda:
    """Starts programs of tests/programs/cuda and runs tools on them.

    While the file `pause` exists, the programs wait after their first line of output (see steps.cu)."""

    def __init__(self, ckpt, make):
        self.ckpt = ckpt
        self.make = make
        self.pause = ckpt.folder / "pause"
        ckpt.env.update(CKPT_SOFTCUDA="2x256M", CUDA_MODULE_LOADING="LAZY")

    def start(self, *arguments, options=(), source="steps.cu", paused=True, **more):
        if paused:
            self.pause.touch()
        job = self.ckpt.start("ckpt-run", [*options, "--", str(self.make(source)), *map(str, arguments)], **more)
        if paused:
            job.wait_lines(1)
        return job

    def go_on(self):
        self.pause.unlink()

    def expected(self, *arguments, **more):
        """The last two lines of a run without a checkpoint."""
        job = self.start(*arguments, paused=False, **more)
        assert job.wait() == 0, job.error_text
        return job.lines[-2:]

    def suspend(self, job, *options):
        return self.tool("ckpt-dump", str(job.program()), "--suspend", "--json", *options)

    def resume(self, job, *options):
        return self.tool("ckpt-restore", "--resume", str(job.program()), *options)

    def tool(self, name, *arguments):
        return subprocess.run([self.ckpt.tool(name), *arguments], env=self.ckpt.env, cwd=self.ckpt.folder,
                              capture_output=True, text=True, timeout=60 / fair_share())

    def has_agent(self):
        """Whether some program has initialised CUDA."""
        return any(self.ckpt.runtime.rglob("agent-*.sock"))

    def used_mib(self):
        """The used memory of each device, as the software device's NVML reports it."""
        r = subprocess.run([str(RUN), str(self.make("nvml.cc"))], env=self.ckpt.env, capture_output=True, text=True,
                           timeout=60)
        return [int(line.split()[-2]) for line in r.stdout.splitlines() if line.startswith("device")]


@pytest.fixture
def cuda(ckpt, make):  # noqa: F811
    return Cuda(ckpt, make)


def test_devices_of_all_apis_share_one_numbering(cuda):
    r = cuda.tool("ckpt-run", "--list-devices", "--json")
    devices = json.loads(r.stdout)
    mine = [d for d in devices if d["api"] == "cuda"]
    assert [d["index"] for d in devices] == list(range(len(devices)))
    assert len(mine) == 2 and all(d["uuid"].startswith("GPU-") and d["memory_bytes"] == 256 << 20 for d in mine)


def test_the_software_device_is_announced_once(cuda):
    job = cuda.start(1, paused=False)
    assert job.wait() == 0
    assert job.error_text.count("this machine has no NVIDIA GPU") == 1


def test_dump_kill_and_restore_on_another_device(cuda):
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:0"])
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected
    participant = image_manifest(cuda.ckpt.folder / "image")["manifest"]["participants"][0]
    assert participant["api"] == "cuda" and participant["needs"]["device_heap"]["used"] is False


def test_a_restored_program_is_dumped_and_restored_again(cuda):
    """The program sees one device only, each time another one."""
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:1"])
    used = cuda.used_mib()
    assert used[0] == 0 and used[1] > 0
    cuda.ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    second = cuda.ckpt.restore("one", "--device", "cuda:0")
    wait_for(lambda: cuda.used_mib()[0] > 0, "the restored program's memory")
    cuda.ckpt.dump(second.pid, "two")
    assert second.wait() == 85
    cuda.go_on()
    third = cuda.ckpt.restore("two", "--device", "cuda:1")
    assert third.wait() == 0, third.error_text
    assert third.lines[-2:] == expected


def test_an_image_carries_the_files_of_a_cuda_program(cuda):
    """Its executable, libraries, and ckpt's own libcuda.so.1. The second image carries what the first restore has supplied."""
    expected = cuda.expected(6)
    program = cuda.ckpt.folder / "own"
    shutil.copy(cuda.make("steps.cu"), program)
    cuda.pause.touch()
    job = cuda.ckpt.start("ckpt-run", ["--device", "cuda:0", "--", str(program), "6"])
    job.wait_lines(1)
    carried = cuda.ckpt.dump(job.pid, "one", "--with-files")["carried_files"]
    assert job.wait() == 85 and carried > 5
    names = {os.path.basename(f["path"]) for f in image_manifest(cuda.ckpt.folder / "one")["manifest"]["carried_files"]}
    assert {"own", "libcuda.so.1"} <= names
    program.unlink()
    second = cuda.ckpt.restore("one", "--device", "cuda:1")
    wait_for(lambda: cuda.used_mib()[1] > 0, "the restored program's memory")
    cuda.ckpt.dump(second.pid, "two")
    assert second.wait() == 85
    cuda.go_on()
    third = cuda.ckpt.restore("two", "--device", "cuda:0")
    assert third.wait() == 0, third.error_text
    assert third.lines[-2:] == expected


def test_the_program_continues_after_a_dump(cuda):
    expected = cuda.expected(6)
    job = cuda.start(6)
    for name in ("one", "two"):
        cuda.ckpt.dump(job.pid, name, "--leave-running")
    cuda.go_on()
    assert job.wait() == 0
    assert job.lines[-2:] == expected


@pytest.mark.parametrize("phase", ["quiesce", "save", "detach", "criu", "record", "write"])
def test_a_killed_dump_leaves_the_program_running(cuda, phase):
    expected = cuda.expected(6)
    job = cuda.start(6)
    r = cuda.ckpt.dump_process(job.pid, "image", env={"CKPT_TEST_STOP_AT": phase})
    assert r.returncode == -signal.SIGKILL
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


EXAMPLES = ["vector_add.cu", "kernels.cu", "streams.cu", "textures.cu", "mipmaps.cu", "differential.cu", "language.cu",
            "hopper.cu", "matrices.cu", "barriers.cu", "partitions.cu", "graph_calls.cu"]
FAST_EXAMPLES = ["streams.cu", "textures.cu", "mipmaps.cu"]


SECONDS_PER_LAUNCH = {"vector_add.cu": 1, "kernels.cu": 0.3, "language.cu": 0.3, "hopper.cu": 0.3, "partitions.cu": 0.3,
                      "mipmaps.cu": 2e-2}


@pytest.mark.parametrize("source", [pytest.param(s, marks=[] if s in FAST_EXAMPLES else pytest.mark.full)
                                    for s in EXAMPLES])
def test_every_example_is_restored_in_the_middle(cuda, make, source):  # noqa: F811
    """Launches take long, so that the dump comes in the middle. The programs check their own results."""
    model = cuda.ckpt.folder / "model"
    model.write_text(f"launch {SECONDS_PER_LAUNCH.get(source, 5e-2)}\n")
    random.seed(source)
    cuda.ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    job = cuda.start(source=source, paused=False, options=["--managed-on-host", "--device", "cuda:0"])
    wait_for(lambda: cuda.has_agent() or job.process.poll() is not None, "the program to use the device")
    time.sleep(random.uniform(0, 0.4))
    r = cuda.ckpt.dump_process(job.pid, "image")
    if source == "language.cu":
        assert r.returncode == 1 and "managed variable" in r.stderr
        return
    assert r.returncode == 0, r.stderr
    assert job.wait() == 85
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    assert "PASSED" in copy.text


def test_mipmapped_arrays_move_to_another_device(cuda):
    """Twice, in both rounds of the program, which checks its own results."""
    model = cuda.ckpt.folder / "model"
    model.write_text("launch 2e-2\n")
    cuda.ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    job = cuda.start(source="mipmaps.cu", paused=False, options=["--device", "cuda:0"])
    for cases, device in ((5, "cuda:1"), (35, "cuda:0")):
        job.wait_lines(cases)
        r = cuda.suspend(job)
        assert r.returncode == 0 and json.loads(r.stdout)["device_bytes"] > 0, r.stderr
        assert cuda.used_mib() == [0, 0]
        assert cuda.resume(job, "--device", device).returncode == 0
    assert job.wait() == 0 and "PASSED" in job.text, job.error_text


@pytest.mark.full
def test_hashcat(cuda, tmp_path):
    """A third-party program: CUDA code compiled by NVRTC, with OpenCL and NVML loaded in the same process."""
    if not shutil.which("hashcat"):
        pytest.skip("hashcat is not installed")
    cuda.ckpt.env.update(HOME=str(tmp_path), CKPT_SOFTCUDA="2x2048M", **bed_environment())
    target = hashlib.md5(b"zqx93kwf").hexdigest()
    job = cuda.ckpt.run("hashcat", "-m", "0", "-a", "3", "--potfile-disable", "--restore-disable", "--force", "--status",
                        "--status-timer", "1", "-d", "1", "-u", "64", "-n", "32", target, "zq?l?d?d?l?l?l",
                        options=["--device", "cuda:0"])
    wait_for(lambda: "Candidates.#1" in job.text or job.process.poll() is not None, "hashcat to compute", 200)
    if "ckpt software device 0" not in job.text:
        pytest.skip("hashcat finds no NVRTC here and uses OpenCL")
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait(200) == 0, copy.error_text
    assert f"{target}:zqx93kwf" in copy.text


@pytest.mark.full
def test_numba(cuda, numba):  # noqa: F811
    command, environment = numba
    cuda.ckpt.env.update(environment)
    cuda.pause.touch()
    job = cuda.ckpt.run(*command, "6", options=["--device", "cuda:0"])
    job.wait_text("step 1")
    assert cuda.suspend(job).returncode == 0
    assert cuda.resume(job, "--device", "cuda:1").returncode == 0
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:0")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == ["step 6", "ckpt software device 0 PASSED"]


def test_a_suspended_program_holds_no_device_memory(cuda):
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:0"])
    assert cuda.used_mib()[0] > 0
    r = cuda.suspend(job)
    assert r.returncode == 0 and json.loads(r.stdout)["device_bytes"] > 0, r.stderr
    assert cuda.used_mib() == [0, 0]
    r = cuda.ckpt.dump_process(job.pid, "image")
    assert r.returncode == 1 and "suspended" in r.stderr and "--resume" in r.stderr
    cuda.go_on()  # the program is suspended, so its next call waits
    r = cuda.resume(job)
    assert r.returncode == 0, r.stderr
    assert job.wait() == 0
    assert job.lines[-2:] == expected


def test_a_program_stays_suspended(cuda):
    """Beyond the 15 s in which other services expect a first message: it has one connection to its keeper, all the time."""
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:0"])
    assert cuda.suspend(job).returncode == 0
    cuda.go_on()
    time.sleep(17)
    assert cuda.used_mib() == [0, 0] and "has ended" not in job.error_text
    assert cuda.resume(job).returncode == 0
    assert job.wait() == 0 and job.lines[-2:] == expected


def test_a_suspended_program_goes_on_when_its_keeper_has_ended(cuda):
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:0"])
    assert cuda.suspend(job).returncode == 0
    cuda.go_on()
    job.process.kill()
    wait_for(lambda: job.lines[-2:] == expected, "the program to go on")
    assert "the session keeper of this suspended program has ended: the program continues" in job.error_text


def test_migration_in_place(cuda):
    expected = cuda.expected(6)
    job = cuda.start(6, options=["--device", "cuda:0"])
    assert cuda.suspend(job, "--to", str(cuda.ckpt.folder)).returncode == 0
    r = cuda.resume(job, "--device", "cuda:1")
    assert r.returncode == 0, r.stderr
    used = cuda.used_mib()
    assert used[0] == 0 and used[1] > 0
    cuda.ckpt.dump(job.pid, "image")  # a migrated program can be dumped
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:0")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


def test_options_that_exclude_each_other(cuda):
    for tool, *arguments in (("ckpt-dump", "--suspend", "-o", "image", "1"), ("ckpt-dump", "--to", "/tmp", "1"),
                             ("ckpt-restore", "--resume", "1", "image"), ("ckpt-restore",)):
        assert cuda.tool(tool, *arguments).returncode == 125
    r = cuda.tool("ckpt-restore", "--resume", "1")
    assert r.returncode == 1 and "does not run under ckpt-run" in r.stderr


def test_a_running_program_is_not_resumed(cuda):
    job = cuda.start(2)
    r = cuda.resume(job)
    assert r.returncode == 1 and "is not suspended" in r.stderr
    assert cuda.suspend(job, "--to", "/no/such/folder").returncode == 1
    cuda.go_on()
    assert job.wait() == 0


def test_a_device_that_is_too_small_is_refused(cuda):
    job = cuda.start(2, 16 << 20, options=["--device", "cuda:0"])  # 64 MiB
    assert cuda.suspend(job).returncode == 0
    hog = subprocess.Popen([str(RUN), str(cuda.make("driver.cc")), "--hold", "200"], env=cuda.ckpt.env,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hog.stdout.readline().strip() == "held"
    r = cuda.resume(job, "--device", "cuda:0")
    assert r.returncode == 1 and "MiB are free" in r.stderr and "stays suspended" in r.stderr
    hog.communicate("")
    cuda.go_on()
    wait_for(lambda: cuda.resume(job).returncode == 0, "room on the device")
    assert job.wait() == 0


@pytest.mark.parametrize("way", ["--managed-on-host", "--managed-memory=host"])
def test_managed_memory_is_refused_with_a_workaround(cuda, way):
    job = cuda.start("managed", source="refused.cu")
    r = cuda.ckpt.dump_process(job.pid, "image")
    assert r.returncode == 1 and "managed memory" in r.stderr and "--managed-memory=kept" in r.stderr
    cuda.go_on()
    assert job.wait() == 0
    job = cuda.start("managed", source="refused.cu", options=[way])
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    assert "PASSED" in copy.text


def test_events_of_a_program_with_an_owner_are_not_shared_by_name(cuda):
    """So nothing is shared when the program is dumped."""
    job = cuda.start("ipc", source="refused.cu", options=["--device-owner"])
    names = ("cuIpcGetEventHandle", "cuIpcOpenEventHandle")
    wait_for(lambda: names[-1] in job.error_text, "the last message")
    for name in names:
        assert job.error_text.count(f"{name}") == 1, job.error_text
    assert "ckpt-run --device-owner" in job.error_text
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    assert "PASSED" in copy.text


def test_memory_with_an_owner_is_not_shared_by_name(cuda):
    job = cuda.start("ipc_memory", source="refused.cu", options=["--device-owner"])
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert "cuIpcGetMemHandle" in job.error_text and "ckpt-run --device-owner" in job.error_text


@pytest.mark.parametrize("what, words", [("capture", "captured into a graph"), ("kernel", "kernels are still running")])
def test_a_refused_dump_leaves_the_program_running(cuda, what, words):
    job = cuda.start(what, source="refused.cu")
    r = cuda.ckpt.dump_process(job.pid, "image", "--timeout", "1")
    assert r.returncode == 1 and words in r.stderr, r.stderr
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


def test_a_dump_waits_for_the_end_of_a_capture(cuda):
    job = cuda.start("long", source="captures.cc")
    dump = cuda.ckpt.start("ckpt-dump", ["--leave-running", "-o", "image", str(job.pid)])
    time.sleep(0.4)
    cuda.go_on()
    assert dump.wait() == 0, dump.error_text
    cuda.ckpt.finish()
    assert job.wait() == 0, job.error_text


@pytest.mark.parametrize("what", ["threads", "forms", "context"])
def test_captures_that_end_otherwise_than_they_began(cuda, what):
    """No dump is refused because of them, and host functions of graphs are called at each launch."""
    job = cuda.start(what, source="captures.cc")
    cuda.ckpt.dump(job.pid, "image", "--leave-running")
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0 and "PASSED" in copy.text, copy.error_text


def test_the_driver_finds_memory_that_freed_blocks_keep(cuda):
    """All other memory is in use. The driver's call fails first, and is repeated when the blocks were dropped."""
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "1x512M"
    job = cuda.start(8 << 20, source="kept.cu", paused=False)
    assert job.wait() == 0, job.error_text


def test_the_device_heap_is_kept_and_reported(cuda):
    job = cuda.start("heap", source="refused.cu")
    dump = cuda.ckpt.dump_process(job.pid, "image")
    assert dump.returncode == 0 and "its kernels use the device's heap" in dump.stdout, dump.stdout
    assert job.wait() == 85
    shown = cuda.tool("ckpt-image", "show", "image").stdout
    assert "device heap  yes: " in shown and "malloc" in shown
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text


def test_the_report_says_that_it_waited_for_the_drivers_queue(cuda):
    job = cuda.start(source="queue.cu", paused=False)
    job.wait_text("READY")
    # A dump may come just before the next kernel.
    waits = (cuda.ckpt.dump(job.pid, f"image{n}", "--leave-running")["waits"] for n in range(10))
    assert any(w["cuda"] > 0 for w in waits if w.keys() == {"callbacks", "cuda"})
    cuda.ckpt.finish()
    assert job.wait() == 0, job.error_text


def test_a_host_function_never_deadlocks_with_a_checkpoint(cuda):
    """The host function waits for a lock, and the thread with the lock waits at the gate."""
    job = cuda.start("hostfunction", source="refused.cu")
    cuda.ckpt.dump(job.pid, "image", "--leave-running", "--timeout", "20")
    cuda.go_on()
    assert job.wait() == 0, job.error_text


def test_the_static_runtime_is_refused_with_advice(cuda):
    static = cuda.make("vector_add.cu", runtime="static")
    job = cuda.ckpt.start("ckpt-run", ["--", str(static)])
    assert job.wait() == 126
    assert "static CUDA runtime" in job.error_text and "-cudart shared" in job.error_text


def test_the_software_device_is_hidden_if_device_names_opencl_only(cuda):
    program = cuda.make("ways.cc", "-ldl", runtime="none")
    job = cuda.ckpt.start("ckpt-run", ["--device", "ocl:0", "--", str(program), "libcuda.so.1"])
    assert job.wait() == 1 and not job.lines, job.text  # it finds no CUDA driver
    job = cuda.ckpt.start("ckpt-run", ["--device", "ocl:0,cuda:1", "--", str(program), "libcuda.so.1"])
    assert job.wait() == 0, job.error_text


@pytest.mark.parametrize("way", ["linked", "libcuda.so", "libcuda.so.1", str(BUILD / "softcuda/driver/libcuda.so.1")])
def test_every_way_to_the_driver_is_caught(cuda, way):
    """The program prints the library that has cuMemAlloc_v2, and whether it got an agent."""
    flags = ["-Xlinker", "--no-as-needed", "-lcuda", f"-L{BUILD}/softcuda/driver"] if way == "linked" else ["-ldl"]
    # Without the CUDA runtime, which would load libcuda.so.1 first.
    source = cuda.make("ways.cc", *flags, runtime="none")
    job = cuda.ckpt.start("ckpt-run", ["--", str(source), way])
    assert job.wait() == 0, job.error_text
    library, agent = job.lines
    assert os.path.realpath(library) == str(BUILD / "libckpt-cuda" / "libcuda.so.1") and agent == "agent"


def test_opencl_and_cuda_in_one_program(cuda, devices):  # noqa: F811
    cuda.ckpt.env.update(bed_environment())
    native = cuda.start(source="both.cu", paused=False, options=["--device", "ocl:pthread,cuda:0"])
    assert native.wait() == 0, native.error_text
    job = cuda.start(source="both.cu", options=["--device", "ocl:pthread,cuda:0"])
    assert cuda.suspend(job).returncode == 0
    assert cuda.used_mib() == [0, 0]
    r = cuda.resume(job, "--device", "ocl:rusticl,cuda:1")
    assert r.returncode == 0, r.stderr
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image", "--device", "ocl:pthread,cuda:0")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == native.lines[-2:]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_random_programs_at_random_points(cuda, seed):
    """Threads, streams and two devices. The seed chooses when the program is dumped, suspended or restored."""
    choose = random.Random(seed)
    job = cuda.start(seed, 0, source="many.cu")
    for generation in range(4):
        time.sleep(choose.uniform(0.05, 0.4))
        what = choose.choice(["leave", "suspend", "restore"])
        if what == "suspend":
            assert cuda.suspend(job).returncode == 0
            assert cuda.used_mib() == [0, 0]
            assert cuda.resume(job, "--device", choose.choice(["cuda:0,cuda:1", "cuda:1,cuda:0"])).returncode == 0
        elif what == "leave":
            cuda.ckpt.dump(job.pid, f"image{generation}", "--leave-running")
        else:
            cuda.ckpt.dump(job.pid, f"image{generation}")
            assert job.wait() == 85
            job = cuda.ckpt.restore(f"image{generation}", "--device", choose.choice(["cuda:0,cuda:1", "cuda:1,cuda:0"]))
            job.program()
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert "PASSED" in job.text


@pytest.mark.parametrize("extra, code", [("exit", 3), ("fork", 0)])
def test_a_program_that_exits_or_forks_during_a_dump(cuda, extra, code):
    job = cuda.start(1, 1.5, extra, source="many.cu")
    dumps = [subprocess.Popen([cuda.ckpt.tool("ckpt-dump"), str(job.pid), "-o", f"image{i}", "--leave-running"],
                              env=cuda.ckpt.env, cwd=cuda.ckpt.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) for i in range(2)]  # two dumps at the same time
    time.sleep(0.03)
    cuda.go_on()
    errors = [d.communicate(timeout=60)[1] for d in dumps]
    assert job.wait() == code, job.error_text
    assert all(d.returncode in (0, 1) for d in dumps), errors
    assert not cuda.ckpt.partials()


def test_contents_go_to_disk_if_host_memory_is_short(cuda):
    """Contents are kept until the dump is over. A mount namespace shows the program little free memory."""
    (cuda.ckpt.folder / "meminfo").write_text("MemAvailable:       1024 kB\n")
    program, tools = cuda.make("steps.cu"), BUILD / "tools"
    script = f"""mount --bind meminfo /proc/meminfo; touch pause; : >out
        TMPDIR=$1 {tools}/ckpt-run -- {program} 6 1000000 >out 2>&1 & job=$!
        until grep -q 'step 1' out; do sleep 0.05; done
        {tools}/ckpt-dump $job -o image --leave-running; echo "dump $?"
        rm pause; wait $job; echo "program $?"
        """

    def run(folder):
        r = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", folder], env=cuda.ckpt.env, cwd=cuda.ckpt.folder,
                           capture_output=True, text=True, timeout=60)
        return r.stdout, r.stderr

    output, errors = run("/no/such/folder")
    assert "dump 1" in output and "program 0" in output and "only 0 MiB in host memory" in errors, output + errors
    output, errors = run("/var/tmp")
    assert "dump 0" in output and "program 0" in output, output + errors


def test_excluded_memory_is_not_in_the_image(cuda):
    def device_bytes(image):
        return sum(a["bytes"] for a in image_manifest(cuda.ckpt.folder / image)["manifest"]["agents"])

    for kind, most in (("keep", 40 << 20), ("exclude", 8 << 20)):
        cuda.pause.touch()
        program = cuda.make("exclude.cu")
        job = cuda.ckpt.start("ckpt-run", ["--", str(program), kind])
        job.wait_lines(1)
        cuda.ckpt.dump(job.pid, kind)
        assert job.wait() == 85
        assert most - (8 << 20) < device_bytes(kind) <= most
        cuda.go_on()
        copy = cuda.ckpt.restore(kind)
        assert copy.wait() == 0, copy.error_text


def test_a_criu_that_fails_leaves_the_program_running(cuda):
    real = cuda.ckpt.env.get("CKPT_CRIU") or "/opt/ckpt/criu/bin/criu"
    fake = cuda.ckpt.folder / "criu"
    fake.write_text(f'#!/bin/sh\ncase " $* " in *" dump "*) exit 1 ;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    expected = cuda.expected(6)
    job = cuda.start(6)
    r = cuda.ckpt.dump_process(job.pid, "image", env={"CKPT_CRIU": str(fake)})
    assert r.returncode == 1 and not cuda.ckpt.partials(), r.stderr
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_a_restore_without_room_on_the_device_starts_nothing(cuda):
    job = cuda.start(2, 16 << 20)  # 64 MiB
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    hog = subprocess.Popen([str(RUN), str(cuda.make("driver.cc")), "--hold", "200"], env=cuda.ckpt.env,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hog.stdout.readline().strip() == "held"
    copy = cuda.ckpt.restore("image", "--device", "cuda:0")
    assert copy.wait() == 1
    assert "MiB are free" in copy.error_text and "nothing was started" in copy.error_text
    copy = cuda.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() == 0, copy.error_text
    hog.communicate("")
