# SPDX-License-Identifier: Apache-2.0
"""OpenCL programs under ckptd, on PoCL's two devices with limited memory and on rusticl; some beside CUDA programs on the
software device."""
import json
import os
import re
import resource
import signal
import struct
import subprocess
import time

import pytest

import manager
from conftest import BUILD, ROOT, tree_of, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from manager import Node, Peer
from test_opencl import DRIVER, bed_environment, devices  # noqa: F401 (devices is a fixture)
from toolkit import WHY_NOT

OPENCL = BUILD / "tests" / "programs" / "opencl"
TENANT = OPENCL / "ocl-tenant"
EXTRA_OPTIONS = str(OPENCL / "libocl-extra-options.so")
USES = 30  # common/managed/messages.api

pytestmark = pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists() or not TENANT.exists(), reason="ckptd is not built")
needs_cuda = pytest.mark.skipif(not NVCC or not RUN.exists(),
                                reason=WHY_NOT if not NVCC else "the software device is not built")


class OpenClNode(Node):
    def __init__(self, ckpt, here, cuda):
        super().__init__(ckpt, None, "1x256M")
        self.ckpt.env.update(bed_environment())
        self.here = here
        self.cuda = cuda

    def start(self, *options, **more):
        """`opencl`: short names of devices, as in "basic=64M,rusticl=63M"."""
        words = [w.partition("=") for w in more.pop("opencl", "basic=64M").split(",")]
        more["opencl"] = ",".join(self.here.get(name, name) + equals + size for name, equals, size in words)
        return super().start(*options, *([] if self.cuda else ["--nvml", "none"]), **more)

    def ocl(self, name, *words, **more):
        return self.run_executable(TENANT, name, *words, **more)

    def proxies(self, job):
        """The PIDs of its proxies."""
        def is_proxy(pid):
            try:
                return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "ckpt-ocl-proxy"
            except OSError:
                return False

        return [pid for pid in tree_of(job.pid) if is_proxy(pid)]


@pytest.fixture
def node(ckpt, devices):  # noqa: F811
    def make_node(*options, cuda=False, **more):
        return OpenClNode(ckpt, devices[1], cuda).start(*options, **more)

    return make_node


def finished(*jobs):
    for job in jobs:
        assert job.wait() == 0, job.text + job.error_text
        assert job.lines[-1] in ("OK", "PASSED"), job.text


def used(n, job):
    return n.program(job)["used_bytes"] >> 20


# ---- OpenCL alone


def test_programs_that_do_not_fit_together(node):
    n = node("--victim", "requester")
    a = n.ocl("a", 30, 20, pause=["2", "end"])
    b = n.ocl("b", 30, pause=["end"])
    for job in (a, b):
        job.wait_text("have 30")
    assert n.free_mib() == [4] and len(n.proxies(a)) == 1
    # a asks for more than there is, and is evicted: its proxy has ended.
    n.go_on("a", "2")
    assert n.wait_state(a, "evicted")["kept_bytes"] == 30 << 20
    assert n.proxies(a) == [] and n.free_mib() == [34]
    assert not DRIVER.search(open(f"/proc/{a.program()}/maps").read())
    c = n.ocl("c", 24)
    finished(c)
    pid = a.program()
    n.go_on("b", "end")
    finished(b)
    a.wait_text("have 20")
    assert used(n, a) == 50 and n.gpu_of(a) == 0
    n.go_on("a", "end")
    finished(a)
    said = [m for m in n.messages(pid) if m != "Uses"]  # which may come before Join
    assert said == ["Connect", "> Connect", "Holder", "ContextCheck", "> CCheckOk",
                               "CudaMalloc", "> GoAhead", "MallocDone",
                               "CudaMalloc", "> Suspend", "Holder", "SuspendDone", "> Migrate", "Holder", "MigDone",
                               "> GoAhead", "MallocDone", "CudaMalloc", "> GoAhead", "MallocDone", "Fin"]
    assert n.free_mib() == [64] and n.status()["programs"] == []


def test_a_program_resumes_on_another_device(node):
    n = node("--host-memory", "1M", "--disk-folder", "/tmp", "--disk-memory", "500M", opencl="basic=64M,rusticl=63M")
    a = n.ocl("a", 40, "i8", 10, pause=["3", "end"])
    a.wait_text("have i8")
    b = n.ocl("b", 40, pause=["end"])
    b.wait_text("have 40")
    c = n.ocl("c", 10, pause=["end"])
    c.wait_text("have 10")
    assert [n.gpu_of(j) for j in (a, b, c)] == [0, 1, 1]
    x = n.ocl("x", 10, pause=["end"])
    x.wait_text("have 10")
    assert n.gpu_of(x) == 0
    n.go_on("a", "3")
    assert n.wait_state(a, "evicted")["kept_on_disk"]
    for name, job in (("b", b), ("c", c)):
        n.go_on(name, "end")
        finished(job)
    a.wait_text("have 10")
    assert n.gpu_of(a) == 1  # another implementation, image and all
    for name, job in (("a", a), ("x", x)):
        n.go_on(name, "end")
        finished(job)


def test_an_unsuited_device_is_not_used(node):
    n = node(opencl="basic=64M,rusticl=100M")
    x = n.ocl("x", 10, pause=["end"])
    x.wait_text("have 10")
    a = n.ocl("fp64", 30, 40, pause=["2", "end"])
    a.wait_text("have 30")
    assert (n.gpu_of(x), n.gpu_of(a)) == (1, 0)
    # Only rusticl has 70 MiB, and it has no double precision, so the request is denied.
    n.go_on("fp64", "2")
    a.wait_text("denied 40")
    state = n.program(a)
    assert n.gpu_of(a) == 0 and state["evictions"] == 1
    (uuid, why), = state["unsuited"].items()
    assert uuid == n.status()["gpus"][1]["uuid"] and "fp64" in why
    for name, job in (("fp64", a), ("x", x)):
        n.go_on(name, "end")
        finished(job)


def test_which_objects_take_memory(node):
    n = node("--program-memory", "40M")
    a = n.ocl("a", "s8", "i8", "h8", "p4", "-", "-", 100, 30, 10, "end", pause=["2", "3", "4", "5", "6", "7", "8", "9", "10"])
    for place, word, mib in [("2", "s8", 8), ("3", "i8", 16), ("4", "h8", 24), ("5", "p4", 24), ("6", "-", 24)]:
        a.wait_text(f"have {word}")
        # A buffer is not released while it has a sub-buffer.
        assert used(n, a) == mib
        n.go_on("a", place)
    wait_for(lambda: a.text.count("have -") == 2, "two releases")
    assert used(n, a) == 16
    pid = a.program()
    assert n.messages(pid).count("CudaMalloc") == 6  # four of them for 128 small buffers
    n.go_on("a", "7")
    a.wait_text("denied 100")
    n.go_on("a", "8")
    a.wait_text("denied 30")
    assert "a program may use 40 MiB" in a.error_text
    n.go_on("a", "9")
    a.wait_text("have 10")
    assert used(n, a) == 26
    a.kill()
    wait_for(lambda: n.free_mib() == [64], "all memory")


def test_the_limit_of_programs_and_ckpt_top(node):
    n = node("--programs-per-gpu", "1")
    a = n.ocl("a", 10, pause=["end"], options=["--priority", "2"])
    a.wait_text("have 10")
    b = n.ocl("b", 10)
    wait_for(lambda: [p["state"] for p in n.status()["programs"]] == ["running", "pending"], "the second one, pending")
    assert b.text == ""
    r = subprocess.run([n.ckpt.tool("ckpt-top"), "--once"], env=n.ckpt.env, capture_output=True, text=True, timeout=30)
    lines = r.stdout.splitlines()
    assert lines[0].startswith("GPU 0 [####..........................] 54 MiB of 64 MiB free, 1 programs")
    assert ", OpenCL  " in lines[0] and lines[-1].endswith("ocl-tenant (OpenCL)")
    assert lines[-2].split()[:5] == [str(a.program()), "2", "running", "0", "10"]
    n.go_on("a", "end")
    finished(a, b)


def test_threads_that_ask_at_the_same_time(node):
    n = node(opencl="pocl=22M")
    # The threads of one program fit on the device, in steps of 2 MiB each; the threads of all programs do not.
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", str(OPENCL / "ocl-tenants"), "3", "8", "5", str(i)]) for i in range(4)]
    finished(*jobs)
    said = n.messages()
    assert "> Suspend" in said and said.count("SuspendDone") == said.count("MigDone")
    assert n.free_mib() == [22]


def test_the_papers_programs(node, tmp_path):
    sources = ["band_width", "matrix_mul", "pcie"]
    compilers = [subprocess.Popen(["c++", "-O1", "-std=c++17", "-o", tmp_path / s, ROOT / f"bench/mobile/programs/{s}_cl.cc",
                                   "-lOpenCL"]) for s in sources]
    assert all(c.wait() == 0 for c in compilers)
    n = node()
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", str(tmp_path / s), "--mib", "30", "--work", "300", "--steps", "150",
                                      "--gap", "0.01"]) for s in sources]
    finished(*jobs)
    assert "> Suspend" in n.messages()


# ---- failures


def two_programs(n):
    """a runs, b is evicted and waits for 30 MiB more."""
    a = n.ocl("a", 30, 4, pause=["2", "end"])
    a.wait_text("have 30")
    b = n.ocl("b", 20, 30, pause=["2", "end"])
    b.wait_text("have 20")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    return a, b


def test_the_daemon_is_killed(node):
    n = node(reconnect=0.5)
    a, b = two_programs(n)
    n.kill_daemon()
    # Unmanaged, both continue.
    n.go_on("a", "2", "end")
    n.go_on("b", "end")
    finished(a, b)
    assert "have 30" in b.text and "the program continues without" in b.error_text


def test_the_daemon_is_restarted(node):
    n = node(reconnect=30)
    a, b = two_programs(n)
    n.kill_daemon()
    n.go_on("a", "2")  # waits for the next ckptd
    n.start(startup=0.3)
    a.wait_text("have 4")
    assert used(n, a) == 34 and n.free_mib() == [30]
    assert n.program(b)["state"] == "evicted" and n.program(b)["apis"] == ["opencl"]
    n.go_on("b", "end")
    n.go_on("a", "end")
    finished(a, b)


def test_a_restarted_daemon_has_no_device_for_them(node):
    n = node(reconnect=30, cuda=True)
    a, b = two_programs(n)
    n.kill_daemon()
    super(OpenClNode, n).start(opencl="none")
    # A program that was evicted by another ckptd resumes.
    n.go_on("a", "2", "end")
    n.go_on("b", "end")
    finished(a, b)


def stop_proxy(n, job):
    """Stops its proxy, so that an eviction or a resumption does not end."""
    proxy, = wait_for(lambda: n.proxies(job), "a proxy")
    os.kill(proxy, signal.SIGSTOP)
    return proxy


def kill(n, job, proxy):
    """Returns the messages."""
    pid = job.program()
    os.kill(pid, signal.SIGKILL)
    os.kill(proxy, signal.SIGCONT)
    assert job.wait() != 0
    wait_for(lambda: n.messages(pid)[-1] == "gone", "the end of it")
    return n.messages(pid)


def test_a_program_is_killed_while_it_leaves(node):
    n = node()
    a, b = two_programs(n)
    c = n.ocl("c", 20, 30, pause=["2"])
    c.wait_text("have 20")
    proxy = stop_proxy(n, c)
    n.go_on("c", "2")
    n.wait_state(c, "evicting")
    assert kill(n, c, proxy)[-2:] == ["> Suspend", "gone"]
    wait_for(lambda: n.free_mib() == [34], "its memory")
    n.go_on("a", "2", "end")
    n.go_on("b", "end")
    finished(a, b)


def killed_while_it_returns(n):
    a, b = two_programs(n)
    os.kill(a.program(), signal.SIGKILL)
    said = kill(n, b, stop_proxy(n, b))
    assert a.wait() != 0 and "> Migrate" in said
    wait_for(lambda: n.status()["programs"] == [] and n.free_mib() == [64], "no program")
    return "MigDone" not in said


def test_a_program_is_killed_while_it_returns(node):
    n = node()
    assert any(killed_while_it_returns(n) for _ in range(5)), n.messages()
    finished(n.ocl("c", 60))


def test_a_disconnected_program_that_lives_still_has_its_memory(node):
    n = node()
    uuid = n.status()["gpus"][0]["uuid"]
    running = (struct.pack("<II", manager.VERSION, os.getpid()) + manager.text("by hand") + struct.pack("<iB", 0, 2) +
               manager.text(uuid) + struct.pack("<QQQBBQBQ", 50 << 20, 0, 0, 0, 0, 0, 0, 0))

    def connect():
        peer = Peer(n.socket)
        peer.send(USES, struct.pack("<I", 2))
        peer.send(manager.JOIN, running)
        assert peer.receive()[0] == manager.WELCOME
        return peer

    peer = connect()
    assert n.free_mib() == [14]
    peer.close()
    wait_for(lambda: n.status()["programs"] == [], "no program")
    assert n.free_mib() == [14] and n.status()["gpus"][0]["others"]
    a = n.ocl("a", 30)
    a.wait_text("started")
    peer = connect()
    assert n.free_mib() == [14]
    peer.send(9, struct.pack("<Q", 0))  # Fin
    finished(a)
    peer.close()


def test_no_descriptor_is_left_for_another_connection(node):
    """The peer waits, and ckptd does not use the processor meanwhile."""
    n = node()
    pid = n.daemon.pid

    def cpu_seconds():
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert soft == hard
    last = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (last + 3, hard))
    peers = [Peer(n.socket) for _ in range(8)]
    wait_for(lambda: "accepts no connection for now" in n.daemon.error_text, "a warning")
    before = cpu_seconds()
    time.sleep(1)
    assert cpu_seconds() - before < 0.2
    for peer in peers:
        peer.close()
    n.alive()


def test_a_managed_program_is_dumped_and_restored(node):
    n = node()
    a = n.ocl("a", 30, 20, pause=["2", "end"])
    a.wait_text("have 30")
    n.ckpt.dump(a.pid, "first", "--leave-running")
    wait_for(lambda: n.program(a), "it to join again")
    assert used(n, a) == 30
    n.ckpt.dump(a.pid, "image")
    assert a.wait() == 85
    wait_for(lambda: n.free_mib() == [64], "all memory")
    n.go_on("a", "2")
    copy = n.ckpt.restore("image")
    copy.wait_text("have 20")
    assert used(n, copy) == 50 and n.gpu_of(copy) == 0
    n.go_on("a", "end")
    finished(copy)
    assert n.messages()[-1] == "Fin"


def test_a_tool_moves_a_managed_program(node):
    n = node(opencl="basic=64M,pocl=64M")
    a = n.ocl("a", 30, 20, pause=["2", "end"])
    a.wait_text("have 30")
    assert n.gpu_of(a) == 0
    assert subprocess.run([n.ckpt.tool("ckpt-dump"), "--suspend", str(a.pid)], env=n.ckpt.env, timeout=30).returncode == 0
    n.wait_state(a, "suspended")
    assert n.free_mib() == [64, 64]
    r = subprocess.run([n.ckpt.tool("ckpt-restore"), "--resume", str(a.pid), "--device", n.here["pocl"]], env=n.ckpt.env,
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 0, r.stderr
    n.wait_state(a, "running")
    assert n.gpu_of(a) == 1 and n.free_mib() == [64, 34]
    n.go_on("a", "2", "end")
    finished(a)


@pytest.mark.parametrize("devices_wanted, why", [("ocl:nobody", 'there is no device "ocl:nobody"'),
                                                 ("0=lots", "has no size after the ="),
                                                 ("none", "this node has no GPU to manage")])
def test_devices_that_do_not_exist(node, ckpt, devices_wanted, why):
    r = subprocess.run([ckpt.tool("ckptd"), "--nvml", "none", "--opencl-devices", devices_wanted],
                       env=dict(ckpt.env, **bed_environment()), capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and why in r.stderr


# ---- OpenCL and CUDA


@needs_cuda
def test_cuda_and_opencl_programs_side_by_side(node, make):  # noqa: F811
    n = node(cuda=True)
    n.make = make
    jobs = [n.run(f"c{i}", 100, 60) for i in range(3)] + [n.ocl(f"o{i}", 20, 20) for i in range(3)]
    held = n.run("d", 10, pause=["end"]), n.ocl("p", 10, pause=["end"])
    for job in held:
        job.wait_text("have 10")
    assert [n.gpu_of(job) for job in held] == [0, 1]
    for name in "dp":
        n.go_on(name, "end")
    for job in jobs + list(held):
        assert job.wait() == 0 and "denied" not in job.text, job.error_text
    assert n.evictions() > 0
    wait_for(lambda: n.free_mib() == [256, 64], "all memory")


@needs_cuda
def test_opencl_on_a_node_that_manages_no_opencl_device(node):
    n = node(cuda=True, opencl="none")
    a = n.ocl("a", 300)
    finished(a)
    assert "this program's use of OpenCL is not managed" in a.error_text and "CudaMalloc" in n.messages()
    assert n.free_mib() == [256]


@needs_cuda
def test_a_program_that_uses_both_apis_on_devices_of_one(node, make):  # noqa: F811
    n = node(cuda=True)
    a = n.ckpt.start("ckpt-run", ["--managed", "--", str(make("both.cu"))])
    finished(a)
    assert "this program's use of CUDA is not managed: the Manager's device" in a.error_text
    assert "> ApiAdded" in n.messages()


@needs_cuda
def test_a_device_of_both_apis_is_one(devices, make, ckpt):  # noqa: F811
    """PoCL's device reports the UUID of the software device."""
    n = OpenClNode(ckpt, devices[1], True)
    r = subprocess.run([ckpt.tool("ckpt-run"), "--list-devices", "--json"], env=ckpt.env, capture_output=True, text=True)
    uuid = next(d["uuid"] for d in json.loads(r.stdout) if d["api"] == "cuda")
    ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_UUID=re.sub("-|GPU", "", uuid))
    n.start(opencl="basic,pocl=32M")
    both, single = n.status()["gpus"]
    assert both["uuid"] == uuid and both["apis"] == ["cuda", "opencl"] and both["measured"]
    assert single["apis"] == ["opencl"] and not single["measured"]
    (ckpt.folder / "pause").touch()
    a = ckpt.start("ckpt-run", ["--managed", "--", str(make("both.cu"))])
    a.wait_text("step 1")
    assert n.program(a)["apis"] == ["cuda", "opencl"] and n.gpu_of(a) == 0
    # An exclusive program evicts it with both of its APIs; it resumes with both.
    n.make = make
    x = n.run("x", 20, program=("tenant.cu", "-DHEAP"), pause=["end"])
    x.wait_text("have 20")
    assert n.program(a)["state"] == "evicted" and n.proxies(a) == []
    n.go_on("x", "end")
    finished(x)
    (ckpt.folder / "pause").unlink()
    finished(a)
    assert "not managed" not in a.error_text
