# SPDX-License-Identifier: Apache-2.0
"""Failures between ckptd and its programs, the users that are admitted, malformed messages, and many programs at once."""
import json
import os
import signal
import struct
import subprocess
import time

import pytest

import manager
from conftest import wait_for
from cuda_programs import make  # noqa: F401 (a fixture)
from manager import Node, Peer, finished, node  # noqa: F401 (node is a fixture)
from tiers import parametrize

pytestmark = manager.NEEDS


# ---- failures


def test_the_daemon_is_killed(node):
    n = node("1x256M", reconnect=0.5)
    a = n.run("a", 120, 60, 10, pause=["2", "3", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, 100, pause=["2", "end"])
    b.wait_text("have 60")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    n.go_on("a", "2")
    a.wait_text("have 60")  # so there is no memory for b
    n.kill_daemon()
    # Unmanaged, a continues; so does b, as soon as there is room.
    n.go_on("a", "3")
    a.wait_text("have 10\n")
    n.go_on("a", "end")
    finished(a)
    n.go_on("b", "end")
    finished(b)
    assert "have 100" in b.text
    assert "the program continues without" in b.error_text


def test_the_daemon_is_restarted(node):
    n = node("1x256M", reconnect=30)
    a = n.run("a", 120, 30, pause=["2", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, 100, pause=["2"])
    b.wait_text("have 60")
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    n.kill_daemon()
    n.go_on("a", "2")  # waits for the next ckptd
    n.start(startup=0.3)
    a.wait_text("have 30")
    assert n.program(a)["state"] == "running" and n.program(a)["used_bytes"] == 150 << 20
    assert n.program(b)["state"] == "evicted" and n.program(b)["kept_bytes"] == 60 << 20
    n.go_on("a", "end")
    finished(a, b)


def test_the_daemon_does_not_answer(node):
    n = node("1x256M", "--victim", "cheapest", reconnect=0.5)  # programs wait at least 3 s
    a = n.run("a", 120, 70, 20, pause=["2", "3", "end"])
    a.wait_text("have 120")
    b = n.run("b", 60, pause=["end"])
    b.wait_text("have 60")
    n.go_on("a", "2")
    n.wait_state(b, "evicted")
    a.wait_text("have 70")
    os.kill(n.daemon.pid, signal.SIGSTOP)
    c = n.run("c", 10, pause=["end"])
    # a waits for an answer, b to resume, c for a GPU.
    n.go_on("a", "3")
    a.wait_text("have 20")
    assert "the Manager has not answered for 3 s" in a.error_text
    n.go_on("a", "end")
    finished(a)
    wait_for(lambda: "the Manager has not answered for 3 s" in b.error_text, "the other one to continue unmanaged")
    os.kill(n.daemon.pid, signal.SIGCONT)
    assert n.wait_state(b, "running")["used_bytes"] >= 60 << 20
    assert n.wait_state(c, "running")["used_bytes"] >= 10 << 20
    assert len(n.status()["programs"]) == 2
    n.go_on("b", "end")
    n.go_on("c", "end")
    finished(b, c)
    wait_for(lambda: n.status()["programs"] == [], "no program")


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
    assert a.wait() == 125 and "cannot connect to ckptd" in a.error_text
    # Without --managed, the program runs unmanaged.
    b = ckpt.start("ckpt-run", ["--", str(make("tenant.cu")), "b", "10"])
    assert b.wait() == 0 and "continues without" in b.error_text


# ---- users and messages


def test_another_user_is_refused(node):
    n = node("1x256M")
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            "s.sendall(bytes(8))\nsys.stdout.buffer.write(s.recv(1000))")
    n.ckpt.runtime.chmod(0o755)
    r = manager.as_user_nobody(code, str(n.socket))
    assert "does not serve the user with uid 65534" in r.stdout, r.stderr
    n.alive()


def test_another_user_may_be_allowed(node):
    n = node("1x256M", "--users", "own,nobody")
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            f"s.sendall(bytes.fromhex('{manager.frame(manager.STATUS_WANTED, struct.pack('<I', manager.VERSION)).hex()}'))\n"
            "print(s.recv(1000))")
    n.ckpt.runtime.chmod(0o755)
    r = manager.as_user_nobody(code, str(n.socket))
    assert "gpus" in r.stdout, r.stderr


BAD = {
    "version": (manager.frame(manager.JOIN, manager.join(version=99)), f"speaks version {manager.VERSION} of its protocol, not 99"),
    "first": (manager.frame(manager.QUERY), "the first message is Query instead of Join"),
    "unknown": (manager.frame(4711), "there is no message 4711"),
    "short": (manager.frame(manager.JOIN, manager.join()[:-3]), 'malformed at "context"'),
    "long": (manager.frame(manager.JOIN, manager.join() + b"x"), "1 extra bytes"),
    "huge": (struct.pack("<IHH", 1 << 30, manager.JOIN, 0), "is too large"),
    "descriptors": (manager.frame(manager.JOIN, manager.join(), fds=3), "carries file descriptors"),
    "name": (manager.frame(manager.JOIN, manager.join(name="x" * 300)), "name has 300 bytes"),
    "noise": (bytes(range(7, 255)) * 4, "carries file descriptors"),
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
    half = Peer(n.socket)  # an incomplete message does not hold up the others
    half.send_raw(manager.frame(manager.JOIN, manager.join())[:20])
    n.alive()
    good.send(manager.CONNECT, struct.pack("<QB", 0, 0))
    assert good.receive()[0] == 1
    for peer in (good, half):
        peer.close()
    a = n.run("a", 50)
    finished(a)


def test_a_program_cannot_pass_for_another_process(node):
    """An administrator ends programs by the PIDs that the status shows."""
    n = node("1x256M")
    peer = Peer(n.socket)
    peer.send(manager.JOIN, manager.join(pid=1))
    assert peer.receive()[0] == manager.WELCOME
    assert [p["pid"] for p in n.status()["programs"]] == [os.getpid()]
    peer.close()


@pytest.mark.parametrize("options,reports", [(("--placement", "first-fit"), False), (("--progress-interval", "0.05"), True),
                                          (("--placement", "interference", "--progress-interval", "0.05"), True),
                                          (("--victim", "cheapest", "--progress-interval", "0.05"), True)])
def test_programs_report_their_progress_where_it_is_used(node, options, reports):
    n = node("1x256M", *options)
    by_hand = Peer(n.socket)
    by_hand.send(manager.JOIN, manager.join())
    assert by_hand.receive()[0] == manager.WELCOME
    if reports:
        assert by_hand.receive(reports=True) == (manager.REPORT, struct.pack("<I", 50))
    by_hand.close()
    a = n.run("a", 50, pause=["end"])
    a.wait_text("have 50")
    if reports:
        wait_for(lambda: '"Progress"' in n.journal.read_text(), "a progress report")
    n.go_on("a", "end")
    finished(a)
    assert ('"Progress"' in n.journal.read_text()) == reports
    assert '"Workload"' in n.journal.read_text()


def test_profiles_outlive_the_daemon(node):
    n = node("1x256M")
    kept = n.ckpt.folder / "profiles.json"
    n.stop_daemon()
    n.start("--profiles", kept)
    finished(n.run("a", 50))
    n.stop_daemon()
    profile, = json.loads(kept.read_text())["profiles"]
    assert profile["name"].startswith("tenant") and profile["peak_bytes"] >= 50 << 20
    n.start("--profiles", kept)
    assert n.status()["profiles"] == [profile]
    # Another run of that workload waits for what the first one used, although it has not asked for it yet.
    b = n.run("b", 190, pause=["end"])
    b.wait_text("have 190")
    a = n.run("a", 50)
    assert n.wait_state(a, "pending")["expected_bytes"] == profile["peak_bytes"]
    n.go_on("b", "end")
    finished(a)
    finished(b)
    n.stop_daemon()
    kept.write_text("{")
    n.start("--profiles", kept)
    assert n.status()["profiles"] == [] and "starting without profiles" in n.daemon.error_text


def test_two_daemons(node):
    n = node("1x256M")
    r = subprocess.run([n.ckpt.tool("ckptd")], env=n.ckpt.env, capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "another ckptd listens" in r.stderr


# ---- many programs


def many(n, count):
    jobs = [n.run(f"p{i}", 20 + 13 * i % 90, 10 + 29 * i % 80) for i in range(count)]
    for job in jobs:
        assert job.wait(600) == 0, job.error_text
        assert job.lines[-1] == "PASSED" and "denied" not in job.text
    wait_for(lambda: n.status()["programs"] == [], "no program")
    return n.messages()


@pytest.mark.full
def test_twenty_programs_at_once(node):
    said = many(node("2x256M"), 20)
    assert said.count("Fin") == 20
    assert "> SuspendMemory" in said


@parametrize("options", [[], ["--victim", "cheapest"], ["--time-slice", "0.1"], ["--credit-memory", "16M"]],
                         ids=["paper", "cheapest", "slices", "credit"], quick=1)
def test_threads_that_ask_at_the_same_time(node, options):
    n = node("2x128M", *options)
    program = str(n.make("tenants.cu", "-std=c++17"))
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", program, "3", "12", "34", str(i)]) for i in range(6)]
    finished(*jobs)
    assert 0 < n.evictions() == n.messages().count("MigDone")
    wait_for(lambda: n.free_mib() == [128, 128], "all memory")


@pytest.mark.full
def test_the_daemon_is_killed_again_and_again(node):
    n = node("2x128M", reconnect=5)
    program = str(n.make("tenants.cu", "-std=c++17"))
    jobs = [n.ckpt.start("ckpt-run", ["--managed", "--", program, "2", "40", "50", str(i)]) for i in range(6)]
    while any(job.process.poll() is None for job in jobs):
        time.sleep(0.3)
        n.kill_daemon()
        n.start(reconnect=5, startup=0.15)
    finished(*jobs)
    wait_for(lambda: n.free_mib() == [128, 128], "all memory")


@pytest.mark.full
def test_a_hundred_programs_at_once(node):
    began = time.monotonic()
    n = node("2x256M")
    said = many(n, 100)
    print(f"{time.monotonic() - began:.1f} s, {n.evictions()} evictions")
    assert said.count("Fin") == 100


# ---- looks

def test_a_look_at_programs_changes_nothing(node):
    """ckpt-ps asks each agent, but no program leaves its Manager for that. A tool that keeps its connection does not keep
    the Manager waiting."""
    n = node("1x256M")
    jobs = [n.run(name, 60, pause=["end"]) for name in "ab"]
    for job in jobs:
        job.wait_text("have 60")
    before = joins(n)
    for _ in range(5):
        listed = subprocess.run([n.ckpt.tool("ckpt-ps"), "--json"], env=n.ckpt.env, capture_output=True, text=True)
        assert {tuple(p["devices"]) for p in json.loads(listed.stdout)} != {("cuda",)}
    assert joins(n) == before == 2
    r = n.ckpt.dump(jobs[0].pid, "image", "--leave-running")
    assert r["processes"] == 1
    wait_for(lambda: joins(n) == 3, "the program to join again after its dump")
    for name in "ab":
        n.go_on(name, "end")
    finished(*jobs)


def joins(n):
    return n.messages().count("Join")
