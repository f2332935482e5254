# SPDX-License-Identifier: Apache-2.0
"""The Manager's evictions with a driver as strict as NVIDIA's (docs/SOFTCUDA.md, "As strict as a driver")."""
import pytest

import manager
from conftest import wait_for
from cuda_programs import make  # noqa: F401 (a fixture)
from manager import finished, node  # noqa: F401 (node is a fixture)

pytestmark = manager.NEEDS


@pytest.fixture
def order(ckpt):
    """order("cuCheckpointProcessRestore 2"): from now on the device does this; order() ends it."""
    file = ckpt.folder / "faults"
    ckpt.env["CKPT_SOFTCUDA_FAULTS"] = str(file)
    return lambda *lines: file.write_text("\n".join(lines))


def evicted(n):
    """Two programs of one device. The first is evicted, and waits for the other to end."""
    a = n.run("a", 100, 120, pause=["2", "end"])
    a.wait_text("have 100")
    b = n.run("b", 60, pause=["end"])
    b.wait_text("have 60")
    n.go_on("a", "2")
    n.wait_state(a, "evicted")
    return a, b


def give_context_back(n, a):
    """A third program needs the room of the evicted program's context, and ends. So the driver restores a."""
    stays = n.program(a)["stays_bytes"] >> 20
    c = n.run("c", n.free_mib()[0] - stays + 5, pause=["end"])  # its context takes as much as a's
    c.wait_text("have")
    assert n.messages(a)[-2:] == ["> Deepen", "Evicted"]
    n.go_on("c", "end")
    finished(c)


def test_a_program_moves_to_another_of_four_gpus(node):
    """The Manager names one GPU, and the program sees one; the driver's map must name all four."""
    n = node("4x256M", "--rebalance-after", "0.2")
    jobs = {}
    for name, mib in (("a", 60), ("b", 80), ("c", 70), ("d", 90), ("e", 30)):
        jobs[name] = n.run(name, mib, pause=["end"])
        jobs[name].wait_text("have")
    assert [n.gpu_of(j) for j in jobs.values()] == [0, 1, 2, 3, 0]
    n.go_on("d", "end")
    finished(jobs.pop("d"))

    # One of the two that share GPU 0; which one depends on when they started.
    def moved(job):
        return n.gpu_of(job) == 3 and n.program(job)["state"] == "running"

    wait_for(lambda: moved(jobs["a"]) or moved(jobs["e"]), "a or e to move")
    for name in jobs:
        n.go_on(name, "end")
    finished(*jobs.values())


def test_an_out_of_memory_that_is_final_is_not_tried_again(node, order):
    n = node()
    a, b = evicted(n)
    give_context_back(n, a)
    order("cuCheckpointProcessRestore 2")
    n.go_on("b", "end")
    finished(b)
    wait_for(lambda: "Failed" in n.messages(a), "a Restore that fails")
    assert n.wait_state(a, "evicted")
    pid = a.program()
    order("cuCheckpointProcessRestore 304")
    assert a.wait() != 0
    assert "cannot restore it after that" in a.error_text and "lost its devices" in a.error_text
    order()
    assert n.messages(pid)[-2:] == ["> Migrate", "gone"]
    assert n.status()["programs"] == [] and n.free_mib() == [256]
