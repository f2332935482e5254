# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's driver does at a checkpoint and a kinder one would not (docs/SOFTCUDA.md, "As strict as a driver").
Every CUDA test runs on the strict device; the tests in here order what does not happen every day."""
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import image_manifest, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from test_cuda import Cuda, cuda  # noqa: F401 (cuda is a fixture)
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
]


@pytest.fixture
def four(cuda):  # noqa: F811
    """A machine with four devices."""
    cuda.ckpt.env["CKPT_SOFTCUDA"] = "4x96M"
    return cuda


@pytest.fixture
def order(cuda):  # noqa: F811
    """order("cuMemUnmap 999"): from now on the device does this; order() ends it."""
    file = cuda.ckpt.folder / "faults"
    cuda.ckpt.env["CKPT_SOFTCUDA_FAULTS"] = str(file)
    return lambda *lines: file.write_text("\n".join(lines))


def device_in_use(cuda):  # noqa: F811
    used = cuda.used_mib()
    assert sum(mib > 0 for mib in used) == 1, used
    return next(i for i, mib in enumerate(used) if mib > 0)


# ---- cold devices

def test_a_program_comes_back_on_devices_that_no_other_process_keeps_initialised(cuda):  # noqa: F811
    cuda.ckpt.env["CKPT_SOFTCUDA_COLD"] = "1"
    expected = cuda.expected(6)
    job = cuda.start(6)
    cuda.ckpt.dump(job.pid, "one", "--leave-running")
    assert cuda.suspend(job).returncode == 0
    r = cuda.resume(job)
    assert r.returncode == 0, r.stderr
    cuda.ckpt.dump(job.pid, "two")
    assert job.wait() == 85
    cuda.go_on()
    for image in "one", "two":
        copy = cuda.ckpt.restore(image)
        assert copy.wait() == 0, copy.error_text
        assert copy.lines[-2:] == expected


# ---- maps of devices

def test_one_of_four_devices_is_dumped_and_restored_in_place_and_elsewhere(four):
    """The driver's map names all four devices of the machine, although the program sees one."""
    expected = four.expected(6)
    job = four.start(6, options=["--device", "cuda:2"])
    four.ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    copy = four.ckpt.restore("one")
    wait_for(lambda: sum(four.used_mib()) > 0, "the restored program's memory")
    assert device_in_use(four) == 2
    four.ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    copy = four.ckpt.restore("two", "--device", "cuda:1")
    wait_for(lambda: sum(four.used_mib()) > 0, "the restored program's memory")
    assert device_in_use(four) == 1
    four.go_on()
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


def test_one_of_four_devices_is_resumed_in_place_and_elsewhere(four):
    expected = four.expected(6)
    job = four.start(6, options=["--device", "cuda:2"])
    for options, place in ([], 2), (["--device", "cuda:0"], 0), (["--device", "cuda:3"], 3), ([], 3):
        assert four.suspend(job).returncode == 0
        r = four.resume(job, *options)
        assert r.returncode == 0, r.stderr
        assert device_in_use(four) == place
    four.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_a_driver_that_takes_no_map_restores_in_place_only(four):
    four.ckpt.env["CKPT_SOFTCUDA_DRIVER"] = "570"
    expected = four.expected(6)
    job = four.start(6, options=["--device", "cuda:2"])
    assert four.suspend(job).returncode == 0
    r = four.resume(job, "--device", "cuda:1")
    assert r.returncode == 1 and "another GPU needs driver 580" in r.stderr
    assert four.resume(job).returncode == 0
    four.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = four.ckpt.restore("image", "--device", "cuda:1")
    assert copy.wait() != 0 and "another GPU needs driver 580" in copy.error_text
    four.go_on()
    copy = four.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


def test_a_move_that_moves_nothing_is_an_error(four, order):
    expected = four.expected(6)
    job = four.start(6, options=["--device", "cuda:2"])
    assert four.suspend(job).returncode == 0
    order("cuCheckpointProcessRestore nothing")
    r = four.resume(job, "--device", "cuda:1")
    assert r.returncode == 1 and "has not moved device 0" in r.stderr, r.stderr
    assert sum(four.used_mib()) == 0  # the program is suspended still
    order()
    assert four.resume(job, "--device", "cuda:1").returncode == 0
    assert device_in_use(four) == 1
    four.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_a_driver_that_something_else_has_restored_is_used_where_it_is(four):
    """NVIDIA's cuda-checkpoint and CRIU's plugin restore another process, and know no map."""
    four.ckpt.env["CKPT_SOFTCUDA_CONTEXT"] = "8"
    expected = four.expected(6)
    job = four.start(6, options=["--device", "cuda:2"])
    assert four.suspend(job).returncode == 0
    other = subprocess.run([str(RUN), str(four.make("driver.cc")), "--order", str(job.program()), "up"],
                           env=four.ckpt.env | {"CUDA_VISIBLE_DEVICES": "2"}, capture_output=True, text=True, timeout=60)
    assert "PASSED" in other.stdout, other.stdout + other.stderr
    r = four.resume(job, "--device", "cuda:1")
    assert r.returncode == 1 and "has not moved device 0" in r.stderr, r.stderr
    assert four.resume(job).returncode == 0
    assert device_in_use(four) == 2
    four.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


@pytest.mark.parametrize("capable", ["0", "1"])
def test_memory_can_be_registered_by_other_devices_where_the_device_allows_it(cuda, capable):  # noqa: F811
    """A driver refuses cuMemCreate for GPUDirect RDMA where the attribute says that there is none."""
    cuda.ckpt.env["CKPT_SOFTCUDA_RDMA"] = capable
    job = cuda.start(source="rdma.cc", paused=False)
    assert job.wait() == 0, job.text
    assert job.lines == [f"capable {capable}"]


def test_a_pci_bus_id_that_is_stale_after_a_move_is_named(four):
    four.ckpt.env["CKPT_SOFTCUDA_STALE_PCI"] = "1"
    job = four.start(6, options=["--device", "cuda:2"])
    assert four.suspend(job).returncode == 0
    assert four.resume(job).returncode == 0
    assert "PCI bus id" not in job.error_text
    assert four.suspend(job).returncode == 0
    r = four.resume(job, "--device", "cuda:1")
    assert r.returncode == 0, r.stderr
    wait_for(lambda: "PCI bus id 0000:" in job.error_text, "the warning")
    four.go_on()
    assert job.wait() == 0, job.error_text


def test_an_image_of_a_machine_with_more_devices_is_refused(four):
    job = four.start(2)
    four.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    four.ckpt.env["CKPT_SOFTCUDA"] = "2x128M"
    copy = four.ckpt.restore("image")
    assert copy.wait() != 0 and "a machine with 4 GPUs, and this one has 2" in copy.error_text


# ---- drivers that are newer or older than ckpt's table of entries

def test_entries_of_a_newer_driver_work_and_their_use_is_named(cuda):  # noqa: F811
    """The program only asks at first, as every runtime does, and can be dumped; then it calls."""
    cuda.ckpt.env["CKPT_SOFTCUDA_DRIVER"] = "99000"
    (cuda.ckpt.folder / "hold").touch()
    job = cuda.start("99000", "newer", source="future.cc")
    assert "newer" not in job.error_text and "cannot use" not in job.error_text
    cuda.ckpt.dump(job.pid, "image", "--leave-running")
    cuda.go_on()
    job.wait_lines(3)
    assert job.lines == ["asked", "2.5 1.5", "called"]
    why = cuda.ckpt.dump_refused(job.pid, "refused")
    assert "cuMemsetD8, cuMemsetFuture" in why and "newer than this ckpt" in why, why
    r = cuda.suspend(job)
    assert r.returncode == 1 and "cuMemsetFuture" in r.stderr
    (cuda.ckpt.folder / "hold").unlink()
    assert job.wait() == 0, job.text
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-1] == "called"


@pytest.mark.parametrize("driver, result", [("580", "0"), ("13050", "1")], ids=["older", "as new"])
def test_a_program_that_is_newer_than_its_driver_gets_the_drivers_forms(cuda, driver, result):  # noqa: F811
    """cuLaunchHostFunc has one parameter more since CUDA 13.1."""
    cuda.ckpt.env["CKPT_SOFTCUDA_DRIVER"] = driver
    job = cuda.start("13050", source="future.cc", paused=False)
    assert job.wait() == 0, job.text
    assert job.lines == ["asked", result, "called"]


# ---- while the driver is checkpointed

def test_a_checkpointed_driver_refuses_calls_and_nvml_waits_for_it(cuda):  # noqa: F811
    r = subprocess.run([str(RUN), str(cuda.make("away.cc"))], env=cuda.ckpt.env, capture_output=True, text=True, timeout=60)
    assert r.stdout == "PASSED\n", r.stdout + r.stderr


# ---- lazy loading

@pytest.mark.parametrize("setting, first", [({}, "waits"), ({"CUDA_MODULE_LOADING": "LAZY"}, "waits"),
                                            ({"CUDA_MODULE_LOADING": "EAGER"}, "at once"), ({"CKPT_SOFTCUDA_STRICT": "0"}, "at once")])
def test_a_kernel_is_loaded_when_no_kernel_runs(cuda, setting, first):  # noqa: F811
    cuda.ckpt.env.pop("CUDA_MODULE_LOADING")
    for command in [RUN], [cuda.ckpt.tool("ckpt-run"), "--"]:
        r = subprocess.run([*command, str(cuda.make("lazy.cu"))], env=cuda.ckpt.env | setting, capture_output=True, text=True,
                           timeout=60)
        assert r.stdout.splitlines() == [first, "at once", "PASSED"], r.stdout + r.stderr


# ---- reservations

def largest_reservation(pid):
    """The bytes of the largest private mapping without access that Linux charges once it is writable."""
    largest = size = 0
    for line in open(f"/proc/{pid}/smaps"):
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ---p", line):
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            size = end - begin
        elif re.match("[0-9a-f]+-", line):
            size = 0
        elif line.startswith("VmFlags:") and " nr" not in line:
            largest = max(largest, size)
    return largest


def test_reservations_beyond_the_machines_memory_are_restored(cuda):  # noqa: F811
    """As on a GPU with more memory than its host: ckpt reserves four times the memory of the device."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cuda.ckpt.env["CKPT_SOFTCUDA"] = f"1x{2 * memory >> 20}M"
    expected = cuda.expected(6)
    job = cuda.start(6)
    assert largest_reservation(job.program()) > 7 * memory
    cuda.ckpt.dump(job.pid, "image", "--leave-running")
    assert cuda.suspend(job).returncode == 0
    assert largest_reservation(job.program()) > 7 * memory  # the driver keeps it while the devices are left
    assert cuda.resume(job).returncode == 0
    job.kill()
    cuda.go_on()
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


# ---- addresses that the driver gives up and takes back

def suspend_once_or_again(cuda, job, may_refuse):
    """Without placeholders, a mapping that the program makes at the wrong moment lies where the driver wants its device
    back. The suspend is then refused by name and undone, and a later one works."""
    for _ in range(5):
        r = cuda.suspend(job)
        if r.returncode == 0:
            return
        assert may_refuse and "the program has mapped memory at" in r.stdout, r.stdout
    pytest.fail(f"refused five times: {r.stdout}")


@pytest.mark.parametrize("placeholders", [False, True], ids=["holes", "placeholders"])
@pytest.mark.parametrize("suspends, dumps", [(6, 2), pytest.param(100, 20, marks=pytest.mark.full)])
def test_mappings_of_the_program_keep_their_contents(cuda, suspends, dumps, placeholders):  # noqa: F811
    if placeholders:
        cuda.ckpt.env["CKPT_SOFTCUDA_PLACEHOLDERS"] = "1"
    job = cuda.start(source="mapping.cu", paused=False)
    job.wait_lines(1)
    for _ in range(suspends):
        suspend_once_or_again(cuda, job, may_refuse=not placeholders)
        time.sleep(0.05)  # the threads map memory meanwhile
        r = cuda.resume(job)
        assert r.returncode == 0, r.stderr
    for i in range(dumps):
        cuda.ckpt.dump(job.pid, f"image{i}", "--leave-running")
    cuda.ckpt.finish()
    assert job.wait() == 0, job.text


def test_a_program_that_changes_its_shared_mappings_keeps_its_devices(cuda):  # noqa: F811
    """They are no device's, whatever becomes of them while the driver is checkpointed."""
    cuda.ckpt.env["CKPT_SOFTCUDA_PLACEHOLDERS"] = "1"
    job = cuda.start("split", source="mapping.cu", paused=False)
    job.wait_lines(1)
    for _ in range(12):
        assert cuda.suspend(job).returncode == 0
        r = cuda.resume(job)
        assert r.returncode == 0, r.stderr
    cuda.ckpt.finish()
    assert job.wait() == 0, job.text


# ---- faults of the driver

@pytest.mark.parametrize("fault, words", [("cuMemUnmap 999", "cannot unmap"),
                                          ("cuCheckpointProcessLock 3", "cannot lock the driver"),
                                          ("cuCheckpointProcessCheckpoint 801", "NOT_SUPPORTED")])
def test_a_fault_leaves_the_program_running(cuda, order, fault, words):  # noqa: F811
    expected = cuda.expected(6)
    job = cuda.start(6)
    order(fault)
    assert words in cuda.ckpt.dump_refused(job.pid, "image")
    r = cuda.suspend(job)
    assert r.returncode == 1 and words in r.stderr
    order()
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


@pytest.mark.parametrize("call", ["Lock", "Checkpoint"])
def test_a_call_that_hangs_before_the_devices_are_left_is_given_up(cuda, order, call):  # noqa: F811
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "2"
    expected = cuda.expected(6)
    job = cuda.start(6)
    order(f"cuCheckpointProcess{call} hang")
    r = cuda.suspend(job)
    assert r.returncode == 1 and "has not returned within 2 s" in r.stderr, r.stderr
    order()
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_a_lock_that_succeeds_after_its_deadline_does_not_stay(cuda, order):  # noqa: F811
    """No later call would unlock the driver, and every call of the program would wait for that."""
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "1"
    expected = cuda.expected(6)
    job = cuda.start(6)
    order("cuCheckpointProcessLock late")
    r = cuda.suspend(job)
    assert r.returncode == 1 and "has not returned within 1 s" in r.stderr, r.stderr
    order()
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_objects_are_made_while_the_devices_are_being_left(cuda, order):  # noqa: F811
    """Device memory is gone already while Lock takes its time. A call that names an address of it must wait."""
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "1"
    job = cuda.start(source="objects.cu", paused=False)
    job.wait_lines(1)
    order("cuCheckpointProcessLock hang")
    r = cuda.suspend(job)
    assert r.returncode == 1 and "has not returned within 1 s" in r.stderr, r.stderr
    order()
    for _ in range(3):
        assert cuda.suspend(job).returncode == 0
        assert cuda.resume(job).returncode == 0
    cuda.ckpt.finish()
    assert job.wait() == 0, job.text


def test_a_restore_that_hangs_is_reported_as_lost(cuda, order):  # noqa: F811
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "2"
    job = cuda.start(6)
    assert cuda.suspend(job).returncode == 0
    order("cuCheckpointProcessRestore hang")
    r = cuda.resume(job)
    assert r.returncode == 1 and "its state is lost" in r.stderr, r.stderr
    cuda.go_on()
    assert job.wait() != 0
    assert "has lost its devices" in job.error_text


def test_an_unlock_that_hangs_is_given_up_and_a_later_resume_works(cuda, order):  # noqa: F811
    """The driver has its state again then, and only its lock must go."""
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "2"
    expected = cuda.expected(6)
    job = cuda.start(6)
    assert cuda.suspend(job).returncode == 0
    order("cuCheckpointProcessUnlock hang")
    r = cuda.resume(job)
    assert r.returncode == 1 and "unlock the driver" in r.stderr and "within 2 s" in r.stderr, r.stderr
    order()
    r = cuda.resume(job)
    assert r.returncode == 0, r.stderr
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_an_unlock_that_hangs_after_a_dump_is_reported_and_the_image_is_whole(cuda, order):  # noqa: F811
    cuda.ckpt.env["CKPT_CUDA_DRIVER_TIMEOUT"] = "2"
    expected = cuda.expected(6)
    job = cuda.start(6)
    order("cuCheckpointProcessUnlock hang")
    r = cuda.ckpt.dump_process(job.pid, "image", "--leave-running")
    assert r.returncode == 3 and "image is complete" in r.stderr and "has lost its devices" in r.stderr, r.stderr
    order()
    cuda.go_on()
    assert job.wait() != 0
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected


@pytest.mark.parametrize("call", ["Lock", "Checkpoint"])
def test_a_driver_that_crashes_ends_the_program_and_leaves_no_image(cuda, order, call):  # noqa: F811
    job = cuda.start(6)
    order(f"cuCheckpointProcess{call} crash")
    cuda.ckpt.dump_refused(job.pid, "image")
    assert job.wait() == -signal.SIGSEGV


def test_a_restore_that_crashes_ends_the_program_and_the_tool(cuda, order):  # noqa: F811
    job = cuda.start(6)
    assert cuda.suspend(job).returncode == 0
    order("cuCheckpointProcessRestore crash")
    r = cuda.resume(job)
    assert r.returncode == 1 and r.stderr, r.stderr
    assert job.wait() == -signal.SIGSEGV


# ---- too little memory in the driver's Restore

def test_room_for_the_drivers_share_is_checked_before(cuda):  # noqa: F811
    """The driver's share is 40 MiB of the context; afterwards the driver itself would refuse permanently."""
    cuda.ckpt.env.update(CKPT_SOFTCUDA="1x96M", CKPT_SOFTCUDA_CONTEXT="40")
    expected = cuda.expected(6)
    job = cuda.start(6)
    assert cuda.suspend(job).returncode == 0
    hog = cuda.start(2, 8 << 20)  # 36 MiB and a context: the contents would fit beside it, but no second context
    r = cuda.resume(job)
    assert r.returncode == 1 and "the program has 44 MiB" in r.stderr and "only 20 MiB are free" in r.stderr, r.stderr
    hog.kill()
    wait_for(lambda: cuda.used_mib() == [0], "the other program's memory to be free")
    hog = cuda.start(2, 1 << 20)  # 6 MiB and a context: both fit
    r = cuda.resume(job)
    assert r.returncode == 0, r.stderr
    hog.kill()
    cuda.go_on()
    assert job.wait() == 0, job.error_text
    assert job.lines[-2:] == expected


def test_an_image_says_how_much_memory_the_driver_needs(cuda):  # noqa: F811
    """It is known only when the driver has left the device, after the contents were saved."""
    cuda.ckpt.env["CKPT_SOFTCUDA_CONTEXT"] = "40"
    job = cuda.start(6, options=["--device", "cuda:1"])
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    needs = image_manifest(cuda.ckpt.folder / "image")["manifest"]["participants"][0]["needs"]
    assert [d["driver_bytes"] >> 20 for d in needs["devices"] if d["used"]] == [42]  # the context, and a granule for code


def test_an_out_of_memory_that_is_final_is_reported_as_lost(cuda, order):  # noqa: F811
    job = cuda.start(6)
    assert cuda.suspend(job).returncode == 0
    order("cuCheckpointProcessRestore 2")
    r = cuda.resume(job)
    assert r.returncode == 1 and "OUT_OF_MEMORY" in r.stderr, r.stderr
    order("cuCheckpointProcessRestore 304")
    r = cuda.resume(job)
    assert r.returncode == 1 and "cannot restore it after that" in r.stderr, r.stderr
    cuda.go_on()
    assert job.wait() != 0
    assert "has lost its devices" in job.error_text


# ---- CRIU

PLUGIN = r"""
#include <fcntl.h>
#include <stdlib.h>
static int note(int stage) { open(getenv("PLUGIN_CALLED"), O_CREAT | O_WRONLY, 0600); return 0; }
struct { const char *name; int (*init)(int); void (*exit)(int, int); unsigned version, most; void *hooks[64]; }
    CR_PLUGIN_DESC = {"cuda_plugin", note, 0, 1, 64};
"""


def test_plugins_of_criu_are_never_called(cuda):  # noqa: F811
    """A distribution's CRIU has cuda_plugin, which would restore the driver without our map."""
    plugins = cuda.ckpt.folder / "plugins"
    plugins.mkdir()
    (plugins / "plugin.c").write_text(PLUGIN)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", plugins / "cuda_plugin.so", plugins / "plugin.c"], check=True)
    called = cuda.ckpt.folder / "called"
    cuda.ckpt.env.update(CRIU_LIBS_DIR=str(plugins), PLUGIN_CALLED=str(called))
    job = cuda.start(2)
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert not called.exists()


def test_a_program_that_maps_llvm_is_dumped_and_restored(cuda, tmp_path):  # noqa: F811
    """As Julia and Mesa do. The library of PoCL or Rusticl is what shows a driver that was not left."""
    source = tmp_path / "library.c"
    source.write_text("int nothing;\n")
    library = tmp_path / "libLLVM-15.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    expected = cuda.expected(4)
    job = cuda.start(4, env={"LD_PRELOAD": str(library)})
    cuda.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    cuda.go_on()
    copy = cuda.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-2:] == expected
