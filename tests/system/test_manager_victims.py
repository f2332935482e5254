# SPDX-License-Identifier: Apache-2.0
"""Programs that should leave their GPU or resume, and do not: killed, stopped, or not able to."""
import json
import os
import signal
import time

import pytest

import manager
from conftest import wait_for
from cuda_programs import make  # noqa: F401 (a fixture)
from manager import finished, node  # noqa: F401 (node is a fixture)

pytestmark = manager.NEEDS

HEAP = ("tenant.cu", "-DHEAP")
MANAGED = ("tenant.cu", "-DMANAGED")


# ---- killed


def slow_copies(n, name):
    """The environment of a program that takes a second to move its contents. Other programs copy at full speed."""
    model = n.ckpt.folder / f"{name}.model"
    model.write_text("compute 1e12\nmemory 1e12\ncopy 2e8\nlaunch 1e-6\nswitch 0\n")
    return {"CKPT_SOFTCUDA_MODEL": str(model)}


def killed_between(n, first, last, name):
    """Whether program `name` was killed after the order `first` and before its message `last`."""
    a = n.run("a" + name, 180, pause=["end"])
    a.wait_text("have 180")
    b = n.run(name, 200, 150, pause=["2", "end"], env=slow_copies(n, name))
    b.wait_text("have 200")
    pid = b.program()
    n.go_on(name, "2")
    if last == "MigDone":
        n.wait_state(b, "evicted")
        n.go_on("a" + name, "end")
    wait_for(lambda: first in n.messages(pid), first)
    time.sleep(0.3)  # of the one second that its copies take
    os.kill(pid, signal.SIGKILL)
    assert b.wait() != 0
    if last != "MigDone":
        n.go_on("a" + name, "end")
    finished(a)
    wait_for(lambda: n.status()["programs"] == [], "no program")
    wait_for(lambda: n.free_mib() == [512], "all memory")
    return last not in n.messages(pid)


@pytest.mark.parametrize("first, last", [("> SuspendMemory", "Evicted"), ("> Migrate", "MigDone")], ids=["leaves", "returns"])
def test_a_program_is_killed_while_it_leaves_or_resumes(node, first, last):
    n = node("1x512M")
    assert any(killed_between(n, first, last, f"b{i}") for i in range(5)), n.messages()
    c = n.run("c", 480)
    finished(c)


# ---- stopped


def stop(job):
    os.kill(job.program(), signal.SIGSTOP)


def go_on(job):
    os.kill(job.program(), signal.SIGCONT)
    os.kill(job.pid, signal.SIGCONT)  # ckpt-run stops with its program


def wait_silent(n, job):
    wait_for(lambda: not n.program(job)["answers"], "a victim that does not answer")
    shown = next(p for p in json.loads(n.top("--json"))["programs"] if p["pid"] == job.program())
    assert (shown["state"], shown["answers"]) == ("evicting", False)
    lines = [line.split() for line in n.top("--once").splitlines()]
    assert [words[2] for words in lines if words[:1] == [str(job.program())]] == ["evicting!"]


def test_a_stopped_victim_stays_on_its_gpu(node):
    n = node("2x256M", "--eviction-timeout", "0.5")
    a = n.run("a", 40, pause=["end"])
    a.wait_text("have 40")
    b = n.run("b", 60, pause=["end"])
    b.wait_text("have 60")
    assert (n.gpu_of(a), n.gpu_of(b)) == (0, 1)
    stop(a)
    # GPU 0 is the cheapest to clear for x; after the timeout, GPU 1 is cleared.
    x = n.run("x", 20, program=HEAP, pause=["end"])
    wait_silent(n, a)
    x.wait_text("have 20")
    assert n.gpu_of(x) == 1 and n.gpu_of(a) == 0
    assert n.messages(a)[-1] == "> Signal"
    # Other programs share the GPU with the stopped one.
    n.wait_state(b, "running")
    assert n.gpu_of(b) == 0 and n.program(b)["evictions"] == 1
    go_on(a)
    assert n.wait_state(a, "running")["answers"]
    assert n.messages(a)[-2:] == ["Query", "> GoAhead"]
    for name, job in (("x", x), ("a", a), ("b", b)):
        n.go_on(name, "end")
        finished(job)


def test_the_requester_is_evicted_when_its_victim_is_stopped(node):
    n = node("1x256M", "--victim", "cheapest", "--eviction-timeout", "0.5")
    a = n.run("a", 60, pause=["end"])
    a.wait_text("have 60")
    b = n.run("b", 120, 90, pause=["2", "end"])
    b.wait_text("have 120")
    stop(a)
    n.go_on("b", "2")
    wait_silent(n, a)
    n.wait_state(b, "evicted")
    c = n.run("c", 100)  # its memory is available to others
    finished(c)
    go_on(a)
    # It came first and would resume before b, so it stays.
    wait_for(lambda: n.messages(a)[-2:] == ["Query", "> GoAhead"], "its answer")
    assert n.program(a)["answers"] and n.program(a)["evictions"] == 0
    n.go_on("a", "end")
    n.go_on("b", "end")
    finished(a, b)
    assert "have 90" in b.text


# ---- not able to leave


def test_a_program_that_cannot_be_suspended_is_not_a_victim(node):
    n = node("1x256M", "--victim", "cheapest")
    m = n.run("m", 60, program=MANAGED, pause=["end"])
    m.wait_text("have 60")
    b = n.run("b", 120, 90, pause=["2", "end"])
    b.wait_text("have 120")
    # The program with less memory is asked and gives its reason; the other is evicted instead.
    n.go_on("b", "2")
    n.wait_state(b, "evicted")
    shown = json.loads(n.top("--json"))["programs"][0]
    assert shown["pid"] == m.program() and shown["state"] == "running"
    assert "managed memory" in shown["cannot_be_suspended"]
    assert n.messages(m)[-4:] == ["> Signal", "Query", "> SuspendMemory", "Failed"]
    n.go_on("m", "end")
    finished(m)
    b.wait_text("have 90")
    n.go_on("b", "end")
    finished(b)


def test_a_program_that_cannot_be_suspended_waits_with_its_memory(node):
    n = node("1x256M")
    m = n.run("m", 60, 120, program=MANAGED, pause=["2", "end"])
    m.wait_text("have 60")
    b = n.run("b", 100, pause=["end"])
    b.wait_text("have 100")
    n.go_on("m", "2")
    wait_for(lambda: n.messages(m).count("Failed") == 3, "the third refusal")
    p = n.program(m)
    assert (p["state"], p["waits"], p["used_bytes"]) == ("running", True, 60 << 20)
    time.sleep(0.7)  # longer than the delay between two attempts
    n.go_on("b", "end")
    finished(b)
    m.wait_text("have 120")
    assert n.messages(m).count("> SuspendMemory") == 3
    n.go_on("m", "end")
    finished(m)


def test_of_two_that_cannot_be_suspended_the_last_is_denied(node):
    n = node("1x256M")
    jobs = {name: n.run(name, 100, 60, program=MANAGED, pause=["2", "end"]) for name in "ab"}
    for name, job in jobs.items():
        job.wait_text("have 100")
    n.go_on("a", "2")
    n.go_on("b", "2")
    denied = wait_for(lambda: [name for name in "ab" if "denied 60" in jobs[name].text], "one of the two to be denied")
    assert len(denied) == 1
    wait_for(lambda: "all programs of this GPU wait for memory" in jobs[denied[0]].error_text, "the reason")
    n.go_on(denied[0], "end")
    finished(jobs.pop(denied[0]))
    (name, other), = jobs.items()
    other.wait_text("have 60")
    n.go_on(name, "end")
    finished(other)
