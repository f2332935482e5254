# SPDX-License-Identifier: Apache-2.0
"""OpenCL programs that are dumped in the middle and restored on another implementation.

CRIU alone can restore a PoCL program, because PoCL is ordinary CPU code. So every test here asserts that
no driver is in the program's process, and restores it on another implementation.
"""
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import string
import subprocess
import time

import pytest

from conftest import BUILD, ROOT, image_manifest, tree_of, wait_for
from tiers import parametrize

OPENCL = BUILD / "tests" / "programs" / "opencl"
HEAT = BUILD / "examples" / "heat"
DRIVER = re.compile(r"pocl|LLVM|Rusticl|oclgrind|nvidia", re.IGNORECASE)
DEVICES = ("pocl", "rusticl", "oclgrind")


def short_name(device):
    """The name of a device in these tests. "basic" is PoCL's second device, with one thread. PoCL 4
    renamed its devices from pthread-… and basic-… to cpu-… and cpu-minimal-…."""
    if "Portable Computing" in device["platform"]:
        return "basic" if device["name"].startswith(("basic", "cpu-minimal")) else "pocl"
    return device["platform"].lower()


def bed_environment():
    """The environment of scripts/testbed."""
    out = subprocess.run([ROOT / "scripts" / "testbed", BUILD], capture_output=True, text=True, check=True).stdout
    shell = subprocess.run(["bash", "-c", out + "\nenv -0"], capture_output=True, check=True).stdout.decode()
    wanted = ("OCL_ICD_VENDORS", "RUSTICL_ENABLE", "POCL_DEVICES", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR")
    return {k: v for k, _, v in (line.partition("=") for line in shell.split("\0")) if k in wanted}


@pytest.fixture(scope="session")
def devices():
    env = dict(os.environ, **bed_environment())
    out = subprocess.run([BUILD / "tools" / "ckpt-run", "--list-devices", "--json"], env=env, capture_output=True, text=True)
    listed = [d for d in json.loads(out.stdout or "[]") if d["api"] == "ocl"]
    here = {short_name(d): f"ocl:{d['name'] if 'Portable' in d['platform'] else d['platform']}" for d in listed}
    if missing := {"pocl", "rusticl"} - set(here):
        pytest.skip(f"OpenCL implementations are missing: {missing} (scripts/setup installs them)")
    return env, here


class Programs:
    """Runs OpenCL programs under the tools, in the environment of the test bed."""

    def __init__(self, ckpt, env, here):
        self.ckpt = ckpt
        self.here = here
        self.ckpt.env.update({k: env[k] for k in bed_environment()})
        self.go_file = ckpt.folder / "go"
        self.ckpt.env["CKPT_TEST_GO"] = str(self.go_file)

    def device(self, name):
        """The argument of --device. Skips the test if the implementation is missing (oclgrind on Debian 13)."""
        if name in DEVICES and name not in self.here:
            pytest.skip(f"{name} is not installed")
        return self.here.get(name, name)

    def start(self, name, *args, device="pocl", **streams):
        options = streams.pop("options", ())
        return self.ckpt.run(OPENCL / f"ocl-{name}", *args, options=["--device", self.device(device), *options], **streams)

    def restore(self, image, device, *options, **streams):
        return self.ckpt.restore(image, "--device", self.device(device), *options, **streams)

    def go(self):
        self.go_file.touch()

    def native(self, name, *args, vendor="pocl"):
        folder = self.ckpt.folder / f"vendors-{vendor}"
        folder.mkdir(exist_ok=True)
        shutil.copy(BUILD / "testbed" / "vendors" / f"{vendor}.icd", folder)
        env = dict(self.ckpt.env, OCL_ICD_VENDORS=f"{folder}/", POCL_DEVICES="pthread")
        env.pop("CKPT_TEST_GO")
        return subprocess.run([OPENCL / f"ocl-{name}", *args], env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture
def ocl(ckpt, devices):
    return Programs(ckpt, *devices)


def maps_of(job):
    """The memory maps of every process of the program, once libckpt-ocl is loaded in each of them."""
    found = {}
    for pid in tree_of(job.pid):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            text = pathlib.Path(f"/proc/{pid}/maps").read_text()
        except OSError:  # CRIU's helpers come and go
            continue
        if not name.startswith(("ckpt-", "exe", "criu", "ld-linux")):
            found[pid] = text
    complete = found and all("libckpt-ocl.so" in text and "[stack]" in text for text in found.values())
    return found if complete else None


def assert_no_driver(job):
    maps = wait_for(lambda: maps_of(job) or job.process.poll() is not None, "libckpt-ocl in the program")
    assert maps is not True, f"the program ended early: {job.text!r} {job.error_text!r}"
    for pid, text in maps.items():
        found = DRIVER.findall(text)
        assert not found, f"a driver is in the program's process {pid}: {set(found)}"


def wait_until_computing(job):
    """Waits until a restored program has its devices: its agent listens in the folder of the new session."""
    folder = wait_for(lambda: session_line(job), "the session").split()[-1].rsplit("/", 1)[0]
    unix = pathlib.Path(f"/proc/{job.pid}/net/unix")
    wait_for(lambda: f"{folder}/agent-" in unix.read_text(), "the agent's socket")


def test_buffers_of_the_processor_have_huge_pages(ocl):
    """PoCL's buffers are memory of the proxy, and page faults would take most of a restore."""
    if "[never]" in pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("the kernel makes no huge pages")
    job = ocl.ckpt.run(HEAT, "--n", 4096, "--steps", 100000, "--report", 1, options=["--device", ocl.device("pocl")])
    job.wait_text("step 1/")
    proxy = next(p for p in tree_of(job.pid) if os.readlink(f"/proc/{p}/exe").endswith("ckpt-ocl-proxy"))

    def huge_mib():
        rollup = pathlib.Path(f"/proc/{proxy}/smaps_rollup").read_text()
        return sum(int(kib) for kib in re.findall(r"^(?:AnonHugePages|ShmemPmdMapped): *(\d+) kB", rollup, re.M)) >> 10

    assert huge_mib() >= 64  # two buffers of 64 MiB


def session_line(job):
    inodes = set()
    for fd in pathlib.Path(f"/proc/{job.pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for line in pathlib.Path(f"/proc/{job.pid}/net/unix").read_text().splitlines():
        if line.endswith("/session.sock") and line.split()[6] in inodes:
            return line
    return None


def finished(job):
    assert job.wait(120) == 0, job.text + job.error_text
    assert job.lines[-1] == "OK", job.text + job.error_text


def test_calls_answer_as_they_do_natively(ocl):
    native = ocl.native("calls")
    job = ocl.start("calls")
    finished(job)
    assert native.returncode == 0, native.stdout
    assert job.text == native.stdout


def listed_by_proxy(ocl, *options):
    out = subprocess.run([BUILD / "libckpt-ocl" / "ckpt-ocl-proxy", "--list", *options], env=ocl.ckpt.env, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_a_proxy_for_chosen_devices_loads_no_other_drivers(ocl):
    for name, library in ("pocl", "libpocl"), ("rusticl", "libRusticl"):
        job = ocl.start("looks", device=name)
        job.wait_text("READY")
        proxy = next(p for p in tree_of(job.pid) if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "ckpt-ocl-proxy")
        drivers = set(re.findall("libpocl[.]|libRusticl|liboclgrind-rt-icd", pathlib.Path(f"/proc/{proxy}/maps").read_text()))
        assert [d.rstrip(".") for d in drivers] == [library]
        job.kill()


def test_devices_keep_their_keys_when_only_their_driver_is_loaded(ocl):
    every = listed_by_proxy(ocl)
    last = every[-1]["platform"]
    ids = [d["id"] for d in every if d["platform"] == last]
    driver = ids[0].split(".")[0] + ":" + every[-1]["platform_source"]
    assert listed_by_proxy(ocl, "--device", ids[0], "--driver", driver) == [d for d in every if d["platform"] == last]
    # One that is not there any more.
    assert listed_by_proxy(ocl, "--device", ids[0], "--driver", "0:0:/nowhere.so") == every


@pytest.mark.parametrize("device", ["rusticl", "basic"])
def test_calls_work_on_other_devices(ocl, device):
    finished(ocl.start("calls", device=device))


PAIRS = [(a, b) for a in DEVICES for b in DEVICES if a != b]


@parametrize("source,target", PAIRS, quick=2)
def test_every_object_moves(ocl, source, target):
    job = ocl.start("objects", device=source)
    job.wait_text("READY")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ocl.restore("image", target)
    assert_no_driver(copy)
    ocl.go()
    finished(copy)


@parametrize("source,target", [("pocl", "rusticl"), ("rusticl", "pocl"), ("pocl", "oclgrind")], quick=1)
def test_commands_that_wait_for_a_user_event_move(ocl, source, target):
    job = ocl.start("events", device=source)
    job.wait_text("READY")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ocl.restore("image", target)
    ocl.go()
    finished(copy)


@parametrize("source,target", [("pocl", "pocl"), ("pocl", "rusticl"), ("rusticl", "pocl")], quick=1)
def test_long_queues_move(ocl, source, target):
    """Seconds of work in an in-order queue, an out-of-order one, two that take turns, one with time stamps
    and one behind a user event: what the device has not begun runs after the restore, in order."""
    job = ocl.start("queued", device=source)
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ocl.restore("image", target)
    ocl.go()
    finished(copy)


def test_a_suspended_program_keeps_its_queues(ocl):
    job = ocl.start("queued")
    job.wait_text("READY")
    for options in (["ckpt-dump", "--suspend"], ["ckpt-restore", "--device", ocl.device("rusticl"), "--resume"]):
        r = subprocess.run([ocl.ckpt.tool(options[0]), *options[1:], str(job.pid)], env=ocl.ckpt.env,
                           capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
    ocl.go()
    finished(job)


def test_a_running_program_moves_by_one_command(ocl):
    """A wrong name is refused before the program is touched."""
    job = ocl.start("queued")
    job.wait_text("READY")
    for device, code in (("ocl:none", 1), (ocl.device("rusticl"), 0), (ocl.device("pocl"), 0)):
        r = subprocess.run([ocl.ckpt.tool("ckpt-restore"), "--resume", str(job.pid), "--device", device],
                           env=ocl.ckpt.env, capture_output=True, text=True, timeout=120)
        assert r.returncode == code, r.stderr
        assert re.search(r"^pause +\d", r.stdout, re.M) if code == 0 else "none" in r.stderr, r.stdout + r.stderr
    ocl.go()
    finished(job)


def blocks(pid, which):
    """Whether the main thread of a process blocks the signal (proc(5), SigBlk)."""
    return int(re.search(r"^SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1], 16) >> (which - 1) & 1


@pytest.mark.full
def test_a_move_can_be_interrupted(ocl):
    """While it waits for a kernel. The program keeps its device, and can move later."""
    job = ocl.start("long_kernel", "2000000000")
    job.wait_text("LAUNCHED")
    move = ["--resume", str(job.pid), "--device", ocl.device("rusticl")]
    tool = ocl.ckpt.start("ckpt-restore", move)
    wait_for(lambda: blocks(tool.pid, signal.SIGINT), "the suspend, which reads signals from a descriptor")
    os.kill(tool.pid, signal.SIGINT)
    assert tool.wait() == 1 and "cancelled by signal 2" in tool.error_text, tool.error_text
    job.wait_text("READY")
    later = ocl.ckpt.start("ckpt-restore", move)
    assert later.wait() == 0 and later.text.startswith("program  "), later.error_text
    ocl.go()
    finished(job)


def test_launches_of_other_sizes_do_not_wait_for_the_driver(ocl):
    job = ocl.start("one_way")
    job.wait_text("READY")
    proxy = next(p for p in tree_of(job.pid) if os.readlink(f"/proc/{p}/exe").endswith("ckpt-ocl-proxy"))
    os.kill(proxy, signal.SIGSTOP)
    ocl.go()
    job.wait_text("ENQUEUED")
    os.kill(proxy, signal.SIGCONT)
    finished(job)


def has_thread(job, name):
    return any((t / "comm").read_text().strip() == name for t in pathlib.Path(f"/proc/{job.program()}/task").iterdir())


@pytest.mark.alone
def test_the_pause_does_not_grow_with_what_is_queued(ocl):
    """heat waits after 200 steps, or after 50,000, which take seconds. The medians of the pauses are compared."""
    def pause(steps):
        job = ocl.ckpt.run(HEAT, "--n", "256", "--steps", "100000000", "--report", str(steps),
                           options=["--device", ocl.device("pocl")])
        job.wait_text("heat:")
        wait_for(lambda: has_thread(job, "ckpt-feeder"), "a full window")
        dumps = [ocl.ckpt.dump(job.pid, f"{steps}-{n}", "--leave-running") for n in range(3)]
        job.kill()
        assert all(0 < d["quiesce_seconds"] < d["pause_seconds"] for d in dumps)
        assert all(d["waits"].keys() == {"callbacks", "ocl"} for d in dumps)
        return sorted(d["pause_seconds"] for d in dumps)[1]

    assert pause(50_000) < 4 * pause(200)


def test_an_increment_reads_only_what_was_written(ocl):
    """Eight buffers are written in eight ways between two images, and one by a deferred command. Then a
    parent that is not the last image, and a restored copy that makes an increment on its own image."""
    def unchanged(job, image, parent, *options):
        return ocl.ckpt.dump(job.pid, image, "--parent", parent, *options)["unchanged_bytes"] >> 20

    job = ocl.start("unwritten", device="pocl")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "one", "--leave-running")
    ocl.go()
    wait_for(lambda: job.text.count("READY") == 2, "the writes", 60)
    assert unchanged(job, "two", "one", "--leave-running") == 3
    ocl.ckpt.dump(job.pid, "whole", "--leave-running")
    assert unchanged(job, "three", "two", "--leave-running") == 0
    assert unchanged(job, "four", "three") == 12
    assert job.wait() == 85
    copy = ocl.restore("four", "rusticl")
    wait_until_computing(copy)
    assert unchanged(copy, "five", "four") == 12
    last = ocl.restore("five", "pocl")
    ocl.go()
    finished(last)


def test_objects_move_over_three_implementations_and_back(ocl):
    job = ocl.start("objects", device="pocl")
    job.wait_text("READY")
    for n, target in enumerate(["rusticl", "oclgrind", "pocl"]):
        ocl.ckpt.dump(job.pid, f"image{n}")
        assert job.wait() == 85
        job = ocl.restore(f"image{n}", target)
        assert_no_driver(job)
        wait_until_computing(job)
    ocl.go()
    finished(job)


@pytest.mark.parametrize("target", ["pocl", "rusticl"])
def test_one_image_is_restored_several_times_at_once(ocl, target):
    job = ocl.start("objects", device="pocl")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copies = [ocl.restore("image", target) for _ in range(3)]
    for copy in copies:
        assert_no_driver(copy)
    ocl.go()
    for copy in copies:
        finished(copy)


def test_the_program_continues_with_its_devices_after_a_dump(ocl):
    job = ocl.start("objects")
    job.wait_text("READY")
    for n in range(3):
        ocl.ckpt.dump(job.pid, f"image{n}", "--leave-running")
    ocl.go()
    finished(job)
    finished(ocl.restore("image1", "rusticl"))


def test_a_dump_waits_for_the_end_of_a_restore(ocl):
    job = ocl.start("objects")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    copy = ocl.restore("one", "rusticl")
    wait_for(lambda: session_line(copy), "the session")  # before it has its devices
    ocl.ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    ocl.go()
    finished(ocl.restore("two", "pocl"))


def test_a_dump_waits_until_the_program_has_its_devices_back_from_another_dump(ocl):
    """The keeper, which gives the devices back, is stopped in between."""
    def listens():
        return re.search(f"{ocl.ckpt.runtime}/.*/agent-", pathlib.Path("/proc/net/unix").read_text())

    job = ocl.start("objects")
    job.wait_text("READY")
    for n in range(20):  # until the keeper stops before the program asks it for its devices
        first = ocl.ckpt.start("ckpt-dump", [str(job.pid), "-o", f"one{n}", "--leave-running"])
        while listens() and first.process.poll() is None:
            pass
        os.kill(job.pid, signal.SIGSTOP)
        wait_for(lambda: (ocl.ckpt.folder / f"one{n}").exists() or first.process.poll() is not None, "the image")
        if not listens():
            break
        os.kill(job.pid, signal.SIGCONT)
        assert first.wait() == 0, first.error_text
    assert not listens()
    second = ocl.ckpt.start("ckpt-dump", [str(job.pid), "-o", "two", "--verbose"])
    wait_for(lambda: "resolve" in second.error_text, "the second dump")
    with pytest.raises(subprocess.TimeoutExpired):
        second.process.wait(0.3)
    os.kill(job.pid, signal.SIGCONT)
    assert first.wait() == 0, first.error_text  # it returns when the devices are back
    assert second.wait() == 0, second.error_text
    assert job.wait() == 85
    assert len(image_manifest(ocl.ckpt.folder / "two")["manifest"]["agents"]) == 1
    ocl.go()
    finished(ocl.restore("two", "pocl"))


def test_heat_moves_in_the_middle_of_its_computation(ocl):
    args = ["--n", "256", "--steps", "5000", "--report", "100", "--checksum"]
    job = ocl.ckpt.run(HEAT, *args, options=["--device", ocl.device("rusticl")])  # ten times slower
    job.wait_text("step 100/")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    assert "checksum" not in job.text
    copy = ocl.restore("image", "pocl")
    assert copy.wait(120) == 0, copy.error_text
    whole = ocl.ckpt.run(HEAT, *args, options=["--device", ocl.device("pocl")])
    assert whole.wait(120) == 0
    assert copy.lines[-1].startswith("checksum 0x")
    assert copy.lines[-1] == whole.lines[-1]


@pytest.mark.parametrize("target", ["pocl", "rusticl"])
def test_four_threads_move_in_the_middle_of_launches_reads_and_maps(ocl, target):
    job = ocl.start("threads")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "running", "--leave-running")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    copy = ocl.restore("image", target)
    assert_no_driver(copy)
    ocl.go()
    finished(copy)


def test_parent_child_and_fork_move(ocl):
    job = ocl.start("family")
    wait_for(lambda: job.text.count("READY") == 2, f"two READY in {job.text!r}")
    assert_no_driver(job)
    report = ocl.ckpt.dump(job.pid, "image")
    assert report["processes"] == 2
    assert job.wait() == 85
    copy = ocl.restore("image", "rusticl")
    ocl.go()
    assert copy.wait(120) == 0, copy.text + copy.error_text
    assert copy.text.count("OK") == 2


def test_a_dump_waits_for_a_running_kernel_up_to_its_timeout(ocl):
    job = ocl.start("long_kernel", "2000000000")
    job.wait_text("LAUNCHED")
    error = ocl.ckpt.dump_refused(job.pid, "image", "--timeout", "1")
    assert "still running" in error and "--timeout" in error
    ocl.ckpt.dump(job.pid, "image", "--timeout", "120")
    assert job.wait() == 85
    copy = ocl.restore("image", "rusticl")
    ocl.go()
    finished(copy)
    said = copy.lines.index(next(line for line in copy.lines if line.startswith("kernel says")))
    assert said < copy.lines.index("OK")


@parametrize("requirement,target,words", [
    ("fp64", "rusticl", ["double precision", "llvmpipe"]),
    ("big", "oclgrind", ["512.0 MiB", "Oclgrind"]),
    ("group", "rusticl", ["4096", "1024"]),
    ("local", "rusticl", ["65536", "32768"]),
    ("align", "rusticl", ["multiples of 128", "512"]),
    ("fp64", "ocl:nothing", ["nothing"]),
], quick=2)
def test_a_device_that_cannot_hold_the_program_is_refused(ocl, requirement, target, words):
    job = ocl.start("requirements", requirement)
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    refused = ocl.restore("image", target)
    assert refused.wait() != 0
    assert refused.text == ""
    for word in words:
        assert word in refused.error_text, refused.error_text
    job = ocl.restore("image", "pocl")
    wait_until_computing(job)
    ocl.go()
    finished(job)


def test_a_limit_that_was_only_read_can_be_ignored(ocl):
    for requirement in ("local", "limit"):
        job = ocl.start("requirements", requirement)
        job.wait_text("READY")
        ocl.ckpt.dump(job.pid, requirement)
        assert job.wait() == 85
    refused = ocl.restore("local", "rusticl", "--ignore-limits")
    assert refused.wait() == 1 and "65536" in refused.error_text
    ocl.go()
    silent = ocl.restore("limit", "rusticl", "--ignore-limits")
    finished(silent)
    assert "CL_DEVICE" not in silent.error_text


def test_a_limit_that_was_only_read_is_a_warning(ocl):
    """All that the program has used fits on the new device. --strict-limits refuses it."""
    job = ocl.start("requirements", "limit")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    words = ["CL_DEVICE_MAX_WORK_GROUP_SIZE", "4096", "1024"]
    refused = ocl.restore("image", "rusticl", "--strict-limits")
    assert refused.wait() == 1 and all(word in refused.error_text for word in words), refused.error_text
    ocl.go()
    copy = ocl.restore("image", "rusticl")
    finished(copy)
    assert all(word in copy.error_text for word in words), copy.error_text


def test_portable_advertises_only_what_all_devices_have(ocl):
    job = ocl.start("requirements", "limit", options=["--portable"])
    job.wait_text("READY")
    assert "work-groups of 1024" in job.text
    ocl.ckpt.dump(job.pid, "image")
    job = ocl.restore("image", "rusticl")
    wait_until_computing(job)
    ocl.go()
    finished(job)


def test_damaged_device_data_is_refused(ocl):
    job = ocl.start("objects")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    chunks = ocl.ckpt.folder / "image" / "chunks.ckpt"
    data = bytearray(chunks.read_bytes())
    data[len(data) // 2] ^= 1
    chunks.write_bytes(data)
    refused = ocl.restore("image", "pocl")
    assert refused.wait() == 1
    assert refused.text == "" and "chunks.ckpt" in refused.error_text


def test_contents_of_buffers_are_in_chunks_and_requirements_in_the_manifest(ocl):
    job = ocl.start("objects")
    job.wait_text("READY")
    report = ocl.ckpt.dump(job.pid, "image", "--leave-running")
    assert report["bytes"] > 24 << 20
    text = str(image_manifest(ocl.ckpt.folder / "image"))
    assert "largest_buffer" in text and "FACTOR" in text


@pytest.mark.parametrize("phase", ["preflight", "quiesce", "save", "detach", "criu", "write"])
def test_a_killed_tool_leaves_the_program_computing(ocl, phase):
    job = ocl.start("objects")
    job.wait_text("READY")
    r = ocl.ckpt.dump_process(job.pid, "image", env={"CKPT_TEST_STOP_AT": phase})
    assert r.returncode == -9
    if (ocl.ckpt.folder / "image").exists():
        subprocess.run([ocl.ckpt.tool("ckpt-image"), "verify", ocl.ckpt.folder / "image"], check=True)
    ocl.go()
    finished(job)


def test_what_waits_for_a_refused_command_does_not_run(ocl):
    ocl.ckpt.env.update(LD_PRELOAD=str(OPENCL / "libocl-extra-options.so"), CKPT_TEST_REFUSES_FILLS="1")
    finished(ocl.start("refused"))


def test_a_transfer_in_pieces_is_one_command(ocl):
    """With memory of the device's own; docs/LIMITS.md has what pages that are shared with it lack."""
    ocl.ckpt.env.update(LD_PRELOAD=str(OPENCL / "libocl-extra-options.so"), CKPT_TEST_ACCELERATOR="1")
    finished(ocl.start("torn"))


def test_non_blocking_reads_keep_neither_memory_nor_their_context(ocl):
    finished(ocl.start("many_reads"))


def kill_proxy(job):
    proxies = [pid for pid in tree_of(job.pid)
               if "ckpt-ocl-proxy" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(proxies) == 1
    os.kill(proxies[0], 9)


def test_a_dead_proxy_causes_device_errors_instead_of_a_hang(ocl):
    job = ocl.start("threads")
    job.wait_text("READY")
    kill_proxy(job)
    assert job.wait() == 1
    assert "OpenCL error -2" in job.text  # CL_DEVICE_NOT_AVAILABLE


@pytest.mark.parametrize("how", ["blocking", "event", "map"])
def test_what_waits_for_a_deferred_read_fails_when_the_proxy_dies(ocl, how):
    job = ocl.start("lost", how, "20000000000")
    job.wait_text("LAUNCHED")
    time.sleep(0.5)  # the call waits
    kill_proxy(job)
    finished(job)


@pytest.mark.parametrize("how", ["blocking", "event", "map"])
def test_what_waits_for_a_deferred_read_fails_without_devices(ocl, how):
    job = ocl.start("lost", how, "2000000000")
    job.wait_text("LAUNCHED")
    time.sleep(0.2)  # the call waits; the first kernel takes longer
    ocl.ckpt.dump(job.pid, "image", "--timeout", "120")
    assert job.wait() == 85
    copy = ocl.ckpt.restore("image", "--continue-without-devices", env={"OCL_ICD_VENDORS": "/nonexistent/"})
    finished(copy)


@pytest.mark.full
def test_hashcat_moves_between_two_devices(ocl, tmp_path):
    if not shutil.which("hashcat"):
        pytest.skip("hashcat is not installed")
    home = tmp_path / "home"
    home.mkdir()
    ocl.ckpt.env["HOME"] = str(home)
    command = ["hashcat", "-m", "0", "-a", "3", "--potfile-disable", "--restore-disable", "--force", "--status",
               "--status-timer", "1", "-u", "64", "-n", "32", "hashes", "z?d?l?d?d?l?l?l"]
    # Enough words that some are found before the dump and some after it.
    letters = iter(random.Random(1).choices(string.ascii_lowercase, k=120))
    words = [f"z{n % 10}{next(letters)}{n:02}{next(letters)}{next(letters)}{next(letters)}" for n in range(30)]
    wanted = {hashlib.md5(w.encode()).hexdigest(): w for w in words}
    (ocl.ckpt.folder / "hashes").write_text("".join(f"{h}\n" for h in wanted))

    def found(job):
        return {word for h, word in wanted.items() if f"{h}:{word}" in job.text}

    job = ocl.ckpt.run(*command, options=["--device", ocl.device("pocl")])
    wait_for(lambda: "Candidates.#1" in job.text or job.process.poll() is not None, "hashcat at work", 300)
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, "image", "--timeout", "120")
    assert job.wait() == 85
    copy = ocl.restore("image", "basic")
    assert copy.wait(600) == 0, copy.text[-3000:] + copy.error_text[-3000:]
    assert found(copy) and found(job) | found(copy) == set(words)


def test_suspended_and_resumed_on_another_implementation(ocl):
    """In place, without CRIU. No proxy exists while the program is suspended."""
    def proxies():
        return [p for p in tree_of(job.pid) if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "ckpt-ocl-proxy"]

    def tool(name, *arguments):
        r = subprocess.run([ocl.ckpt.tool(name), *arguments], env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr

    job = ocl.start("objects", device="pocl")
    job.wait_text("READY")
    tool("ckpt-dump", "--suspend", str(job.pid))
    assert not proxies()
    tool("ckpt-restore", "--resume", str(job.pid), "--device", ocl.device("rusticl"))
    assert len(proxies()) == 1
    ocl.go()
    finished(job)


def test_what_a_callback_keeps_is_not_destroyed_during_a_suspend(ocl):
    """A resume makes all objects again, one after the other: none may be destroyed meanwhile."""
    def tool(name, *arguments):
        r = subprocess.run([ocl.ckpt.tool(name), *arguments], env=ocl.ckpt.env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr

    job = ocl.start("callback_keeps")
    job.wait_text("READY")
    tool("ckpt-dump", "--suspend", str(job.pid))
    ocl.go()
    time.sleep(1)
    assert "DESTROYED" not in job.text
    tool("ckpt-restore", "--resume", str(job.pid), "--device", ocl.device("pocl"))
    finished(job)
    assert "DESTROYED" in job.text


def test_kernels_print_where_the_programs_output_goes(ocl):
    """To a file, a pipe and the terminal, also after a restore."""
    job = ocl.start("printing")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    ocl.go()
    copy = ocl.restore("image", "basic")
    finished(copy)
    assert "kernel 1\n" in copy.text


def test_a_dump_of_a_program_in_its_exit_handlers_says_so(ocl):
    job = ocl.start("ending")
    job.wait_text("READY")
    assert "is ending" in ocl.ckpt.dump_refused(job.pid, "image")
    ocl.go()
    assert job.wait() == 0


def test_without_devices_where_there_is_none(ocl):
    """The program goes on, and each call says that it has lost its device."""
    job = ocl.start("objects")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    nowhere = {"OCL_ICD_VENDORS": "/nonexistent/"}
    refused = ocl.ckpt.restore("image", env=nowhere)
    assert refused.wait() == 1 and "which this machine does not have" in refused.error_text, refused.error_text
    copy = ocl.ckpt.restore("image", "--continue-without-devices", env=nowhere)
    ocl.go()
    assert copy.wait() not in (0, 1) or "OpenCL error" in copy.text + copy.error_text
    assert "the program continues without them" in copy.error_text, copy.error_text
    assert "-2" in copy.text + copy.error_text, copy.text  # CL_DEVICE_NOT_AVAILABLE
