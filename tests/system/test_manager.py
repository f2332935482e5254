# SPDX-License-Identifier: Apache-2.0
"""ckptd and managed programs on the software device. Without a CUDA toolkit it is skipped."""
import json
import time

import pytest

import manager
from conftest import BUILD, wait_for
from cuda_programs import make  # noqa: F401 (a fixture)
from manager import finished, node  # noqa: F401 (node is a fixture)

pytestmark = manager.NEEDS

HEAP = ("tenant.cu", "-DHEAP")
LATE = ("late.cc",)
VARIABLE = ("tenant.cu", "-DVARIABLE_MIB=60")


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
    # The second malloc of a does not fit beside c: a itself is evicted, and resumes on the other GPU.
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
                    "CudaMalloc", "> SuspendMemory", "Evicted", "> Migrate", "MigDone", "> GoAhead", "MallocDone",
                    "CudaMalloc", "> GoAhead", "MallocDone", "Fin"]


@pytest.mark.parametrize("way", [["-DPOOL"], ["-DVMM", "-lcuda", f"-L{BUILD}/softcuda/driver"]], ids=["pool", "mapped"])
def test_memory_of_pools_and_of_the_programs_own_mappings_is_asked_for(node, way):
    """As with cudaMalloc: the program whose request finds no room is evicted, and resumes on the other GPU."""
    n, program = node("2x256M"), ("tenant.cu", *way)
    a = n.run("a", 100, 120, program=program, pause=["2", "end"])
    a.wait_text("have 100")
    b = n.run("b", 200, program=program, pause=["end"])
    b.wait_text("have 200")
    c = n.run("c", 60, program=program, pause=["end"])
    c.wait_text("have 60")
    assert [n.gpu_of(job) for job in (a, b, c)] == [0, 1, 0]
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    n.go_on("b", "end")
    finished(b)
    a.wait_text("have 120")
    assert n.gpu_of(a) == 1
    n.go_on("a", "end")
    n.go_on("c", "end")
    finished(a, c)


def test_the_cost_of_a_context_is_measured(node):
    n = node("1x256M")
    a = n.run("a", pause=["end"])
    n.wait_state(a, "running")
    wait_for(lambda: n.status()["gpus"][0]["context_bytes"] == 10 << 20, "the cost of a context")
    n.go_on("a", "end")
    finished(a)


def test_device_variables_choose_another_gpu(node):
    n = node("2x256M")
    jobs = {}
    for name, mib in (("a", 210), ("b", 20), ("c", 20)):
        jobs[name] = n.run(name, mib, pause=["end"])
        jobs[name].wait_text("have")
    assert [n.gpu_of(j) for j in jobs.values()] == [0, 1, 1]
    # The context goes to the GPU with the fewest programs, where the variable does not fit.
    d = n.run("d", program=VARIABLE, pause=["end"])
    d.wait_text("variable")
    assert n.gpu_of(d) == 1
    assert n.messages(d)[:4] == ["Connect", "> Connect"] * 2
    assert [e["gpu"] for e in n.events(d) if e.get("to") == "Connect"] == [0, 1]
    for name, job in (*jobs.items(), ("d", d)):
        n.go_on(name, "end")
        finished(job)


def test_device_variables_wait_for_memory(node):
    n = node("2x256M")
    a = n.run("a", 210, pause=["end"])
    a.wait_text("have 210")
    b = n.run("b", 190, pause=["1", "end"])  # joins, and has only a context
    b.wait_text("started")
    assert n.gpu_of(b) == 1
    # Both GPUs have one program; GPU 1 has more free. With b's memory there, 60 MiB fit nowhere.
    n.go_on("b", "1")
    b.wait_text("have 190")
    c = n.run("c", program=VARIABLE, pause=["end"])
    wait_for(lambda: "pending" in [p["state"] for p in n.status()["programs"]], "a pending program")
    assert c.text == ""
    n.go_on("b", "end")
    finished(b)
    c.wait_text("variable")
    assert n.gpu_of(c) == 1
    said = [m for m in n.messages(None) if m.endswith("Connect")]
    # a, b: one request, one answer. c: GPU 1 had room for the context, but not for the variable.
    assert said == ["Connect", "> Connect"] * 3 + ["Connect", "> Connect"]
    for name, job in (("a", a), ("c", c)):
        n.go_on(name, "end")
        finished(job)


def test_the_limit_of_programs_per_gpu(node):
    n = node("1x256M", "--programs-per-gpu", "2")
    jobs = [n.run(name, 10, pause=["end"]) for name in "ab"]
    for job in jobs:
        job.wait_text("have 10")
    c = n.run("c", 10)
    wait_for(lambda: [p["state"] for p in n.status()["programs"]] == ["running", "running", "pending"], "a third one")
    n.go_on("a", "end")
    finished(jobs[0], c)
    n.go_on("b", "end")
    finished(jobs[1])


def test_exclusive_programs_evict_the_others(node):
    n = node("1x256M")
    a = n.run("a", 100, pause=["end"])
    a.wait_text("have 100")
    x = n.run("x", 20, program=HEAP, pause=["end"])
    x.wait_text("have 20")  # a is evicted although it makes no call
    assert n.program(a)["state"] == "evicted"
    assert n.status()["gpus"][0]["exclusive"]
    y = n.run("y", program=HEAP)
    wait_for(lambda: "pending" in [p["state"] for p in n.status()["programs"]], "the second one, pending")
    assert n.messages(a.program())[-4:] == ["> Signal", "Query", "> Suspend", "SuspendDone"]
    n.go_on("x", "end")
    finished(x, y)
    n.go_on("a", "end")
    finished(a)


def test_late_code_with_a_heap_evicts_the_others(node):
    n = node("1x256M")
    a = n.run("a", "heap", 100, program=LATE, pause=["load", "end"])
    a.wait_text("have 100")
    b = n.run("b", 30, 30, pause=["end"])  # of equal size, which must not be confused
    b.wait_text("have 30\nhave 30")
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


def test_late_code_with_a_heap_moves_to_an_idle_gpu(node):
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


def test_two_programs_load_heap_code_on_one_gpu(node):
    n = node("1x256M")
    jobs = [n.run(name, "heap", 50, program=LATE, pause=["load"]) for name in "ab"]
    for job in jobs:
        job.wait_text("have 50")
    n.go_on("a", "load")
    n.go_on("b", "load")
    finished(*jobs)


def test_variables_of_late_code_are_requested(node):
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


def test_a_request_larger_than_any_gpu_is_denied(node):
    n = node("1x256M")
    a = n.run("a", 300, 50)
    finished(a)
    assert a.lines[:3] == ["started 0", "denied 300", "have 50"]
    assert "no GPU of this node has" in a.error_text


# ---- beyond the paper


@pytest.mark.parametrize("balance, gpu", [("0.2", 1), ("0", 0)])
def test_a_program_that_shares_a_gpu_moves_to_an_idle_one(node, balance, gpu):
    n = node("2x256M", "--rebalance-after", balance)
    jobs = {}
    for name, mib in (("a", 60), ("b", 80), ("c", 40)):
        jobs[name] = n.run(name, mib, pause=["end"])
        jobs[name].wait_text("have")
    assert [n.gpu_of(j) for j in jobs.values()] == [0, 1, 0]
    time.sleep(0.7)  # --rebalance-after and ten times the move of c, the smaller one
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


def test_gpu_memory_limits_each_gpu(node):
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
    n = node("1x256M", "--time-slice", "0.3")
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
    status = json.loads(n.top("--json"))
    assert len(status["gpus"]) == 2 and status["programs"][0]["used_bytes"] == 100 << 20
    lines = n.top("--once").splitlines()
    assert lines[0].startswith("GPU 0 [############..................] 146 MiB of 256 MiB free, 1 programs")
    assert lines[-1].split()[:5] == [str(a.program()), "3", "running", "0", "100"]
    live = n.ckpt.start("ckpt-top", ["--interval", "0.1"], stdout="tty")
    wait_for(lambda: live.text.count("\x1b[H") > 2, "a second refresh")
    live.type("q")
    assert live.wait() == 0
    n.go_on("a", "end")
    finished(a)
