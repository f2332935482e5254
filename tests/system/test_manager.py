# SPDX-License-Identifier: Apache-2.0
"""ckptd and managed programs on the software device. Without a CUDA toolkit it is skipped."""
import json
import os
import signal
import struct
import subprocess
import time

import pytest

import manager
from conftest import BUILD, wait_for
from cuda_programs import NVCC, RUN, make  # noqa: F401 (make is a fixture)
from manager import Node, Peer
from toolkit import WHY_NOT

pytestmark = [
    pytest.mark.skipif(not NVCC, reason=WHY_NOT),
    pytest.mark.skipif(not RUN.exists(), reason="the software device is not built"),
    pytest.mark.skipif(not (BUILD / "tools" / "ckptd").exists(), reason="ckptd is not built"),
]

HEAP = ("tenant.cu", "-DHEAP")
LATE = ("late.cc",)
VARIABLE = ("tenant.cu", "-DVARIABLE_MIB=60")


@pytest.fixture
def node(ckpt, make):  # noqa: F811
    def start(devices="1x256M", *options, **more):
        return Node(ckpt, make, devices).start(*options, **more)

    return start


def finished(*jobs):
    for job in jobs:
        assert job.wait() == 0, job.error_text
        assert job.lines[-1] == "PASSED", job.text


# ---- the paper


def test_the_reference_sequence(node):
    n = node("2x256M")
    a = n.run("a", 100, 120, pause=["2", "end"])
    a.wait_text("have 100")
    b = n.run("b", 200, pause=["end"])
    b.wait_text("have 200")
    assert (n.gpu_of(a), n.gpu_of(b)) == (0, 1)
    c = n.run("c", 60, pause=["end"])
    c.wait_text("have 60")
    assert n.gpu_of(c) == 0
    # The second malloc of a does not fit beside c: a itself leaves, and is back on the other GPU.
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    pid = a.program()
    n.go_on("b", "end")
    finished(b)
    a.wait_text("have 120")
    assert n.gpu_of(a) == 1
    n.go_on("a", "end")
    n.go_on("c", "end")
    finished(a, c)
    said = n.messages(pid)
    assert said == ["Connect", "> Connect", "ContextCheck", "> CCheckOk",
                    "CudaMalloc", "> GoAhead", "MallocDone",
                    "CudaMalloc", "> Suspend", "SuspendDone", "> Migrate", "MigDone", "> GoAhead", "MallocDone",
                    "CudaMalloc", "> GoAhead", "MallocDone", "Fin"]


def test_the_cost_of_a_context_is_measured(node):
    n = node("1x256M")
    a = n.run("a", pause=["end"])
    n.wait_state(a, "running")
    wait_for(lambda: n.status()["gpus"][0]["context_bytes"] == 10 << 20, "the cost of a context")
    n.go_on("a", "end")
    finished(a)


def test_device_variables_choose_another_gpu(node):
    n = node("2x256M")
    a = n.run("a", 210, pause=["end"])
    a.wait_text("have 210")
    b = n.run("b", 190, pause=["1", "end"])  # joins, and has only a context
    b.wait_text("started")
    assert n.gpu_of(b) == 1
    # Both GPUs have one program; GPU 1 has more free. With b's memory there, 60 MiB fit nowhere.
    n.go_on("b", "1")
    b.wait_text("have 190")
    c = n.run("c", program=VARIABLE)
    wait_for(lambda: "held" in [p["state"] for p in n.status()["programs"]], "a program that is held")
    assert c.text == ""
    n.go_on("b", "end")
    finished(b, c)
    said = [m for m in n.messages(None) if m.endswith("Connect")]
    # a, b: one question, one answer. c: the context found room on GPU 1, the variable did not.
    assert said == ["Connect", "> Connect"] * 3 + ["Connect", "> Connect"]
    n.go_on("a", "end")
    finished(a)


def test_limits(node):
    n = node("1x256M", "--programs-per-gpu", "2")
    jobs = [n.run(name, 10, pause=["end"]) for name in "ab"]
    for job in jobs:
        job.wait_text("have 10")
    c = n.run("c", 10)
    wait_for(lambda: [p["state"] for p in n.status()["programs"]] == ["running", "running", "held"], "a third one")
    n.go_on("a", "end")
    finished(jobs[0], c)
    n.go_on("b", "end")
    finished(jobs[1])


def test_exclusive_programs_evict_the_others(node):
    n = node("1x256M")
    a = n.run("a", 100, pause=["end"])
    a.wait_text("have 100")
    x = n.run("x", 20, program=HEAP, pause=["end"])
    x.wait_text("have 20")  # a makes no call, and is evicted all the same
    assert n.program(a)["state"] == "evicted"
    assert n.status()["gpus"][0]["exclusive"]
    y = n.run("y", program=HEAP)
    wait_for(lambda: "held" in [p["state"] for p in n.status()["programs"]], "the second one, held")
    assert n.messages(a.program())[-4:] == ["> Signal", "Query", "> Suspend", "SuspendDone"]
    n.go_on("x", "end")
    finished(x, y)
    n.go_on("a", "end")
    finished(a)


def test_late_code_with_a_heap_evicts_the_others(node):
    n = node("1x256M")
    a = n.run("a", "heap", 100, program=LATE, pause=["load", "end"])
    a.wait_text("have 100")
    b = n.run("b", 60, pause=["end"])
    b.wait_text("have 60")
    assert not n.status()["gpus"][0]["exclusive"]
    n.go_on("a", "load")
    a.wait_text("ran")
    assert n.program(b)["state"] == "evicted"
    assert n.program(a)["exclusive"] and n.status()["gpus"][0]["exclusive"]
    said = n.messages(a.program())
    assert said[said.index("Load"):] == ["Load", "> GoAhead", "LoadDone"]
    n.go_on("b", "end")
    n.go_on("a", "end")
    finished(a, b)


def test_late_code_with_a_heap_goes_where_nobody_is(node):
    n = node("2x256M")
    a = n.run("a", "heap", 50, program=LATE, pause=["load", "end"])
    a.wait_text("have 50")
    b = n.run("b", 90, pause=["end"])
    b.wait_text("have 90")
    c = n.run("c", 30, pause=["end"])
    c.wait_text("have 30")
    assert [n.gpu_of(job) for job in (a, b, c)] == [0, 1, 0]
    n.go_on("b", "end")
    finished(b)
    n.go_on("a", "load")
    a.wait_text("ran")
    assert [n.gpu_of(job) for job in (a, c)] == [1, 0]
    assert n.program(c)["evictions"] == 0
    n.go_on("a", "end")
    n.go_on("c", "end")
    finished(a, c)


def test_two_late_ones_on_one_gpu(node):
    n = node("1x256M")
    jobs = [n.run(name, "heap", 50, program=LATE, pause=["load"]) for name in "ab"]
    for job in jobs:
        job.wait_text("have 50")
    n.go_on("a", "load")
    n.go_on("b", "load")
    finished(*jobs)


def test_variables_of_late_code_are_asked_for(node):
    n = node("1x256M")
    a = n.run("a", 150, pause=["end"])
    a.wait_text("have 150")
    b = n.run("b", "variable", 30, program=LATE, pause=["load", "end"])
    b.wait_text("have 30")
    n.go_on("b", "load")
    assert n.wait_state(b, "evicted")["requested_bytes"] == 60 << 20
    n.go_on("a", "end")
    finished(a)
    b.wait_text("ran")
    assert n.program(b)["variable_bytes"] == 0  # unloaded again
    n.go_on("b", "end")
    finished(b)


def test_larger_than_any_gpu(node):
    n = node("1x256M")
    a = n.run("a", 300, 50)
    finished(a)
    assert a.lines[:3] == ["started 0", "denied 300", "have 50"]
    assert "no GPU of this node has" in a.error_text


# ---- beyond it


@pytest.mark.parametrize("balance, gpu", [("0.2", 1), ("0", 0)])
def test_who_shares_a_gpu_moves_to_one_that_nobody_uses(node, balance, gpu):
    n = node("2x256M", "--balance", balance)
    jobs = {}
    for name, mib in (("a", 60), ("b", 80), ("c", 40)):
        jobs[name] = n.run(name, mib, pause=["end"])
        jobs[name].wait_text("have")
    assert [n.gpu_of(j) for j in jobs.values()] == [0, 1, 0]
    n.go_on("b", "end")
    finished(jobs["b"])
    if gpu:
        wait_for(lambda: n.gpu_of(jobs["c"]) == 1 and n.wait_state(jobs["c"], "running"), "c to move")
    else:
        time.sleep(1.5)
    assert [n.gpu_of(jobs["a"]), n.gpu_of(jobs["c"])] == [0, gpu]
    n.go_on("a", "end")
    n.go_on("c", "end")
    finished(jobs["a"], jobs["c"])


def test_a_quota_of_each_gpu(node):
    n = node("2x256M", "--gpu-memory", "128M")
    a = n.run("a", 60, pause=["end"])
    a.wait_text("have 60")
    b = n.run("b", 200, 100, pause=["end"])
    b.wait_text("have 100")
    assert "denied 200" in b.text and "no GPU of this node has" in b.error_text
    gpus = n.status()["gpus"]
    assert [g["total_bytes"] >> 20 for g in gpus] == [128, 128]
    # Of 128 MiB: 60 and a context, 100 and a context.
    assert gpus[0]["free_bytes"] < 68 << 20 and gpus[1]["free_bytes"] < 28 << 20
    n.go_on("a", "end")
    n.go_on("b", "end")
    finished(a, b)


def test_the_cheapest_victim_and_the_disk(node, tmp_path):
    n = node("1x256M", "--victim", "cheapest", "--host-memory", "50M", "--disk-folder", tmp_path, "--disk-memory", "500M")
    a = n.run("a", 120, 100, pause=["2", "end"])
    b = n.run("b", 60, pause=["end"])
    a.wait_text("have 120")
    b.wait_text("have 60")
    n.go_on("a", "2")
    a.wait_text("have 100")
    assert n.wait_state(b, "evicted")["kept_on_disk"]
    n.go_on("a", "end")
    n.go_on("b", "end")
    finished(a, b)


def test_time_slices(node):
    n = node("1x256M", "--slice", "0.3")
    a = n.run("a", 150, pause=["end"])
    a.wait_text("have 150")
    b = n.run("b", 150, pause=["end"])
    b.wait_text("have 150")
    wait_for(lambda: n.program(a)["evictions"] > 1 and n.program(b)["evictions"] > 1, "turns")
    n.go_on("a", "end")
    n.go_on("b", "end")
    finished(a, b)


def test_ckpt_top(node):
    n = node("2x256M")
    a = n.run("a", 100, pause=["end"], options=["--priority", "3"])
    a.wait_text("have 100")

    def top(*options):
        r = subprocess.run([n.ckpt.tool("ckpt-top"), *options], env=n.ckpt.env, capture_output=True, text=True, timeout=30)
        assert r.returncode == 0, r.stderr
        return r.stdout

    status = json.loads(top("--json"))
    assert len(status["gpus"]) == 2 and status["programs"][0]["used_bytes"] == 100 << 20
    lines = top("--once").splitlines()
    assert lines[0].startswith("GPU 0 [############..................] 146 MiB of 256 MiB free, 1 programs")
    assert lines[-1].split()[:5] == [str(a.program()), "3", "running", "0", "100"]
    live = n.ckpt.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    wait_for(lambda: live.text.count("\x1b[2J") > 2, "a second look")
    live.type("q")
    assert live.wait() == 0
    n.go_on("a", "end")
    finished(a)


# ---- what goes wrong


def test_the_daemon_is_killed(node):
    n = node("1x256M", grace=0.5)
    a = n.run("a", 120, 30, pause=["2", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, 100, pause=["2", "end"])
    b.wait_text("have 60")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    n.kill_daemon()
    # Unmanaged, a goes on; so does b, as soon as there is room.
    n.go_on("a", "2")
    a.wait_text("have 30")
    n.go_on("a", "end")
    finished(a)
    n.go_on("b", "end")
    finished(b)
    assert "have 100" in b.text
    assert "the program goes on without" in b.error_text


def test_the_daemon_is_restarted(node):
    n = node("1x256M", grace=30)
    a = n.run("a", 120, 30, pause=["2", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, 100, pause=["2"])
    b.wait_text("have 60")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    n.kill_daemon()
    n.go_on("a", "2")  # waits for the next one
    n.start(settle=0.3)
    a.wait_text("have 30")
    assert n.program(a)["state"] == "running" and n.program(a)["used_bytes"] == 150 << 20
    assert n.program(b)["state"] == "evicted" and n.program(b)["kept_bytes"] == 60 << 20
    n.go_on("a", "end")
    finished(a, b)


def test_the_daemon_does_not_answer(node):
    n = node("1x256M", "--victim", "cheapest", grace=0.5)  # programs are patient for 3 s at the least
    a = n.run("a", 120, 70, 20, pause=["2", "3", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, pause=["end"])
    b.wait_text("have 60")
    n.go_on("a", "2")
    n.wait_state(b, "evicted")
    a.wait_text("have 70")
    os.kill(n.daemon.pid, signal.SIGSTOP)
    c = n.run("c", 10, pause=["end"])
    # One waits for an answer, one without its device to come back, one for a device.
    n.go_on("a", "3")
    a.wait_text("have 20")
    assert "the Manager has not answered for 3 s" in a.error_text
    n.go_on("a", "end")
    finished(a)
    wait_for(lambda: "the Manager has not answered for 3 s" in b.error_text, "the other one to lose patience")
    os.kill(n.daemon.pid, signal.SIGCONT)
    assert n.wait_state(b, "running")["used_bytes"] >= 60 << 20
    assert n.wait_state(c, "running")["used_bytes"] >= 10 << 20
    assert len(n.status()["programs"]) == 2
    n.go_on("b", "end")
    n.go_on("c", "end")
    finished(b, c)
    wait_for(lambda: n.status()["programs"] == [], "nobody")


def test_an_evicted_program_is_killed(node):
    n = node("1x256M")
    a = n.run("a", 150, pause=["end"])
    a.wait_text("have 150")
    b = n.run("b", 30, 100, pause=["2"])
    b.wait_text("have 30")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    os.kill(b.program(), signal.SIGKILL)
    assert b.wait() != 0
    wait_for(lambda: len(n.status()["programs"]) == 1, "one program")
    n.go_on("a", "end")
    finished(a)
    wait_for(lambda: n.free_mib() == [256], "all memory")


def test_a_program_is_killed_while_it_comes_back(node):
    n = node("1x512M")
    a = n.run("a", 200, pause=["end"])
    a.wait_text("have 200")
    b = n.run("b", 250, 100, pause=["2"])
    b.wait_text("have 250")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    pid = b.program()
    n.go_on("a", "end")
    wait_for(lambda: "> Migrate" in n.messages(pid), "the order to come back")
    os.kill(pid, signal.SIGKILL)
    finished(a)
    assert b.wait() != 0
    wait_for(lambda: n.status()["programs"] == [], "nobody")
    wait_for(lambda: n.free_mib() == [512], "all memory")


def test_a_managed_program_is_dumped_and_restored(node):
    n = node("1x256M")
    a = n.run("a", 50, 20, pause=["2"])
    a.wait_text("have 50")
    n.ckpt.dump(a.pid, "image")
    assert a.wait() == 85
    n.go_on("a", "2")
    copy = n.ckpt.restore("image")
    assert copy.wait() == 0, copy.error_text
    assert copy.lines[-1] == "PASSED"
    assert n.messages()[-1] == "Fin"


def test_without_a_manager(ckpt, make):  # noqa: F811
    n = Node(ckpt, make, "1x256M")
    a = n.run("a", 10)
    assert a.wait() == 125 and "there is no Manager" in a.error_text
    # Where a default of the node names it, the program runs all the same.
    b = ckpt.start("ckpt-run", ["--", str(make("tenant.cu")), "b", "10"])
    assert b.wait() == 0 and "goes on without" in b.error_text


# ---- who may speak, and how


def test_another_user_is_refused(node):
    n = node("1x256M")
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            "sys.stdout.buffer.write(s.recv(1000))")
    n.ckpt.runtime.chmod(0o755)
    r = manager.as_nobody(code, str(n.socket))
    assert "does not serve the user with uid 65534" in r.stdout, r.stderr
    n.alive()


def test_another_user_may_be_allowed(node):
    n = node("1x256M", "--users", "own,nobody")
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            f"s.sendall(bytes.fromhex('{manager.frame(manager.STATUS_WANTED, struct.pack('<I', manager.VERSION)).hex()}'))\n"
            "print(s.recv(1000))")
    n.ckpt.runtime.chmod(0o755)
    r = manager.as_nobody(code, str(n.socket))
    assert "gpus" in r.stdout, r.stderr


BAD = {
    "version": (manager.frame(manager.JOIN, manager.join(version=99)), f"speaks version {manager.VERSION} of its protocol, not 99"),
    "first": (manager.frame(manager.QUERY), "the first message is Query and not Join"),
    "unknown": (manager.frame(4711), "there is no message 4711"),
    "short": (manager.frame(manager.JOIN, manager.join()[:-3]), 'malformed at "context"'),
    "long": (manager.frame(manager.JOIN, manager.join() + b"x"), "1 bytes too many"),
    "huge": (struct.pack("<IHH", 1 << 30, manager.JOIN, 0), "is too large"),
    "descriptors": (manager.frame(manager.JOIN, manager.join(), fds=3), "with descriptors"),
    "name": (manager.frame(manager.JOIN, manager.join(name="x" * 300)), "a name of 300 bytes"),
    "noise": (bytes(range(7, 255)) * 4, "with descriptors"),
}


def test_bad_messages_are_refused_with_a_reason(node):
    n = node("1x256M")
    good = Peer(n.socket)
    good.send(manager.JOIN, manager.join())
    assert good.receive()[0] == manager.WELCOME
    for name, (data, why) in BAD.items():
        peer = Peer(n.socket)
        peer.send_raw(data)
        assert why in peer.refusal(), name
        peer.close()
    half = Peer(n.socket)  # and nobody waits for one that says half a message
    half.send_raw(manager.frame(manager.JOIN, manager.join())[:20])
    n.alive()
    good.send(manager.CONNECT, struct.pack("<QB", 0, 0))
    assert good.receive()[0] == 1
    for peer in (good, half):
        peer.close()
    a = n.run("a", 50)
    finished(a)


@pytest.mark.parametrize("options,told", [(("--pairs", "any"), False), (("--report", "0.05"), True),
                                          (("--pairs", "learn", "--report", "0.05"), True),
                                          (("--victim", "cheapest", "--report", "0.05"), True)])
def test_programs_tell_their_progress_where_somebody_wants_to_know(node, options, told):
    n = node("1x256M", *options)
    by_hand = Peer(n.socket)
    by_hand.send(manager.JOIN, manager.join())
    assert by_hand.receive()[0] == manager.WELCOME
    if told:
        assert by_hand.receive(reports=True) == (manager.REPORT, struct.pack("<I", 50))
    by_hand.close()
    a = n.run("a", 50, pause=["end"])
    a.wait_text("have 50")
    if told:
        wait_for(lambda: '"Progress"' in n.journal.read_text(), "a word of its progress")
    n.go_on("a", "end")
    finished(a)
    assert ('"Progress"' in n.journal.read_text()) == told
    assert '"Kind"' in n.journal.read_text()


def test_what_is_known_of_kinds_outlives_the_daemon(node):
    n = node("1x256M")
    kept = n.ckpt.folder / "kinds.json"
    n.stop_daemon()
    n.start("--kinds", kept)
    finished(n.run("a", 50))
    n.stop_daemon()
    kind, = json.loads(kept.read_text())["kinds"]
    assert kind["name"].startswith("tenant") and kind["peak_bytes"] >= 50 << 20
    n.start("--kinds", kept)
    assert n.status()["kinds"] == [kind]
    # Another one of that kind waits for what the first one had, though it has not asked for it yet.
    b = n.run("b", 190, pause=["end"])
    b.wait_text("have 190")
    a = n.run("a", 50)
    assert n.wait_state(a, "held")["expected_bytes"] == kind["peak_bytes"]
    n.go_on("b", "end")
    finished(a)
    finished(b)
    n.stop_daemon()
    kept.write_text("{")
    n.start("--kinds", kept)
    assert n.status()["kinds"] == [] and "it begins anew" in n.daemon.error_text


def test_two_daemons(node):
    n = node("1x256M")
    r = subprocess.run([n.ckpt.tool("ckptd")], env=n.ckpt.env, capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "another ckptd listens" in r.stderr


# ---- many


def many(n, count):
    jobs = [n.run(f"p{i}", 20 + 13 * i % 90, 10 + 29 * i % 80) for i in range(count)]
    for job in jobs:
        assert job.wait(600) == 0, job.error_text
        assert job.lines[-1] == "PASSED" and "denied" not in job.text
    wait_for(lambda: n.status()["programs"] == [], "nobody")
    return n.messages()


def test_twenty_programs_at_once(node):
    said = many(node("2x256M"), 20)
    assert said.count("Fin") == 20
    assert "> Suspend" in said


@pytest.mark.parametrize("options", [[], ["--victim", "cheapest"], ["--slice", "0.1"], ["--ahead-memory", "16M"]],
                         ids=["paper", "cheapest", "slices", "ahead"])
def test_threads_that_ask_at_the_same_time(node, options):
    n = node("2x128M", *options)
    program = str(n.make("tenants.cu", "-std=c++17"))
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", program, "3", "12", "34", str(i)]) for i in range(6)]
    finished(*jobs)
    said = n.messages()
    assert "> Suspend" in said and said.count("SuspendDone") == said.count("MigDone")
    wait_for(lambda: n.free_mib() == [128, 128], "all memory")


def test_the_daemon_is_killed_again_and_again(node):
    n = node("2x128M", grace=5)
    program = str(n.make("tenants.cu", "-std=c++17"))
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", program, "2", "40", "50", str(i)]) for i in range(6)]
    while any(job.process.poll() is None for job in jobs):
        time.sleep(0.3)
        n.kill_daemon()
        n.start(grace=5, settle=0.15)
    finished(*jobs)
    wait_for(lambda: n.free_mib() == [128, 128], "all memory")


@pytest.mark.full
def test_a_hundred_programs_at_once(node):
    began = time.monotonic()
    said = many(node("2x256M"), 100)
    print(f"{time.monotonic() - began:.1f} s, {said.count('SuspendDone')} evictions")
    assert said.count("Fin") == 100
