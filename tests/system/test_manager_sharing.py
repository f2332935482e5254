# SPDX-License-Identifier: Apache-2.0
"""Which programs are managed, how they share a GPU with others, and which goes first."""
import pytest

import manager
from conftest import Job, wait_for
from cuda_programs import RUN, make  # noqa: F401 (make is a fixture)
from manager import finished, node  # noqa: F401 (node is a fixture)

pytestmark = manager.NEEDS


# ---- managed or not


@pytest.mark.parametrize("default, options, managed, gpu", [
    (True, [], True, 0), (True, ["--unmanaged"], False, 0), (True, ["--device", "cuda:1"], False, 1),
    (False, [], False, 0), (False, ["--managed"], True, 0)],
    ids=["default", "unmanaged", "device", "no-default", "managed"])
def test_which_programs_are_managed(node, default, options, managed, gpu):
    n = node("2x256M")
    if not default:
        # The default socket of ckptd, too.
        assert n.ckpt.env.pop("CKPTD_SOCKET") == str(n.ckpt.runtime / "ckptd.sock")
    (n.ckpt.folder / "a-end").touch()
    a = n.ckpt.start("ckpt-run", [*options, "--", str(n.make("tenant.cu")), "a", "30"])
    a.wait_text("have 30")
    assert [p["pid"] for p in n.status()["programs"]] == ([a.program()] if managed else [])
    gpus = n.status()["gpus"]
    assert gpus[gpu]["free_bytes"] < gpus[1 - gpu]["free_bytes"]
    assert [g["others"] for g in gpus] == [not managed and gpu == i for i in range(2)]
    n.go_on("a", "end")
    finished(a)
    assert n.messages()[:1] == (["Join"] if managed else [])


def test_device_and_managed_cannot_be_combined(node):
    n = node("2x256M")
    a = n.run("a", 30, options=["--device", "cuda:1"])
    assert a.wait() == 125 and "--device cannot be combined with --managed" in a.error_text


# ---- unmanaged memory


def test_memory_of_an_unmanaged_program_counts(node):
    n = node("1x256M")
    (n.ckpt.folder / "u-end").touch()
    unmanaged = {k: v for k, v in n.ckpt.env.items() if k != "CKPTD_SOCKET"}
    u = Job([RUN, n.make("tenant.cu"), "u", "150"], env=unmanaged, cwd=n.ckpt.folder)
    n.ckpt.jobs.append(u)
    u.wait_text("have 150")
    wait_for(lambda: n.status()["gpus"][0]["others"], "others")
    assert n.free_mib() == [96] and n.status()["programs"] == []
    a = n.run("a", 30, 120, pause=["end"])
    a.wait_text("have 30")
    # It is the only managed program, and an empty GPU would have room: it waits.
    assert n.wait_state(a, "evicted")["requested_bytes"] == 120 << 20
    n.go_on("u", "end")
    finished(u)
    a.wait_text("have 120")
    assert not n.status()["gpus"][0]["others"]
    n.go_on("a", "end")
    finished(a)


# ---- guests


def test_a_guest_leaves_when_its_owner_needs_memory_and_returns(node):
    """First for a request of a program that runs, and then for one that waits for the GPU. No program is denied
    anything."""
    n = node("1x512M")
    owner = n.run("owner", 100, 300, pause=["2", "end"])
    owner.wait_text("have 100")
    guest = n.run("guest", 200, pause=["end"], options=["--guest"])
    guest.wait_text("have 200")
    n.go_on("owner", "2")
    owner.wait_text("have 300")
    n.wait_state(guest, "evicted")
    assert n.program(guest)["priority"] == -1 and n.program(owner)["evictions"] == 0
    n.go_on("owner", "end")
    finished(owner)
    n.wait_state(guest, "running")
    late = n.run("late", 400, pause=["end"])
    late.wait_text("have 400")
    n.wait_state(guest, "evicted")
    n.go_on("late", "end")
    finished(late)
    n.wait_state(guest, "running")
    n.go_on("guest", "end")
    finished(guest)
    assert guest.text.count("have") == 1 and "denied" not in guest.text


# ---- priorities


def test_a_higher_priority_goes_first(node):
    n = node("1x256M", "--programs-per-gpu", "1")
    a = n.run("a", 10, pause=["end"])
    a.wait_text("have 10")
    waiting = {}
    for name, priority in (("b", 0), ("c", 1), ("d", 5), ("e", -2)):
        waiting[name] = n.run(name, 10, pause=["end"], options=["--priority", str(priority)])
        n.wait_state(waiting[name], "pending")
    n.go_on("a", "end")
    finished(a)
    while waiting:
        name = wait_for(lambda: [x for x in waiting if "have 10" in waiting[x].text], "the next one")
        assert name == [next(x for x in "dcbe" if x in waiting)]
        n.go_on(name[0], "end")
        finished(waiting.pop(name[0]))
