# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore --dry-run: what it predicts of a move, compared with the move; what it refuses; and that nothing is touched."""
import collections
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (a fixture)
from test_kills import state
from test_opencl import HEAT, OPENCL, devices, finished, ocl  # noqa: F401
from test_remote import Server
from test_remote_cuda import Here, Nodes
from test_remote_cuda_moves import another_server
from toolkit import WHY_NOT

needs_cuda = pytest.mark.skipif(not NVCC or not RUN.exists(), reason=WHY_NOT or "the software device is not built")
MODEL = "compute 8e7\nmemory 2e10\ncopy 1e10\nlaunch 1e-5\n"


class DelayedLink:
    """A port of the loopback interface, behind which another one is so many seconds away in each direction."""

    def __init__(self, to, delay):
        self.to, self.delay = to, delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            here, _ = self.listener.accept()
            there = socket.create_connection(self.to)
            for one, other in ((here, there), (there, here)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.carry(one, other)

    def carry(self, one, other):
        """What comes from one reaches the other later; so does its end."""
        pieces, come = collections.deque(), threading.Condition()

        def read():
            while True:
                try:
                    data = one.recv(1 << 16)
                except OSError:
                    data = b""
                with come:
                    pieces.append((time.monotonic() + self.delay, data))
                    come.notify()
                if not data:
                    return

        def write():
            while True:
                with come:
                    while not pieces:
                        come.wait()
                    due, data = pieces.popleft()
                time.sleep(max(0, due - time.monotonic()))
                try:
                    if not data:
                        return other.shutdown(socket.SHUT_WR)
                    other.sendall(data)
                except OSError:
                    return

        for loop in (read, write):
            threading.Thread(target=loop, daemon=True).start()


@pytest.fixture
def nodes(ckpt, make):  # noqa: F811
    ckpt.env["CKPT_HISTORY"] = str(ckpt.folder / "history.jsonl")
    model = ckpt.folder / "model"
    model.write_text(MODEL)
    ckpt.env["CKPT_SOFTCUDA_MODEL"] = str(model)
    return Nodes(ckpt, make)


def dry_run(nodes, job, device, *arguments, code=0):
    r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", device, "--dry-run", "--json", *arguments)
    assert r.returncode == code, r.stdout + r.stderr
    return json.loads(r.stdout)


def move(nodes, job, device):
    """The seconds for which the program had no devices."""
    r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", device)
    assert r.returncode == 0, r.stderr
    return float(re.search(r"pause +([\d.]+) s", r.stdout)[1])


def watched_move(nodes, job, device):
    """The same, and the longest time for which the program has printed nothing."""
    gaps, over = [], threading.Event()

    def watch():
        lines, since = len(job.lines), time.monotonic()
        while not over.is_set():
            gaps.append(time.monotonic() - since)
            if len(job.lines) != lines:
                lines, since = len(job.lines), time.monotonic()
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    pause = move(nodes, job, device)
    goes_on(job)
    over.set()
    watcher.join()
    return pause, max(gaps)


def history(nodes):
    file = nodes.ckpt.folder / "history.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def seconds_a_step(job, steps=60):
    """Of molecular dynamics, which print a line for each."""
    begun = len(job.lines)
    job.wait_lines(begun + 2)
    first, begin = len(job.lines), time.monotonic()
    wait_for(lambda: len(job.lines) >= first + steps, f"{steps} steps")
    return (time.monotonic() - begin) / (len(job.lines) - first)


def goes_on(job):
    job.wait_lines(len(job.lines) + 2)


@pytest.mark.alone
@needs_cuda
def test_a_prediction_is_near_what_the_move_does(nodes):
    """Molecular dynamics that wait once a step, behind a link that is 25 ms away. Busy machines are allowed for: by factors,
    each of which a model that counts twice or half of something misses."""
    host, port = nodes.server.tls.split(":")
    link = DelayedLink((host, int(port)), 0.025)
    place = f"remote:127.0.0.1:{link.port}"
    job = nodes.start("molecular_dynamics.cu", 1000000, 4, 1, 8, device=f"{place}/cuda:0")
    job.wait_lines(3)
    first = dry_run(nodes, job, "cuda:0")
    assert first["possible"] and first["state"] == "running" and first["now"]["place"] == place, first
    assert first["move"] is None and first["pays"] == "unknown" and first["earlier_moves"] == {"leave": 0, "enter": 0}
    assert any("the history has no such move" in text for text in first["unknown"]), first["unknown"]
    assert history(nodes) == []

    move(nodes, job, "cuda:0")
    move(nodes, job, f"{place}/cuda:0")
    there = seconds_a_step(job)
    said = dry_run(nodes, job, "cuda:0", "--step", there, "--watch", 3)
    goes_on(job)
    pause, gap = watched_move(nodes, job, "cuda:0")
    here = seconds_a_step(job)
    # By the lines that the program prints, and a clock of this test's own.
    assert pause < gap + there + 0.2 and gap < 3 * pause + 3 * there + 1, (pause, gap, there)

    gain = 1 - here / there
    assert gain > 0.3, (here, there)  # otherwise nothing is compared
    assert said["second_then"]["sense"] in ("about", "at most") and said["pays"] == "after", said
    predicted = 1 - said["second_then"]["seconds"]
    assert 0.6 < predicted / gain < 1.5, (predicted, gain, said)
    assert 0.05 <= said["now"]["answer_seconds"] < 0.2, said
    assert said["earlier_moves"] == {"leave": 1, "enter": 1} and said["device_bytes"] >= 8 << 20
    assert 0.25 < said["move"]["seconds"] / pause < 4, (said, pause)
    # Each part as the earlier move in its direction had it, whatever a pause of another one is now.
    earlier = history(nodes)[0]
    assert (said["leave"]["seconds"], said["enter"]["seconds"]) == pytest.approx(
        (earlier["leave_seconds"], earlier["enter_seconds"]))
    assert said["move"]["seconds"] == pytest.approx(earlier["pause_seconds"])
    assert 0.2 < said["pays_after"]["seconds"] / (pause / gain) < 5, (said, pause, gain)
    assert said["pays_after"]["seconds"] == pytest.approx(said["move"]["seconds"] / predicted)
    assert said["step"]["pays_after"] == pytest.approx(said["pays_after"]["seconds"] / there, abs=1)

    lines = history(nodes)
    assert [(e["event"], e["from"], e["to"]) for e in lines] == [
        ("move", place, "here"), ("move", "here", place), ("move", place, "here")]
    last = lines[-1]
    assert last["pause_seconds"] == pytest.approx(pause, abs=1e-3) and last["devices"] == ["cuda"]
    assert last["device_bytes"] >= 8 << 20 and "molecular_dynamics" in last["program"]


@needs_cuda
def test_a_move_behind_a_link_does_not_pay(nodes):
    """From this node to another one; over the text for users, too."""
    job = nodes.start("molecular_dynamics.cu", 1000000, 3, 1, device=nodes.device())
    job.wait_lines(2)
    move(nodes, job, "cuda:0")
    far = f"remote:{nodes.server.tls}/cuda:0"
    said = dry_run(nodes, job, far)
    assert said["now"]["place"] == "here" and said["then"]["answer_seconds"] > 0, said
    assert said["pays"] == "never" and said["second_then"]["seconds"] > 1, said
    r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", far, "--dry-run")
    assert r.returncode == 0 and "it was not touched" in r.stdout and "pays     not" in r.stdout, r.stdout
    wait_for(lambda: not nodes.drivers(), "the end of what was asked there")
    goes_on(job)


@needs_cuda
def test_what_a_move_would_refuse_a_dry_run_refuses(nodes):
    older = another_server(nodes, CKPT_SOFTCUDA_SM="80")
    job = nodes.start("molecular_dynamics.cu", 1000000, 3, 1, device=nodes.device(),
                      flags=("-gencode", "arch=compute_90,code=compute_90"))
    job.wait_lines(2)
    said = dry_run(nodes, job, f"remote:{older.unix}/cuda:0", code=1)
    assert not said["possible"] and any("compute capability 8.0" in why for why in said["reasons"]), said
    for arguments, part in ((("--device", "cuda:9"), "cuda:9"), ((), "the program is not suspended"),
                            (("--device", "ocl:0"), "")):
        r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--dry-run", *arguments)
        assert r.returncode == 1 and part in r.stderr, r.stderr
    r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", "cuda:9", "--dry-run", "--json")
    assert r.returncode == 1 and json.loads(r.stdout)["error"]["what"], r.stdout
    goes_on(job)
    assert len(nodes.drivers()) == 1 and history(nodes) == []


@needs_cuda
def test_a_suspended_program_stays_so(nodes):
    job = nodes.start("molecular_dynamics.cu", 1000000, 3, 1, 8, device=nodes.device())
    job.wait_lines(2)
    move(nodes, job, "cuda:0")
    move(nodes, job, nodes.device())
    goes_on(job)
    assert nodes.server.call("ckpt-dump", "--suspend", job.pid).returncode == 0
    place = nodes.device().rsplit("/", 1)[0]
    said = dry_run(nodes, job, "cuda:0")
    assert said["state"] == "suspended" and said["possible"] and said["now"]["place"] == place, said
    assert said["device_bytes"] >= 8 << 20 and said["waits_per_second"] > 0, said
    assert said["enter"]["sense"] == said["back"]["sense"] == "about" and said["earlier_moves"]["leave"] == 2
    # On the devices that it had, there is nothing to compare.
    r = nodes.server.call("ckpt-restore", "--resume", job.pid, "--dry-run", "--device", nodes.device())
    assert r.returncode == 0 and "pays" not in r.stdout and "resume   on" in r.stdout, r.stdout
    lines = len(job.lines)
    assert len(history(nodes)) == 3
    assert nodes.server.call("ckpt-restore", "--resume", job.pid, "--device", "cuda:0").returncode == 0
    job.wait_lines(lines + 2)
    assert [e["event"] for e in history(nodes)] == ["move", "move", "suspend", "resume"]


@needs_cuda
def test_a_driver_in_the_program_counts_no_calls(nodes):
    job = nodes.start("molecular_dynamics.cu", 1000000, 3, 1, device="cuda:0")
    job.wait_lines(2)
    said = dry_run(nodes, job, "cuda:1")
    assert said["possible"] and said["waits_per_second"] is None and said["pays"] == "never", said
    assert any("their driver is in its process" in text for text in said["unknown"]), said
    goes_on(job)


def test_an_opencl_program_says_what_it_needs_while_it_runs(ocl):  # noqa: F811
    """Heat in a plate: on this node, and behind a ckpt-devd."""
    here = Here(ocl.ckpt)
    here.server = Server(ocl)
    start = lambda device: ocl.ckpt.run(HEAT, "--n", 256, "--steps", 10000000, "--report", 5, options=["--device", device])  # noqa: E731
    job = start(ocl.device("pocl"))
    job.wait_text("step 5")
    said = dry_run(here, job, here.server.device("pocl"), "--watch", 0.5)
    assert said["possible"] and said["now"]["place"] == "here" and said["then"]["answer_seconds"] > 0, said
    assert said["pays"] == "never" and said["device_bytes"] >= 2 * 4 * 256 * 256, said
    job.kill()

    job = start(here.server.device("pocl"))
    job.wait_text("step 5")
    said = dry_run(here, job, ocl.device("pocl"), "--watch", 0.5)
    assert said["possible"] and said["waits_per_second"] > 0 and said["now"]["answer_seconds"] > 0, said
    assert said["second_then"]["seconds"] < 1 and not any("suit it" in text for text in said["unknown"]), said
    goes_on(job)


def test_a_process_that_opens_its_devices_during_a_move_is_moved_too(ocl):  # noqa: F811
    """After the tool has looked at the program, and before it suspends it."""
    second = ocl.ckpt.folder / "second"
    objects = OPENCL / "ocl-objects"
    job = ocl.ckpt.run("sh", "-c", f"{objects} & while [ ! -e {second} ]; do sleep 0.02; done; {objects}; wait",
                       options=["--device", ocl.device("pocl")])
    job.wait_text("READY")
    tool = ocl.ckpt.start("ckpt-restore", ["--resume", str(job.pid), "--device", ocl.device("rusticl")],
                          env={"CKPT_TEST_HOLD_AT": "suspend"})
    stopped = lambda: state(tool.pid) == "T"  # noqa: E731
    wait_for(stopped, "the end of the look")
    second.touch()
    wait_for(lambda: job.text.count("READY") == 2, "the second process")
    os.kill(tool.pid, signal.SIGCONT)
    wait_for(stopped, "the suspend")  # the step of that name
    os.kill(tool.pid, signal.SIGCONT)
    assert tool.wait() == 0 and "moved" in tool.text, tool.error_text
    ocl.go()
    assert job.wait() == 0 and job.text.count("OK") == 2, job.text + job.error_text


def test_a_dry_run_of_an_image_starts_nothing(ckpt):
    job = ckpt.run("counter", 100000)
    job.wait_lines(3)
    ckpt.dump(job.pid, "a.img")
    assert job.wait() == 85

    def tool(*arguments):
        return subprocess.run([ckpt.tool("ckpt-restore"), *arguments], env=ckpt.env, cwd=ckpt.folder, capture_output=True,
                              text=True, timeout=120)

    before = (ckpt.folder / "a.img").stat().st_mtime_ns
    r = tool("--dry-run", "a.img")
    assert r.returncode == 0 and "possible now; nothing was started" in r.stdout, r.stderr
    r = tool("--dry-run", "--json", "a.img")
    assert json.loads(r.stdout) == {"image": "a.img", "possible": True}
    assert (ckpt.folder / "a.img").stat().st_mtime_ns == before
    r = tool("--dry-run", "none.img")
    assert r.returncode == 1 and "none.img" in r.stderr
    for wrong in (("--dry-run", "-"), ("--dry-run", "--all", "."), ("--dry-run", "--job", "."), ("--watch", "1", "a.img"),
                  ("--dry-run", "--step", "1", "a.img"), ("--json", "a.img")):
        assert tool(*wrong).returncode == 125, wrong
    here = ckpt.restore("a.img")
    here.wait_lines(2)
