# SPDX-License-Identifier: Apache-2.0
"""One of the processes that give a lazily restored program its memory is killed at each step, from the moment in which
the program makes its userfaultfd: the program reads what it had, or it is ended with a message. It never reads zeros in
place of missing pages, and nothing is left behind."""
import os
import pathlib
import signal

import pytest

from conftest import tree_of, wait_for
from lazy_program import RIGHT_LINES, comm, guards, held, image, keeper_of, touch  # noqa: F401
from test_kills import kill, state

# Of ckpt-restore, in their order (common/base/test_points.h).
STEPS = ["lazy-restored", "lazy-made", "lazy-taken", "lazy-registered", "lazy-served", "devices", "memory-owed", "memory-arrives",
         "memory-arrived", "guard-released"]
QUICK = ["lazy-made", "devices", "memory-arrives"]
BEFORE_THE_TOOL_ENDS = STEPS[:STEPS.index("memory-arrives")]  # with --detach


def stem_of(program):
    return int(pathlib.Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])


def victim_of(copy, name, program):
    return {"keeper": [keeper_of(copy)], "tool": [copy.pid], "guard": guards(copy.pid), "stem": [stem_of(program)]}[name]


def gone(pid):
    return state(pid) in (None, "Z")


def outcome(copy, program, output):
    """"right" or "ended"."""
    wait_for(lambda: gone(program), lambda: f"the end of the program: {copy.text!r} {copy.error_text!r}")
    copy.wait()
    for reader in copy.readers:
        reader.join(60)
        assert not reader.is_alive(), f"a process keeps the streams open: {copy.error_text}"
    lines = output.read_text().splitlines() if output.exists() else copy.lines
    assert lines == RIGHT_LINES[:len(lines)], lines
    assert "Fatal Python error" not in copy.error_text, copy.error_text
    return "right" if lines == RIGHT_LINES else "ended"


def killed_at(ckpt, step, victim):
    output = pathlib.Path(ckpt.folder) / f"out-{step}"
    copy = held(ckpt, step, *(["--detach", "--output", output] if victim == "tool" else []))
    keeper, program = keeper_of(copy), copy.program()
    assert state(keeper) == "T", copy.error_text
    kill(victim_of(copy, victim, program))
    if victim == "guard":
        wait_for(lambda: not [g for g in guards(copy.pid) if not gone(g)], "the end of the guard")
    if victim != "keeper":
        os.kill(keeper, signal.SIGCONT)
    result = outcome(copy, program, output)
    wait_for(lambda: gone(keeper) and not [p for p in tree_of(1) if comm(p) == "ckpt-guard" and not gone(p)], "the keeper and the guard")
    return result, copy


def expected(victim, step):
    """What may become of the program."""
    if victim == "tool" or step == "guard-released":
        return {"right"}
    if victim == "stem":
        return {"right", "ended"}
    # The guard's end and its release meet in the keeper's loop.
    return {"right", "ended"} if (victim, step) == ("guard", "memory-arrived") else {"ended"}


def check_kills(ckpt, victim, steps, told=True):
    """told: a program that was ended has a message."""
    touch(ckpt, "finish", "end")
    for step in steps if victim != "tool" else [s for s in steps if s in BEFORE_THE_TOOL_ENDS]:
        result, copy = killed_at(ckpt, step, victim)
        assert result in expected(victim, step), f"{step}: {result} {copy.text!r} {copy.error_text!r}"
        if result == "ended" and told:
            assert "ckpt-restore: error: " in copy.error_text, f"{step}: no message"


@pytest.mark.parametrize("victim", ["keeper", "guard", "stem", "tool"])
def test_a_kill_at_each_step(ckpt, image, victim, request):  # noqa: F811
    check_kills(ckpt, victim, STEPS if request.config.getoption("--full") else QUICK)
