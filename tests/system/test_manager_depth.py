# SPDX-License-Identifier: Apache-2.0
"""Programs that the Manager evicts without their context, which they give back only if the room is needed."""
import json
import subprocess

import manager
from conftest import wait_for
from cuda_programs import make  # noqa: F401 (a fixture)
from manager import finished, node  # noqa: F401 (node is a fixture)

pytestmark = manager.NEEDS

CONTEXT = 10  # MiB
HEAP = ("tenant.cu", "-DHEAP")


def leave_one(n):
    """On a GPU of 256 MiB, program a has left its 100 MiB, and its context stays. Program b has 80 MiB."""
    a = n.run("a", 100, 90, pause=["2", "end"])
    a.wait_text("have 100")
    b = n.run("b", 80, 30, pause=["2", "end"])
    b.wait_text("have 80")
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    return a, b


def staying_mib(n):
    return [g["staying_bytes"] >> 20 for g in n.status()["gpus"]]


def test_an_evicted_program_leaves_its_context_and_returns_to_it(node):
    n = node("1x256M")
    a, b = leave_one(n)
    stays = n.program(a)["stays_bytes"] >> 20
    assert stays >= CONTEXT and n.program(a)["stays_on"] == n.status()["gpus"][0]["uuid"]
    assert staying_mib(n) == [stays]
    # What is free is measured, so nothing that stays is promised to another program.
    assert n.free_mib() == [256 - 80 - stays - stays]
    line = next(line.split() for line in n.top("--once").splitlines() if str(a.program()) in line.split())
    assert line[2:4] == ["evicted", "(0)"]
    listed = json.loads(subprocess.run([n.ckpt.tool("ckpt-ps"), "--json"], env=n.ckpt.env, capture_output=True,
                                       text=True, timeout=30).stdout)
    assert next(p for p in listed if p["pid"] == a.program())["depth"] == "memory"
    for place in "2", "end":
        n.go_on("b", place)
    finished(b)
    a.wait_text("have 90")
    said = n.messages(a)
    assert "> SuspendMemory" in said and "Evicted" in said and "> Deepen" not in said
    assert staying_mib(n) == [0]
    n.go_on("a", "end")
    finished(a)


def test_the_context_is_given_back_where_the_room_is_needed(node):
    """Program c asks for what a's context takes."""
    n = node("1x256M")
    a, b = leave_one(n)
    stays = n.program(a)["stays_bytes"] >> 20
    c = n.run("c", n.free_mib()[0] - stays - 20, pause=["end"])  # its context takes as much as a's
    c.wait_text("have")
    free = n.free_mib()[0]
    assert free < 30 <= free + stays, (free, stays)
    n.go_on("b", "2")
    b.wait_text("have 30")
    wait_for(lambda: n.messages(a)[-2:] == ["> Deepen", "Evicted"], "the context's end")
    assert n.program(a)["state"] == "evicted" and "stays_on" not in n.program(a)
    assert staying_mib(n) == [0] and n.program(b)["evictions"] == 0
    for name in "b", "c":
        n.go_on(name, "end")
    a.wait_text("have 90")
    n.go_on("a", "end")
    finished(a, b, c)


def test_a_program_with_a_heap_gets_a_gpu_without_contexts_of_others(node):
    n = node("1x256M")
    a, b = leave_one(n)
    x = n.run("x", 20, program=HEAP, pause=["end"])
    x.wait_text("have 20")
    assert "> Deepen" in n.messages(a) and n.messages(b)[-2:] == ["> Suspend", "SuspendDone"]
    assert staying_mib(n) == [0]
    n.go_on("x", "end")
    finished(x)
    n.go_on("b", "2", "end")
    n.go_on("a", "end")
    finished(a, b)


def test_a_program_returns_to_another_gpu_and_takes_its_context_along(node):
    n = node("2x256M", "--programs-per-gpu", "2")
    z = n.run("z", 230, pause=["end"])
    z.wait_text("have 230")
    a = n.run("a", 100, 90, pause=["2", "end"])
    a.wait_text("have 100")
    b = n.run("b", 80, pause=["end"])
    b.wait_text("have 80")
    assert [n.gpu_of(job) for job in (z, a, b)] == [0, 1, 1]
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    assert staying_mib(n)[1] >= CONTEXT
    n.go_on("z", "end")
    finished(z)
    a.wait_text("have 90")
    assert n.gpu_of(a) == 0 and staying_mib(n) == [0, 0]
    assert 256 - 80 - n.free_mib()[1] < 2 * CONTEXT  # only b's context is left there
    for name in "a", "b":
        n.go_on(name, "end")
    finished(a, b)


def test_a_new_manager_learns_what_stays(node):
    n = node("1x256M")
    a, b = leave_one(n)
    stays = n.program(a)["stays_on"]
    n.kill_daemon()
    n.start()
    n.wait_state(a, "evicted")
    wait_for(lambda: n.program(a).get("stays_on") == stays, "what stays")
    n.go_on("b", "2", "end")
    finished(b)
    a.wait_text("have 90")
    n.go_on("a", "end")
    finished(a)


def test_a_tool_gives_back_what_stays_of_an_evicted_program(node):
    n = node("1x256M")
    a, b = leave_one(n)
    r = subprocess.run([n.ckpt.tool("ckpt-dump"), str(a.program()), "--suspend", "--json"], env=n.ckpt.env,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and json.loads(r.stdout)["depth"] == "full", r.stderr
    wait_for(lambda: staying_mib(n) == [0], "the Manager's notice")
    n.go_on("b", "2", "end")
    n.go_on("a", "end")
    finished(a, b)  # in whichever order they get the GPU
