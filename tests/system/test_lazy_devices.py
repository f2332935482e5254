# SPDX-License-Identifier: Apache-2.0
"""ckpt-restore --lazy gives OpenCL devices their contents while the program runs: a command waits for the buffers that it
needs, and for no others. Whatever happens meanwhile, the program never finds wrong contents."""
import json
import os
import pathlib
import random
import shutil
import signal
import sys

import pytest

from conftest import ROOT, tree_of, wait_for
from lazy_program import guards, keeper_of
from test_kills import kill, state
from test_kills_at_messages import TYPES
from test_lazy_kills import gone
from test_opencl import Programs, devices, finished  # noqa: F401
from test_opencl_width import EXTRA_OPTIONS
from tiers import parametrize

sys.path.insert(0, str(ROOT / "tests" / "format"))
from read_image import ZERO, Image  # noqa: E402

MIB = 1 << 20
# What ocl-arrivals releases before the rest arrives.
RELEASED = 4 * MIB


class Arrivals(Programs):
    """ocl-arrivals: `needed` is set when it uses buffers of which nothing else may have arrived, `rest()` lets all arrive."""

    def __init__(self, ckpt, *devices):  # noqa: F811
        super().__init__(ckpt, *devices)
        self.rest_file = ckpt.folder / "rest"
        self.ckpt.env.update(CKPT_TEST_ALL=str(self.rest_file), CKPT_TEST_REST_AFTER=str(self.rest_file))

    def dumped(self, device="pocl"):
        job = self.start("arrivals", device=device)
        job.wait_text("READY\n")
        self.ckpt.dump(job.pid, "one")
        assert job.wait() == 85
        self.go()

    def lazy(self, *options, device="pocl", **streams):
        return self.restore("one", device, "--lazy", "--json-report", "report", *options, **streams)

    def rest(self):
        self.rest_file.touch()

    def report(self):
        try:
            return json.loads((self.ckpt.folder / "report").read_text())["lazy"]
        except (OSError, ValueError, KeyError):
            return {}

    def wait_for_all(self):
        return wait_for(lambda: self.report().get("arrived_seconds") and self.report(), "all contents")


@pytest.fixture
def ocl(ckpt, devices):  # noqa: F811
    return Arrivals(ckpt, *devices)


def never_wrong(job):
    assert "failed:" not in job.text and "wrong" not in job.text, job.text


def held(ocl, step, *options):
    copy = ocl.lazy(*options, env={"CKPT_TEST_HOLD_AT": step})
    wait_for(lambda: copy.process.poll() is not None or state(keeper_of(copy)) == "T", f"the step {step}")
    assert copy.process.poll() is None, copy.error_text
    return copy


@parametrize("device, own_memory", [("pocl", False), ("pocl", True), ("basic", False), ("rusticl", False)], quick=2)
def test_commands_run_before_the_contents_of_other_buffers_have_come(ocl, device, own_memory):
    """Every kind of command gets what it needs, while the rest is held back. With memory of the device's own, as an
    accelerator has it, or with pages that program and driver share."""
    if own_memory:
        ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_ACCELERATOR="1")
    ocl.dumped(device)
    copy = ocl.lazy(device=device)
    copy.wait_text("NEEDED\n")
    never_wrong(copy)
    before = ocl.report()
    assert "arrived_seconds" not in before and before["device_bytes"]["owed"] > 80 * MIB
    ocl.rest()
    finished(copy)


def test_a_program_is_refused_by_dumps_until_all_has_come(ocl):
    ocl.dumped()
    begins = ocl.ckpt.folder / "begins"  # the program itself waits for another file
    copy = ocl.lazy(env={"CKPT_TEST_REST_AFTER": str(begins)})
    copy.wait_text("NEEDED\n")
    owed = ocl.report()["device_bytes"]["owed"]
    assert "still being started or restored" in ocl.ckpt.dump_refused(copy.pid, "early")
    suspend = ocl.ckpt.start("ckpt-dump", [str(copy.pid), "--suspend"])
    assert suspend.wait() != 0 and "still being started or restored" in suspend.error_text
    begins.touch()
    lazy = ocl.wait_for_all()
    arrived = lazy["device_bytes"]
    assert (arrived["owed"], arrived["arrived"]) == (owed, owed - RELEASED)
    assert 0 < arrived["arrived_at_first"] < owed / 10
    wait_for(lambda: not guards(copy.pid), "the end of the guard")
    ocl.ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    ocl.rest()
    finished(ocl.restore("two", "pocl"))


def test_an_image_may_be_removed_and_an_increment_made_when_all_has_come(ocl):
    ocl.dumped()
    ocl.go_file.unlink()
    ocl.rest()
    copy = ocl.lazy()
    ocl.wait_for_all()
    second = ocl.ckpt.dump(copy.pid, "two", "--leave-running", "--parent", "one")
    assert second["unchanged_bytes"] > 80 * MIB
    ocl.go()
    shutil.move(ocl.ckpt.folder / "one", ocl.ckpt.folder / "elsewhere")
    finished(copy)
    shutil.move(ocl.ckpt.folder / "elsewhere", ocl.ckpt.folder / "one")
    finished(ocl.restore("two", "pocl", "--lazy"))
    finished(ocl.restore("two", "pocl"))


def device_chunks(folder):
    """Of each stream of device memory: its stored chunks, number → offset and size in chunks.ckpt."""
    index = Image(str(folder))
    return {name: {n: (index.chunks[n][2], index.chunks[n][3]) for n in chunks if index.chunks[n][5] != ZERO}
            for name, (_, chunks) in index.streams.items() if name.startswith("device/")}


def damage(folder, chunks, chance):
    """A bit of each."""
    with open(folder / "chunks.ckpt", "r+b") as f:
        for offset, size in chunks.values():
            at = offset + chance.randrange(size)
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1 << chance.randrange(8)]))


def by_number(streams):
    return [streams[name] for name in sorted(streams, key=lambda n: int(n.rpartition("-")[2]))]


def ended_by_damage(copy, chunks):
    assert copy.wait() == 1, copy.text + copy.error_text
    never_wrong(copy)
    assert "OK" not in copy.lines
    assert "damaged" in copy.error_text and any(f"chunk {n} (" in copy.error_text for n in chunks), copy.error_text


def test_damage_is_found_before_wrong_contents_are_used(ocl):
    ocl.dumped()
    folder = pathlib.Path(ocl.ckpt.folder) / "one"
    buffers = by_number(device_chunks(folder))
    whole = (folder / "chunks.ckpt").read_bytes()
    rest, first, chance = buffers[-2], buffers[1], random.Random(1)
    damage(folder, rest, chance)
    verified = ocl.lazy("--verify-first")
    assert verified.wait() == 1 and verified.text == "" and "cannot be restored here" in verified.error_text
    copy = ocl.lazy()
    copy.wait_text("NEEDED\n")  # it has found all that it needed
    ocl.rest()
    ended_by_damage(copy, rest)
    assert not guards(copy.pid)
    ocl.rest_file.unlink()
    (folder / "chunks.ckpt").write_bytes(whole)
    damage(folder, first, chance)
    copy = ocl.lazy()
    ocl.rest()
    ended_by_damage(copy, first)
    assert "FIRST" not in copy.text


OFFERED = f"sent-{TYPES['ContentsArrive']}"


# Of the tool: when contents were offered, when the rest is not yet begun, when it has begun, at the end.
@pytest.mark.parametrize("victim", ["keeper", "guard", "proxy"])
@parametrize("step", [OFFERED, "contents-arrive", "memory-owed", "memory-arrived"], quick=2)
def test_a_killed_helper_process_leaves_no_wrong_contents(ocl, victim, step):
    ocl.dumped()
    ocl.rest()
    copy = held(ocl, step)
    keeper, program = keeper_of(copy), copy.program()
    victims = {"keeper": [keeper], "guard": guards(copy.pid), "proxy": proxies(copy.pid)}[victim]
    assert len(victims) == 1
    kill(victims)
    if victim != "keeper":
        os.kill(keeper, signal.SIGCONT)
    wait_for(lambda: gone(program), "the end of the program")
    copy.wait()
    never_wrong(copy)
    wait_for(lambda: gone(keeper), "the end of the keeper")
    if victim == "proxy" and step == OFFERED:  # the load fails
        assert copy.process.returncode == 1 and "the program's devices could not be restored" in copy.error_text, copy.error_text
        return
    if victim == "proxy":  # its calls fail, as at any other time
        assert "OpenCL error" in copy.text or "OK" in copy.lines, copy.text
        return
    # The guard's end and its release meet in the keeper's loop.
    if (victim, step) != ("guard", "memory-arrived"):
        assert "OK" not in copy.lines and "ckpt-restore: error: " in copy.error_text, copy.text + copy.error_text


def proxies(pid):
    return [p for p in tree_of(pid) if "ckpt-ocl-proxy" in pathlib.Path(f"/proc/{p}/cmdline").read_text()]


def test_a_program_that_is_killed_when_contents_are_offered(ocl):
    ocl.ckpt.env["CKPT_TEST_STOP_AT"] = f"got-{TYPES['ContentsArrive']}"
    job = ocl.start("arrivals")
    del ocl.ckpt.env["CKPT_TEST_STOP_AT"]
    job.wait_text("READY\n")
    ocl.ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ocl.go()
    ocl.rest()
    copy = ocl.lazy()
    assert copy.wait() != 0 and "FIRST" not in copy.text
    assert not guards(copy.pid)


def test_processes_that_fork_and_several_with_devices(ocl):
    ocl.rest()
    job = ocl.start("family")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "one")
    assert job.wait() == 85
    ocl.go()
    finished(ocl.lazy())


def history(ocl, seed):
    """All that a program can do, with what arrives behind it."""
    job = ocl.start("history", str(seed))
    job.wait_text("STEPPING")
    for n in range(2):
        ocl.ckpt.dump(job.pid, f"image-{n}", "--leave-running")
    ocl.go()
    finished(job)
    ocl.rest()
    for n in range(2):
        finished(ocl.restore(f"image-{n}", "pocl", "--lazy"))


def test_a_random_history_goes_on(ocl):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    history(ocl, seed)


@pytest.mark.full
@pytest.mark.parametrize("run", range(20))
def test_random_histories_go_on_at_length(ocl, run):
    history(ocl, random.randrange(10**6))
